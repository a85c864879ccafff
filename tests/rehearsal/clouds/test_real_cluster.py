"""The simulated GKE over a real API server, without the kubelet stand-in."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slicewright.kubeapi import ApiError, Client
from slicewright.rehearsal.clouds.core.control_planes import LocalControlPlanes
from slicewright.rehearsal.clouds.gcp.gke import addons
from slicewright.rehearsal.clouds.service import Cloud
from slicewright.rehearsal.host import processes
from slicewright.rehearsal.host.toolchain import Toolchain


@dataclasses.dataclass(frozen=True)
class WithoutKubelet(LocalControlPlanes):
    """The control plane is real; the kubelet stand-in has tests of its own."""

    def _start_kubelet(self, cluster: str) -> None:
        """Starts nothing."""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory, toolchain: Toolchain) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("cloud")
    toolchain.dump(path / "toolchain.json")
    yield path
    processes.end_leftovers(path)


@pytest.fixture
def cloud(environment: Path) -> Cloud:
    return Cloud(environment, WithoutKubelet(environment), ready_timeout_s=240)


def until(condition, timeout_s: float = 180) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_nodes_of_a_real_cluster_are_added_changed_and_removed(
    gcp, environment: Path, h100
) -> None:
    cluster = gcp.make_cluster(locations=["us-central1-c"])
    assert cluster["endpoint"].startswith("127.0.0.1:")
    admin = Client.from_kubeconfig(environment / "clusters" / "main" / "kubeconfig.json")

    def nodes(pool: str) -> list[dict]:
        return admin.get("/api/v1/nodes", labelSelector=f"cloud.google.com/gke-nodepool={pool}")[
            "items"
        ]

    # The operation has waited until the default pool's node was Ready.
    (node,) = nodes("default-pool")
    assert any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"]["conditions"])

    startup = {"key": "startup", "value": "true", "effect": "NO_SCHEDULE"}
    gcp.make_pool(config={**h100, "taints": [startup], "labels": {"role": "a"}})
    (node,) = nodes("pool")
    assert {t["key"] for t in node["spec"]["taints"]} >= {"startup", "nvidia.com/gpu"}
    assert node["status"]["capacity"]["cpu"] == "208"
    assert node["spec"]["providerID"].startswith("gce://acme/us-central1-c/")

    # GKE's own plugin is scheduled to GPU nodes, and only there.
    plugins = {"labelSelector": "k8s-app=nvidia-gpu-device-plugin"}

    def placed() -> list[str]:
        pods = admin.get("/api/v1/namespaces/kube-system/pods", **plugins)["items"]
        return [pod["spec"].get("nodeName") for pod in pods]

    until(lambda: placed() == [node["metadata"]["name"]])

    # Elsewhere than in kube-system, GKE refuses critical pods where no quota allows them.
    critical = {
        "metadata": {"name": "critical"},
        "spec": {
            "priorityClassName": "system-node-critical",
            "containers": [{"name": "c", "image": "example.com/x"}],
        },
    }
    elsewhere = "/api/v1/namespaces/elsewhere"
    admin.create("/api/v1/namespaces", {"metadata": {"name": "elsewhere"}})
    until(lambda: _exists(admin, f"{elsewhere}/serviceaccounts/default"))
    with pytest.raises(ApiError, match="insufficient quota to match these scopes"):
        admin.create(f"{elsewhere}/pods", critical)
    quota = {"metadata": {"name": "critical-pods"}, "spec": addons.critical_pods()["spec"]}
    admin.create(f"{elsewhere}/resourcequotas", quota)
    until(lambda: admin.get(f"{elsewhere}/resourcequotas/critical-pods")["status"].get("hard"))
    until(lambda: admin.create(f"{elsewhere}/pods", critical))

    # A startup taint that the controller removed is not restored when the user changes a label.
    name = node["metadata"]["name"]
    kept = [t for t in node["spec"]["taints"] if t["key"] != "startup"]
    admin.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": kept}})
    gcp.wait(gcp.on_pool("update", labels={"labels": {"role": "b"}}))
    (node,) = nodes("pool")
    assert node["metadata"]["labels"]["role"] == "b"
    assert "startup" not in {t["key"] for t in node["spec"]["taints"]}

    # A node's pods are deleted with it.
    pod = {
        "metadata": {"name": "bound", "namespace": "default"},
        "spec": {"nodeName": name, "containers": [{"name": "c", "image": "example.com/x"}]},
    }
    until(lambda: _exists(admin, "/api/v1/namespaces/default/serviceaccounts/default"))
    admin.create("/api/v1/namespaces/default/pods", pod)
    gcp.wait(gcp.on_pool("setSize", nodeCount=0))
    assert nodes("pool") == []
    until(lambda: not _exists(admin, "/api/v1/namespaces/default/pods/bound"))

    # A pod that asks for a partition, and that the scheduler finds no node for, brings one.
    scaling = {"enabled": True, "totalMinNodeCount": 0, "totalMaxNodeCount": 1}
    gcp.wait(gcp.on_pool("setAutoscaling", autoscaling=scaling))
    gcp.cloud.look_around()
    assert nodes("pool") == []
    asked = {"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}
    waiting = {
        "metadata": {"name": "waiting", "namespace": "default"},
        "spec": {
            "containers": [{"name": "c", "image": "example.com/x", "resources": asked}],
            "tolerations": [{"operator": "Exists"}],
        },
    }
    admin.create("/api/v1/namespaces/default/pods", waiting)

    def grown() -> bool:
        gcp.cloud.look_around()
        return bool(nodes("pool"))

    until(grown)
    assert gcp.cloud.tasks.wait(180)
    (node,) = nodes("pool")
    gpus = {"nvidia.com/gpu": "16"}
    name = node["metadata"]["name"]
    admin.patch(f"/api/v1/nodes/{name}/status", {"status": {"capacity": gpus, "allocatable": gpus}})
    pod = "/api/v1/namespaces/default/pods/waiting"
    until(lambda: admin.get(pod)["spec"].get("nodeName") == name)

    gcp.wait(gcp.call("container", "projects.locations.clusters.delete", {"name": gcp.cluster}))
    assert not (environment / "clusters" / "main").exists()
    assert [r.name for r in processes.recorded(environment)] == []


def _exists(admin: Client, path: str) -> bool:
    try:
        admin.get(path)
    except ApiError as e:
        if e.status != 404:
            raise
        return False
    return True
