"""Nodes that join together: of a large fleet, all become Ready before their DaemonSets' pods start.

Real nodes have processors of their own, and so become Ready at much the same time, however many
they are. Here a few processors make them one after another, and would meanwhile run the programs of
the first ones too: the last would be Ready a minute later, and a cloud's operation that makes their
node pool would end only then.
"""

from __future__ import annotations

import asyncio
from typing import Final

from slicewright.kubeapi import JsonObject

LIMIT_S: Final = 60.0
"""The others do not wait longer than that for a node that does not become Ready."""


class Joining:
    """For the event loop only."""

    def __init__(self, *, limit_s: float = LIMIT_S) -> None:
        self._limit_s = limit_s
        self._waits: dict[str, asyncio.TimerHandle] = {}
        """By uid of the node."""
        self.over = asyncio.Event()
        """Set while no node is joining."""
        self.over.set()

    def begin(self, node: JsonObject) -> None:
        """A node is seen for the first time. One that was Ready once does not join any more."""
        if _ready(node) is None:
            loop, uid = asyncio.get_running_loop(), node["metadata"]["uid"]
            self._waits[uid] = loop.call_later(self._limit_s, self.end, uid)
            self.over.clear()

    def see(self, node: JsonObject) -> None:
        if _ready(node) == "True":
            self.end(node["metadata"]["uid"])

    def end(self, uid: str) -> None:
        """The node is Ready, or gone."""
        if timer := self._waits.pop(uid, None):
            timer.cancel()
        if not self._waits:
            self.over.set()


def _ready(node: JsonObject) -> str | None:
    """Status of its condition Ready; None without it."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    return next((str(c["status"]) for c in conditions if c["type"] == "Ready"), None)
