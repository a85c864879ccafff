"""The progress of a rollout as text for people. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from slicewright.fleet_controller.objects.pool import Pool
from slicewright.fleet_controller.rollout.pool_target import describe_target
from slicewright.fleet_controller.rollout.rollout import Rollout

_MOST_LISTED = 3


def progress_text(rollout: Rollout, pool: Pool, total: int) -> str:
    """Returns the progress, for people."""
    have = "node has" if total == 1 else "nodes have"
    parts = [f"{rollout.done} of {total} {have} {describe_target(pool)}{_undone(pool)}"]
    if working := [name for name in rollout.changing if name not in rollout.failed]:
        parts.append(f"changing: {_names(working)}")
    if rollout.failed:
        parts.append(f"failed: {_names(rollout.failed)}")
    if rollout.waiting:
        parts.append(f"waiting: {_names(rollout.waiting)}")
    match rollout.stopped:
        case "paused" | "aborted":
            parts.append(
                f"it is {rollout.stopped}; to go on: slicewright rollout resume {pool.name}"
            )
        case "failed":
            parts.append("no further node changes until the failed nodes are repaired")
        case "full":
            parts.append(
                "no further node changes while these are out of service: "
                f"{_names(rollout.blocking)}"
            )
        case _:
            pass
    return "; ".join(parts)


def _undone(pool: Pool) -> str:
    if pool.declared is None or not pool.undone:
        return ""
    return f", to which the change to {pool.declared.mig_config} is undone"


def _names(names: Sequence[str]) -> str:
    more = len(names) - _MOST_LISTED
    return ", ".join(names[:_MOST_LISTED]) + (f" and {more} more" if more > 0 else "")
