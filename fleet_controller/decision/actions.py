"""The actions of a pass on nodes, pools and Events, apart from layout changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slicewright.fleet_controller.membership.membership import JoinNode
from slicewright.fleet_controller.membership.release import (
    ClearNodeCondition,
    ReleaseNode,
    RemoveFinalizer,
)
from slicewright.fleet_controller.nodes.pod_proof import PodProofAction
from slicewright.fleet_controller.nodes.watchdog import RestartOperand
from slicewright.fleet_controller.objects.action import EventAction, NodeAction, PoolAction
from slicewright.fleet_controller.objects.warning_event import WarningEvent, progress_cause
from slicewright.fleet_controller.pools.quarantine import EndQuarantine, QuarantineNode
from slicewright.fleet_controller.rollout.change_actions import ChangeAction


@dataclass(frozen=True, kw_only=True)
class RecordBoot(NodeAction):
    """Notes on a node the boot and the layout that were verified."""

    LOG_MESSAGE = "verified boot recorded"

    boot_id: str
    layout: str | None
    """None if mig-manager does not partition it."""

    @property
    def log_fields(self) -> Mapping[str, object]:
        return {"node": self.node, "boot_id": self.boot_id, "layout": self.layout}


@dataclass(frozen=True, kw_only=True)
class ClearReportsAfter(NodeAction):
    """Removes the note REPORTS_AFTER_ANNOTATION of a verified node: a report that counts exists,
    and every later layout or driver comes with a note of its own.
    """

    LOG_MESSAGE = "age limit of reports removed"

    version: str
    """Keeps a controller that no longer leads from removing the note of a later layout."""


@dataclass(frozen=True, kw_only=True)
class TouchNode(NodeAction):
    """Changes a node, so that the scheduler of an engine for fractions learns its cards."""

    LOG_MESSAGE = "node shown to the scheduler of shares"

    scheduler_start: float
    """The start of the scheduler, in seconds since the epoch."""


@dataclass(frozen=True, kw_only=True)
class AddStartupTaint(NodeAction):
    """Puts the startup taint back on a node."""

    LOG_MESSAGE = "startup taint added"

    version: str
    has_taints: bool
    why: str
    """The reason, for the log."""
    gpu_pods: int = 0
    """Pods with GPUs on the node, as in NoteGpuPods. Their note comes with the taint, so that the
    agent never takes the node for an empty one.
    """
    has_annotations: bool = True

    @property
    def log_fields(self) -> Mapping[str, object]:
        return {"node": self.node, "why": self.why}


@dataclass(frozen=True, kw_only=True)
class NoteGpuPods(NodeAction):
    """Notes on a held node that pods request its GPUs, or removes the note. The node's agent
    computes on no GPU that a pod may use.
    """

    LOG_MESSAGE = "pods with GPUs noted"

    gpu_pods: int
    """Number of pods. 0 removes the note."""

    @property
    def log_fields(self) -> Mapping[str, object]:
        return {"node": self.node, "gpu_pods": self.gpu_pods}


@dataclass(frozen=True, kw_only=True)
class RemoveStartupTaint(NodeAction):
    """Releases a verified node."""

    LOG_MESSAGE = "startup taint removed"

    position: int
    """Index of the taint in spec.taints."""
    boot_id: str
    """The verified boot. The node may have booted again since the decision."""
    layout: str | None
    """The verified value of nvidia.com/mig.config, which somebody may have changed since. None if
    mig-manager does not partition the node.
    """


@dataclass(frozen=True, kw_only=True)
class SetMigConfig(NodeAction):
    """Sets nvidia.com/mig.config of a node that no pod can be on, and removes mig.config.state,
    which is about the old layout.
    """

    LOG_MESSAGE = "layout requested"

    version: str
    value: str
    desired_state_annotation: str = ""
    reports_after: float = 0.0
    """Like `desired_state_annotation`, the same as in ApplyLayout."""

    @property
    def log_fields(self) -> Mapping[str, object]:
        return {"node": self.node, "mig_config": self.value}


@dataclass(frozen=True, kw_only=True)
class SetDesiredState(NodeAction):
    """Writes the agent's desired state to a node that has the layout already."""

    LOG_MESSAGE = "desired state set"

    desired_state_annotation: str
    """The desired state, or empty if the agent's file applies."""

    @property
    def log_fields(self) -> Mapping[str, object]:
        source = "annotation" if self.desired_state_annotation else "file of the agent"
        return {"node": self.node, "source": source}


@dataclass(frozen=True, kw_only=True)
class SetNodeCondition(NodeAction):
    """Writes a node's condition, and by the same request all other changes but the taints. This
    saves two requests for every node that joins.
    """

    LOG_MESSAGE = "node condition set"

    status: str
    reason: str
    message: str
    changed: float
    """The lastTransitionTime."""
    now: float
    boot: RecordBoot | None = None
    layout: SetMigConfig | None = None
    """If set, the condition too is written only to an unchanged node."""

    @property
    def log_fields(self) -> Mapping[str, object]:
        return {
            "node": self.node,
            "status": self.status,
            "reason": self.reason,
            "message": self.message,
        }

    @property
    def included(self) -> tuple[NodeAction, ...]:
        return tuple(action for action in (self.layout, self.boot) if action)


@dataclass(frozen=True, kw_only=True)
class SetPoolStatus(PoolAction):
    LOG_MESSAGE = "pool status set"

    status: Mapping[str, Any]

    @property
    def log_fields(self) -> Mapping[str, object]:
        condition, nodes = self.status["conditions"][0], self.status["nodes"]
        return {
            "pool": self.pool,
            "verified": condition["status"],
            "reason": condition["reason"],
            "verified_nodes": f"{nodes['verified']} of {nodes['total']}",
        }


@dataclass(frozen=True, kw_only=True)
class EndUndo(PoolAction):
    """Removes an undo that has ended from a pool's user request. If the stack file declares the
    same layout once more, that is a change like any other.
    """

    LOG_MESSAGE = "undo ended"

    old_request: str
    """The annotation's earlier value: users may request something else meanwhile."""
    new_request: str
    """The annotation's value without the undo. Empty for no annotation."""

    @property
    def log_fields(self) -> Mapping[str, object]:
        return {"pool": self.pool, "request": self.old_request}


@dataclass(frozen=True, kw_only=True)
class EmitEvent(EventAction):
    """Creates or renews a Warning Event on a pool. Its name is derived from its content."""

    LOG_MESSAGE = "warning event written"

    pool: str
    pool_uid: str
    reason: str
    message: str
    now: float

    @property
    def log_fields(self) -> Mapping[str, object]:
        return {"pool": self.pool, "reason": self.reason, "message": self.message}

    @property
    def written(self) -> WarningEvent:
        """The Event in the cluster after this action."""
        progress = progress_cause(self.reason, self.message)
        return WarningEvent(name=self.name, last_seen=self.now, progress=progress)


@dataclass(frozen=True, kw_only=True)
class RetractEvent(EventAction):
    """Deletes a warning that is no longer true: `pulumi up` also shows old events."""

    LOG_MESSAGE = "warning event deleted"


Action = (
    SetNodeCondition
    | AddStartupTaint
    | NoteGpuPods
    | PodProofAction
    | RecordBoot
    | ClearReportsAfter
    | TouchNode
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
