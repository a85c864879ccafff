"""The actions on a node and its pods in a change of the node's layout or driver.

Every write of a node is conditional on its version.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slicewright.fleet_controller.objects.action import NodeAction
from slicewright.fleet_controller.objects.layout_change import Change


@dataclass(frozen=True, kw_only=True)
class CordonNode(NodeAction):
    """Cordons a node and notes why, in one request."""

    LOG_MESSAGE = "node cordoned"

    version: str
    change: Change

    @property
    def log_fields(self) -> Mapping[str, object]:
        driver = {"for_driver": self.change.driver} if self.change.driver else {}
        return {"node": self.node, "for_layout": self.change.target, **driver}


@dataclass(frozen=True, kw_only=True)
class NoteChange(NodeAction):
    """Writes another note about the change of a node."""

    LOG_MESSAGE = "phase of layout change set"

    version: str
    change: Change

    @property
    def log_fields(self) -> Mapping[str, object]:
        return {"node": self.node, "phase": self.change.phase, "reason": self.change.reason}


@dataclass(frozen=True, kw_only=True)
class EvictPod(NodeAction):
    """Asks a pod to leave. Its disruption budget may refuse."""

    LOG_MESSAGE = "pod evicted"

    namespace: str
    pod: str
    uid: str
    """The UID protects a pod of the same name that was created since."""

    @property
    def subject(self) -> str:
        return f"pod {self.namespace}/{self.pod}"

    @property
    def lane(self) -> str:
        return f"node {self.node}"

    @property
    def log_fields(self) -> Mapping[str, object]:
        return {"node": self.node, "pod": f"{self.namespace}/{self.pod}"}


@dataclass(frozen=True, kw_only=True)
class UpgradeDriver(NodeAction):
    """Notes that the node's driver pod is to be replaced, or has been, and that all reports so far
    are about the earlier driver.
    """

    LOG_MESSAGE = "driver upgrade noted"

    version: str
    change: Change
    reports_after: float
    """Time of the agent's latest report, or 0."""

    @property
    def log_fields(self) -> Mapping[str, object]:
        return {"node": self.node, "driver": self.change.driver}


@dataclass(frozen=True, kw_only=True)
class ApplyLayout(NodeAction):
    """Sets nvidia.com/mig.config with the note about it, and removes mig.config.state."""

    LOG_MESSAGE = "layout requested"

    version: str
    change: Change
    desired_state_annotation: str = ""
    """The desired state that the agent reads instead of its file. Empty if the file applies."""
    reports_after: float = 0.0
    """Time of the latest report of a match with this layout, or 0."""

    @property
    def log_fields(self) -> Mapping[str, object]:
        return {"node": self.node, "mig_config": self.change.target}


@dataclass(frozen=True, kw_only=True)
class FinishChange(NodeAction):
    """Removes the note, and the cordon if the controller set it."""

    LOG_MESSAGE = "layout change ended"

    version: str
    uncordon: bool
    verified_at: float | None = None
    """Time when the change was verified, or None if the node goes back unchanged."""

    @property
    def log_fields(self) -> Mapping[str, object]:
        return {"node": self.node, "uncordoned": self.uncordon}


ChangeAction = CordonNode | NoteChange | EvictPod | UpgradeDriver | ApplyLayout | FinishChange
