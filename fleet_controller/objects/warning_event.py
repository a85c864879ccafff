"""The controller's own Warning Events, parsed from the API server's objects. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from slicewright.fleet_controller.objects.bounds import name, seconds, text

PROGRESS: Final = "NotYetVerified"
"""The reason of Events that show progress. Their messages are a time, a colon and the cause."""
_LONGEST_CAUSE: Final = 900
"""Messages are cut, and the time before the cause has more and more digits."""
_MOST_EVENTS: Final = 2**31 - 1
"""The largest count of an Event, an int32."""


@dataclass(frozen=True, kw_only=True)
class WarningEvent:
    """A Warning Event of the controller that exists in the cluster."""

    name: str
    last_seen: float
    """Its lastTimestamp."""
    progress: str = ""
    """The cause that it shows, if it shows progress."""


def read_warning(raw: Mapping[str, Any]) -> WarningEvent | None:
    """Parses a Warning Event. Returns None for an Event of anybody else: the controller names its
    own `POOL.16 hex digits`.

    Anybody who may create Events in the namespace can write the controller's name into one.
    """
    event, pool = name(raw["metadata"]), name(raw["involvedObject"])
    if not re.fullmatch(re.escape(pool) + r"\.[0-9a-f]{16}", event):
        return None
    last_seen = seconds(raw.get("lastTimestamp") or raw.get("firstTimestamp"))
    progress = progress_cause(text(raw.get("reason")), text(raw.get("message"), 2 * _LONGEST_CAUSE))
    return WarningEvent(name=event, last_seen=last_seen, progress=progress)


def progress_cause(reason: str, message: str) -> str:
    """Returns the cause in the message of an Event that shows progress. Empty for other Events."""
    return message.partition(": ")[2][:_LONGEST_CAUSE] if reason == PROGRESS else ""


def next_count(raw: Mapping[str, Any]) -> int:
    """Returns the count of an Event that is seen once more."""
    count = raw.get("count")
    return min((count if isinstance(count, int) else 1) + 1, _MOST_EVENTS)
