"""What both clouds' credential plugins give kubectl: the cluster administrator's certificate.

Real ones give a short-lived token of the cloud's IAM. Standard library only, and little of it:
kubectl runs the plugin before every command.
"""

import base64
import json
import os
import sys
from pathlib import Path

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


def clusters() -> dict:  # type: ignore[type-arg]
    """Cluster name -> server address, for every cluster of the rehearsal."""
    by_name = {}
    for path in sorted((environment() / "clusters").glob("*/endpoint.json")):
        by_name[path.parent.name] = json.loads(path.read_text())["server"]
    return by_name


def credential(cluster: str) -> str:
    """An ExecCredential, as JSON, in the version that kubectl asked for."""
    path = environment() / "clusters" / cluster / "kubeconfig.json"
    try:
        user = json.loads(path.read_text())["users"][0]["user"]
    except FileNotFoundError:
        names = ", ".join(clusters()) or "none"
        raise NoCredential(
            f"the rehearsal has no cluster named {cluster}; it has {names}"
        ) from None
    status = {
        "clientCertificateData": base64.b64decode(user["client-certificate-data"]).decode(),
        "clientKeyData": base64.b64decode(user["client-key-data"]).decode(),
    }
    version = exec_info().get("apiVersion") or BETA
    return json.dumps(
        {"apiVersion": version, "kind": "ExecCredential", "spec": {}, "status": status}
    )


def run(program: str, answer) -> int:  # type: ignore[no-untyped-def]
    """Prints what `answer` returns, or one line of error; returns the exit status."""
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
