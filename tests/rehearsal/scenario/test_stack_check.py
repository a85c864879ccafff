"""Stacks that cannot be rehearsed are refused before anything is made."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml

from slicewright.infra import plan, stack_file
from slicewright.rehearsal.scenario import stack_check
from slicewright.rehearsal.scenario.errors import NoSuchStack
from slicewright.rehearsal.scenario.existing_cluster import prometheus
from tests.infra.plan import test_workloads

EKS: dict[str, Any] = {
    "cloud": "eks",
    "cluster": {"name": "dev", "region": "eu-west-1", "zones": ["eu-west-1a", "eu-west-1b"]},
    "gpu_operator": {"driver": {"enabled": False}, "toolkit": {"enabled": False}},
}
SHARED = {"mode": "time-slicing", "replicas": {"gpu": 3}}


def problems(mig_strategy: str = "mixed", **pool: Any) -> list[tuple[stack_file.Path, str]]:
    pool = {"name": "p", "nodes": {"count": 1}, **pool}
    newest = {"device_plugin": {"version": "v0.20.2"}}
    operator = {**EKS["gpu_operator"], "mig_strategy": mig_strategy, **newest}
    raw = {**EKS, "gpu_operator": operator, "node_pools": [pool]}
    fleet = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    assert isinstance(fleet, plan.EksFleetPlan)
    return [(p.path, p.reason) for p in stack_check.unrehearsable(fleet)]


def test_whole_gpus_can_be_rehearsed() -> None:
    assert problems(machine_type="g5.xlarge") == []


def test_time_slicing_on_eks_can_be_rehearsed() -> None:
    assert problems(machine_type="g5.xlarge", sharing=SHARED) == []


def test_mps_on_eks_can_be_rehearsed_if_all_pools_share_alike() -> None:
    shared = {"mode": "mps", "replicas": {"gpu": 3}}
    assert problems("none", machine_type="g5.xlarge", sharing=shared) == []


def existing(
    cluster: dict[str, str] | None = None,
    hosts: tuple[Any, ...] = (),
    operator: dict[str, Any] | None = None,
    **pool: Any,
) -> dict[stack_file.Path, str]:
    pool = {"name": "p", "nodes": {"count": 1}, "gpu": {"model": "T4", "count": 1}, **pool}
    raw = {
        "cloud": "byo",
        "cluster": {"name": "ours", "context": "ours", **(cluster or {})},
        "node_pools": [pool],
        "hosts": list(hosts),
        "gpu_operator": operator or {},
    }
    fleet = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    return {p.path: p.reason for p in stack_check.unrehearsable(fleet)}


def test_an_existing_cluster_can_be_rehearsed() -> None:
    fleet = plan.read_file(stack_check.PROJECT / "stacks" / "Pulumi.existing-a100-t4.yaml")
    assert stack_check.unrehearsable(fleet) == []


def test_a_kubeconfig_of_the_users_own_is_refused_because_no_real_cluster_is_touched() -> None:
    ((path, reason),) = existing({"kubeconfig": "~/.kube/config"}).items()
    assert path == ("cluster", "kubeconfig")
    assert "touches no other" in reason


def test_a_gpu_that_is_not_simulated_is_named() -> None:
    ((path, reason),) = existing(gpu={"model": "GB300", "count": 4}).items()
    assert path == ("node_pools", 0, "gpu", "model")
    assert "have no GB300" in reason


def test_hosts_without_kubernetes_are_refused() -> None:
    host = {"name": "h", "gpu": {"model": "T4", "count": 1}, "gpus": [{"index": 0, "mig": False}]}
    assert list(existing(hosts=(host,))) == [("hosts",)]


def test_an_operator_to_adopt_is_made_with_the_name_that_nvidias_chart_gives_its_settings() -> None:
    assert existing(operator={"existing": True}) == {}
    ((path, reason),) = existing(operator={"existing": True, "cluster_policy": "ours"}).items()
    assert path == ("gpu_operator", "cluster_policy")
    assert "cluster-policy" in reason


@pytest.mark.parametrize(("driver", "toolkit"), [(False, True), (True, False)])
def test_the_nodes_of_an_existing_cluster_have_driver_and_toolkit_or_neither(
    driver: bool, toolkit: bool
) -> None:
    operator = {"driver": {"enabled": driver}, "toolkit": {"enabled": toolkit}}
    ((path, reason),) = existing(operator=operator).items()
    assert path == ("gpu_operator", "toolkit", "enabled")
    assert "neither" in reason


def test_the_operators_own_driver_can_be_rehearsed() -> None:
    both = {"driver": {"enabled": True}, "toolkit": {"enabled": True}}
    assert existing(operator=both) == {}


def test_mps_is_refused_with_pools_that_share_in_another_way() -> None:
    sharing = {"mode": "mps", "replicas": {"gpu": 3}}
    operator = {"mig_strategy": "none", "device_plugin": {"version": "v0.20.2"}}
    assert existing(operator=operator, sharing=sharing) == {}
    raw: dict[str, Any] = {
        "cloud": "byo",
        "cluster": {"name": "ours", "context": "ours"},
        "gpu_operator": operator,
        "node_pools": [
            {
                "name": name,
                "gpu": {"model": "T4", "count": 1},
                "select": {"rack": name},
                "nodes": {"count": 1},
                **shared,
            }
            for name, shared in (("a", {"sharing": sharing}), ("b", {}))
        ],
    }
    fleet = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    ((path, reason),) = ((p.path, p.reason) for p in stack_check.unrehearsable(fleet))
    assert path == ("node_pools", 0, "sharing")
    assert "gets one config for all nodes" in reason


def test_the_operators_own_driver_can_be_rehearsed_on_gke_with_ubuntu() -> None:
    raw: dict[str, Any] = {
        "cloud": "gke",
        "cluster": {"name": "dev", "location": "us-central1-a"},
        "node_pools": [
            {
                "name": "p",
                "machine_type": "a2-highgpu-1g",
                "image_type": "UBUNTU_CONTAINERD",
                "nodes": {"count": 1},
                "partition": {"mode": "operator", "config": "all-1g.5gb"},
            }
        ],
    }

    def found(raw: dict[str, Any]) -> list[stack_file.Path]:
        fleet = plan.read(json.dumps(raw), stack_file.Source("test", raw))
        assert isinstance(fleet, plan.GkeFleetPlan)
        return [p.path for p in stack_check.unrehearsable(fleet)]

    assert found(raw) == []
    assert found({**raw, "gpu_operator": {"driver": {"enabled": True}}}) == []


def test_a_stack_file_of_ones_own_is_found_by_its_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    page = stack_check.PROJECT / "docs" / "how-to" / "rehearse-your-own-stack.md"
    text = textwrap.dedent("   " + page.read_text().split("```yaml\n   ")[1].split("```")[0])
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks" / "Pulumi.dev.yaml").write_text(text)
    monkeypatch.setattr(stack_check, "PROJECT", tmp_path)
    stack_check.check_stack("dev")
    with pytest.raises(NoSuchStack, match="there are dev"):
        stack_check.check_stack("gke-h100")


def test_a_volume_that_would_never_be_made_is_refused() -> None:
    text = (Path(test_workloads.__file__).parents[1] / "golden" / "vllm.yaml").read_text()
    raw = yaml.safe_load(text)["config"]["slicewright:fleet"]

    def refused(**cache: str) -> list[stack_file.Path]:
        raw["workloads"][0]["cache"] = cache
        fleet = plan.read(json.dumps(raw), stack_file.Source("test", raw))
        return [p.path for p in stack_check.unrehearsable(fleet)]

    assert refused(size="100Gi") == [("workloads", 0, "cache")]
    assert refused(size="100Gi", storage_class="rwx") == []
    assert refused(claim="models") == [], "a claim is there already"
    one_node = {"size": "100Gi", "storage_class": "rwo", "access_mode": "ReadWriteOnce"}
    assert refused(**one_node) == [("workloads", 0, "cache", "access_mode")]


def test_autoscalers_that_cannot_be_had_are_refused() -> None:
    golden = Path(test_workloads.__file__).parents[1] / "golden" / "prometheus-adapter.yaml"
    raw = yaml.safe_load(golden.read_text())["config"]["slicewright:fleet"]

    def refused(**asked: Any) -> list[stack_file.Path]:
        changed = raw | {"pod_autoscaling": asked}
        fleet = plan.read(json.dumps(changed), stack_file.Source("test", changed))
        return [p.path for p in stack_check.unrehearsable(fleet)]

    assert refused(by="prometheus-adapter") == []
    there = {"by": "prometheus-adapter", "existing": True}
    assert refused(**there) == [("pod_autoscaling", "existing")]
    assert refused(by="keda", existing=True) == [("pod_autoscaling", "existing")]
    assert refused(by="keda") == []


def test_a_new_cluster_has_no_cert_manager_for_prometheus_adapter() -> None:
    raw = {
        **EKS,
        "node_pools": [{"name": "p", "machine_type": "g5.xlarge", "nodes": {"count": 1}}],
        "monitoring": {"prometheus": "stack"},
        "pod_autoscaling": {"by": "prometheus-adapter"},
        "workloads": [
            {
                "name": "llm",
                "kind": "vllm",
                "namespace": "ai",
                "pool": "p",
                "image": "vllm/vllm-openai:v0.6.2",
                "model": {"name": "org/small", "parameters": "500M"},
                "autoscaling": {"metric": "cache-usage", "target": 80},
            }
        ],
    }
    fleet = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    (problem,) = stack_check.unrehearsable(fleet)
    assert problem.path == ("pod_autoscaling", "by")
    assert "has no cert-manager" in problem.reason


def monitored(cloud: dict[str, Any], **monitoring: Any) -> list[tuple[stack_file.Path, str]]:
    raw = {**cloud, "monitoring": monitoring}
    fleet = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    return [(p.path, p.reason) for p in stack_check.unrehearsable(fleet)]


def test_managed_collection_is_rehearsed_without_autoscaling_by_its_metrics() -> None:
    gke: dict[str, Any] = {
        "cloud": "gke",
        "cluster": {"name": "dev", "location": "us-central1-a"},
        "node_pools": [
            {"name": "p", "machine_type": "a2-highgpu-1g", "nodes": {"count": 1}},
        ],
    }
    assert monitored(gke, prometheus="managed") == []
    server: dict[str, Any] = {
        "name": "llm",
        "kind": "vllm",
        "namespace": "ai",
        "pool": "p",
        "image": "vllm/vllm-openai:v0.6.2",
        "model": {"name": "org/small", "parameters": "500M"},
    }
    asked = {"prometheus": "managed", "url": "http://frontend.monitoring.svc:9090"}
    assert monitored({**gke, "workloads": [server]}, **asked) == []
    scaled = {**server, "autoscaling": {"max": 1, "metric": "cache-usage", "target": 80}}
    ((path, reason),) = monitored({**gke, "workloads": [scaled]}, **asked)
    assert path == ("monitoring", "prometheus")
    assert "collects nothing" in reason
    assert monitored({**gke, "workloads": [scaled]}, prometheus="stack") == []


def test_an_existing_prometheus_is_rehearsed_in_an_existing_cluster_only() -> None:
    url = "http://kube-prom-stack-kube-prome-prometheus.monitoring.svc:9090"
    eks = {**EKS, "node_pools": [{"name": "p", "machine_type": "g5.xlarge", "nodes": {"count": 1}}]}
    ((path, reason),) = monitored(eks, prometheus="existing", url=url)
    assert path == ("monitoring", "prometheus")
    assert "have no Prometheus of their own" in reason
    byo: dict[str, Any] = {
        "cloud": "byo",
        "cluster": {"name": "ours", "context": "ours"},
        "node_pools": [
            {"name": "p", "nodes": {"count": 1}, "gpu": {"model": "T4", "count": 1}},
        ],
    }
    assert monitored(byo, prometheus="existing", url=url) == []
    ((path, reason),) = monitored(byo, prometheus="existing", url="http://thanos.obs.svc:10902")
    assert path == ("monitoring", "url")
    assert "the chart's names" in reason


@pytest.mark.parametrize(
    ("url", "service"),
    [
        ("http://a-prometheus.b.svc:9090", ("a-prometheus", "b")),
        ("http://a-prometheus.b.svc.cluster.local:9090/", ("a-prometheus", "b")),
        ("http://a-prometheus.b.svc:9091", None),
        ("https://a-prometheus.b.svc:9090", None),
        ("http://a.b.svc:9090", None),
        ("http://-prometheus.b.svc:9090", None),
        ("http://prometheus.example.com:9090", None),
        ("http://a-prometheus.b.svc:9090/prefix", None),
    ],
)
def test_an_address_names_the_service_that_the_chart_would_have_made(
    url: str, service: tuple[str, str] | None
) -> None:
    assert prometheus.service_of(url) == service
