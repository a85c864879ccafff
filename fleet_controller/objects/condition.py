"""A condition of a Node or a GPUPool, parsed from the API server's object. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slicewright.fleet_controller.objects.bounds import (
    LONGEST_CONDITION,
    LONGEST_NAME,
    UNREADABLE,
    seconds,
    text,
)


@dataclass(frozen=True, kw_only=True)
class Condition:
    status: str
    """True, False or Unknown."""
    reason: str
    message: str
    changed: float
    """Time when `status` last changed, in seconds since the epoch, like all times here."""
    written: float
    """Time when any field last changed."""
    generation: int = 0
    """The observedGeneration, for pools only."""


def read_condition(conditions: Any, kind: str) -> Condition | None:
    """Returns a condition, or None, also for an unreadable one, as it is written again."""
    try:
        raw = next((entry for entry in conditions or () if entry.get("type") == kind), None)
        return None if raw is None else _read_condition(raw)
    except UNREADABLE:
        return None


def _read_condition(raw: Mapping[str, Any]) -> Condition:
    changed = seconds(raw.get("lastTransitionTime"))
    status, generation = raw.get("status", "Unknown"), raw.get("observedGeneration", 0)
    if status not in ("True", "False", "Unknown") or not isinstance(generation, int):
        raise ValueError("is not a condition")
    return Condition(
        status=status,
        reason=text(raw.get("reason"), LONGEST_NAME),
        message=text(raw.get("message"), LONGEST_CONDITION),
        changed=changed,
        written=max(changed, seconds(raw.get("lastHeartbeatTime"))),
        generation=generation,
    )
