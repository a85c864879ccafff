"""What both clouds' credential programs hand to kubectl and to the kubernetes provider: the cluster
administrator's certificate.

Real ones hand out a short-lived token of the cloud's IAM. Standard library only, and little of it:
kubectl runs this before every command.
"""

import base64
import json
import os
import sys
from pathlib import Path

BETA = "client.authentication.k8s.io/v1beta1"
VARIABLE = "SLICEWRIGHT_REHEARSAL"


class NoCredential(Exception):
    """Why there is none, for people."""


def environment() -> Path:
    named = os.environ.get(VARIABLE)
    if not named:
        raise NoCredential(
            f"{VARIABLE} is not set: this stand-in gives credentials inside a rehearsal only"
        )
    return Path(named)


def exec_info() -> dict:  # type: ignore[type-arg]  # plain dict: importing typing costs milliseconds
    """What kubectl says about itself and the cluster it wants to reach."""
    try:
        found = json.loads(os.environ.get("KUBERNETES_EXEC_INFO") or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def clusters() -> dict:  # type: ignore[type-arg]
    """Name -> server address of every cluster of the rehearsal."""
    found = {}
    for path in sorted((environment() / "clusters").glob("*/endpoint.json")):
        found[path.parent.name] = json.loads(path.read_text())["server"]
    return found


def credential(cluster: str) -> str:
    """An ExecCredential in the version that was asked for."""
    path = environment() / "clusters" / cluster / "kubeconfig.json"
    try:
        user = json.loads(path.read_text())["users"][0]["user"]
    except FileNotFoundError:
        known = ", ".join(clusters()) or "none"
        raise NoCredential(
            f"the rehearsal has no cluster named {cluster}; it has {known}"
        ) from None
    status = {
        "clientCertificateData": base64.b64decode(user["client-certificate-data"]).decode(),
        "clientKeyData": base64.b64decode(user["client-key-data"]).decode(),
    }
    asked = exec_info().get("apiVersion") or BETA
    return json.dumps({"apiVersion": asked, "kind": "ExecCredential", "spec": {}, "status": status})


def run(program: str, answer) -> int:  # type: ignore[no-untyped-def]
    try:
        print(answer())
    except NoCredential as e:
        print(f"{program}: {e}", file=sys.stderr)
        return 1
    except (OSError, ValueError, KeyError, IndexError) as e:
        print(
            f"{program}: the rehearsal's cluster files cannot be read: {type(e).__name__}: {e}",
            file=sys.stderr,
        )
        return 1
    return 0
