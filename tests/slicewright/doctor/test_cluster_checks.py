"""Each single thing wrong with a cluster that exists is named, and what is unknown never passes."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from slicewright.doctor.checks.cluster import ClusterAnswers, Node, findings
from slicewright.doctor.checks.cluster_requirements import wanted_definitions
from slicewright.doctor.checks.gpu_owners import DaemonSet, GpuOperator
from slicewright.doctor.findings import Finding, NotAnswered, Owned
from slicewright.infra import plan, stack_file
from slicewright.infra.plan import ExistingFleetPlan

SILENT = NotAnswered(why="HTTP 403: forbidden")


def fleet(**changed: Any) -> ExistingFleetPlan:
    raw: dict[str, Any] = {
        "cloud": "byo",
        "cluster": {"name": "lab", "context": "lab"},
        "node_pools": [
            {
                "name": "a100",
                "gpu": {"model": "A100-40", "count": 1},
                "nodes": {"min": 1, "max": 2},
                "select": {"kind": "gpu-large"},
                "partition": {"mode": "operator", "config": "all-balanced"},
            }
        ],
        **changed,
    }
    found = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    assert isinstance(found, ExistingFleetPlan)
    return found


def node(name: str = "gpu-1", *, ready: bool = True, **labels: str) -> Node:
    return Node(name=name, labels=labels or {"kind": "gpu-large"}, ready=ready)


def daemonset(name: str, image: str, namespace: str = "kube-system", **changed: Any) -> DaemonSet:
    found = DaemonSet(namespace=namespace, name=name, images=(image,), pods=1, of_operator=False)
    return dataclasses.replace(found, **changed)


NVIDIAS = daemonset("nvidia-device-plugin-daemonset", "nvcr.io/nvidia/k8s-device-plugin:v0.14.1")
NFD = daemonset("nfd-worker", "registry.k8s.io/nfd/node-feature-discovery:v0.19.0", "nfd")
CLUSTER_POLICY = GpuOperator(name="cluster-policy", release_namespace="gpu-operator")


def answers(**changed: Any) -> ClusterAnswers:
    """Of a cluster in which nothing stands in the way."""
    everything: dict[str, Any] = {
        "server": "https://lab:6443",
        "version": (1, 36),
        "administrator": True,
        "nodes": (node(), node("other", kind="cpu")),
        "daemonsets": (daemonset("kube-proxy", "registry.k8s.io/kube-proxy:v1.36.2"),),
        "operators": (),
        "namespaces": frozenset(),
        "definitions": frozenset(),
        "apis": {},
    }
    return ClusterAnswers(**everything | changed)


def wrong(
    of: ExistingFleetPlan | None = None, owned: dict[str, Owned] | None = None, **changed: Any
) -> list[Finding]:
    found = findings(of or fleet(), answers(**changed), owned or {})
    return [finding for finding in found if finding.verdict != "ok"]


def test_a_cluster_with_all_prerequisites_passes() -> None:
    assert wrong() == []


@pytest.mark.parametrize(
    ("changed", "asked", "said"),
    [
        ({"version": (1, 29)}, "Kubernetes", "need 1.30"),
        ({"administrator": False}, "rights in https://lab:6443", "not an administrator"),
        ({"nodes": ()}, "nodes of pool a100", "0 Ready; the pool needs at least 1"),
        ({"nodes": (node(ready=False),)}, "nodes of pool a100", "0 Ready, gpu-1 not Ready"),
        (
            {"nodes": tuple(map(node, "abc"))},
            "nodes of pool a100",
            "3, but the pool may have at most 2",
        ),
        ({"operators": (CLUSTER_POLICY,)}, "GPU operator", "installed in namespace gpu-operator"),
        ({"daemonsets": (NVIDIAS,)}, "other device plugins", "nvidia-device-plugin-daemonset"),
        ({"daemonsets": (NFD,)}, "Node Feature Discovery", "runs in namespace nfd"),
        ({"namespaces": frozenset({"gpu-operator"})}, "namespace gpu-operator", "already exists"),
    ],
)
def test_each_single_thing_wrong_is_named(changed: dict[str, Any], asked: str, said: str) -> None:
    (finding,) = wrong(**changed)
    assert finding.verdict == "fails"
    assert finding.subject.startswith(asked)
    assert said in finding.detail
    assert finding.remedy


CONTROL_PLANE = "node-role.kubernetes.io/control-plane"


@pytest.mark.parametrize(
    ("taints", "waiting"),
    [
        ([(), ("nvidia.com/gpu",)], ""),
        ([("team",), ("nvidia.com/gpu",)], "the fleet controller and NVIDIA's operator would"),
        ([(CONTROL_PLANE,), ("nvidia.com/gpu",)], "so the fleet controller would"),
    ],
)
def test_a_cluster_in_which_no_node_takes_pods_without_gpus_is_named(
    taints: list[tuple[str, ...]], waiting: str
) -> None:
    """Else `up` waits ten minutes for the operator's Deployment, and says only that."""
    other, gpu = (
        dataclasses.replace(one, taints=keys)
        for one, keys in zip((node("other", kind="cpu"), node()), taints, strict=True)
    )
    found = wrong(nodes=(other, gpu))
    assert [one.subject for one in found] == (["a node for pods without GPUs"] if waiting else [])
    assert all(waiting in one.detail for one in found)


@pytest.mark.parametrize(
    "unknown", ["administrator", "nodes", "daemonsets", "operators", "namespaces"]
)
def test_an_unanswered_question_does_not_pass(unknown: str) -> None:
    assert [finding.verdict for finding in wrong(**{unknown: SILENT})] == ["not asked"]


def test_the_clouds_own_device_plugin_is_named_with_the_command_that_removes_it() -> None:
    """As published existing-a100-t4 removes it."""
    (finding,) = wrong(daemonsets=(NVIDIAS,))
    command = "kubectl delete daemonset nvidia-device-plugin-daemonset -n kube-system"
    assert finding.remedy == command


def test_the_operators_own_plugin_and_one_without_nodes_are_no_others() -> None:
    own = dataclasses.replace(NVIDIAS, of_operator=True)
    without_nodes = dataclasses.replace(NVIDIAS, pods=0)
    assert wrong(daemonsets=(own, without_nodes)) == []


def test_objects_of_this_stack_may_exist() -> None:
    own: dict[str, Owned] = {"gpu-operator": "yes"}
    there = {"operators": (CLUSTER_POLICY,), "namespaces": frozenset({"gpu-operator"})}
    assert wrong(owned=own, **there) == []
    unknown: dict[str, Owned] = {"gpu-operator": "unknown"}
    assert all("if this stack created it" in f.remedy for f in wrong(owned=unknown, **there))


def test_an_operator_to_adopt_must_exist() -> None:
    adopts = fleet(gpu_operator={"existing": True})
    (finding,) = wrong(adopts)
    assert "does not exist" in finding.detail
    assert wrong(adopts, operators=(CLUSTER_POLICY,)) == []


def test_a_node_of_two_pools_is_named() -> None:
    (pool,) = fleet().pools
    both = dataclasses.replace(fleet(), pools=(pool, dataclasses.replace(pool, name="h100")))
    (finding,) = wrong(both)
    assert (finding.subject, finding.verdict) == ("node gpu-1", "fails")
    assert "pools a100 and h100" in finding.detail


def test_the_policy_for_new_nodes_needs_a_newer_kubernetes() -> None:
    tainted = fleet(startup_taint="admission-policy")
    (finding,) = wrong(tainted, version=(1, 35))
    assert "needs 1.36" in finding.detail
    assert wrong(tainted) == []


def test_an_operator_without_feature_discovery_needs_an_installed_one() -> None:
    without = fleet(gpu_operator={"nfd": {"enabled": False}})
    (finding,) = wrong(without)
    assert finding.subject == "Node Feature Discovery"
    assert wrong(without, daemonsets=(NFD,)) == []


def test_the_kinds_of_an_existing_prometheus_must_exist() -> None:
    existing = {"prometheus": "existing", "url": "http://prometheus.monitoring.svc:9090"}
    watched = fleet(monitoring=existing)
    (name,) = wanted_definitions(watched)
    (finding,) = wrong(watched)
    assert finding.subject == f"CustomResourceDefinition {name}"
    assert wrong(watched, definitions=frozenset({name})) == []


SCALED = {
    "monitoring": {"prometheus": "stack"},
    "workloads": [
        {
            "name": "triton",
            "kind": "triton",
            "pool": "a100",
            "resource": "mig-1g.5gb",
            "image": "nvcr.io/nvidia/tritonserver:24.10-py3",
            "model_repository": {"server": "10.0.0.1", "path": "/models"},
            "autoscaling": {"metric": "queue-time", "target": "50ms", "max": 1},
        }
    ],
}
KEDAS, ADAPTERS = "v1beta1.external.metrics.k8s.io", "v1beta1.custom.metrics.k8s.io"
CERT_MANAGER = frozenset({"certificates.cert-manager.io"})


def test_an_api_of_metrics_that_another_serves_is_named_before_it_is_taken() -> None:
    by_keda = fleet(**SCALED)
    assert wrong(by_keda) == []
    assert wrong(by_keda, apis={KEDAS: "keda"}) == [], "this stack's own"
    (finding,) = wrong(by_keda, apis={KEDAS: "datadog"})
    assert finding.subject == f"APIService {KEDAS}"
    assert "is already served from namespace datadog" in finding.detail
    adapter = {"by": "prometheus-adapter"}
    by_adapter = fleet(**SCALED, pod_autoscaling=adapter)
    assert wrong(by_adapter, definitions=CERT_MANAGER) == []
    (finding,) = wrong(by_adapter, definitions=CERT_MANAGER, apis={ADAPTERS: "monitoring"})
    assert "pod_autoscaling.existing: true" in finding.remedy


def test_a_new_adapter_needs_cert_manager_and_an_existing_one_must_run() -> None:
    by_adapter = fleet(**SCALED, pod_autoscaling={"by": "prometheus-adapter"})
    (finding,) = wrong(by_adapter)
    assert finding.subject == "CustomResourceDefinition certificates.cert-manager.io"
    there = fleet(**SCALED, pod_autoscaling={"by": "prometheus-adapter", "existing": True})
    assert wrong(there, apis={ADAPTERS: "monitoring"}) == []
    (finding,) = wrong(there)
    assert finding.subject == f"APIService {ADAPTERS}"
    assert "does not exist" in finding.detail
    (unknown,) = wrong(there, apis=SILENT)
    assert unknown.verdict == "not asked"
