"""The controller's own Warning Events, parsed from the API server's objects. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from slicewright.fleet_controller.objects.bounds import name, seconds

_MOST_EVENTS: Final = 2**31 - 1
"""The largest count of an Event, an int32."""


@dataclass(frozen=True, kw_only=True)
class WarningEvent:
    """A Warning Event of the controller that exists in the cluster."""

    name: str
    last_seen: float
    """Its lastTimestamp."""


def read_warning(raw: Mapping[str, Any]) -> WarningEvent | None:
    """Parses a Warning Event. Returns None for an Event of anybody else: the controller names its
    own `POOL.16 hex digits`.

    Anybody who may create Events in the namespace can write the controller's name into one.
    """
    event, pool = name(raw["metadata"]), name(raw["involvedObject"])
    if not re.fullmatch(re.escape(pool) + r"\.[0-9a-f]{16}", event):
        return None
    last_seen = seconds(raw.get("lastTimestamp") or raw.get("firstTimestamp"))
    return WarningEvent(name=event, last_seen=last_seen)


def next_count(raw: Mapping[str, Any]) -> int:
    """Returns the count of an Event that is seen once more."""
    count = raw.get("count")
    return min((count if isinstance(count, int) else 1) + 1, _MOST_EVENTS)
