"""How a new layout reaches the nodes of a pool."""

from __future__ import annotations

from infra import spec
from infra.plan.findings import Checked, refuse
from infra.plan.nodes import AnyPool


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
    if rollout.evict == "none" and rollout.on_drain_timeout == "force":
        yield refuse(
            (*at, "on_drain_timeout"),
            "with evict: none no pod is evicted, so nothing can be forced",
            "write on_drain_timeout: stop, or evict: gpu",
        )
    return rollout
