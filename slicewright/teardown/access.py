"""A client of a stack's cluster, with the credentials that its kubeconfig names."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from kubeapi import Client
from kubeapi.client import credentials_of

_TIMEOUT_S: Final = 60


class NoAccess(Exception):
    """The cluster cannot be asked; the message says why."""


def client_of(kubeconfig: str) -> Client:
    """kubeconfig: JSON, as the stack's Kubernetes provider has it. Raises NoAccess.

    Its plugin gives a credential for minutes only: a client is made anew for each phase.
    """
    try:
        parsed = json.loads(kubeconfig)
        found = credentials_of(parsed)
        user = next(iter(parsed["users"]))["user"]
        if "exec" in user:
            cluster = next(iter(parsed["clusters"]))["cluster"]
            status = _credential(user["exec"], cluster)
            certificate = status.get("clientCertificateData")
            found = replace(
                found,
                token=status.get("token"),
                client_cert=(certificate.encode(), status["clientKeyData"].encode())
                if certificate
                else None,
            )
    except (ValueError, KeyError, TypeError, StopIteration) as e:
        raise NoAccess(f"the kubeconfig of the stack's state cannot be used: {e!r}") from None
    return Client(found, user_agent="slicewright-destroy")


def _credential(plugin: Mapping[str, Any], cluster: Mapping[str, Any]) -> Mapping[str, Any]:
    """The status of the plugin's ExecCredential.

    Source: Kubernetes documentation, Authenticating, "client-go credential plugins".
    """
    asked = {
        "apiVersion": plugin["apiVersion"],
        "kind": "ExecCredential",
        "spec": {
            "interactive": False,
            **({"cluster": cluster} if plugin.get("provideClusterInfo") else {}),
        },
    }
    variables = {one["name"]: one["value"] for one in plugin.get("env") or ()}
    command = [plugin["command"], *(plugin.get("args") or ())]
    try:
        done = subprocess.run(
            command,
            env={**os.environ, **variables, "KUBERNETES_EXEC_INFO": json.dumps(asked)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT_S,
        )
    except OSError as e:
        hint = plugin.get("installHint", "")
        raise NoAccess(f"{command[0]} does not start ({e.strerror}); {hint}".rstrip("; ")) from None
    except subprocess.TimeoutExpired:
        raise NoAccess(f"{command[0]} gives no credential within {_TIMEOUT_S} s") from None
    if done.returncode:
        raise NoAccess(f"{command[0]} gives no credential: {done.stderr.strip()[:500]}")
    status: Mapping[str, Any] = json.loads(done.stdout)["status"]
    return status
