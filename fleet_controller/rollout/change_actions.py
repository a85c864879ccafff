"""What is done to a node and its pods in a change of the node's layout or driver. Every write of a
node is conditional on its version.
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
    """Asks a pod to leave; its disruption budget may refuse."""

    node: str
    namespace: str
    pod: str
    uid: str
    """A pod of the same name that was made since is left alone."""


@dataclass(frozen=True, kw_only=True)
class UpgradeDriver:
    """Notes that the node's driver pod is to be replaced, or has been, and that what its agent has
    reported so far is about the driver before.
    """

    node: str
    version: str
    change: Change
    reports_after: float
    """The time of the agent's latest report; 0: there is none."""


@dataclass(frozen=True, kw_only=True)
class ApplyLayout:
    """Sets nvidia.com/mig.config with the note about it, and removes mig.config.state."""

    node: str
    version: str
    change: Change
    told: str = ""
    """What the agent must find there in place of its file; empty: what the file says."""
    reports_after: float = 0.0
    """The time of the latest report of a match with this layout; 0: there is none."""


@dataclass(frozen=True, kw_only=True)
class FinishChange:
    """Removes the note, and the cordon where it is ours."""

    node: str
    version: str
    uncordon: bool
    proven_at: float | None = None
    """When what the change was to was verified; None where the node goes back as it is."""


ChangeAction = CordonNode | NoteChange | EvictPod | UpgradeDriver | ApplyLayout | FinishChange
