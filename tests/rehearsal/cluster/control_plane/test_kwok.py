"""What kwok does: it keeps nodes Ready, simulates pods without a process, and nothing else."""

from __future__ import annotations

import copy
import itertools
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from slicewright.kubeapi import ApiError, Client, JsonObject
from slicewright.rehearsal.cluster import control_plane
from slicewright.rehearsal.cluster.control_plane.process_images import runs_as_process
from slicewright.rehearsal.host import processes
from slicewright.rehearsal.host.toolchain import Toolchain

Until = Callable[..., None]
Cluster = Any
"""conftest's, which cannot be imported."""
ORDINARY = "docker.io/library/busybox:1"
NODES = "/api/v1/nodes"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"

STATUS: JsonObject = {
    "capacity": {"cpu": "8", "memory": "32Gi", "pods": "110", "nvidia.com/gpu": "8"},
    "allocatable": {"cpu": "7", "memory": "30Gi", "pods": "110", "nvidia.com/gpu": "8"},
    "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
    "daemonEndpoints": {"kubeletEndpoint": {"Port": 4321}},
    "nodeInfo": {
        "architecture": "amd64",
        "bootID": "b",
        "containerRuntimeVersion": "containerd://2.1",
        "kernelVersion": "6.6",
        "kubeProxyVersion": "",
        "kubeletVersion": "v1.36.2",
        "machineID": "m",
        "operatingSystem": "linux",
        "osImage": "Simulated",
        "systemUUID": "s",
    },
    "conditions": [
        {
            "type": "slicewright.io/GPUPartitionsReady",
            "status": "False",
            "reason": "Unknown",
            "message": "m",
        }
    ],
}


def make_node(admin: Client, name: str, *, managed: bool = True) -> JsonObject:
    annotations = {"kwok.x-k8s.io/node": "fake"} if managed else {}
    labels = {"kubernetes.io/hostname": name}
    body = {
        "metadata": {"name": name, "annotations": annotations, "labels": labels},
        "status": copy.deepcopy(STATUS),
    }
    return admin.create(NODES, body)


def conditions(thing: JsonObject) -> dict[str, str]:
    return {c["type"]: c["status"] for c in thing["status"].get("conditions", ())}


def pod(name: str, node: str | None, image: str = ORDINARY, **spec: Any) -> JsonObject:
    """On a node when one is named, else left to the scheduler."""
    containers = [{"name": "main", "image": image}]
    placed = {"nodeName": node} if node else {}
    return {
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": containers, **placed, **spec},
    }


@pytest.fixture(scope="module")
def admin(cluster: Cluster) -> Client:
    client: Client = cluster.admin
    return client


@pytest.fixture(scope="module")
def node(admin: Client, until: Until) -> Iterator[str]:
    make_node(admin, "steady")
    until(lambda: conditions(admin.get(f"{NODES}/steady")).get("Ready") == "True")
    yield "steady"
    admin.delete(f"{NODES}/steady")


@pytest.fixture
def pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


@pytest.fixture
def is_ready(admin: Client, pods: str) -> Callable[[str], bool]:
    def ready(name: str) -> bool:
        found = admin.get(f"{pods}/{name}")
        return (
            found["status"].get("phase") == "Running" and conditions(found).get("Ready") == "True"
        )

    return ready


def gone(admin: Client, path: str) -> bool:
    try:
        admin.get(path)
    except ApiError as e:
        return e.status == 404
    return False


def test_a_node_becomes_ready_and_keeps_the_status_that_the_cloud_wrote(
    admin: Client, node: str
) -> None:
    status = admin.get(f"{NODES}/{node}")["status"]
    kept = ("capacity", "allocatable", "addresses", "daemonEndpoints", "nodeInfo")
    assert {field: status[field] for field in kept} == {field: STATUS[field] for field in kept}
    assert conditions({"status": status}) == {
        "slicewright.io/GPUPartitionsReady": "False",
        "MemoryPressure": "False",
        "DiskPressure": "False",
        "PIDPressure": "False",
        "Ready": "True",
    }


def test_a_ready_node_is_free_of_the_not_ready_taint(
    admin: Client, node: str, until: Until
) -> None:
    until(lambda: not admin.get(f"{NODES}/{node}")["spec"].get("taints"))


def test_a_nodes_lease_is_renewed_as_a_kubelets(admin: Client, node: str, until: Until) -> None:
    until(lambda: admin.get(f"{LEASES}/{node}"))
    lease = admin.get(f"{LEASES}/{node}")
    assert lease["spec"]["leaseDurationSeconds"] == 40
    assert lease["metadata"]["ownerReferences"][0]["kind"] == "Node"
    first = lease["spec"]["renewTime"]
    until(lambda: admin.get(f"{LEASES}/{node}")["spec"]["renewTime"] > first)


def test_a_node_without_the_annotation_is_not_kwoks(
    admin: Client, node: str, pods: str, is_ready: Callable[[str], bool], until: Until
) -> None:
    make_node(admin, "foreign", managed=False)
    try:
        admin.create(pods, pod("on-foreign", "foreign"))
        admin.create(pods, pod("after", node))
        until(lambda: is_ready("after"))
        assert "Ready" not in conditions(admin.get(f"{NODES}/foreign"))
        assert admin.get(f"{pods}/on-foreign")["status"]["phase"] == "Pending"
        assert gone(admin, f"{LEASES}/foreign")
    finally:
        admin.delete(f"{NODES}/foreign")


IMAGES = {
    "python:3.13-slim": True,
    "docker.io/library/python:3.13-slim"
    "@sha256:6771159cd4fa5d9bba1258caf0b82e6b73458c694d178ad97c5e925c2d0e1a91": True,
    "python@sha256:6771159cd4fa5d9bba1258caf0b82e6b73458c694d178ad97c5e925c2d0e1a91": True,
    "public.ecr.aws/docker/library/python:3.13-slim": True,
    "registry.example.com:5000/mirror/python:3.13": True,
    "nvcr.io/nvidia/gpu-operator:v26.7.0": True,
    "nvcr.io/nvidia/cloud-native/k8s-mig-manager:v0.15.0": True,
    "registry.k8s.io/nfd/node-feature-discovery:v0.18.3": True,
    "gke.gcr.io/nvidia-gpu-device-plugin"
    "@sha256:6771159cd4fa5d9bba1258caf0b82e6b73458c694d178ad97c5e925c2d0e1a91": True,
    ORDINARY: False,
    "docker.io/library/pythonista:1": False,
    "mirror.example/nvcr.io/nvidia/cuda:12": False,
    "nvcrXio/nvidia/cuda:12": False,
    "registry.k8s.io/pause:3.10": True,
}


def test_exactly_the_pods_that_run_as_processes_are_left_alone(
    admin: Client, node: str, pods: str, is_ready: Callable[[str], bool], until: Until
) -> None:
    """For each image the same answer from Python and from kwok's selector, and the one that is
    meant.
    """
    created = {
        image: admin.create(pods, pod(f"pod-{i}", node, image)) for i, image in enumerate(IMAGES)
    }
    admin.create(pods, pod("last", node))
    until(lambda: is_ready("last"))  # kwok takes pods in the order in which they came
    ordinary = [f"pod-{i}" for i, image in enumerate(IMAGES) if not IMAGES[image]]
    until(lambda: all(is_ready(name) for name in ordinary))
    untouched = {}
    for i, image in enumerate(IMAGES):
        found = admin.get(f"{pods}/pod-{i}")
        untouched[image] = (
            found["status"] == created[image]["status"] and found["status"]["phase"] == "Pending"
        )
    assert untouched == IMAGES
    assert {image: runs_as_process(image) for image in IMAGES} == IMAGES


def test_kwok_does_not_delete_a_pod_that_runs_as_a_process(
    admin: Client, node: str, pods: str, is_ready: Callable[[str], bool], until: Until
) -> None:
    admin.create(pods, pod("real", node, "python:3"))
    admin.create(pods, pod("simulated", node))
    until(lambda: is_ready("simulated"))
    for name in ("real", "simulated"):
        admin.delete(f"{pods}/{name}", {"gracePeriodSeconds": 30})
    until(lambda: gone(admin, f"{pods}/simulated"))
    assert "deletionTimestamp" in admin.get(f"{pods}/real")["metadata"]
    admin.delete(f"{pods}/real", {"gracePeriodSeconds": 0})
    until(lambda: gone(admin, f"{pods}/real"))


def test_a_running_pod_has_the_status_that_a_kubelet_would_write(
    admin: Client, node: str, pods: str, is_ready: Callable[[str], bool], until: Until
) -> None:
    sidecar = {"name": "sidecar", "image": ORDINARY, "restartPolicy": "Always"}
    body = pod("whole", node, initContainers=[{"name": "init", "image": ORDINARY}, sidecar])
    body["spec"]["readinessGates"] = [{"conditionType": "example.com/gate"}]
    admin.create(pods, body)
    until(lambda: is_ready("whole"))
    status = admin.get(f"{pods}/whole")["status"]
    assert status["hostIP"] == "127.0.0.1"
    assert status["podIP"].startswith("10.244.")
    assert conditions({"status": status})["example.com/gate"] == "True"
    assert [(c["name"], c["ready"], *c["state"]) for c in status["initContainerStatuses"]] == [
        ("init", True, "terminated"),
        ("sidecar", True, "running"),
    ]
    assert [(c["name"], c["ready"], *c["state"]) for c in status["containerStatuses"]] == [
        ("main", True, "running")
    ]


def test_a_jobs_pod_completes(admin: Client, node: str, namespace: str, until: Until) -> None:
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    template = {"spec": pod("x", None, restartPolicy="Never")["spec"]}
    admin.create(
        jobs,
        {
            "metadata": {"name": "job"},
            "spec": {"completions": 2, "parallelism": 2, "template": template},
        },
    )
    until(lambda: conditions(admin.get(f"{jobs}/job")).get("Complete") == "True")
    assert admin.get(f"{jobs}/job")["status"]["succeeded"] == 2


def test_a_daemon_set_runs_on_the_node(
    admin: Client, node: str, namespace: str, until: Until
) -> None:
    daemon_sets = f"/apis/apps/v1/namespaces/{namespace}/daemonsets"
    template = {"metadata": {"labels": {"app": "d"}}, "spec": pod("x", None)["spec"]}
    spec = {"selector": {"matchLabels": {"app": "d"}}, "template": template}
    admin.create(daemon_sets, {"metadata": {"name": "d"}, "spec": spec})
    until(lambda: admin.get(f"{daemon_sets}/d")["status"].get("numberReady") == 1)


def test_a_cordoned_node_keeps_its_pods_and_takes_no_more(
    admin: Client, pods: str, is_ready: Callable[[str], bool], until: Until
) -> None:
    make_node(admin, "cordoned")
    try:
        only_here = {"nodeSelector": {"kubernetes.io/hostname": "cordoned"}}
        admin.create(pods, pod("before", None, **only_here))
        until(lambda: is_ready("before"))
        admin.patch(f"{NODES}/cordoned", {"spec": {"unschedulable": True}})
        until(lambda: admin.get(f"{NODES}/cordoned")["spec"].get("taints"))

        def turned_away(name: str) -> bool:
            admin.create(pods, pod(name, None, **only_here))
            until(lambda: conditions(admin.get(f"{pods}/{name}")).get("PodScheduled"))
            return conditions(admin.get(f"{pods}/{name}"))["PodScheduled"] == "False"

        # The scheduler, too, has to hear of the taint.
        later = (f"later-{number}" for number in itertools.count())
        until(lambda: turned_away(next(later)))
        assert is_ready("before")
    finally:
        admin.delete(f"{NODES}/cordoned")


def test_a_deleted_node_stays_away_and_its_lease_goes(admin: Client, until: Until) -> None:
    made = make_node(admin, "leaving")
    until(lambda: admin.get(f"{LEASES}/leaving"))
    until(lambda: conditions(admin.get(f"{NODES}/leaving")).get("Ready") == "True")
    admin.delete(f"{NODES}/leaving")
    until(lambda: gone(admin, f"{LEASES}/leaving"))
    assert gone(admin, f"{NODES}/leaving")
    # The cloud makes a new machine of that name.
    again = make_node(admin, "leaving")
    assert again["metadata"]["uid"] != made["metadata"]["uid"]
    until(lambda: conditions(admin.get(f"{NODES}/leaving")).get("Ready") == "True")
    admin.delete(f"{NODES}/leaving")


def test_a_killed_kwok_is_replaced_and_takes_over_at_once(
    cluster: Cluster,
    admin: Client,
    toolchain: Toolchain,
    node: str,
    pods: str,
    is_ready: Callable[[str], bool],
    until: Until,
) -> None:
    """The new one would otherwise wait 40 s for the old one's leases to expire."""
    before = cluster.pids()
    os.kill(before["kwok-alpha"], signal.SIGKILL)
    until(lambda: processes.find(cluster.environment, "kwok-alpha") is None)
    admin.create(pods, pod("orphan", node))
    assert control_plane.start(cluster.environment, cluster.name, toolchain) == cluster.endpoint
    until(lambda: is_ready("orphan"), timeout_s=30)
    after = cluster.pids()
    assert {name for name in after if after[name] != before[name]} == {"kwok-alpha"}
