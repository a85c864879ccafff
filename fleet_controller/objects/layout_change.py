"""What the controller notes on a node while it changes its layout or its driver. Pure.

It is all that the controller knows of the change, so that another one can go on at any moment: the
note and the cordon are written by one request, and so are the note and the label of the new layout.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from fleet_controller.objects.bounds import LONGEST_NAME, UNREADABLE, reason, seconds, stamp, text
from fleet_controller.objects.state import Node

Phase = Literal["Draining", "Paused", "Upgrading", "Applying", "Failed"]
"""Draining: cordoned, its pods leave. Paused: cordoned, and left alone. Upgrading: its driver pod
is replaced. Applying: its label is set; mig-manager cuts, and the agent verifies. Failed: it stays
cordoned.
"""
UNDER_WAY: Final[frozenset[Phase]] = frozenset({"Upgrading", "Applying"})
"""Phases from which there is no way back."""


@dataclass(frozen=True, kw_only=True)
class Change:
    node_uid: str
    target: str
    """Value of nvidia.com/mig.config; empty where mig-manager does not partition the node."""
    phase: Phase
    since: float
    """When the phase began; seconds since the epoch, whole ones, as all times here."""
    started: float
    cordoned: bool
    """Whether we did it: the cordon of somebody else stays."""
    reason: str = ""
    message: str = ""
    """Why it has failed."""
    driver: str = ""
    """Version of the driver that the node is to have; empty: the rollout changes no driver."""
    driver_pod: str | None = None
    """Where the driver that is wanted may be the one before, as after an undo: uid of the pod that
    brings it, without which no report counts; empty: not seen yet. Else None.
    """

    def dump(self) -> str:
        said = {"reason": self.reason, "message": self.message} if self.reason else {}
        note = {
            "nodeUid": self.node_uid,
            "target": self.target,
            **({"driver": self.driver} if self.driver else {}),
            **({"driverPod": self.driver_pod} if self.driver_pod is not None else {}),
            "phase": self.phase,
            "since": stamp(self.since),
            "started": stamp(self.started),
            "cordoned": self.cordoned,
            **said,
        }
        return json.dumps(note, separators=(",", ":"))


def change_of(node: Node) -> Change | None:
    """None also for the note of an earlier node of the name, and for one that cannot be parsed."""
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
