"""How EKS recreates and repairs the nodes of a pool."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from slicewright.infra import stack_file
from slicewright.infra.plan.findings import Checked, refuse, rule

OBEYED_BY_EKS: Final = frozenset({"max_unavailable"})
"""Keys of `rollout` that limit the updates of EKS itself."""


@rule("eks-update")
def update_of(pool: stack_file.EksPool, path: stack_file.Path) -> Checked[stack_file.EksUpdate]:
    """The pool's update settings with the number of nodes at a time. path: of the pool."""
    update, at = pool.update, (*path, "update")
    if update.max_unavailable is None:
        if isinstance(pool.partition, stack_file.Boot):
            # EKS brings a layout at boot to the nodes, as many at a time as `rollout` allows.
            return update.model_copy(update={"max_unavailable": pool.rollout.max_unavailable})
        return _one_at_a_time(update)
    together, limit = update.max_unavailable, pool.rollout.max_unavailable
    if (
        isinstance(together, int)
        and isinstance(limit, int)
        and pool.rollout.model_fields_set >= OBEYED_BY_EKS
        and together > limit
    ):
        yield refuse(
            (*at, "max_unavailable"),
            f"EKS would replace {together} nodes at a time, and rollout allows {limit}",
            f"write {limit} or less, or raise rollout.max_unavailable",
        )
    return update


@lru_cache(maxsize=128)  # most pools state nothing
def _one_at_a_time(update: stack_file.EksUpdate) -> stack_file.EksUpdate:
    return update.model_copy(update={"max_unavailable": 1})


@rule("eks-repair")
def repair_of(
    pool: stack_file.EksPool, path: stack_file.Path
) -> Checked[stack_file.EksRepair | None]:
    """path: of the pool."""
    repair, at = pool.repair, (*path, "repair")
    if repair is None:
        return None
    conditions = set()
    for i, repair_rule in enumerate(repair.rules):
        if (repair_rule.condition, repair_rule.reason) in conditions:
            yield refuse(
                (*at, "rules", i),
                f"there is a rule for {repair_rule.condition} with {repair_rule.reason} already",
                "leave one of them out",
                "EKS API, NodeRepairConfig",
            )
        conditions.add((repair_rule.condition, repair_rule.reason))
    return repair
