"""What a pass of the controller may do to nodes, pools and Events; layout changes aside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fleet_controller.membership.membership import JoinNode
from fleet_controller.membership.release import ClearNodeCondition, LetPoolGo, ReleaseNode
from fleet_controller.nodes.watchdog import HealNode
from fleet_controller.pools.quarantine import EndQuarantine, QuarantineNode
from fleet_controller.rollout.change_actions import ChangeAction


@dataclass(frozen=True, kw_only=True)
class RecordBoot:
    """Notes on a node in which boot it was verified, and with which layout."""

    node: str
    boot_id: str
    layout: str | None
    """None where mig-manager does not partition it."""


@dataclass(frozen=True, kw_only=True)
class ClearReportsAfter:
    """Removes the note REPORTS_AFTER_ANNOTATION of a verified node: a report that counts is there,
    and every later layout or driver comes with a note of its own.
    """

    node: str
    version: str
    """A controller that no longer leads must not remove the note of a later layout."""


@dataclass(frozen=True, kw_only=True)
class HoldNode:
    """Puts the startup taint back on a node."""

    node: str
    version: str
    has_taints: bool
    why: str
    """For the log."""


@dataclass(frozen=True, kw_only=True)
class LiftTaint:
    node: str
    position: int
    """Index of the taint in spec.taints."""
    boot_id: str
    """The boot that was verified: the node may have booted again since the decision."""
    layout: str | None
    """The value of nvidia.com/mig.config with which it was verified, and which somebody may have
    changed since; None where mig-manager does not partition it.
    """


@dataclass(frozen=True, kw_only=True)
class SetMigConfig:
    """Sets nvidia.com/mig.config of a node that no pod can be on, and removes mig.config.state,
    which is about the old layout.
    """

    node: str
    version: str
    value: str
    told: str = ""
    reports_after: float = 0.0
    """Both as in ApplyLayout."""


@dataclass(frozen=True, kw_only=True)
class TellAgent:
    """Writes what the agent of a node must find there, where the node has its layout already."""

    node: str
    told: str
    """Empty: what its file says."""


@dataclass(frozen=True, kw_only=True)
class SetNodeCondition:
    """Writes a node's condition and, by the same request, what else there is to write but its
    taints: of every node that joins, that is two requests less.
    """

    node: str
    status: str
    reason: str
    message: str
    changed: float
    """lastTransitionTime."""
    now: float
    boot: RecordBoot | None = None
    layout: SetMigConfig | None = None
    """With it, the condition too is written only to a node that is as it was."""


@dataclass(frozen=True, kw_only=True)
class SetPoolStatus:
    pool: str
    status: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class EndUndo:
    """Takes an undo that has ended out of what people ask of a pool: should its stack file declare
    the same layout once more, that is a change like any other.
    """

    pool: str
    asked: str
    """The annotation as it was: people may ask something else meanwhile."""
    left: str
    """What it says without the undo; empty for no annotation."""


@dataclass(frozen=True, kw_only=True)
class EmitEvent:
    """Creates or renews a Warning Event on a pool. Its name is derived from its content."""

    name: str
    pool: str
    pool_uid: str
    reason: str
    message: str
    now: float


@dataclass(frozen=True, kw_only=True)
class RetractEvent:
    """Deletes a warning that is no longer true: `pulumi up` also shows old events."""

    name: str


Action = (
    SetNodeCondition
    | HoldNode
    | RecordBoot
    | ClearReportsAfter
    | LiftTaint
    | SetMigConfig
    | TellAgent
    | ChangeAction
    | HealNode
    | QuarantineNode
    | EndQuarantine
    | JoinNode
    | ClearNodeCondition
    | ReleaseNode
    | SetPoolStatus
    | EndUndo
    | LetPoolGo
    | EmitEvent
    | RetractEvent
)
