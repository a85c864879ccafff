"""The note that tells a held node's agent of the pods with GPUs."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from slicewright.apis.names import GPU_PODS_ANNOTATION, NAMESPACE, STARTUP_TAINT
from slicewright.fleet_controller.cluster.bound_pods import BoundPods
from slicewright.fleet_controller.cluster.node_patches import node_patch
from slicewright.fleet_controller.decision.actions import AddStartupTaint, NoteGpuPods
from slicewright.kubeapi import Event

POINTER = "/metadata/annotations/slicewright.io~1gpu-pods"


def _pod(
    name: str, node: str, namespace: str = "ai", gpus: str = "1", version: str = "1"
) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": name, "resourceVersion": version},
        "spec": {
            "nodeName": node,
            "containers": [{"resources": {"requests": {"nvidia.com/mig-1g.5gb": gpus}}}],
        },
    }


def test_pods_with_gpus_are_counted_by_node_without_the_projects_own() -> None:
    bound = BoundPods(threading.Event())
    for pod in (
        _pod("a", "n1"),
        _pod("b", "n1"),
        _pod("c", "n2", gpus="0"),
        _pod("d", "n3", namespace=NAMESPACE),
    ):
        bound._apply(Event("ADDED", pod))
    assert bound.with_gpus() == {"n1": 2}


def test_the_count_follows_pods_that_change_and_go() -> None:
    bound = BoundPods(threading.Event())
    bound._apply(Event("ADDED", _pod("a", "n1")))
    bound._apply(Event("ADDED", _pod("b", "n1")))
    bound._apply(Event("MODIFIED", _pod("b", "n1", gpus="0", version="2")))
    assert bound.with_gpus() == {"n1": 1}
    bound._apply(Event("DELETED", _pod("a", "n1", version="3")))
    assert bound.with_gpus() == {}


@pytest.mark.parametrize(
    ("has_annotations", "note"),
    [
        (True, {"op": "add", "path": POINTER, "value": "2"}),
        (
            False,
            {"op": "add", "path": "/metadata/annotations", "value": {GPU_PODS_ANNOTATION: "2"}},
        ),
    ],
)
@pytest.mark.parametrize("has_taints", [True, False])
def test_the_note_comes_in_the_patch_of_the_taint(
    has_taints: bool, has_annotations: bool, note: dict[str, Any]
) -> None:
    action = AddStartupTaint(
        node="n1",
        version="7",
        has_taints=has_taints,
        why="not Ready",
        gpu_pods=2,
        has_annotations=has_annotations,
    )
    patch = node_patch(action)
    assert isinstance(patch.body, list)
    test, taint, last = patch.body
    assert test == {"op": "test", "path": "/metadata/resourceVersion", "value": "7"}
    assert taint["value"] in (dict(STARTUP_TAINT), [dict(STARTUP_TAINT)])
    assert last == note


@pytest.mark.parametrize(("count", "value"), [(3, "3"), (0, None)])
def test_the_note_is_corrected_by_a_patch_of_its_own(count: int, value: str | None) -> None:
    patch = node_patch(NoteGpuPods(node="n1", gpu_pods=count))
    assert patch.body == {"metadata": {"annotations": {GPU_PODS_ANNOTATION: value}}}
    assert (patch.kind, patch.subresource) == ("merge", "")
