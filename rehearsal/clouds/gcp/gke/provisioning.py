"""What GKE refuses of pools whose machines come later or for a limited time.

Sources of the words: flex-start, public logs of `gcloud container node-pools create`
("require autoscaling enabled", "require initial node count to be set to 0", "don't support
reservations"); queued, hashicorp/terraform-provider-google #18341. The other rules are those of
GoogleCloudPlatform/cluster-toolkit, modules/compute/gke-node-pool, and the words the rehearsal's.
Limits of a run time: Compute Engine's "Limit the run time of a VM" and "Flex-start VMs".
"""

from __future__ import annotations

import re

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.gcp.errors import google_error
from slicewright.rehearsal.clouds.gcp.gke.affinity import NONE, kind_of

_DURATION = re.compile(r"([0-9]+)s")
_DAY_S = 86400
_SHORTEST_S, _LONGEST_S, _LONGEST_FLEX_S = 30, 120 * _DAY_S, 7 * _DAY_S
_NO_FLEX_START = ("g4-", "a4x-")


def is_queued(pool: JsonObject) -> bool:
    return bool((pool.get("queuedProvisioning") or {}).get("enabled"))


def check_provisioning(pool: JsonObject) -> None:
    """Raises CloudError. pool: as requested, or as stored with a change."""
    config = pool.get("config") or {}
    flex, queued = bool(config.get("flexStart")), is_queued(pool)
    if flex:
        _check_flex_start(pool, config)
    if queued:
        _check_queued(pool, config)
    if config.get("maxRunDuration"):
        longest_s = _LONGEST_FLEX_S if flex or queued else _LONGEST_S
        _check_run_time(str(config["maxRunDuration"]), longest_s)


def _check_flex_start(pool: JsonObject, config: JsonObject) -> None:
    machine = config.get("machineType") or "e2-medium"
    if machine.startswith(_NO_FLEX_START):
        raise google_error(400, f"Flex-start is not supported on machine type {machine}.")
    if not _autoscaled(pool):
        raise google_error(400, "Flex start node pools require autoscaling enabled.")
    if _is_new(pool) and int(pool.get("initialNodeCount", 0)):
        raise google_error(400, "Flex start node pools require initial node count to be set to 0.")
    if kind_of(config) != NONE:
        raise google_error(400, "Flex start node pools don't support reservations.")
    if config.get("spot") or config.get("preemptible"):
        raise google_error(400, "Flex start node pools don't support Spot VMs.")
    if (pool.get("management") or {}).get("autoRepair"):
        raise google_error(400, "Flex start node pools don't support node auto-repair.")


def _check_queued(pool: JsonObject, config: JsonObject) -> None:
    if kind_of(config) != NONE:
        raise google_error(
            400, "Queued_provisioning requires reservation affinity to be set to none"
        )
    scaling = pool.get("autoscaling") or {}
    least = int(scaling.get("totalMinNodeCount", scaling.get("minNodeCount", 0)))
    if not _autoscaled(pool) or least:
        raise google_error(
            400, "Queued_provisioning requires autoscaling with a minimum of 0 nodes"
        )
    if _is_new(pool) and int(pool.get("initialNodeCount", 0)):
        raise google_error(400, "Queued_provisioning requires initial node count to be set to 0")
    if config.get("spot") or config.get("preemptible"):
        raise google_error(400, "Queued_provisioning is not supported with Spot VMs")


def _autoscaled(pool: JsonObject) -> bool:
    return bool((pool.get("autoscaling") or {}).get("enabled"))


def _is_new(pool: JsonObject) -> bool:
    """Later, initialNodeCount is the pool's size."""
    return "status" not in pool


def _check_run_time(requested: str, longest_s: int) -> None:
    parts = _DURATION.fullmatch(requested)
    if parts is None or not _SHORTEST_S <= int(parts[1]) <= longest_s:
        raise google_error(
            400,
            f"Invalid max run duration {requested}: must be {_SHORTEST_S}s to {longest_s}s.",
        )
