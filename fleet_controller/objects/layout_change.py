"""The controller's note on a node while it changes the node's layout or driver. Pure.

The note is all that the controller knows of the change, so another controller can go on at any
moment: one request writes the note and the cordon, and one writes the note and the label of the new
layout.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from slicewright.fleet_controller.objects.bounds import (
    LONGEST_NAME,
    UNREADABLE,
    reason,
    seconds,
    stamp,
    text,
)
from slicewright.fleet_controller.objects.node import Node

Phase = Literal["Draining", "Paused", "Upgrading", "Applying", "Failed"]
"""Draining: cordoned, and its pods leave. Paused: cordoned, and left alone. Upgrading: its driver
pod is replaced. Applying: its label is set, mig-manager partitions, and the agent verifies. Failed:
it stays cordoned.
"""
UNDER_WAY: Final[frozenset[Phase]] = frozenset({"Upgrading", "Applying"})
"""Phases that cannot be undone."""


@dataclass(frozen=True, kw_only=True)
class Change:
    node_uid: str
    target: str
    """Value of nvidia.com/mig.config. Empty if mig-manager does not partition the node."""
    phase: Phase
    since: float
    """Start of the phase, in whole seconds since the epoch, like all times here."""
    started: float
    cordoned: bool
    """True if the controller cordoned the node. A cordon that somebody else set stays."""
    reason: str = ""
    message: str = ""
    """Why the change has failed."""
    driver: str = ""
    """Version of the driver that the node is to get. Empty if the rollout changes no driver."""
    driver_pod: str | None = None
    """UID of the pod that brings the wanted driver, without which no report counts. Empty if not
    seen yet.

    It is set if the wanted driver may equal the earlier driver, as after an undo, and None
    otherwise.
    """

    def dump(self) -> str:
        failure = {"reason": self.reason, "message": self.message} if self.reason else {}
        note = {
            "nodeUid": self.node_uid,
            "target": self.target,
            **({"driver": self.driver} if self.driver else {}),
            **({"driverPod": self.driver_pod} if self.driver_pod is not None else {}),
            "phase": self.phase,
            "since": stamp(self.since),
            "started": stamp(self.started),
            "cordoned": self.cordoned,
            **failure,
        }
        return json.dumps(note, separators=(",", ":"))


def change_of(node: Node) -> Change | None:
    """Parses the note. None also for the note of an earlier node of the name, or an invalid
    note.
    """
    if not node.change:
        return None
    try:
        raw: Any = json.loads(node.change)
        if raw["nodeUid"] != node.uid or raw["phase"] not in get_args(Phase):
            return None
        return Change(
            node_uid=node.uid,
            target=text(raw["target"], LONGEST_NAME),
            phase=raw["phase"],
            since=seconds(raw["since"]),
            started=seconds(raw["started"]),
            cordoned=raw["cordoned"] is True,
            reason=reason(raw.get("reason")),
            message=text(raw.get("message")),
            driver=text(raw.get("driver"), LONGEST_NAME),
            driver_pod=text(raw["driverPod"], LONGEST_NAME) if "driverPod" in raw else None,
        )
    except UNREADABLE:
        return None
