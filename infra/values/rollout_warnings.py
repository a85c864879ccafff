"""A preview's warnings about nodes in service, from the pool as it is in the cluster.

The engine previews the object: a changed field. The consequences are cordons and evictions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infra.plan import CloudSettings, PoolPlan

_CUT_MINUTES = 30
_DRIVER_MINUTES = 30
"""The fleet controller's limits (`node_change.APPLY_LIMIT_S`, `UPGRADE_LIMIT_S`). A test
compares them.
"""
_WHO = {
    "gpu": "pods that use their GPUs are evicted, within their disruption budgets",
    "all": "their pods are evicted, but those of DaemonSets, within their disruption budgets",
    "none": "each waits until the pods that use its GPUs have ended",
}


def rollout_warnings(
    pool: PoolPlan,
    live: Mapping[str, Any] | None,
    status: Mapping[str, Any] | None,
    *,
    replaced: bool = False,
) -> list[str]:
    """Sentences on the effects of a change. Empty if nothing changes for existing nodes.

    live, status: of the GPUPool in the cluster. None if it does not exist. replaced: whether the
    cloud's node pool is replaced.
    """
    # The engine's numbers are floats.
    total = int(((status or {}).get("nodes") or {}).get("total") or 0)
    if live is None or total == 0:
        return []
    if replaced:
        return [_replaced(pool, total)]
    said = []
    # Of a pool whose change is undone, the nodes have another layout than its spec's.
    now = (status or {}).get("layout")
    declared = live.get("migConfig")
    before = None if declared == pool.offer.mig_config else now or declared
    if pool.offer.mig_config is not None and before and before != pool.offer.mig_config:
        said.append(_rolls(pool, str(before), total))
    driver = live.get("driverVersion")
    if pool.driver_version is not None and driver != pool.driver_version:
        said.append(_gets_driver(pool, driver, total))
    if pool.ends_surplus and total > pool.nodes.max:
        going = total - pool.nodes.max
        said.append(
            f"pool {pool.name} has {_nodes(total)} and may have {pool.nodes.max}: {_nodes(going)} "
            f"of the cloud's choice {'goes' if going == 1 else 'go'}, undrained, and the pods on "
            f"{'it' if going == 1 else 'them'} end. To choose, and to let disruption budgets "
            "count, drain and delete instances first (docs/how-to/day-two.md)"
        )
    return said


def _replaced(pool: PoolPlan, total: int) -> str:
    return (
        f"pool {pool.name}: its node pool is replaced, so its {_nodes(total)} "
        f"{'goes' if total == 1 else 'go'} and the pods on {'it' if total == 1 else 'them'} end; "
        "their disruption budgets delay that at most for the cloud's own limit. To move the pods "
        "first, make the new pool under another name and drain the old one "
        "(docs/how-to/day-two.md). `slicewright preview-report --live` names the pods"
    )


def _gets_driver(pool: PoolPlan, before: object, total: int) -> str:
    """before: the spec's driver. None if it has none: any node may have the new one already."""
    has = f"from {before} " if before else ""
    return (
        f"pool {pool.name}: the driver changes {has}to {pool.driver_version}; of its "
        f"{_nodes(total)} those with another one roll: "
        f"{_how(pool, total, _DRIVER_MINUTES + _CUT_MINUTES)}"
    )


def _rolls(pool: PoolPlan, before: str, total: int) -> str:
    return (
        f"pool {pool.name}: the layout changes from {before} to {pool.offer.mig_config}, so its "
        f"{_nodes(total)} {'rolls' if total == 1 else 'roll'}: "
        f"{_how(pool, total, _CUT_MINUTES)}"
    )


def _how(pool: PoolPlan, total: int, each: int) -> str:
    """each: minutes that a node may take once it is drained."""
    rollout = pool.rollout
    percent = rollout.max_unavailable_percent
    together = rollout.max_unavailable if percent is None else max(1, total * percent // 100)
    first = min(rollout.canary, total)
    zones = _zones(pool, total) if rollout.one_zone_at_a_time else 1
    steps = _times(first, together, zones) + _times(total - first, together, zones)
    drains = 2 if rollout.on_drain_timeout == "force" else 1
    minutes = steps * (drains * rollout.drain_timeout_minutes + each)
    proof = f"{first} first as a proof, then " if first and first < total else ""
    return (
        f"{proof}at most {together} at a time; {_WHO[rollout.evict]}. It takes {_span(minutes)} "
        "at most, if every drain and cut takes the whole time that it may. `slicewright "
        "preview-report --live` names the nodes in their order, and the pods"
    )


def _zones(pool: PoolPlan, total: int) -> int:
    """The greatest number of zones of its nodes."""
    return len(pool.settings.zones) if isinstance(pool.settings, CloudSettings) else total


def _times(count: int, together: int, zones: int) -> int:
    """The greatest number of times that some of `count` nodes begin. They may be in all of the
    zones, and no two zones change at once.
    """
    apart = min(zones, count)
    return apart + (count - apart) // together


def _nodes(count: int) -> str:
    return f"{count} node{'' if count == 1 else 's'}"


def _span(minutes: int) -> str:
    hours, rest = divmod(minutes, 60)
    return " ".join([*([f"{hours} h"] if hours else []), *([f"{rest} min"] if rest else [])])
