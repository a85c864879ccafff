"""A rehearsal's `gke-gcloud-auth-plugin`: an ExecCredential of the caller's Google account.

Like the real one it takes the account of gcloud, or with `--use_application_default_credentials`
that of application default credentials; neither replaces the other. The environment's account
file says who is logged in. Source: kubernetes/cloud-provider-gcp, `accessToken` in
cmd/gke-gcloud-auth-plugin/cred/cred.go; messages: the plugin of the Google Cloud CLI, v1.30.0, run
on 2026-11-28 with a gcloud that was logged out.
"""

import json
import os
import re
import sys
import time

from slicewright.rehearsal.clouds.core.exec_credential import (
    NoCredential,
    account,
    credential,
    environment,
    run,
    signed,
)

PREFIX = "ya29.rehearsal-"
_FLAG = "--use_application_default_credentials"
_LOGGED_IN = "rehearsal@rehearsal.example"
"""The default of `account.Account`, which takes too long to import."""
_IMPERSONATED = re.compile(r"serviceAccounts/([^:/]+):generateAccessToken$")
_SECONDS = 3600
_LOGGED_OUT = """ERROR: (gcloud.config.config-helper) You do not currently have an active account \
selected.
Please run:

  $ gcloud auth login

to obtain new credentials.

If you have already logged in with a different account, run:

  $ gcloud config set account ACCOUNT

to select an already authenticated account to use.
"""
_NO_SOURCE = (
    "getting google default token failed after multiple retries: cannot construct google default "
    "token source: google: "
)


def answer() -> str:
    default = _flag(sys.argv[1:])
    email = _application_default() if default else _gcloud()
    claims = {"cloud": "google", "account": email}
    return credential(signed(PREFIX, claims, seconds=_SECONDS), seconds=_SECONDS)


def _flag(arguments: list) -> bool:  # type: ignore[type-arg]
    """pflag takes `--name` and `--name=VALUE`."""
    flag = False
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if name != _FLAG or value not in ("", "true", "false"):
            raise NoCredential(f"unknown flag: {argument}")
        flag = value != "false" if equals else True
    return flag


def _application_default() -> str:
    where = os.environ.get("GOOGLE_APPLICATION_CREDENTIALS")
    try:
        if where is None:
            raise NoCredential(_no_default())
        return _account_of_file(where)
    except FileNotFoundError:
        raise NoCredential(
            _failure(
                f"{_NO_SOURCE}error getting credentials using GOOGLE_APPLICATION_CREDENTIALS "
                f"environment variable: open {where}: no such file or directory"
            )
        ) from None


def _gcloud() -> str:
    where = os.environ.get("CLOUDSDK_AUTH_CREDENTIAL_FILE_OVERRIDE")
    if where is not None:
        return _account_of_file(where)
    email = account("google-account.json").get("gcloud")
    if email is None:
        raise NoCredential(
            _failure(
                "failure while executing gcloud, with args [config config-helper --format=json]: "
                f"exit status 1 (err: {_LOGGED_OUT})"
            )
        )
    return str(email)


def _account_of_file(where: str) -> str:
    """The e-mail address that a credential file stands for."""
    with open(where) as file:  # noqa: PTH123 - in a hurry: kubectl waits
        stored = json.load(file)
    if where == str(environment() / "google-credentials.json"):
        email = account("google-account.json").get("application_default", _LOGGED_IN)
        if email is None:
            raise NoCredential(_no_default())
        return str(email)
    impersonated = _IMPERSONATED.search(str(stored.get("service_account_impersonation_url")))
    email = impersonated[1] if impersonated else stored.get("client_email")
    if email is None:
        raise NoCredential(_failure(f"{where} names no account that this stand-in knows"))
    return str(email)


def _no_default() -> str:
    return _failure(
        f"{_NO_SOURCE}could not find default credentials. See "
        "https://cloud.google.com/docs/authentication/external/set-up-adc for more information"
    )


def _failure(why: str) -> str:
    now = time.strftime("%m%d %H:%M:%S", time.gmtime())
    head = f"F{now}.000000 {os.getpid():7} cred.go:145] print credential failed with error: "
    return f"{head}Failed to retrieve access token:: {why}"


if __name__ == "__main__":
    if "--version" in sys.argv[1:]:
        print("Kubernetes v1.36.2-rehearsal (simulated)")
        sys.exit(0)
    sys.exit(run("", answer))
