"""What the watchdog notes on a node that is stuck. Pure.

Labels and pods carry no time, so the note says since when. It is all that the controller knows of
what it has tried, so that another one can go on at any moment, and no one tries more often.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final, get_args

from apis.reasons.troubles import What
from fleet_controller.objects.bounds import LONGEST_NAME, UNREADABLE, seconds, stamp, text
from fleet_controller.objects.state import Node

_MOST_COUNTED: Final = 1000
"""Tries that a note can claim. A few are made."""


@dataclass(frozen=True, kw_only=True)
class Stuck:
    node_uid: str
    layout: str
    """That the pool wants; another one is a new beginning."""
    what: What
    since: float
    """Seconds since the epoch, whole ones, as all times here."""
    next: float
    """When something is tried, or said."""
    tries: int = 0
    """How often something was tried, whatever the node was stuck in."""
    held_by: str = ""
    """What kept the last try from being made."""

    def dump(self) -> str:
        note = {
            "nodeUid": self.node_uid,
            "layout": self.layout,
            "what": self.what,
            "since": stamp(self.since),
            "next": stamp(self.next),
            "tries": self.tries,
            **({"heldBy": self.held_by} if self.held_by else {}),
        }
        return json.dumps(note, separators=(",", ":"))


def stuck_of(node: Node) -> Stuck | None:
    """None also for the note of an earlier node of the name, and for one that cannot be parsed."""
    if not node.stuck:
        return None
    try:
        raw: Any = json.loads(node.stuck)
        if raw["nodeUid"] != node.uid or raw["what"] not in get_args(What):
            return None
        return Stuck(
            node_uid=node.uid,
            layout=text(raw["layout"], LONGEST_NAME),
            what=raw["what"],
            since=seconds(raw["since"]),
            next=seconds(raw["next"]),
            tries=min(max(0, int(raw["tries"])), _MOST_COUNTED),
            held_by=text(raw.get("heldBy")),
        )
    except UNREADABLE:
        return None
