"""What a fleet with `monitoring` declares: chart, monitors, and what they wait for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pulumi_kubernetes as k8s
import pytest
import yaml

from slicewright.apis import names as api
from slicewright.infra import manifests, plan
from slicewright.infra.manifests.monitoring.scrapes import metrics_port, scrapes
from tests.infra.manifests.monitoring.test_settings import CLOUDS, EXISTING, STACK, planned

GOLDEN = Path(__file__).parents[2] / "golden" / "monitoring"
Record = Callable[..., list[Any]]
TRITON: dict[str, Any] = {
    "name": "tritonserver",
    "kind": "triton",
    "pool": "a",
    "image": "nvcr.io/nvidia/tritonserver:23.05-py3",
    "model_repository": {"server": "10.0.0.1", "path": "/models"},
}
VLLM: dict[str, Any] = {
    "name": "llm",
    "kind": "vllm",
    "namespace": "models",
    "pool": "a",
    "image": "vllm/vllm-openai:v0.6.2",
    "model": {"name": "org/small", "parameters": "500M"},
}
SERVER: dict[str, Any] = {
    "name": "server",
    "kind": "container",
    "pool": "a",
    "image": "example.com/server:1",
    "ports": {"http": 8000},
}
SERVERS = [TRITON, VLLM, SERVER]


def made(record: Record, monitoring: dict[str, Any], cloud: str = "byo", **more: Any) -> list[Any]:
    raw = {"cloud": cloud, **CLOUDS[cloud], "monitoring": monitoring, **more}
    return record("x", fleet=yaml.safe_dump(raw))


def releases(resources: list[Any]) -> dict[str, Any]:
    return {r.name: r for r in resources if r.type == "kubernetes:helm.sh/v3:Release"}


def by_name(fleet: plan.FleetPlan) -> dict[str, Any]:
    return {one["metadata"]["name"]: one for one in manifests.monitoring_objects(fleet)}


def test_each_server_has_one_monitor_with_its_containers_port() -> None:
    fleet = planned(STACK, workloads=SERVERS)
    containers = {
        one.name: objects.deployment["spec"]["template"]
        for one, objects in manifests.workloads_of(fleet)
    }
    found = by_name(fleet)
    for one in fleet.deployments:
        name = f"workload-{one.namespace}-{one.name}"
        port = metrics_port(one)
        if one.name == "server":
            assert port is None
            assert name not in found
            continue
        monitor, template = found[name], containers[one.name]
        assert monitor["kind"] == "PodMonitor"
        assert monitor["metadata"]["namespace"] == "monitoring"
        assert monitor["metadata"]["labels"] == {"release": "kube-prom-stack"}
        assert monitor["spec"]["namespaceSelector"] == {"matchNames": [one.namespace]}
        selector = monitor["spec"]["selector"]["matchLabels"]
        assert selector.items() <= template["metadata"]["labels"].items()
        (container,) = template["spec"]["containers"]
        assert port in [p["name"] for p in container["ports"]]
        (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
        assert endpoint["port"] == port
        assert endpoint["interval"] == endpoint["scrapeTimeout"] == "10s"
        assert {"node", "workload"} == {r["targetLabel"] for r in endpoint["relabelings"]}


def test_monitors_select_the_pods_of_agents_and_controller_by_their_ports(record: Record) -> None:
    resources = made(record, STACK, node_agent={"attribution": True})
    fleet = planned(STACK, node_agent={"attribution": True})
    found = by_name(fleet)
    for name, kind in (("node-agent", "DaemonSet"), ("fleet-controller", "Deployment")):
        (workload,) = [
            r
            for r in resources
            if r.type.endswith(f":{kind}") and r.inputs["metadata"]["name"].startswith(name)
        ]
        template = workload.inputs["spec"]["template"]
        monitor = found[name]
        selector = monitor["spec"]["selector"]["matchLabels"]
        assert selector.items() <= template["metadata"]["labels"].items()
        assert monitor["spec"]["namespaceSelector"] == {"matchNames": [api.NAMESPACE]}
        ports = {p["name"] for c in template["spec"]["containers"] for p in c["ports"]}
        assert {e["port"] for e in monitor["spec"]["podMetricsEndpoints"]} == ports
    own, of_pods = found["node-agent"]["spec"]["podMetricsEndpoints"]
    assert "honorLabels" not in own
    assert of_pods["honorLabels"] is True, "its samples name the pod that has a partition"
    assert {r["targetLabel"] for r in own["relabelings"]} == {"node", "pool"}


def test_dcgm_exporter_is_scraped_only_if_the_operator_runs_it_and_at_its_own_interval() -> None:
    for cloud, there in (("byo", True), ("eks", True), ("gke", False)):
        assert ("dcgm-exporter" in by_name(planned(STACK, cloud))) is there
    off = {"dcgm_exporter": {"enabled": False}}
    assert "dcgm-exporter" not in by_name(planned(STACK, gpu_operator=off))
    monitor = by_name(planned(STACK, gpu_operator={"namespace": "nvidia"}))["dcgm-exporter"]
    assert monitor["spec"]["namespaceSelector"] == {"matchNames": ["nvidia"]}
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert (endpoint["port"], endpoint["interval"]) == ("metrics", "30s")


def test_an_adopted_operators_exporter_is_scraped_too() -> None:
    adopted = {"existing": True, "namespace": "nvidia"}
    assert "dcgm-exporter" in by_name(planned(EXISTING, gpu_operator=adopted))


def test_objects_have_the_selector_labels_of_an_existing_prometheus() -> None:
    asked = EXISTING | {"namespace": "metrics", "selector_labels": {"team": "gpu", "a": "b"}}
    for one in manifests.monitoring_objects(planned(asked, workloads=SERVERS)):
        assert one["metadata"]["namespace"] == "metrics"
        if one["kind"] != "ConfigMap":
            assert one["metadata"]["labels"] == {"team": "gpu", "a": "b"}


def test_managed_collection_objects_are_in_the_namespaces_of_the_pods() -> None:
    fleet = planned({"prometheus": "managed", "scrape_interval": "30s"}, "gke", workloads=SERVERS)
    found = {
        (one["metadata"]["namespace"], one["metadata"]["name"]): one
        for one in manifests.monitoring_objects(fleet)
        if one["kind"] == "PodMonitoring"
    }
    assert set(found) == {(one.namespace, one.name) for one in scrapes(fleet)}
    agents = found[api.NAMESPACE, "node-agent"]["spec"]
    assert agents["targetLabels"]["fromPod"] == [{"from": api.POOL_LABEL, "to": "pool"}]
    (endpoint,) = found["models", "workload-models-llm"]["spec"]["endpoints"]
    assert endpoint == {"port": "http", "path": "/metrics", "interval": "30s", "timeout": "10s"}


def test_monitoring_objects_equal_the_golden_files(request: pytest.FixtureRequest) -> None:
    """The chart's values and the objects, to be read: `--update-golden` writes them."""
    fleet = planned(STACK, workloads=SERVERS)
    found = {"values.yaml": manifests.as_flow_yaml(manifests.monitoring_values(fleet))} | {
        f"{one['kind'].lower()}-{one['metadata']['name']}.yaml": manifests.as_flow_yaml(one)
        for one in manifests.monitoring_objects(fleet)
        if one["kind"] != "ConfigMap"
    }
    if request.config.getoption("--update-golden"):
        GOLDEN.mkdir(exist_ok=True)
        for file, content in found.items():
            (GOLDEN / file).write_text(content, encoding="utf-8")
    committed = {file.name: file.read_text(encoding="utf-8") for file in GOLDEN.iterdir()}
    assert committed == found, (
        "pytest tests/infra/manifests/monitoring/test_objects.py --update-golden"
    )


def test_names_of_monitoring_objects_are_unique() -> None:
    twins = [VLLM, VLLM | {"namespace": "others", "name": "llm2"}]
    objects = manifests.monitoring_objects(planned(STACK, workloads=twins))
    names = [
        (one["kind"], one["metadata"]["namespace"], one["metadata"]["name"]) for one in objects
    ]
    assert len(names) == len(set(names))


def test_objects_of_prometheus_kinds_depend_on_the_chart(record: Record) -> None:
    resources = made(record, STACK, workloads=SERVERS)
    release = releases(resources)["monitoring"]
    assert release.inputs["chart"] == "kube-prometheus-stack"
    assert release.inputs["version"] == "88.5.3"
    namespaces = [r.inputs["metadata"]["name"] for r in resources if r.type.endswith(":Namespace")]
    assert namespaces.count("monitoring") == 1
    objects = manifests.monitoring_objects(planned(STACK, workloads=SERVERS))
    declared = [r for r in resources if r.name.startswith("monitoring-")]
    assert {one["metadata"]["name"] for one in objects} <= {
        r.inputs["metadata"]["name"] for r in declared
    }


def test_an_existing_monitoring_namespace_is_not_created(record: Record) -> None:
    resources = made(record, STACK | {"create_namespace": False})
    namespaces = [r.inputs["metadata"]["name"] for r in resources if r.type.endswith(":Namespace")]
    assert "monitoring" not in namespaces


def test_an_existing_prometheus_gets_no_chart_and_its_kinds_must_exist(record: Record) -> None:
    resources = made(record, EXISTING)
    assert "monitoring" not in releases(resources)
    read = {r.name for r in resources if r.name.startswith("the-prometheus-operator-must-be-")}
    assert read == {
        f"the-prometheus-operator-must-be-installed-{kind}" for kind in manifests.OPERATOR_KINDS
    }


def test_managed_collection_gets_no_chart(record: Record) -> None:
    resources = made(record, {"prometheus": "managed"}, "gke")
    assert "monitoring" not in releases(resources)
    kinds = {r.type for r in resources if r.name.startswith("monitoring-")}
    assert "kubernetes:monitoring.googleapis.com/v1:PodMonitoring" in kinds


@pytest.mark.parametrize("cloud", list(CLOUDS))
def test_no_monitoring_resource_is_declared_by_default(cloud: str, record: Record) -> None:
    raw = {"cloud": cloud, **CLOUDS[cloud]}
    resources = record("x", fleet=yaml.safe_dump(raw))
    assert not [r for r in resources if "monitoring" in r.name]


@pytest.mark.parametrize(("storage", "goes_with"), [(None, True), ({"size": "20Gi"}, False)])
def test_a_volume_is_deleted_before_the_cluster_that_would_leave_its_disk(
    storage: dict[str, Any] | None,
    goes_with: bool,
    record: Record,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    releases_of_helm, found = k8s.helm.v3.Release, []

    def release(resource: str, /, **inputs: Any) -> Any:
        if resource == "monitoring":
            found.append(inputs["opts"].deleted_with)
        return releases_of_helm(resource, **inputs)

    monkeypatch.setattr(k8s.helm.v3, "Release", release)
    made(record, STACK | ({"storage": storage} if storage else {}), "eks")
    (cluster,) = found
    assert (cluster is not None) is goes_with
