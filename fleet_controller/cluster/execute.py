"""Carries out actions, one API call each. The next pass decides again about failures."""

from __future__ import annotations

from typing import Any

from apis.names import (
    API_VERSION,
    CHANGE_ANNOTATION,
    CHANGED_ANNOTATION,
    DESIRED_ANNOTATION,
    EVENTS_NAMESPACE,
    JOINED_ANNOTATION,
    MIG_CONFIG_LABEL,
    MIG_STATE_LABEL,
    NODE_CONDITION,
    POOL_KIND,
    POOL_PLURAL,
    QUARANTINE_EFFECT,
    REPORTS_AFTER_ANNOTATION,
    ROLLOUT_ANNOTATION,
    STARTUP_TAINT,
    STARTUP_TAINT_KEY,
    STUCK_ANNOTATION,
    VERIFIED_BOOT_ANNOTATION,
    VERIFIED_LAYOUT_ANNOTATION,
)
from fleet_controller.cluster.observe import EVENT_SOURCE, Cluster
from fleet_controller.decision.actions import (
    Action,
    AddStartupTaint,
    ClearReportsAfter,
    EmitEvent,
    EndUndo,
    RecordBoot,
    RemoveStartupTaint,
    RetractEvent,
    SetDesiredState,
    SetMigConfig,
    SetNodeCondition,
    SetPoolStatus,
)
from fleet_controller.membership.membership import JoinNode
from fleet_controller.membership.release import ClearNodeCondition, ReleaseNode, RemoveFinalizer
from fleet_controller.nodes.watchdog import RestartOperand
from fleet_controller.objects.bounds import stamp
from fleet_controller.objects.state import next_count
from fleet_controller.pools.quarantine import EndQuarantine, QuarantineNode
from fleet_controller.rollout.change_actions import (
    ApplyLayout,
    CordonNode,
    EvictPod,
    FinishChange,
    NoteChange,
    UpgradeDriver,
)
from kubeapi import ApiError
from kubeapi.client import path_of

_MAX_EVENT_MESSAGE = 1024


def execute(cluster: Cluster, action: Action) -> None:
    """Carries out an action and stores the answer in `cluster`, so that the next pass sees it.

    Raises ApiError or Unreachable.
    """
    match action:
        case SetNodeCondition():
            cluster.nodes.put(_set_condition(cluster, action))
        case RemoveStartupTaint():
            cluster.nodes.put(_lift_taint(cluster, action))
        case AddStartupTaint():
            cluster.nodes.put(_hold(cluster, action))
        case RecordBoot():
            cluster.nodes.put(_record_boot(cluster, action))
        case ClearReportsAfter():
            cluster.nodes.put(_clear_reports_after(cluster, action))
        case SetMigConfig():
            cluster.nodes.put(_set_mig_config(cluster, action))
        case SetDesiredState():
            cluster.nodes.put(_tell(cluster, action))
        case CordonNode():
            cluster.nodes.put(_changed(cluster, action, {"spec": {"unschedulable": True}}))
        case NoteChange():
            cluster.nodes.put(_changed(cluster, action, {}))
        case UpgradeDriver():
            cluster.nodes.put(_upgrade(cluster, action))
        case ApplyLayout():
            cluster.nodes.put(_apply(cluster, action))
        case FinishChange():
            cluster.nodes.put(_finish(cluster, action))
        case RestartOperand(restart=restart):
            cluster.nodes.put(_heal(cluster, action))
            if restart is not None:
                _evict(cluster, restart.namespace, restart.name, restart.uid)
        case EvictPod():
            _evict(cluster, action.namespace, action.pod, action.uid)
        case QuarantineNode():
            cluster.nodes.put(_quarantine(cluster, action))
        case EndQuarantine():
            cluster.nodes.put(_end_quarantine(cluster, action))
        case JoinNode():
            cluster.nodes.put(_join(cluster, action))
        case ClearNodeCondition():
            cluster.nodes.put(_clear_condition(cluster, action))
        case ReleaseNode():
            cluster.nodes.put(_release(cluster, action))
        case RemoveFinalizer():
            # The answer is not kept: it may come after the news that the pool is gone.
            _let_go(cluster, action)
        case SetPoolStatus():
            path = path_of(API_VERSION, POOL_PLURAL, action.pool) + "/status"
            cluster.pools.put(
                cluster.client.patch(path, {"status": dict(action.status)}, kind="merge")
            )
        case EndUndo():
            cluster.pools.put(_end_undo(cluster, action))
        case EmitEvent():
            _emit(cluster, action)
        case RetractEvent():
            cluster.client.delete(path_of("v1", "events", action.name, EVENTS_NAMESPACE))


def subject(action: Action) -> str:
    """Returns the object that an action changes. After a failure, its other actions are skipped."""
    match action:
        case (
            SetNodeCondition(node=node)
            | RemoveStartupTaint(node=node)
            | AddStartupTaint(node=node)
            | RecordBoot(node=node)
            | ClearReportsAfter(node=node)
            | SetMigConfig(node=node)
            | SetDesiredState(node=node)
            | JoinNode(node=node)
            | CordonNode(node=node)
            | NoteChange(node=node)
            | UpgradeDriver(node=node)
            | ApplyLayout(node=node)
            | FinishChange(node=node)
            | RestartOperand(node=node)
            | QuarantineNode(node=node)
            | EndQuarantine(node=node)
            | ClearNodeCondition(node=node)
            | ReleaseNode(node=node)
        ):
            return f"node {node}"
        case SetPoolStatus(pool=pool) | EndUndo(pool=pool) | RemoveFinalizer(pool=pool):
            return f"pool {pool}"
        case EvictPod(namespace=namespace, pod=pod):
            return f"pod {namespace}/{pod}"
        case EmitEvent(name=name) | RetractEvent(name=name):
            return f"event {name}"


def _set_condition(cluster: Cluster, action: SetNodeCondition) -> dict[str, Any]:
    condition = {
        "type": NODE_CONDITION,
        "status": action.status,
        "reason": action.reason,
        "message": action.message,
        "lastTransitionTime": stamp(action.changed),
        "lastHeartbeatTime": stamp(action.now),
    }
    # A strategic merge patch merges conditions by type and leaves the kubelet's alone. A write of
    # the status takes the metadata along, and only the spec stays as it is. Source:
    # kubernetes/kubernetes, pkg/registry/core/node/strategy.go (nodeStatusStrategy).
    path = path_of("v1", "nodes", action.node) + "/status"
    metadata = _asking(action.layout) if action.layout else {}
    if action.boot:
        metadata["annotations"] = metadata.get("annotations", {}) | _boot_notes(action.boot)
    patch: dict[str, Any] = {"status": {"conditions": [condition]}}
    if metadata:
        patch["metadata"] = metadata
    return cluster.client.patch(path, patch, kind="strategic")


def _lift_taint(cluster: Cluster, action: RemoveStartupTaint) -> dict[str, Any]:
    at = f"/spec/taints/{action.position}"
    patch = [
        {"op": "test", "path": "/status/nodeInfo/bootID", "value": action.boot_id},
        {"op": "test", "path": f"{at}/key", "value": STARTUP_TAINT_KEY},
        {"op": "remove", "path": at},
    ]
    if action.layout is not None:
        label = f"/metadata/labels/{_escaped(MIG_CONFIG_LABEL)}"
        patch.insert(0, {"op": "test", "path": label, "value": action.layout})
    return cluster.client.patch(path_of("v1", "nodes", action.node), patch, kind="json")


def _hold(cluster: Cluster, action: AddStartupTaint) -> dict[str, Any]:
    add = (
        {"op": "add", "path": "/spec/taints/-", "value": dict(STARTUP_TAINT)}
        if action.has_taints
        else {"op": "add", "path": "/spec/taints", "value": [dict(STARTUP_TAINT)]}
    )
    return _if_unchanged(cluster, action, add)


def _quarantine(cluster: Cluster, action: QuarantineNode) -> dict[str, Any]:
    taint = {**STARTUP_TAINT, "effect": QUARANTINE_EFFECT}
    return _if_unchanged(cluster, action, {"op": "add", "path": "/spec/taints/-", "value": taint})


def _end_quarantine(cluster: Cluster, action: EndQuarantine) -> dict[str, Any]:
    at = f"/spec/taints/{action.position}"
    return _if_unchanged(
        cluster,
        action,
        {"op": "test", "path": f"{at}/effect", "value": QUARANTINE_EFFECT},
        {"op": "remove", "path": at},
    )


def _if_unchanged(
    cluster: Cluster,
    action: AddStartupTaint | QuarantineNode | EndQuarantine | ReleaseNode,
    *operations: dict[str, Any],
) -> dict[str, Any]:
    """Applies a JSON patch to a node, if the node is unchanged since the decision."""
    same = {"op": "test", "path": "/metadata/resourceVersion", "value": action.version}
    path = path_of("v1", "nodes", action.node)
    return cluster.client.patch(path, [same, *operations], kind="json")


def _record_boot(cluster: Cluster, action: RecordBoot) -> dict[str, Any]:
    # Not conditional: if the node has booted again meanwhile, this is about the earlier boot.
    patch = {"metadata": {"annotations": _boot_notes(action)}}
    return cluster.client.patch(path_of("v1", "nodes", action.node), patch, kind="merge")


def _boot_notes(action: RecordBoot) -> dict[str, str | None]:
    return {VERIFIED_BOOT_ANNOTATION: action.boot_id, VERIFIED_LAYOUT_ANNOTATION: action.layout}


def _clear_reports_after(cluster: Cluster, action: ClearReportsAfter) -> dict[str, Any]:
    notes = {REPORTS_AFTER_ANNOTATION: None}
    patch = {"metadata": {"resourceVersion": action.version, "annotations": notes}}
    return cluster.client.patch(path_of("v1", "nodes", action.node), patch, kind="merge")


def _set_mig_config(cluster: Cluster, action: SetMigConfig) -> dict[str, Any]:
    patch = {"metadata": _asking(action)}
    return cluster.client.patch(path_of("v1", "nodes", action.node), patch, kind="merge")


def _asking(action: SetMigConfig) -> dict[str, Any]:
    """Returns the metadata that requests a layout of a node, in a merge patch of any kind.

    Conditional on the resourceVersion: mig-manager may have started since the decision.
    """
    return {
        "resourceVersion": action.version,
        "labels": {MIG_CONFIG_LABEL: action.value, MIG_STATE_LABEL: None},
        "annotations": _for_agent(action),
    }


def _for_agent(action: SetMigConfig | ApplyLayout) -> dict[str, str | None]:
    # One patch sets this and the label, so an agent never proves one layout by the text of another.
    after = stamp(action.reports_after) if action.reports_after else None
    return {
        DESIRED_ANNOTATION: action.desired_state_annotation or None,
        REPORTS_AFTER_ANNOTATION: after,
    }


def _tell(cluster: Cluster, action: SetDesiredState) -> dict[str, Any]:
    # Not conditional: if the node has another layout meanwhile, its agent proves the wrong one, and
    # the controller sees that by the hash in the report.
    patch = {
        "metadata": {"annotations": {DESIRED_ANNOTATION: action.desired_state_annotation or None}}
    }
    return cluster.client.patch(path_of("v1", "nodes", action.node), patch, kind="merge")


def _changed(
    cluster: Cluster, action: CordonNode | NoteChange, also: dict[str, Any]
) -> dict[str, Any]:
    # Cordon and note in one patch: a cordon without a note would stay for good. The version is
    # tested, so that the cordon of somebody else is not taken for ours.
    notes = {CHANGE_ANNOTATION: action.change.dump()}
    patch = {"metadata": {"resourceVersion": action.version, "annotations": notes}, **also}
    return cluster.client.patch(path_of("v1", "nodes", action.node), patch, kind="merge")


def _upgrade(cluster: Cluster, action: UpgradeDriver) -> dict[str, Any]:
    after = stamp(action.reports_after) if action.reports_after else None
    notes = {CHANGE_ANNOTATION: action.change.dump(), REPORTS_AFTER_ANNOTATION: after}
    patch = {"metadata": {"resourceVersion": action.version, "annotations": notes}}
    return cluster.client.patch(path_of("v1", "nodes", action.node), patch, kind="merge")


def _apply(cluster: Cluster, action: ApplyLayout) -> dict[str, Any]:
    patch = {
        "metadata": {
            "resourceVersion": action.version,
            "annotations": {
                CHANGE_ANNOTATION: action.change.dump(),
                **_for_agent(action),
            },
            "labels": {MIG_CONFIG_LABEL: action.change.target, MIG_STATE_LABEL: None},
        }
    }
    return cluster.client.patch(path_of("v1", "nodes", action.node), patch, kind="merge")


def _finish(cluster: Cluster, action: FinishChange) -> dict[str, Any]:
    notes: dict[str, str | None] = {CHANGE_ANNOTATION: None}
    if action.verified_at is not None:
        notes |= {CHANGED_ANNOTATION: stamp(action.verified_at), REPORTS_AFTER_ANNOTATION: None}
    patch: dict[str, Any] = {"metadata": {"resourceVersion": action.version, "annotations": notes}}
    if action.uncordon:
        patch["spec"] = {"unschedulable": None}
    return cluster.client.patch(path_of("v1", "nodes", action.node), patch, kind="merge")


def _heal(cluster: Cluster, action: RestartOperand) -> dict[str, Any]:
    patch = {
        "metadata": {
            "resourceVersion": action.version,
            "annotations": {STUCK_ANNOTATION: action.stuck.dump() if action.stuck else None},
            "labels": dict(action.labels),
        }
    }
    return cluster.client.patch(path_of("v1", "nodes", action.node), patch, kind="merge")


def _evict(cluster: Cluster, namespace: str, pod: str, uid: str) -> None:
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": namespace},
        "deleteOptions": {"preconditions": {"uid": uid}},
    }
    path = path_of("v1", "pods", pod, namespace)
    cluster.client.create(f"{path}/eviction", eviction)


def _join(cluster: Cluster, action: JoinNode) -> dict[str, Any]:
    # Labels and the note about them in one patch: a label without a note would never be removed.
    patch = {
        "metadata": {
            "resourceVersion": action.version,
            "labels": dict(action.labels),
            "annotations": {JOINED_ANNOTATION: action.joined.dump()},
        }
    }
    return cluster.client.patch(path_of("v1", "nodes", action.node), patch, kind="merge")


def _clear_condition(cluster: Cluster, action: ClearNodeCondition) -> dict[str, Any]:
    path = path_of("v1", "nodes", action.node) + "/status"
    condition = {"type": NODE_CONDITION, "$patch": "delete"}
    return cluster.client.patch(path, {"status": {"conditions": [condition]}}, kind="strategic")


def _release(cluster: Cluster, action: ReleaseNode) -> dict[str, Any]:
    # A JSON patch, because any other would replace all taints. The version is tested, so that
    # indexes and labels match the decision.
    labels: list[dict[str, Any]] = [
        {"op": "remove", "path": f"/metadata/labels/{_escaped(key)}"}
        if value is None
        else {"op": "add", "path": f"/metadata/labels/{_escaped(key)}", "value": value}
        for key, value in sorted(action.labels.items())
    ]
    return _if_unchanged(
        cluster,
        action,
        *labels,
        *({"op": "remove", "path": f"/spec/taints/{index}"} for index in action.taints),
        *(
            {"op": "remove", "path": f"/metadata/annotations/{_escaped(key)}"}
            for key in action.annotations
        ),
    )


def _escaped(key: str) -> str:
    """Escapes a key as a part of a JSON pointer. Source: RFC 6901."""
    return key.replace("~", "~0").replace("/", "~1")


def _let_go(cluster: Cluster, action: RemoveFinalizer) -> None:
    patch = {
        "metadata": {
            "resourceVersion": action.version,
            "finalizers": list(action.finalizers) or None,
        }
    }
    cluster.client.patch(path_of(API_VERSION, POOL_PLURAL, action.pool), patch, kind="merge")


def _end_undo(cluster: Cluster, action: EndUndo) -> dict[str, Any]:
    at = f"/metadata/annotations/{_escaped(ROLLOUT_ANNOTATION)}"
    patch = [
        {"op": "test", "path": at, "value": action.old_request},
        {"op": "replace", "path": at, "value": action.new_request}
        if action.new_request
        else {"op": "remove", "path": at},
    ]
    return cluster.client.patch(path_of(API_VERSION, POOL_PLURAL, action.pool), patch, kind="json")


def _emit(cluster: Cluster, action: EmitEvent) -> None:
    events = path_of("v1", "events", namespace=EVENTS_NAMESPACE)
    now = stamp(action.now)
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": action.name, "namespace": EVENTS_NAMESPACE},
        "involvedObject": {
            "apiVersion": API_VERSION,
            "kind": POOL_KIND,
            "name": action.pool,
            "uid": action.pool_uid,
        },
        "type": "Warning",
        "reason": action.reason,
        "message": action.message[:_MAX_EVENT_MESSAGE],
        "source": {"component": EVENT_SOURCE},
        "reportingComponent": EVENT_SOURCE,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
    try:
        cluster.client.create(events, event)
    except ApiError as e:
        if e.reason != "AlreadyExists":
            raise
        old = cluster.client.get(f"{events}/{action.name}")
        again = {"lastTimestamp": now, "count": next_count(old)}
        cluster.client.patch(f"{events}/{action.name}", again, kind="merge")
