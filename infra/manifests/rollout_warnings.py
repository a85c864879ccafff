"""A preview's warnings about nodes in service, from the pool as it is in the cluster.

The engine previews the object: a changed field. The consequences are cordons and evictions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slicewright.infra.plan import BootLayout, CloudSettings, EksSettings, PoolPlan

_PARTITION_MINUTES = 30
_DRIVER_MINUTES = 30
"""The fleet controller's limits (`applying.APPLY_LIMIT_S`, `upgrading.UPGRADE_LIMIT_S`). A test
compares them.
"""


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
        return [_replacement_warning(pool, total)]
    warnings = []
    before = _layout_before(pool, live, status)
    if pool.offer.mig_config is not None and before and before != pool.offer.mig_config:
        warnings.append(_layout_warning(pool, before, total))
    boot = pool.boot_layout
    if boot is not None and live.get("bootLayout") not in (None, boot.digest):
        warnings.append(_boot_layout_warning(pool, boot, total))
    driver = live.get("driverVersion")
    if pool.driver_version is not None and driver != pool.driver_version:
        warnings.append(_driver_warning(pool, driver, total))
    if pool.ends_surplus and total > pool.nodes.max:
        warnings.append(_surplus_warning(pool, total))
    return warnings


def _layout_before(
    pool: PoolPlan, live: Mapping[str, Any], status: Mapping[str, Any] | None
) -> str | None:
    """The layout that nodes have now. None if the spec in the cluster declares the planned one.

    If the pool's change is undone, its nodes have another layout than its spec's.
    """
    declared = live.get("migConfig")
    if declared == pool.offer.mig_config:
        return None
    return (status or {}).get("layout") or declared


def _replacement_warning(pool: PoolPlan, total: int) -> str:
    return (
        f"pool {pool.name}: its node pool is replaced, so its {_nodes(total)} "
        f"{'goes' if total == 1 else 'go'} and the pods on {'it' if total == 1 else 'them'} end; "
        "their disruption budgets delay that at most for the cloud's own limit. To move the pods "
        "first, make the new pool under another name and drain the old one "
        "(docs/how-to/day-two.md). `slicewright preview-report --live` names the pods"
    )


def _boot_layout_warning(pool: PoolPlan, boot: BootLayout, total: int) -> str:
    assert isinstance(pool.settings, EksSettings), "other clouds' nodes have no such user data"
    together = pool.settings.update.max_unavailable
    once = "; each new node reboots once before it joins"
    replacing = (
        f"Karpenter replaces its {_nodes(total)}, {together} at a time, after `up`, an old one "
        "once a new one is verified"
        if pool.settings.karpenter is not None
        else f"EKS replaces its {_nodes(total)}, {together} at a time, and waits until a new one "
        "is Ready, not until it is verified; pods are evicted, for 15 minutes at most, then the "
        "update fails"
    )
    return (
        f"pool {pool.name}: the layout that its nodes boot with changes: {replacing}"
        f"{once if boot.reboots else ''}"
    )


def _driver_warning(pool: PoolPlan, before: object, total: int) -> str:
    """before: the spec's driver. None if it has none: any node may have the new one already."""
    has = f"from {before} " if before else ""
    return (
        f"pool {pool.name}: the driver changes {has}to {pool.driver_version}; of its "
        f"{_nodes(total)} those with another one roll: "
        f"{_describe_rollout(pool, total, _DRIVER_MINUTES + _PARTITION_MINUTES)}"
    )


def _layout_warning(pool: PoolPlan, before: str, total: int) -> str:
    return (
        f"pool {pool.name}: the layout changes from {before} to {pool.offer.mig_config}, so its "
        f"{_nodes(total)} {'rolls' if total == 1 else 'roll'}: "
        f"{_describe_rollout(pool, total, _PARTITION_MINUTES)}"
    )


def _describe_rollout(pool: PoolPlan, total: int, each: int) -> str:
    """each: minutes that a node may take once it is drained."""
    policy = pool.rollout.policy
    together, first = policy.limit(total), policy.canaries(total)
    zones = policy.zone_groups(_zones(pool, total))
    steps = _times(first, together, zones) + _times(total - first, together, zones)
    minutes = steps * (int(policy.drain.longest_s) // 60 + each)
    proof = f"{first} first as a proof, then " if first and first < total else ""
    return (
        f"{proof}at most {together} at a time; {policy.drain.describe_evictions()}. It takes "
        f"{_span(minutes)} at most, if every drain and partitioning takes as long as it may. "
        "`slicewright preview-report --live` names the nodes in their order, and the pods"
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


def _surplus_warning(pool: PoolPlan, total: int) -> str:
    surplus = total - pool.nodes.max
    return (
        f"pool {pool.name} has {_nodes(total)} and may have {pool.nodes.max}: {_nodes(surplus)} "
        f"of the cloud's choice {'goes' if surplus == 1 else 'go'}, undrained, and the pods on "
        f"{'it' if surplus == 1 else 'them'} end. To choose, and to let disruption budgets "
        "count, drain and delete instances first (docs/how-to/day-two.md)"
    )


def _nodes(count: int) -> str:
    return f"{count} node{'' if count == 1 else 's'}"


def _span(minutes: int) -> str:
    hours, rest = divmod(minutes, 60)
    return " ".join([*([f"{hours} h"] if hours else []), *([f"{rest} min"] if rest else [])])
