"""Asks whose the tokens are that Pulumi and the credential program of GKE use."""

from __future__ import annotations

import json
import os
from typing import Final
from urllib.parse import urlencode

import urllib3

from slicewright.doctor.ask.credential_plugin import is_installed, token_of
from slicewright.doctor.ask.google.session import access_token
from slicewright.doctor.ask.http_pool import pool
from slicewright.doctor.checks.credentials import ClusterCredentials
from slicewright.doctor.findings import Answer, NotAnswered
from slicewright.infra.manifests import GKE_PLUGIN

_OAUTH: Final = "https://oauth2.googleapis.com/"
_TIMEOUT: Final = urllib3.Timeout(connect=10, read=30)
_IGNORED: Final = (
    "GOOGLE_CREDENTIALS",
    "GOOGLE_CLOUD_KEYFILE_JSON",
    "GCLOUD_KEYFILE_JSON",
    "GOOGLE_IMPERSONATE_SERVICE_ACCOUNT",
)
"""Variables that Pulumi's provider obeys, and application default credentials do not.

Source: terraform-provider-google, "Google Provider Configuration Reference".
"""


def ask_credentials() -> ClusterCredentials:
    token = token_of(GKE_PLUGIN)
    return ClusterCredentials(
        command=GKE_PLUGIN.command,
        installed=is_installed(GKE_PLUGIN),
        identity=token if isinstance(token, NotAnswered) else _account(token, "the cluster's user"),
        pulumi=_account(access_token(), "Pulumi"),
        install="gcloud components install gke-gcloud-auth-plugin (or the package "
        "google-cloud-cli-gke-gcloud-auth-plugin)",
        login="run `gcloud auth application-default login` as the account that Pulumi uses, or set "
        "GOOGLE_APPLICATION_CREDENTIALS to its file, and set no other variable with credentials",
        ignored=next((name for name in _IGNORED if os.environ.get(name)), None),
    )


def _account(token: str, unknown: str) -> Answer[str]:
    """The e-mail address of a token's account. Google answers this without any right.

    unknown: who it is if Google does not name an address.
    """
    base = (os.environ.get("GOOGLE_OAUTH2_CUSTOM_ENDPOINT") or _OAUTH).rstrip("/")
    url = f"{base}/tokeninfo"
    try:
        answer = pool(url).request(
            "POST",
            url,
            body=urlencode({"access_token": token}),
            headers={"content-type": "application/x-www-form-urlencoded"},
            timeout=_TIMEOUT,
            retries=False,
        )
        email = json.loads(answer.data).get("email") if answer.status == 200 else None
    except (urllib3.exceptions.HTTPError, ValueError, AttributeError) as e:
        return NotAnswered(why=f"{url} cannot be asked who {unknown} is: {e}")
    if email is None:
        return NotAnswered(why=f"{url} does not say who {unknown} is (HTTP {answer.status})")
    return str(email)
