"""How a new layout reaches the nodes of a pool."""

from __future__ import annotations

from slicewright.infra import stack_file
from slicewright.infra.plan.findings import Checked, refuse, rule
from slicewright.infra.plan.model.nodes import AnyPool


@rule("rollout")
def rollout_of(pool: AnyPool, path: stack_file.Path) -> Checked[stack_file.Rollout]:
    """path: of the pool."""
    for conflict in pool.rollout.conflicts():
        yield refuse((*path, "rollout", conflict.key), conflict.reason, conflict.instead)
    return pool.rollout
