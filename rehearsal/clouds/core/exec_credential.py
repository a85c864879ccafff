"""The answers of both clouds' credential plugins: short-lived tokens of an identity of the cloud.

Standard library only, and little of it: kubectl runs the plugin before every command.
"""

import json
import os
import sys
import time
from pathlib import Path

from slicewright.rehearsal.clouds.core import tokens

BETA = "client.authentication.k8s.io/v1beta1"
VARIABLE = "SLICEWRIGHT_REHEARSAL"


class NoCredential(Exception):
    """No credential can be given; the message says why."""


def environment() -> Path:
    named = os.environ.get(VARIABLE)
    if not named:
        raise NoCredential(
            f"{VARIABLE} is not set: this stand-in gives credentials only inside a rehearsal"
        )
    return Path(named)


# Plain dicts below: importing typing costs milliseconds.


def exec_info() -> dict:  # type: ignore[type-arg]
    """KUBERNETES_EXEC_INFO, in which kubectl describes itself and the cluster."""
    try:
        info = json.loads(os.environ.get("KUBERNETES_EXEC_INFO") or "{}")
    except ValueError:
        return {}
    return info if isinstance(info, dict) else {}


def account(name: str) -> dict:  # type: ignore[type-arg]
    """The environment's account file of that name; {} without one: the account is ordinary."""
    try:
        settings: dict = json.loads((environment() / "cloud" / name).read_text())  # type: ignore[type-arg]
    except FileNotFoundError:
        return {}
    return settings


def credentials() -> dict:  # type: ignore[type-arg]
    """The credentials that the environment's clouds accept."""
    path = environment() / "cloud-access.json"
    try:
        accepted: dict = json.loads(path.read_text())["credentials"]  # type: ignore[type-arg]
    except FileNotFoundError:
        raise NoCredential("the rehearsal's clouds have not been started yet") from None
    return accepted


def credential(token: str, *, seconds: int) -> str:
    """An ExecCredential, as JSON, in the version that kubectl asked for."""
    until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))
    version = exec_info().get("apiVersion") or BETA
    status = {"expirationTimestamp": until, "token": token}
    return json.dumps(
        {"apiVersion": version, "kind": "ExecCredential", "spec": {}, "status": status}
    )


def signed(prefix: str, claims: dict, *, seconds: int) -> str:  # type: ignore[type-arg]
    """A token that the environment's clusters accept. prefix: begins the cloud's real tokens."""
    secret = credentials()["google_access_token"]
    return prefix + tokens.make(claims, secret=secret, seconds=seconds)


def run(program: str, answer) -> int:  # type: ignore[no-untyped-def]
    """Prints what `answer` returns, or one line of error; returns the exit status."""
    try:
        print(answer())
    except NoCredential as e:
        print(f"{program}{e}", file=sys.stderr)
        return 1
    except (OSError, ValueError, KeyError, IndexError) as e:
        print(
            f"{program}the rehearsal's files cannot be read: {type(e).__name__}: {e}",
            file=sys.stderr,
        )
        return 1
    return 0
