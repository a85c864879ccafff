"""The patch of a Node that carries out an action. Pure.

A patch that must not meet a changed node is conditional: on the resourceVersion, or on the values
that the decision rests on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from slicewright.apis.names import (
    CHANGE_ANNOTATION,
    CHANGED_ANNOTATION,
    DESIRED_ANNOTATION,
    JOINED_ANNOTATION,
    MIG_CONFIG_LABEL,
    MIG_STATE_LABEL,
    NODE_CONDITION,
    QUARANTINE_EFFECT,
    REPORTS_AFTER_ANNOTATION,
    SCHEDULER_START_ANNOTATION,
    STARTUP_TAINT,
    STARTUP_TAINT_KEY,
    STUCK_ANNOTATION,
    VERIFIED_BOOT_ANNOTATION,
    VERIFIED_LAYOUT_ANNOTATION,
)
from slicewright.fleet_controller.decision.actions import (
    AddStartupTaint,
    ClearReportsAfter,
    RecordBoot,
    RemoveStartupTaint,
    SetDesiredState,
    SetMigConfig,
    SetNodeCondition,
    TouchNode,
)
from slicewright.fleet_controller.membership.membership import JoinNode
from slicewright.fleet_controller.membership.release import ClearNodeCondition, ReleaseNode
from slicewright.fleet_controller.nodes.watchdog import RestartOperand
from slicewright.fleet_controller.objects.bounds import stamp
from slicewright.fleet_controller.pools.quarantine import EndQuarantine, QuarantineNode
from slicewright.fleet_controller.rollout.change_actions import (
    ApplyLayout,
    CordonNode,
    FinishChange,
    NoteChange,
    UpgradeDriver,
)

TaintAction: TypeAlias = AddStartupTaint | RemoveStartupTaint | QuarantineNode | EndQuarantine
ChangeNote: TypeAlias = CordonNode | NoteChange | UpgradeDriver | ApplyLayout | FinishChange
PatchAction: TypeAlias = (
    SetNodeCondition
    | ClearNodeCondition
    | RecordBoot
    | ClearReportsAfter
    | TouchNode
    | SetMigConfig
    | SetDesiredState
    | RestartOperand
    | JoinNode
    | ReleaseNode
    | TaintAction
    | ChangeNote
)


@dataclass(frozen=True, kw_only=True)
class NodePatch:
    body: dict[str, Any] | list[dict[str, Any]]
    kind: Literal["merge", "strategic", "json"] = "merge"
    subresource: str = ""
    """`status`, or empty for the Node itself."""


def node_patch(action: PatchAction) -> NodePatch:
    """Returns the patch that carries out the action on its node."""
    match action:
        case SetNodeCondition():
            return _set_condition(action)
        case ClearNodeCondition():
            condition = {"type": NODE_CONDITION, "$patch": "delete"}
            return _status_patch({"status": {"conditions": [condition]}})
        case RecordBoot():
            # Not conditional: if the node has booted again meanwhile, this is about the earlier
            # boot.
            return NodePatch(body={"metadata": {"annotations": _boot_notes(action)}})
        case ClearReportsAfter():
            return _annotate(action, {REPORTS_AFTER_ANNOTATION: None})
        case TouchNode(scheduler_start=started):
            return NodePatch(
                body={"metadata": {"annotations": {SCHEDULER_START_ANNOTATION: stamp(started)}}}
            )
        case SetMigConfig():
            return NodePatch(body={"metadata": _layout_metadata(action)})
        case SetDesiredState(desired_state_annotation=desired):
            # Not conditional: if the node has another layout meanwhile, its agent verifies the
            # wrong one, and the controller sees that by the hash in the report.
            return NodePatch(
                body={"metadata": {"annotations": {DESIRED_ANNOTATION: desired or None}}}
            )
        case RestartOperand(stuck=stuck):
            note = {STUCK_ANNOTATION: stuck.dump() if stuck else None}
            return _annotate(action, note, labels=dict(action.labels))
        case JoinNode():
            # Labels and the note about them in one patch: a label without a note would never be
            # removed.
            note = {JOINED_ANNOTATION: action.joined.dump()}
            return _annotate(action, note, labels=dict(action.labels))
        case ReleaseNode():
            return _release(action)
        case AddStartupTaint() | RemoveStartupTaint() | QuarantineNode() | EndQuarantine():
            return _taint_patch(action)
        case CordonNode() | NoteChange() | UpgradeDriver() | ApplyLayout() | FinishChange():
            return _change_patch(action)


def json_pointer(key: str) -> str:
    """Escapes a key as a part of a JSON pointer. Source: RFC 6901."""
    return key.replace("~", "~0").replace("/", "~1")


def _status_patch(body: dict[str, Any]) -> NodePatch:
    # A strategic merge patch merges conditions by type and leaves the kubelet's alone. A write of
    # the status takes the metadata along, and only the spec stays as it is. Source:
    # kubernetes/kubernetes, pkg/registry/core/node/strategy.go (nodeStatusStrategy).
    return NodePatch(body=body, kind="strategic", subresource="status")


def _annotate(
    action: ClearReportsAfter | RestartOperand | JoinNode | ChangeNote,
    annotations: dict[str, str | None],
    *,
    labels: dict[str, str | None] | dict[str, str] | None = None,
    spec: dict[str, Any] | None = None,
) -> NodePatch:
    """Returns a merge patch of an unchanged node."""
    metadata: dict[str, Any] = {"resourceVersion": action.version, "annotations": annotations}
    if labels is not None:
        metadata["labels"] = labels
    return NodePatch(body={"metadata": metadata} | ({"spec": spec} if spec else {}))


def _if_unchanged(
    action: AddStartupTaint | QuarantineNode | EndQuarantine | ReleaseNode,
    *operations: dict[str, Any],
) -> NodePatch:
    """Returns a JSON patch of a node that is unchanged since the decision."""
    same = {"op": "test", "path": "/metadata/resourceVersion", "value": action.version}
    return NodePatch(body=[same, *operations], kind="json")


def _set_condition(action: SetNodeCondition) -> NodePatch:
    condition = {
        "type": NODE_CONDITION,
        "status": action.status,
        "reason": action.reason,
        "message": action.message,
        "lastTransitionTime": stamp(action.changed),
        "lastHeartbeatTime": stamp(action.now),
    }
    metadata = _layout_metadata(action.layout) if action.layout else {}
    if action.boot:
        metadata["annotations"] = metadata.get("annotations", {}) | _boot_notes(action.boot)
    body: dict[str, Any] = {"status": {"conditions": [condition]}}
    if metadata:
        body["metadata"] = metadata
    return _status_patch(body)


def _boot_notes(action: RecordBoot) -> dict[str, str | None]:
    return {VERIFIED_BOOT_ANNOTATION: action.boot_id, VERIFIED_LAYOUT_ANNOTATION: action.layout}


def _layout_metadata(action: SetMigConfig) -> dict[str, Any]:
    """Returns the metadata that requests a layout of a node, in a merge patch of any kind.

    Conditional on the resourceVersion: mig-manager may have started since the decision.
    """
    return {
        "resourceVersion": action.version,
        "labels": {MIG_CONFIG_LABEL: action.value, MIG_STATE_LABEL: None},
        "annotations": _agent_notes(action),
    }


def _agent_notes(action: SetMigConfig | ApplyLayout) -> dict[str, str | None]:
    # One patch sets this and the label, so an agent never verifies one layout by the text of
    # another.
    return {
        DESIRED_ANNOTATION: action.desired_state_annotation or None,
        REPORTS_AFTER_ANNOTATION: _stamp_or_none(action.reports_after),
    }


def _stamp_or_none(at: float) -> str | None:
    return stamp(at) if at else None


def _taint_patch(action: TaintAction) -> NodePatch:
    match action:
        case AddStartupTaint(has_taints=True):
            return _if_unchanged(action, _append_taint(STARTUP_TAINT))
        case AddStartupTaint():
            taints = {"op": "add", "path": "/spec/taints", "value": [dict(STARTUP_TAINT)]}
            return _if_unchanged(action, taints)
        case QuarantineNode():
            return _if_unchanged(
                action, _append_taint({**STARTUP_TAINT, "effect": QUARANTINE_EFFECT})
            )
        case EndQuarantine(position=position):
            test, remove = _remove_taint(position, "effect", QUARANTINE_EFFECT)
            return _if_unchanged(action, test, remove)
        case RemoveStartupTaint(position=position):
            return NodePatch(
                body=[
                    *_layout_test(action.layout),
                    {"op": "test", "path": "/status/nodeInfo/bootID", "value": action.boot_id},
                    *_remove_taint(position, "key", STARTUP_TAINT_KEY),
                ],
                kind="json",
            )


def _append_taint(taint: Mapping[str, str]) -> dict[str, Any]:
    return {"op": "add", "path": "/spec/taints/-", "value": dict(taint)}


def _remove_taint(position: int, key: str, value: str) -> Sequence[dict[str, Any]]:
    """Returns the operations that remove the taint at `position` if its `key` is `value`."""
    taint = f"/spec/taints/{position}"
    test = {"op": "test", "path": f"{taint}/{key}", "value": value}
    return (test, {"op": "remove", "path": taint})


def _layout_test(layout: str | None) -> Sequence[dict[str, Any]]:
    if layout is None:
        return ()
    label = f"/metadata/labels/{json_pointer(MIG_CONFIG_LABEL)}"
    return ({"op": "test", "path": label, "value": layout},)


def _change_patch(action: ChangeNote) -> NodePatch:
    match action:
        case FinishChange():
            return _finish(action)
        case CordonNode(change=change):
            # Cordon and note in one patch: a cordon without a note would stay for good. The
            # version is tested, so that the cordon of somebody else is not taken for ours.
            spec = {"unschedulable": True}
            return _annotate(action, {CHANGE_ANNOTATION: change.dump()}, spec=spec)
        case NoteChange(change=change):
            return _annotate(action, {CHANGE_ANNOTATION: change.dump()})
        case UpgradeDriver(change=change):
            after = _stamp_or_none(action.reports_after)
            notes = {CHANGE_ANNOTATION: change.dump(), REPORTS_AFTER_ANNOTATION: after}
            return _annotate(action, notes)
        case ApplyLayout(change=change):
            notes = {CHANGE_ANNOTATION: change.dump(), **_agent_notes(action)}
            labels = {MIG_CONFIG_LABEL: change.target, MIG_STATE_LABEL: None}
            return _annotate(action, notes, labels=labels)


def _finish(action: FinishChange) -> NodePatch:
    notes: dict[str, str | None] = {CHANGE_ANNOTATION: None}
    if action.verified_at is not None:
        notes |= {CHANGED_ANNOTATION: stamp(action.verified_at), REPORTS_AFTER_ANNOTATION: None}
    return _annotate(action, notes, spec={"unschedulable": None} if action.uncordon else None)


def _release(action: ReleaseNode) -> NodePatch:
    # A JSON patch, because any other would replace all taints. The version is tested, so that
    # indexes and labels match the decision.
    labels: list[dict[str, Any]] = [
        {"op": "remove", "path": f"/metadata/labels/{json_pointer(key)}"}
        if value is None
        else {"op": "add", "path": f"/metadata/labels/{json_pointer(key)}", "value": value}
        for key, value in sorted(action.labels.items())
    ]
    return _if_unchanged(
        action,
        *labels,
        *({"op": "remove", "path": f"/spec/taints/{index}"} for index in action.taints),
        *(
            {"op": "remove", "path": f"/metadata/annotations/{json_pointer(key)}"}
            for key in action.annotations
        ),
    )
