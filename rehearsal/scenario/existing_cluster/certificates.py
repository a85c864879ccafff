"""cert-manager, which a stack with prometheus-adapter asks of its cluster (a stand-in)."""

from __future__ import annotations

import time
from typing import Final

from kubeapi import Client, JsonObject
from kubeapi.client import path_of
from rehearsal.cluster import cert_manager
from rehearsal.scenario.errors import RehearsalError

_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_MANAGER: Final = "cert-manager"
_TIMEOUT_S: Final = 120.0


def install(client: Client) -> None:
    """Returns when it runs. Raises ApiError, Unreachable, and RehearsalError after two minutes."""
    crds = cert_manager.crds()
    for crd in crds:
        _apply(client, f"{_CRDS}/{crd['metadata']['name']}", crd)
    for crd in crds:
        _until(client, f"{_CRDS}/{crd['metadata']['name']}", "Established")
    path = ""
    for made in cert_manager.objects():
        metadata = made["metadata"]
        path = path_of(
            made["apiVersion"],
            f"{made['kind'].lower()}s",
            metadata["name"],
            metadata.get("namespace"),
        )
        _apply(client, path, made)
    # The last of them is its Deployment.
    _until(client, path, "Available")


def _apply(client: Client, path: str, made: JsonObject) -> None:
    client.patch(path, made, kind="apply", fieldManager=_MANAGER, force="true")


def _until(client: Client, path: str, condition: str) -> None:
    deadline = time.monotonic() + _TIMEOUT_S
    while True:
        status = client.get(path).get("status") or {}
        found = {one["type"]: one["status"] for one in status.get("conditions") or ()}
        if found.get(condition) == "True":
            return
        if time.monotonic() > deadline:
            raise RehearsalError(
                f"existing cluster: {path} is not {condition} after {_TIMEOUT_S:.0f} s"
            )
        time.sleep(0.2)
