"""Workloads of a stack file, from the program's component to pods: the real engine and a real API
server with its scheduler; the node and what runs in the pods are simulated.
"""

from __future__ import annotations

import copy
import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from slicewright.infra import manifests, plan, stack_file
from slicewright.kubeapi import ApiError

GOLDEN = Path(__file__).parents[4] / "infra" / "golden"
PROGRAM = """
    import json
    from pathlib import Path

    import pulumi
    import pulumi_kubernetes as k8s

    from slicewright.infra import plan, stack_file
    from slicewright.infra.components.services.workloads import Workloads

    raw = json.loads(Path("fleet.json").read_text())
    fleet = plan.read(json.dumps(raw), stack_file.Source("fleet.json", raw))
    kubeconfig = pulumi.Config().require("kubeconfig")
    provider = k8s.Provider("cluster", kubeconfig=kubeconfig)
    Workloads(
        "workload",
        fleet,
        depends_on={pool.name: [] for pool in fleet.pools},
        system=[],
        opts=pulumi.ResourceOptions(providers=[provider]),
    )
"""


def read(name: str) -> dict[str, Any]:
    text = (GOLDEN / f"{name}.yaml").read_text()
    fleet: dict[str, Any] = yaml.safe_load(text)["config"]["slicewright:fleet"]
    return fleet


def planned(raw: dict[str, Any]) -> plan.FleetPlan:
    return plan.read(json.dumps(raw), stack_file.Source("test", raw))


def write(stack: Any, fleet: dict[str, Any]) -> None:
    (stack.directory / "fleet.json").write_text(json.dumps(fleet))


@pytest.fixture
def node(cluster: Any) -> Iterator[str]:
    """As GKE makes it for gke-h100, verified: 16 partitions, and both taints."""
    name = f"gpu-{uuid.uuid4().hex[:6]}"
    capacity = {"cpu": "208", "memory": "1872Gi", "pods": "110", "nvidia.com/gpu": "16"}
    cluster.admin.create(
        "/api/v1/nodes",
        {
            "metadata": {
                "name": name,
                "annotations": {"kwok.x-k8s.io/node": "fake"},
                "labels": {
                    "slicewright.io/pool": "h100-partition-3g",
                    "cloud.google.com/gke-gpu-partition-size": "3g.40gb",
                },
            },
            "spec": {
                "taints": [
                    {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
                    {"key": "nvidia/share", "value": "nvidia-mig", "effect": "NoSchedule"},
                ]
            },
        },
    )
    status = {"status": {"capacity": capacity, "allocatable": capacity}}
    cluster.admin.patch(f"/api/v1/nodes/{name}/status", status, kind="merge")
    yield name
    cluster.admin.delete(f"/api/v1/nodes/{name}")


@pytest.fixture
def volume(cluster: Any) -> Iterator[None]:
    """Something that the claim of the cache is bound to."""
    name = f"share-{uuid.uuid4().hex[:6]}"
    cluster.admin.create(
        "/api/v1/persistentvolumes",
        {
            "metadata": {"name": name},
            "spec": {
                "capacity": {"storage": "100Gi"},
                "accessModes": ["ReadWriteMany"],
                "storageClassName": "filestore",
                "nfs": {"server": "192.0.2.1", "path": "/share"},
            },
        },
    )
    yield
    cluster.admin.delete(f"/api/v1/persistentvolumes/{name}")


@pytest.mark.parametrize("name", ["vllm", "triton", "container"])
def test_the_api_server_accepts_every_object_by_its_strict_rules(name: str, cluster: Any) -> None:
    """In a namespace for restricted pods; only of a pod itself that standard is asked."""
    fleet = planned(read(name))
    where = f"restricted-{uuid.uuid4().hex[:6]}"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    cluster.admin.create("/api/v1/namespaces", {"metadata": {"name": where, "labels": labels}})
    strict = {"dryRun": "All", "fieldValidation": "Strict"}
    for one, objects in manifests.workloads_of(fleet):
        for manifest in objects.all:
            body = copy.deepcopy(manifest)
            if "namespace" in body["metadata"]:
                body["metadata"]["namespace"] = where
            cluster.admin.create(PATHS[manifest["kind"]].format(where), body, **strict)
        account = {"metadata": {"name": one.name, "namespace": where}}
        cluster.admin.create(f"/api/v1/namespaces/{where}/serviceaccounts", account)
        pod = copy.deepcopy(objects.deployment["spec"]["template"])
        pod["metadata"]["name"] = one.name
        cluster.admin.create(f"/api/v1/namespaces/{where}/pods", pod, **strict)
        pod["spec"]["securityContext"]["runAsUser"] = 0
        with pytest.raises(ApiError, match="violates PodSecurity"):
            cluster.admin.create(f"/api/v1/namespaces/{where}/pods", pod, **strict)


PATHS = {
    "Namespace": "/api/v1/namespaces",
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "Service": "/api/v1/namespaces/{}/services",
    "PersistentVolumeClaim": "/api/v1/namespaces/{}/persistentvolumeclaims",
    "PersistentVolume": "/api/v1/persistentvolumes",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
}


def test_sixteen_servers_come_up_each_on_a_partition_and_a_seventeenth_waits(
    new_stack: Callable[..., Any],
    attached: dict[str, str],
    cluster: Any,
    node: str,
    volume: None,
    until: Any,
) -> None:
    fleet, where = read("vllm"), f"ai-{uuid.uuid4().hex[:6]}"
    # Of another registry, so that kwok simulates the pods: there is no kubelet here.
    other = {"namespace": where, "image": "registry.example.com/vllm-openai:v0.6.2"}
    fleet["workloads"] = [fleet["workloads"][0] | other]
    stack = new_stack(PROGRAM, **attached)
    write(stack, fleet)
    code, output = stack.act("preview")
    assert code == 0, output
    code, output = stack.act("up")
    assert code == 0, output
    pods = cluster.admin.get(f"/api/v1/namespaces/{where}/pods")["items"]
    assert len(pods) == 16
    assert {pod["spec"]["nodeName"] for pod in pods} == {node}
    assert all(pod["status"]["phase"] == "Running" for pod in pods)
    service = f"/api/v1/namespaces/{where}/endpoints/llm-deployment"

    def addresses() -> int:
        subsets = cluster.admin.get(service).get("subsets", [])
        return sum(len(subset.get("addresses", [])) for subset in subsets)

    until(lambda: addresses() == 16)
    for again in ("up", "refresh"):
        code, output = stack.act(again, "--expect-no-changes")
        assert code == 0, output

    # One more than there are partitions: it is Pending, and `up` ends.
    fleet["workloads"][0]["replicas"] = 17
    write(stack, fleet)
    code, output = stack.act("up")
    assert code == 0, output

    def pending() -> list[str]:
        found = cluster.admin.get(f"/api/v1/namespaces/{where}/pods")["items"]
        return [pod["metadata"]["name"] for pod in found if "nodeName" not in pod["spec"]]

    until(lambda: len(pending()) == 1)
    code, output = stack.act("up", "--expect-no-changes")
    assert code == 0, output

    code, output = stack.act("destroy")
    assert code == 0, output
    with pytest.raises(ApiError):
        cluster.admin.get(f"/api/v1/namespaces/{where}")


@pytest.mark.long(
    "servers with their share: tests/rehearsal/plugins/providers/kubernetes/test_served_models.py"
)
def test_another_share_takes_the_place_of_the_first_and_nothing_stays(
    new_stack: Callable[..., Any], attached: dict[str, str], cluster: Any
) -> None:
    """Without replicas: no pod is run, but the Deployment waits for its volume."""
    fleet, where = read("triton"), f"triton-{uuid.uuid4().hex[:6]}"
    common = {"namespace": where, "replicas": 0}
    server = fleet["workloads"][0] | common | {"service": {"type": "ClusterIP"}}
    worker = {"name": "worker", "kind": "container", "image": "example.com/worker:1"}
    fleet["workloads"] = [server, worker | common | {"pool": "tesla-t4"}]
    stack = new_stack(PROGRAM, **attached)

    def shares() -> set[str]:
        """Of the volumes that are bound."""
        found = cluster.admin.get("/api/v1/persistentvolumes")["items"]
        return {
            one["spec"]["nfs"]["path"]
            for one in found
            if one["metadata"]["name"].startswith(where) and one["status"]["phase"] == "Bound"
        }

    for path in ("/shares/one", "/shares/two"):
        fleet["workloads"][0]["model_repository"] = {"server": "192.0.2.1", "path": path}
        write(stack, fleet)
        code, output = stack.act("up")
        assert code == 0, output
        assert shares() == {path}
        for again in ("up", "refresh"):
            code, output = stack.act(again, "--expect-no-changes")
            assert code == 0, output
    code, output = stack.act("destroy")
    assert code == 0, output
    assert shares() == set()


@pytest.mark.long(
    "a scaled workload: tests/rehearsal/plugins/providers/kubernetes/test_served_models.py"
)
def test_replicas_of_a_scaled_workload_are_never_changed_by_up(
    new_stack: Callable[..., Any],
    attached: dict[str, str],
    cluster: Any,
    node: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those that there are when it begins to be scaled stay too, and the way back takes force."""
    fleet, where = read("vllm"), f"scaled-{uuid.uuid4().hex[:6]}"
    server = {
        "name": "server",
        "kind": "container",
        "namespace": where,
        "pool": fleet["workloads"][0]["pool"],
        "image": "registry.example.com/server:1",
    }
    scaled = {"autoscaling": {"metric": "query", "query": "sum(a)", "target": 3, "min": 2}}
    fleet["pod_autoscaling"] = {"prometheus_url": "http://prometheus:9090"}
    stack = new_stack(PROGRAM, **attached)
    path = f"/apis/apps/v1/namespaces/{where}/deployments/server"

    def up(**workload: Any) -> int:
        """Replicas after it."""
        fleet["workloads"] = [server | workload]
        write(stack, fleet)
        code, output = stack.act("preview")
        assert code == 0, output
        code, output = stack.act("up")
        assert code == 0, output
        replicas: int = cluster.admin.get(path)["spec"]["replicas"]
        return replicas

    def scale(replicas: int) -> None:
        """As Kubernetes' controller does it."""
        cluster.admin.patch(
            f"{path}/scale",
            {"spec": {"replicas": replicas}},
            kind="merge",
            fieldManager="kube-controller-manager",
        )

    assert up(replicas=4) == 4
    assert up(**scaled) == 4
    assert up(**scaled, env={"A": "1"}) == 4
    scale(6)
    assert up(**scaled, env={"A": "2"}) == 6
    code, output = stack.act("up", "--refresh", "--expect-no-changes")
    assert code == 0, output
    scale(3)
    assert up(**scaled, env={"A": "3"}) == 3
    monkeypatch.setenv("PULUMI_K8S_ENABLE_PATCH_FORCE", "true")
    assert up(replicas=5) == 5
    monkeypatch.delenv("PULUMI_K8S_ENABLE_PATCH_FORCE")
    code, output = stack.act("destroy")
    assert code == 0, output


def test_a_scaled_workload_is_made_with_its_fewest_replicas(
    new_stack: Callable[..., Any], attached: dict[str, str], cluster: Any, node: str
) -> None:
    fleet, where = read("vllm"), f"scaled-{uuid.uuid4().hex[:6]}"
    asked = {"metric": "query", "query": "sum(a)", "target": 3, "min": 2, "max": 5}
    server = {
        "name": "server",
        "kind": "container",
        "namespace": where,
        "pool": fleet["workloads"][0]["pool"],
        "image": "registry.example.com/server:1",
        "autoscaling": asked,
    }
    fleet |= {"workloads": [server], "pod_autoscaling": {"prometheus_url": "http://p:9090"}}
    stack = new_stack(PROGRAM, **attached)
    write(stack, fleet)
    code, output = stack.act("up")
    assert code == 0, output
    made = cluster.admin.get(f"/apis/apps/v1/namespaces/{where}/deployments/server")
    assert (made["spec"]["replicas"], made["status"]["readyReplicas"]) == (2, 2)
    code, output = stack.act("destroy")
    assert code == 0, output
