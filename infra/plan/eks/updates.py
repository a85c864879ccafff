"""How EKS recreates and repairs the nodes of a pool."""

from __future__ import annotations

from functools import lru_cache

from infra import spec
from infra.plan.findings import Checked, refuse


def update_of(pool: spec.EksPool, path: spec.Path) -> Checked[spec.EksUpdate]:
    """The pool's update settings with the number of nodes at a time. path: of the pool."""
    update, at = pool.update, (*path, "update")
    yield from _one_of(update, at, "max_unavailable")
    if update.max_unavailable is None and update.max_unavailable_percent is None:
        return _one_at_a_time(update)
    together, rollout = update.max_unavailable, pool.rollout
    if (
        together is not None
        and "max_unavailable" in rollout.model_fields_set
        and together > rollout.max_unavailable
    ):
        yield refuse(
            (*at, "max_unavailable"),
            f"EKS would replace {together} nodes at a time, and rollout allows "
            f"{rollout.max_unavailable}",
            f"write {rollout.max_unavailable} or less, or raise rollout.max_unavailable",
        )
    return update


@lru_cache(maxsize=128)  # most pools state nothing
def _one_at_a_time(update: spec.EksUpdate) -> spec.EksUpdate:
    return update.model_copy(update={"max_unavailable": 1})


def repair_of(pool: spec.EksPool, path: spec.Path) -> Checked[spec.EksRepair | None]:
    """path: of the pool."""
    repair, at = pool.repair, (*path, "repair")
    if repair is None:
        return None
    yield from _one_of(repair, at, "max_unhealthy")
    yield from _one_of(repair, at, "max_parallel")
    conditions = set()
    for i, rule in enumerate(repair.rules):
        if (rule.condition, rule.reason) in conditions:
            yield refuse(
                (*at, "rules", i),
                f"there is a rule for {rule.condition} with {rule.reason} already",
                "leave one of them out",
                "EKS API, NodeRepairConfig",
            )
        conditions.add((rule.condition, rule.reason))
    return repair


def _one_of(limits: spec.EksUpdate | spec.EksRepair, at: spec.Path, name: str) -> Checked[None]:
    if getattr(limits, name) is not None and getattr(limits, f"{name}_percent") is not None:
        yield refuse(
            (*at, f"{name}_percent"),
            f"EKS takes either {name} or {name}_percent",
            "leave one of them out",
            "EKS API, NodegroupUpdateConfig and NodeRepairConfig",
        )
