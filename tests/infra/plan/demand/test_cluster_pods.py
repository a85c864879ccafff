"""The demand of a cluster: its pods by owner and device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slicewright.infra.plan.demand.cluster_pods import classes_of_cluster

SMALL, LARGE, GPU = "nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb", "nvidia.com/gpu"


def pod(
    owner: str, kind: str = "ReplicaSet", *, namespace: str = "ai", **devices: Any
) -> dict[str, Any]:
    owners = [{"kind": kind, "name": owner, "controller": True}] if owner else []
    labels = {"pod-template-hash": "77f"}
    return {
        "metadata": {"namespace": namespace, "ownerReferences": owners, "labels": labels},
        "spec": {"containers": [container(devices.pop("limits", {}))], **devices},
    }


def container(limits: Mapping[str, str], **more: Any) -> dict[str, Any]:
    return {"resources": {"limits": dict(limits)}, **more}


def test_pods_of_one_owner_and_device_are_one_class() -> None:
    pods = [
        *[pod("chat-77f", limits={LARGE: "2", "cpu": "1"})] * 3,
        pod("train", "Job", limits={GPU: "8"}),
        *[pod("", limits={SMALL: "1"})] * 2,
        pod("", limits={SMALL: "1"}, namespace="web"),
        pod("both", "StatefulSet", limits={SMALL: "1", LARGE: "1"}),
        pod("plain-77f", limits={"cpu": "1"}),
    ]
    assert classes_of_cluster(pods) == [
        {"name": "ai-both-1g-10gb", "replicas": 1, "profiles": ["1g.10gb"]},
        {"name": "ai-both-3g-40gb", "replicas": 1, "profiles": ["3g.40gb"]},
        {"name": "ai-chat", "replicas": 6, "profiles": ["3g.40gb"]},
        {"name": "ai-pods", "replicas": 2, "profiles": ["1g.10gb"]},
        {"name": "ai-train", "replicas": 1, "gpus": 8},
        {"name": "web-pods", "replicas": 1, "profiles": ["1g.10gb"]},
    ]


def test_owners_and_pods_that_differ_have_classes_with_different_names() -> None:
    """A rollout to larger partitions, pods with two numbers of GPUs, and names that are alike."""
    pods = [
        pod("chat-77f", limits={SMALL: "1"}),
        pod("chat-77f", limits={LARGE: "1"}),
        pod("a.b", "StatefulSet", limits={GPU: "1"}),
        pod("a-b", "StatefulSet", limits={GPU: "2"}),
    ]
    classes = classes_of_cluster(pods)
    assert [(c["name"], c["replicas"], c.get("gpus")) for c in classes] == [
        ("ai-a-b", 1, 1),
        ("ai-a-b-2", 1, 2),
        ("ai-chat", 1, None),
        ("ai-chat-2", 1, None),
    ]


def test_pods_of_nodes_ending_pods_and_proof_pods_are_no_demand() -> None:
    ending = pod("chat-77f", limits={LARGE: "1"})
    ending["metadata"]["deletionTimestamp"] = "2026-11-29T00:00:00Z"
    pods = [
        ending,
        pod("exporter", "DaemonSet", limits={GPU: "1"}),
        pod("node-1", "Node", limits={GPU: "1"}),
        pod("", limits={LARGE: "1"}, namespace="slicewright-system"),
    ]
    assert classes_of_cluster(pods) == []


def test_init_containers_count_as_the_scheduler_counts_them() -> None:
    """The larger of a start and the run; those that restart always are part of the run."""
    start = container({GPU: "4"})
    sidecar = container({GPU: "1"}, restartPolicy="Always")
    init = pod("a", "Job", limits={GPU: "2"}, initContainers=[start])
    beside = pod("b", "Job", limits={GPU: "2"}, initContainers=[sidecar, container({GPU: "1"})])
    assert [c["gpus"] for c in classes_of_cluster([init, beside])] == [4, 3]


def test_partitions_of_gke_are_named_by_the_node_selector() -> None:
    selector = {"cloud.google.com/gke-gpu-partition-size": "1g.10gb"}
    pods = [pod("chat-77f", limits={GPU: "1"}, nodeSelector=selector)]
    assert classes_of_cluster(pods) == [{"name": "ai-chat", "replicas": 1, "profiles": ["1g.10gb"]}]
