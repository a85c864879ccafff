"""existing-a100-t4's autoscaling by prometheus-adapter: its metric, its limits, and less than
its rights.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pulumi_kubernetes as k8s
import pytest
import yaml

from slicewright.cli import main
from slicewright.infra import manifests, plan
from slicewright.infra import stack_file as spec
from slicewright.infra.components import existing_cluster
from slicewright.show.change_text import step_text
from tests.infra.plan.test_workloads import GOLDEN, planned, stack

Record = Callable[..., list[Any]]
FLEET = stack("prometheus-adapter")
NAME = "avg_time_queue_us_tritonserver"


def objects() -> list[Mapping[str, Any]]:
    return [*manifests.adapter_objects(planned(FLEET))]


def only(kind: str, name: str | None = None) -> Mapping[str, Any]:
    (found,) = (
        one for one in objects() if one["kind"] == kind and name in (None, one["metadata"]["name"])
    )
    return found


def refusal(**autoscaling: Any) -> str:
    raw = copy.deepcopy(FLEET)
    raw["workloads"][0]["autoscaling"] |= autoscaling
    with pytest.raises(spec.SpecError) as refused:
        planned(raw)
    return str(refused.value)


def test_the_autoscaler_is_s4s_from_1_to_7_at_50_microseconds_a_pod() -> None:  # S4-45, -46
    made = manifests.pod_autoscaler(planned(FLEET).deployments[0])
    assert made["apiVersion"] == "autoscaling/v2"
    assert made["spec"]["scaleTargetRef"]["name"] == "tritonserver"
    assert (made["spec"]["minReplicas"], made["spec"]["maxReplicas"]) == (1, 7)
    (metric,) = made["spec"]["metrics"]
    assert metric == {
        "type": "Pods",
        "pods": {
            "metric": {"name": NAME},
            "target": {"type": "AverageValue", "averageValue": "50"},
        },
    }


def test_the_adapter_has_one_rule_per_scaled_workload() -> None:  # S4-33 to -37
    (rule,) = yaml.safe_load(only("ConfigMap")["data"]["config.yaml"])["rules"]
    assert rule["seriesQuery"].startswith('nv_inference_queue_duration_us{namespace="default",pod=')
    assert rule["resources"]["overrides"] == {
        "namespace": {"resource": "namespace"},
        "pod": {"resource": "pod"},
    }
    assert rule["name"]["as"] == NAME
    assert rule["metricsQuery"].startswith(
        "sum(rate(nv_inference_queue_duration_us{<<.LabelMatchers>>}[30s])) by (<<.GroupBy>>) / "
        "clamp_min(sum(rate(nv_inference_request_success{<<.LabelMatchers>>}[30s])) by "
        "(<<.GroupBy>>), 0.1) + ("
    )


def test_a_change_of_a_rule_is_another_config_map_and_another_pod() -> None:
    raw = copy.deepcopy(FLEET)
    raw["workloads"][0]["autoscaling"]["window"] = "2m"
    names = {
        one["metadata"]["name"]
        for fleet in (FLEET, raw)
        for one in manifests.adapter_objects(planned(fleet))
        if one["kind"] == "ConfigMap"
    }
    assert len(names) == 2
    (volume,) = (
        one
        for one in only("Deployment")["spec"]["template"]["spec"]["volumes"]
        if one["name"] == "config"
    )
    assert volume["configMap"]["name"] == only("ConfigMap")["metadata"]["name"]


def test_the_adapters_roles_have_only_the_rights_that_it_needs() -> None:  # S4-32
    """existing-a100-t4 bound cluster-admin to all service accounts of the cluster."""
    bound = [one for one in objects() if one["kind"].endswith("Binding")]
    roles = {one["metadata"]["name"]: one["rules"] for one in objects() if "rules" in one}
    allowed = {
        (subject["name"], one["roleRef"]["name"]) for one in bound for subject in one["subjects"]
    }
    assert allowed == {
        ("prometheus-adapter", "prometheus-adapter-pods"),
        ("prometheus-adapter", "system:auth-delegator"),
        ("prometheus-adapter", "extension-apiserver-authentication-reader"),
    }
    assert roles == {
        "prometheus-adapter-pods": [
            {
                "apiGroups": [""],
                "resources": ["namespaces", "pods"],
                "verbs": ["get", "list", "watch"],
            }
        ]
    }
    subjects = [subject for one in bound for subject in one["subjects"]]
    assert {subject["kind"] for subject in subjects} == {"ServiceAccount"}


def test_the_adapter_starts_with_a_verified_certificate() -> None:  # S4-38 to -42
    made = only("Deployment")["spec"]
    (container,) = made["template"]["spec"]["containers"]
    assert made["replicas"] == 1
    assert container["image"] == "registry.k8s.io/prometheus-adapter/prometheus-adapter:v0.12.0"
    url = "http://kube-prom-stack-kube-prome-prometheus.monitoring.svc:9090"
    for argument in (
        f"--prometheus-url={url}",
        "--metrics-relist-interval=30s",
        "--secure-port=6443",
        "--tls-cert-file=/tls/tls.crt",
    ):
        assert argument in container["args"]
    (port,) = only("Service")["spec"]["ports"]
    assert (port["port"], port["targetPort"]) == (443, "https")
    assert container["ports"] == [{"name": "https", "containerPort": 6443}]
    service = only("APIService")
    assert service["metadata"]["name"] == "v1beta1.custom.metrics.k8s.io"
    assert (service["spec"]["groupPriorityMinimum"], service["spec"]["versionPriority"]) == (100, 5)
    assert "insecureSkipTLSVerify" not in service["spec"]
    certificate = only("Certificate")
    assert service["metadata"]["annotations"] == {
        "cert-manager.io/inject-ca-from": f"prometheus-adapter/{certificate['metadata']['name']}"
    }
    assert "prometheus-adapter.prometheus-adapter.svc" in certificate["spec"]["dnsNames"]
    assert not any(one["kind"] == "Secret" for one in objects())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"min": 0, "wake": "sum(a)"}, "replicas cannot go to zero and back"),
        ({"fallback": {"failures": 2}}, "applies to KEDA only: without an answer"),
    ],
)
def test_settings_that_a_horizontal_pod_autoscaler_lacks_are_refused(
    changes: dict[str, Any], said: str
) -> None:
    assert said in refusal(**changes)


def test_a_query_of_all_pods_is_not_a_metric_of_pods() -> None:
    raw = stack("autoscaling")
    raw["pod_autoscaling"] |= {"by": "prometheus-adapter"}
    server = raw["workloads"][1]
    server["autoscaling"] = {"metric": "query", "query": "sum(a)", "target": 3}
    raw["workloads"] = [server]
    with pytest.raises(spec.SpecError, match="reads metrics per pod"):
        planned(raw)
    server["autoscaling"] = {"metric": "cache-usage", "target": 80}
    metric = manifests.pod_metric(planned(raw).deployments[0])
    assert metric.name == "cache_usage_percent_llm"
    assert '__name__=~"vllm:(kv|gpu)_cache_usage_perc",<<.LabelMatchers>>' in metric.query


def test_the_program_creates_each_object_of_the_adapter_once(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(existing_cluster, "provider", lambda *_: k8s.Provider("kubernetes"))
    made = record("adapter", fleet=yaml.safe_dump(FLEET))
    expected = [*objects(), manifests.pod_autoscaler(planned(FLEET).deployments[0])]
    for manifest in expected:
        (one,) = (
            m
            for m in made
            if m.inputs.get("kind") == manifest["kind"]
            and m.inputs.get("metadata", {}).get("name") == manifest["metadata"]["name"]
            and m.inputs["metadata"].get("namespace") == manifest["metadata"].get("namespace")
        )
        for key in manifest.keys() - {"metadata"}:
            assert one.inputs[key] == manifest[key]
    assert not any(m.inputs.get("chart") == "keda" for m in made)


def test_replacing_the_adapter_by_keda_is_shown_as_a_change() -> None:
    raw = copy.deepcopy(FLEET) | {"pod_autoscaling": {"by": "keda"}}
    (change,) = plan.compare(planned(FLEET), planned(raw)).fleet
    assert change.rule.field == "pod_autoscaling"
    assert step_text(change.before, change.after) == (
        "prometheus-adapter (registry.k8s.io/prometheus-adapter/prometheus-adapter:v0.12.0) -> "
        "KEDA 2.21.0"
    )


def test_the_plan_draws_the_metric_of_each_pod(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(GOLDEN / "prometheus-adapter.yaml")]) == 0
    out = capsys.readouterr().out
    assert (
        "is scaled       1 to 7 replicas (as stated; there is room for 7): replicas x mean" in out
    )
    assert "without answer  nothing changes\n" in out
    assert "<<.LabelMatchers>>" in out


def of_the_cluster() -> dict[str, Any]:
    raw = copy.deepcopy(FLEET)
    raw["pod_autoscaling"]["existing"] = True
    return raw


def test_with_an_existing_adapter_only_the_autoscaler_is_created(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(existing_cluster, "provider", lambda *_: k8s.Provider("kubernetes"))
    made = record("adapter", fleet=yaml.safe_dump(of_the_cluster()))
    kinds = {m.inputs.get("kind") for m in made}
    assert "HorizontalPodAutoscaler" in kinds
    assert not {"APIService", "Certificate", "Issuer"} & kinds
    names = {m.inputs.get("metadata", {}).get("name") for m in made if "metadata" in m.inputs}
    assert "prometheus-adapter" not in names
    (there,), (own,) = planned(of_the_cluster()).deployments, planned(FLEET).deployments
    assert manifests.pod_autoscaler(there) == manifests.pod_autoscaler(own)


def test_the_plan_shows_the_rule_that_the_clusters_own_adapter_needs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    stack_file = tmp_path / "Pulumi.dev.yaml"
    stack_file.write_text(yaml.safe_dump({"config": {"slicewright:fleet": of_the_cluster()}}))
    assert main(["plan", "-s", str(stack_file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    start = lines.index("  adapter's rule  for the configuration of the cluster's adapter:")
    rule = [line for line in lines[start + 1 :] if line.startswith("    ")]
    shown = yaml.safe_load("\n".join(rule))
    # The same as in the adapter that a stack makes, and a rehearsal runs.
    assert shown == yaml.safe_load(only("ConfigMap")["data"]["config.yaml"])


def test_the_clusters_own_adapter_has_its_own_prometheus_and_image() -> None:
    raw = of_the_cluster()
    del raw["monitoring"]
    assert planned(raw).pod_autoscaling is not None
    for key, value in (
        ("image", "registry.example.com/adapter:v0.12.0"),
        ("namespace", "other"),
        ("prometheus_url", "http://prometheus:9090"),
    ):
        wrong = copy.deepcopy(raw)
        wrong["pod_autoscaling"][key] = value
        with pytest.raises(
            spec.SpecError, match=f"{key}: is for an adapter that the stack installs"
        ):
            planned(wrong)
    (change,) = plan.compare(planned(FLEET), planned(of_the_cluster())).fleet
    assert "existing" in step_text(change.before, change.after)
