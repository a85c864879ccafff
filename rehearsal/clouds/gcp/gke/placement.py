"""Node pools whose nodes are close to each other.

Sources of the rules: GKE's page "Define compact placement for GKE nodes"; Compute Engine's "About
placement policies" (machine series); GoogleCloudPlatform/cluster-toolkit,
modules/compute/gke-node-pool. The words are the rehearsal's.
"""

from __future__ import annotations

from collections.abc import Sequence

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.gcp.errors import google_error
from slicewright.rehearsal.clouds.gcp.gke.provisioning import is_queued
from slicewright.rehearsal.clouds.gcp.gke.upgrades import is_blue_green

_FLEX_START = ("a3-ultragpu-", "a4-", "h4d-")
_NEVER = ("n1-", "e2-")


def is_compact(pool: JsonObject) -> bool:
    return (pool.get("placementPolicy") or {}).get("type") == "COMPACT"


def check_placement(pool: JsonObject, zones: Sequence[str]) -> None:
    """Raises CloudError. zones: of the pool."""
    policy = pool.get("placementPolicy") or {}
    if policy.get("policyName") and not is_compact(pool):
        raise google_error(400, "placement_policy.policy_name needs the type COMPACT.")
    if not is_compact(pool):
        return
    config = pool.get("config") or {}
    machine = config.get("machineType") or "e2-medium"
    if len(zones) > 1:
        raise google_error(
            400, "Compact placement is only available for node pools operating in a single zone."
        )
    if is_blue_green(pool.get("upgradeSettings") or {}):
        raise google_error(400, "Compact placement is not supported with blue-green upgrades.")
    if is_queued(pool):
        raise google_error(400, "Compact placement is not supported with queued provisioning.")
    if machine.startswith(_NEVER) or (
        config.get("flexStart") and not machine.startswith(_FLEX_START)
    ):
        raise google_error(400, f"Compact placement is not supported on machine type {machine}.")
