"""The watchdog's note on a node that is stuck. Pure.

Labels and pods carry no time, so the note records it. The note is all that the controller knows of
its attempts, so another controller can go on at any moment, and none tries more often.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final, get_args

from slicewright.apis.reasons.troubles import TroubleName
from slicewright.fleet_controller.objects.bounds import (
    LONGEST_NAME,
    UNREADABLE,
    seconds,
    stamp,
    text,
)
from slicewright.fleet_controller.objects.node import Node

_MOST_COUNTED: Final = 1000
"""Most tries that a note can claim. The controller makes only a few."""


@dataclass(frozen=True, kw_only=True)
class Stuck:
    node_uid: str
    layout: str
    """The layout that the pool wants. For another layout, counting starts from zero."""
    trouble: TroubleName
    since: float
    """Start of the trouble, in whole seconds since the epoch, like all times here."""
    next: float
    """Time of the next try or message."""
    tries: int = 0
    """Number of tries, for any kind of trouble."""
    held_by: str = ""
    """The reason why the last try was not made."""

    def dump(self) -> str:
        note = {
            "nodeUid": self.node_uid,
            "layout": self.layout,
            "what": self.trouble,
            "since": stamp(self.since),
            "next": stamp(self.next),
            "tries": self.tries,
            **({"heldBy": self.held_by} if self.held_by else {}),
        }
        return json.dumps(note, separators=(",", ":"))


def stuck_of(node: Node) -> Stuck | None:
    """Parses the note. None also for the note of an earlier node of the name, or an invalid
    note.
    """
    if not node.stuck:
        return None
    try:
        raw: Any = json.loads(node.stuck)
        if raw["nodeUid"] != node.uid or raw["what"] not in get_args(TroubleName):
            return None
        return Stuck(
            node_uid=node.uid,
            layout=text(raw["layout"], LONGEST_NAME),
            trouble=raw["what"],
            since=seconds(raw["since"]),
            next=seconds(raw["next"]),
            tries=min(max(0, int(raw["tries"])), _MOST_COUNTED),
            held_by=text(raw.get("heldBy")),
        )
    except UNREADABLE:
        return None
