"""Carries out actions, one API call each. The next pass decides again about failures."""

from __future__ import annotations

from typing import Any

from slicewright.apis.names import (
    API_VERSION,
    EVENTS_NAMESPACE,
    NAMESPACE,
    POOL_KIND,
    POOL_PLURAL,
    ROLLOUT_ANNOTATION,
)
from slicewright.fleet_controller.cluster.node_patches import PatchAction, json_pointer, node_patch
from slicewright.fleet_controller.cluster.observe import EVENT_SOURCE, Cluster
from slicewright.fleet_controller.cluster.proof_pod_body import proof_pod_body
from slicewright.fleet_controller.decision.actions import (
    Action,
    EmitEvent,
    EndUndo,
    RetractEvent,
    SetPoolStatus,
)
from slicewright.fleet_controller.membership.release import RemoveFinalizer
from slicewright.fleet_controller.nodes.pod_proof import CreateProofPod, DeleteProofPod
from slicewright.fleet_controller.nodes.watchdog import RestartOperand
from slicewright.fleet_controller.objects.bounds import stamp
from slicewright.fleet_controller.objects.warning_event import next_count
from slicewright.fleet_controller.rollout.change_actions import EvictPod
from slicewright.kubeapi import ApiError
from slicewright.kubeapi.client import path_of

_MAX_EVENT_MESSAGE = 1024


def execute(cluster: Cluster, action: Action) -> None:
    """Carries out an action and stores the answer in `cluster`, so that the next pass sees it.

    Raises ApiError or Unreachable.
    """
    match action:
        case CreateProofPod():
            _create_proof_pod(cluster, action)
        case DeleteProofPod():
            _delete_proof_pod(cluster, action)
        case EvictPod():
            _evict(cluster, action.namespace, action.pod, action.uid)
        case RestartOperand(restart=pod):
            _patch_node(cluster, action)
            if pod is not None:
                _evict(cluster, pod.namespace, pod.name, pod.uid)
        case SetPoolStatus():
            cluster.pools.put(_set_status(cluster, action))
        case EndUndo():
            cluster.pools.put(_end_undo(cluster, action))
        case RemoveFinalizer():
            # The answer is not stored: it may come after the news that the pool is gone.
            _remove_finalizer(cluster, action)
        case EmitEvent():
            _emit(cluster, action)
        case RetractEvent():
            cluster.client.delete(path_of("v1", "events", action.name, EVENTS_NAMESPACE))
        case _:
            _patch_node(cluster, action)


def _patch_node(cluster: Cluster, action: PatchAction) -> None:
    patch = node_patch(action)
    path = path_of("v1", "nodes", action.node)
    if patch.subresource:
        path = f"{path}/{patch.subresource}"
    cluster.nodes.put(cluster.client.patch(path, patch.body, kind=patch.kind))


def _create_proof_pod(cluster: Cluster, action: CreateProofPod) -> None:
    try:
        cluster.client.create(path_of("v1", "pods", namespace=NAMESPACE), proof_pod_body(action))
    except ApiError as e:
        if e.reason != "AlreadyExists":  # its predecessor is still being deleted
            raise


def _delete_proof_pod(cluster: Cluster, action: DeleteProofPod) -> None:
    try:
        cluster.client.delete(path_of("v1", "pods", action.pod, NAMESPACE))
    except ApiError as e:
        if e.status != 404:
            raise


def _evict(cluster: Cluster, namespace: str, pod: str, uid: str) -> None:
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": namespace},
        "deleteOptions": {"preconditions": {"uid": uid}},
    }
    path = path_of("v1", "pods", pod, namespace)
    cluster.client.create(f"{path}/eviction", eviction)


def _set_status(cluster: Cluster, action: SetPoolStatus) -> dict[str, Any]:
    path = path_of(API_VERSION, POOL_PLURAL, action.pool) + "/status"
    return cluster.client.patch(path, {"status": dict(action.status)}, kind="merge")


def _remove_finalizer(cluster: Cluster, action: RemoveFinalizer) -> None:
    patch = {
        "metadata": {
            "resourceVersion": action.version,
            "finalizers": list(action.finalizers) or None,
        }
    }
    cluster.client.patch(path_of(API_VERSION, POOL_PLURAL, action.pool), patch, kind="merge")


def _end_undo(cluster: Cluster, action: EndUndo) -> dict[str, Any]:
    annotation = f"/metadata/annotations/{json_pointer(ROLLOUT_ANNOTATION)}"
    patch = [
        {"op": "test", "path": annotation, "value": action.old_request},
        {"op": "replace", "path": annotation, "value": action.new_request}
        if action.new_request
        else {"op": "remove", "path": annotation},
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
