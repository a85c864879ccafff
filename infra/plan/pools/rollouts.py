"""How a new layout reaches the nodes of a pool."""

from __future__ import annotations

from infra import spec
from infra.plan.findings import Checked, refuse
from infra.plan.model.nodes import AnyPool


def rollout_of(pool: AnyPool, path: spec.Path) -> Checked[spec.Rollout]:
    """path: of the pool."""
    rollout, at = pool.rollout, (*path, "rollout")
    if (
        "max_unavailable" in rollout.model_fields_set
        and rollout.max_unavailable_percent is not None
    ):
        yield refuse(
            (*at, "max_unavailable_percent"),
            "a rollout takes either max_unavailable or max_unavailable_percent",
            "leave one of them out",
        )
    if "tolerate_unproven" in rollout.model_fields_set and (
        rollout.tolerate_unproven_percent is not None
    ):
        yield refuse(
            (*at, "tolerate_unproven_percent"),
            "a rollout takes either tolerate_unproven or tolerate_unproven_percent",
            "leave one of them out",
        )
    counted = [
        key
        for key in ("on_failure", "max_failures", "max_failures_percent")
        if key in rollout.model_fields_set
    ]
    if len(counted) > 1:
        yield refuse(
            (*at, counted[1]),
            f"a rollout takes either {counted[0]} or {counted[1]}: each says with how many failed "
            "nodes it stops",
            "leave one of them out",
        )
    most, in_a_row = _most_failures(rollout), rollout.max_failures_in_a_row
    if most is not None and in_a_row is not None and most < in_a_row:
        yield refuse(
            (*at, "max_failures_in_a_row"),
            f"the rollout stops at {most} failed {'node' if most == 1 else 'nodes'} anyway, in a "
            "row or not",
            "write on_failure: continue, or a greater max_failures",
        )
    if rollout.evict == "none" and rollout.on_drain_timeout == "force":
        yield refuse(
            (*at, "on_drain_timeout"),
            "with evict: none no pod is evicted, so nothing can be forced",
            "write on_drain_timeout: stop, or evict: gpu",
        )
    return rollout


def _most_failures(rollout: spec.Rollout) -> int | None:
    """The number of failed nodes that stops it. None: no fixed number."""
    if rollout.max_failures is not None:
        return rollout.max_failures
    if rollout.max_failures_percent is not None or rollout.on_failure == "continue":
        return None
    return 1
