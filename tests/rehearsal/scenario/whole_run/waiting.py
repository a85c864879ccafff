"""Waiting for what a fleet does by itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from slicewright.apis import names
from slicewright.kubeapi import ApiError, Client

GPU_POOLS = f"/apis/{names.API_VERSION}/{names.POOL_PLURAL}"


def until(holds: Callable[[], Any], what: str, timeout_s: float = 300) -> Any:
    """What `holds` returns, once that is true. what: named where it never is."""
    deadline = time.monotonic() + timeout_s
    while not (found := holds()):
        assert time.monotonic() < deadline, f"not within {timeout_s:g} s: {what}"
        time.sleep(0.2)
    return found


def until_verified(client: Client) -> None:
    """As `kubectl wait gpupools --all --for=condition=Verified`."""

    def verified() -> bool:
        pools = client.get(GPU_POOLS)["items"]
        return bool(pools) and all(_verified(pool.get("status") or {}) for pool in pools)

    until(verified, "every pool is verified")


def until_serving_again(client: Client, node: str, boot: str) -> None:
    """Until a node of that name is proven in another boot than `boot`, and open to pods."""

    def serving() -> bool:
        try:
            found = client.get(f"/api/v1/nodes/{node}")
            report = client.get(f"/apis/{names.API_VERSION}/{names.REPORT_PLURAL}/{node}")["report"]
        except ApiError as e:
            if e.status != 404:
                raise
            return False  # its machine has just been replaced, or it has not reported yet
        booted = found["status"]["nodeInfo"]["bootID"]
        return bool(
            booted == report["bootID"] != boot
            and report["verdict"] == "Match"
            and found["metadata"]["annotations"].get(names.VERIFIED_BOOT_ANNOTATION) == booted
            and not is_held(found)
        )

    until(serving, f"{node} is proven after its reboot")


def is_held(node: dict[str, Any]) -> bool:
    """Whether it has the startup taint."""
    return any(
        taint["key"] == names.STARTUP_TAINT_KEY for taint in node["spec"].get("taints") or ()
    )


def _verified(status: dict[str, Any]) -> bool:
    return any(
        condition["type"] == names.VERIFIED and condition["status"] == "True"
        for condition in status.get("conditions", ())
    )
