"""Waiting for what a fleet does by itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from fleet_controller import api
from kubeapi import Client

GPU_POOLS = f"/apis/{api.API_VERSION}/{api.POOL_PLURAL}"


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


def _verified(status: dict[str, Any]) -> bool:
    return any(
        condition["type"] == api.VERIFIED and condition["status"] == "True"
        for condition in status.get("conditions", ())
    )
