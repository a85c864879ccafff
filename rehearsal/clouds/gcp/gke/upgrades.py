"""How a node pool replaces its nodes: a few at a time, or all of them beside the old ones.

Sources: GKE's API reference (UpgradeSettings) and its page "Node pool upgrade strategies". Soak
times are kept and shown; no upgrade here waits for them.
"""

from __future__ import annotations

import re

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.gcp.errors import google_error

_DURATION = re.compile(r"([0-9]+)s")
_LONGEST_SOAK_S = 7 * 86400


def is_blue_green(settings: JsonObject) -> bool:
    return settings.get("strategy") == "BLUE_GREEN"


def check_upgrade(settings: JsonObject) -> None:
    """Raises CloudError. settings: as requested; empty ones are GKE's own."""
    if is_blue_green(settings):
        _check_blue_green(settings)
        return
    if not settings:
        return
    surge, down = int(settings.get("maxSurge", 0)), int(settings.get("maxUnavailable", 0))
    if surge < 0 or down < 0 or not 0 < surge + down <= 20:
        raise google_error(
            400,
            f"upgrade_settings: max_surge ({surge}) and max_unavailable ({down}) must not be "
            "negative, and their sum must be 1 to 20.",
        )
    if settings.get("blueGreenSettings"):
        raise google_error(
            400, "upgrade_settings: blue_green_settings need the strategy BLUE_GREEN."
        )


def _check_blue_green(settings: JsonObject) -> None:
    if settings.get("maxSurge") or settings.get("maxUnavailable"):
        raise google_error(
            400, "upgrade_settings: max_surge and max_unavailable need the strategy SURGE."
        )
    chosen = settings.get("blueGreenSettings") or {}
    policy = chosen.get("standardRolloutPolicy") or {}
    count, part = int(policy.get("batchNodeCount", 0)), float(policy.get("batchPercentage", 0))
    if count and part:
        raise google_error(
            400, "standard_rollout_policy: only one of batch_node_count and batch_percentage."
        )
    if count < 0 or not 0 <= part <= 1:
        raise google_error(
            400, "standard_rollout_policy: batch_percentage must be in (0, 1], counts positive."
        )
    for soak in (policy.get("batchSoakDuration"), chosen.get("nodePoolSoakDuration")):
        parts = _DURATION.fullmatch(str(soak or "0s"))
        if parts is None or int(parts[1]) > _LONGEST_SOAK_S:
            raise google_error(
                400, f"Invalid soak duration {soak}: must be 0s to {_LONGEST_SOAK_S}s."
            )


def fill_upgrade(requested: JsonObject) -> JsonObject:
    """With GKE's defaults: one node more; blue-green by single nodes, and an hour at the end."""
    if not is_blue_green(requested):
        return {"strategy": "SURGE", "maxSurge": 1, **requested}
    chosen = requested.get("blueGreenSettings") or {}
    policy = chosen.get("standardRolloutPolicy") or {"batchNodeCount": 1}
    return {
        "strategy": "BLUE_GREEN",
        "blueGreenSettings": {
            "nodePoolSoakDuration": "3600s",
            **chosen,
            "standardRolloutPolicy": {"batchSoakDuration": "0s", **policy},
        },
    }
