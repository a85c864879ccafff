"""The actions of a pass on nodes, pools and Events, apart from layout changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fleet_controller.membership.membership import JoinNode
from fleet_controller.membership.release import ClearNodeCondition, ReleaseNode, RemoveFinalizer
from fleet_controller.nodes.watchdog import RestartOperand
from fleet_controller.pools.quarantine import EndQuarantine, QuarantineNode
from fleet_controller.rollout.change_actions import ChangeAction


@dataclass(frozen=True, kw_only=True)
class RecordBoot:
    """Notes on a node the boot and the layout that were verified."""

    node: str
    boot_id: str
    layout: str | None
    """None if mig-manager does not partition it."""


@dataclass(frozen=True, kw_only=True)
class ClearReportsAfter:
    """Removes the note REPORTS_AFTER_ANNOTATION of a verified node: a report that counts exists,
    and every later layout or driver comes with a note of its own.
    """

    node: str
    version: str
    """Keeps a controller that no longer leads from removing the note of a later layout."""


@dataclass(frozen=True, kw_only=True)
class AddStartupTaint:
    """Puts the startup taint back on a node."""

    node: str
    version: str
    has_taints: bool
    why: str
    """The reason, for the log."""


@dataclass(frozen=True, kw_only=True)
class RemoveStartupTaint:
    node: str
    position: int
    """Index of the taint in spec.taints."""
    boot_id: str
    """The verified boot. The node may have booted again since the decision."""
    layout: str | None
    """The verified value of nvidia.com/mig.config, which somebody may have changed since. None if
    mig-manager does not partition the node.
    """


@dataclass(frozen=True, kw_only=True)
class SetMigConfig:
    """Sets nvidia.com/mig.config of a node that no pod can be on, and removes mig.config.state,
    which is about the old layout.
    """

    node: str
    version: str
    value: str
    desired_state_annotation: str = ""
    reports_after: float = 0.0
    """Like `told`, the same as in ApplyLayout."""


@dataclass(frozen=True, kw_only=True)
class SetDesiredState:
    """Writes the agent's desired state to a node that has the layout already."""

    node: str
    desired_state_annotation: str
    """The desired state, or empty if the agent's file applies."""


@dataclass(frozen=True, kw_only=True)
class SetNodeCondition:
    """Writes a node's condition, and by the same request all other changes but the taints. This
    saves two requests for every node that joins.
    """

    node: str
    status: str
    reason: str
    message: str
    changed: float
    """The lastTransitionTime."""
    now: float
    boot: RecordBoot | None = None
    layout: SetMigConfig | None = None
    """If set, the condition too is written only to an unchanged node."""


@dataclass(frozen=True, kw_only=True)
class SetPoolStatus:
    pool: str
    status: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class EndUndo:
    """Removes an undo that has ended from a pool's user request. If the stack file declares the
    same layout once more, that is a change like any other.
    """

    pool: str
    old_request: str
    """The annotation's earlier value: users may request something else meanwhile."""
    new_request: str
    """The annotation's value without the undo. Empty for no annotation."""


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
    | AddStartupTaint
    | RecordBoot
    | ClearReportsAfter
    | RemoveStartupTaint
    | SetMigConfig
    | SetDesiredState
    | ChangeAction
    | RestartOperand
    | QuarantineNode
    | EndQuarantine
    | JoinNode
    | ClearNodeCondition
    | ReleaseNode
    | SetPoolStatus
    | EndUndo
    | RemoveFinalizer
    | EmitEvent
    | RetractEvent
)
