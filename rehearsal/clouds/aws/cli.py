"""A rehearsal's `aws`: answers `aws eks get-token --cluster-name NAME` itself, and `aws sts
get-caller-identity` with the caller's ARN.

Its token is of the caller in the environment's account file, or of the role in `--role-arn`. Like
the real one it does not know whether there is such a cluster, or whether it lets the caller in: the
cluster's API server decides that.

Other commands go to the user's own `aws`, which the environment's variables lead to the rehearsal.
"""

import os
import sys

from slicewright.rehearsal.clouds.core.exec_credential import (
    NoCredential,
    account,
    credential,
    credentials,
    environment,
    run,
    signed,
)

PREFIX = "k8s-aws-v1."
_OPTIONS = (
    *("--cluster-name", "--cluster-id", "--region", "--role-arn", "--profile"),
    *("--output", "--query"),
)
_ANSWERED = {"get-token", "get-caller-identity"}
_CALLER = "arn:aws:iam::123456789012:user/rehearsal"
"""The default of `account.Caller`, which takes too long to import."""
_SECONDS = 14 * 60


def answer() -> str:
    words, options = [], {}
    arguments = iter(sys.argv[1:])
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if not name.startswith("-"):
            words.append(argument)
        elif name not in _OPTIONS:
            raise NoCredential(f"unknown option {name}; this stand-in knows {', '.join(_OPTIONS)}")
        else:
            options[name] = value if equals else next(arguments, "")
    if words == ["sts", "get-caller-identity"]:
        return str(_identity(None)["arn"])
    if words != ["eks", "get-token"]:
        raise NoCredential(
            f"this stand-in knows 'eks get-token' only, not {' '.join(words) or 'nothing'!r}; "
            "for other commands install the AWS CLI"
        )
    if options.get("--output", "json") != "json":
        raise NoCredential("--output: this stand-in writes json only")
    cluster = options.get("--cluster-name")
    if not cluster:
        raise NoCredential("the following arguments are required: --cluster-name")
    if os.environ.get("AWS_ACCESS_KEY_ID") != credentials()["aws_access_key_id"]:
        raise NoCredential(
            'Unable to locate credentials. You can configure credentials by running "aws login".'
        )
    if profile := options.get("--profile"):
        raise NoCredential(f"The config profile ({profile}) could not be found")
    claims = {"cloud": "aws", "cluster": cluster, **_identity(options.get("--role-arn"))}
    return credential(signed(PREFIX, claims, seconds=_SECONDS), seconds=_SECONDS)


def _identity(role: str | None) -> dict:  # type: ignore[type-arg]
    """The ARN as STS says it, and the ARN of the user or role behind it."""
    caller = account("aws-account.json").get("caller", {})
    arn = str(caller.get("arn", _CALLER))
    if role is not None:
        number, name = role.split(":")[4], role.rpartition("/")[2]
        session = f"arn:aws:sts::{number}:assumed-role/{name}/EKSGetTokenAuth"
        return {"arn": session, "principal": role}
    if ":assumed-role/" not in arn:
        return {"arn": arn, "principal": arn}
    number, name = arn.split(":")[4], arn.split("/")[1]
    path = caller.get("role_path", "/")
    return {"arn": arn, "principal": f"arn:aws:iam::{number}:role{path}{name}"}


def users_own() -> str | None:
    """The next `aws` on PATH; None where there is none."""
    ours = str(environment() / "bin")
    for directory in os.environ.get("PATH", os.defpath).split(os.pathsep):
        path = os.path.join(directory, "aws")  # noqa: PTH118 - in a hurry: kubectl waits
        if directory != ours and os.access(path, os.X_OK):
            return path
    return None


def hand_over() -> None:
    """Becomes the user's `aws` where there is one; returns where there is none."""
    if other := users_own():
        os.execv(other, [other, *sys.argv[1:]])  # noqa: S606 - the command that the user typed


if __name__ == "__main__":
    if not _ANSWERED & {*sys.argv} and os.environ.get("AWS_ENDPOINT_URL"):
        hand_over()
    if "--version" in sys.argv[1:]:
        print("aws-cli/2.31.0 (rehearsal, simulated)")
        sys.exit(0)
    sys.exit(run("aws (rehearsal): ", answer))
