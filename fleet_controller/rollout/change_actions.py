"""The actions on a node and its pods in a change of the node's layout or driver.

Every write of a node is conditional on its version.
"""

from __future__ import annotations

from dataclasses import dataclass

from fleet_controller.objects.layout_change import Change


@dataclass(frozen=True, kw_only=True)
class CordonNode:
    """Cordons a node and notes why, in one request."""

    node: str
    version: str
    change: Change


@dataclass(frozen=True, kw_only=True)
class NoteChange:
    """Writes another note about the change of a node."""

    node: str
    version: str
    change: Change


@dataclass(frozen=True, kw_only=True)
class EvictPod:
    """Asks a pod to leave. Its disruption budget may refuse."""

    node: str
    namespace: str
    pod: str
    uid: str
    """The UID protects a pod of the same name that was made since."""


@dataclass(frozen=True, kw_only=True)
class UpgradeDriver:
    """Notes that the node's driver pod is to be replaced, or has been, and that all reports so far
    are about the earlier driver.
    """

    node: str
    version: str
    change: Change
    reports_after: float
    """Time of the agent's latest report, or 0."""


@dataclass(frozen=True, kw_only=True)
class ApplyLayout:
    """Sets nvidia.com/mig.config with the note about it, and removes mig.config.state."""

    node: str
    version: str
    change: Change
    desired_state_annotation: str = ""
    """The desired state that the agent reads instead of its file. Empty if the file applies."""
    reports_after: float = 0.0
    """Time of the latest report of a match with this layout, or 0."""


@dataclass(frozen=True, kw_only=True)
class FinishChange:
    """Removes the note, and the cordon if the controller set it."""

    node: str
    version: str
    uncordon: bool
    verified_at: float | None = None
    """Time when the change was verified, or None if the node goes back unchanged."""


ChangeAction = CordonNode | NoteChange | EvictPod | UpgradeDriver | ApplyLayout | FinishChange
