"""The stack file's `rollout` of a pool as `rolloutPolicy` of its GPUPool."""

from __future__ import annotations

from infra.plan import PoolPlan
from infra.values.text import JsonObject


def rollout_policy(pool: PoolPlan) -> JsonObject:
    """All of it, so that no default of the API server's is a difference."""
    rollout = pool.rollout
    return {
        "maxUnavailable": rollout.max_unavailable
        if rollout.max_unavailable_percent is None
        else f"{rollout.max_unavailable_percent}%",
        "canary": rollout.canary,
        "oneZoneAtATime": rollout.one_zone_at_a_time,
        "drain": {
            "timeoutSeconds": 60 * rollout.drain_timeout_minutes,
            "onTimeout": {"stop": "Stop", "force": "Force"}[rollout.on_drain_timeout],
            "pods": {"gpu": "GPU", "all": "All", "none": "None"}[rollout.evict],
            "deleteLocalData": rollout.delete_local_data,
        },
        "tolerateUnproven": rollout.tolerate_unproven
        if rollout.tolerate_unproven_percent is None
        else f"{rollout.tolerate_unproven_percent}%",
        "quarantine": "NoExecute" if rollout.quarantine else "None",
        "maxFailures": _most_failures(pool),
        **(
            {"maxFailuresInARow": rollout.max_failures_in_a_row}
            if rollout.max_failures_in_a_row is not None
            else {}
        ),
    }


def _most_failures(pool: PoolPlan) -> int | str:
    rollout = pool.rollout
    if rollout.max_failures is not None:
        return rollout.max_failures
    if rollout.max_failures_percent is not None:
        return f"{rollout.max_failures_percent}%"
    if rollout.on_failure == "pause":
        return 1
    # Failed nodes stay out, so that with `continue` it ends at max_unavailable of them. Any number
    # in a row is to be within it.
    return max(1, pool.nodes.max, rollout.max_failures_in_a_row or 1)


def judged_by_policy(pool: PoolPlan) -> bool:
    """Whether the policy says something that needs no rollout, as of a pool that GKE partitions."""
    rollout = pool.rollout
    return bool(
        rollout.quarantine or rollout.tolerate_unproven or rollout.tolerate_unproven_percent
    )
