"""Workloads whose replicas follow a metric: refused, planned, and as KEDA is told them."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from typing import Any

import pulumi_kubernetes as k8s
import pytest
import yaml

from slicewright.infra import manifests, plan, stack_file
from slicewright.infra.components import existing_cluster
from tests.infra.plan.test_workloads import CONTAINER, planned, stack

Record = Callable[..., list[Any]]
FLEET = stack("autoscaling")
TRITON, VLLM = 0, 1
URL = "http://kube-prom-stack-kube-prome-prometheus.monitoring.svc:9090"


def written(*changes: tuple[str, Any], of: int = TRITON, alone: bool = True) -> dict[str, Any]:
    """The golden fleet, changed. A key is a dotted path in the workload's `autoscaling`, or with
    `..` before it in the workload; None takes it away.
    """
    raw = copy.deepcopy(FLEET)
    if alone:
        raw["workloads"] = [raw["workloads"][of]]
    workload = raw["workloads"][0 if alone else of]
    for path, value in changes:
        at: Any = workload if path.startswith("..") else workload["autoscaling"]
        *way, last = path.removeprefix("..").split(".")
        for step in way:
            at = at.setdefault(step, {})
        if value is None:
            at.pop(last, None)
        else:
            at[last] = value
    return raw


def scaled(*changes: tuple[str, Any], of: int = TRITON) -> plan.DeploymentPlan:
    (one,) = planned(written(*changes, of=of)).deployments
    return one


def scaling(*changes: tuple[str, Any], of: int = TRITON) -> plan.AutoscalingPlan:
    found = scaled(*changes, of=of).autoscaling
    assert found is not None
    return found


def refusal(raw: dict[str, Any]) -> str:
    with pytest.raises(stack_file.SpecError) as refused:
        planned(raw)
    return str(refused.value)


def told(*changes: tuple[str, Any], of: int = TRITON) -> Mapping[str, Any]:
    """The ScaledObject's spec."""
    made: Mapping[str, Any] = manifests.scaled_object(scaled(*changes, of=of), URL)["spec"]
    return made


def test_s4s_published_values_can_be_stated() -> None:  # S4-45, -46
    found = scaling()
    assert (found.min, found.max, found.target) == (1, 7, 50)
    (trigger,) = told()["triggers"]
    assert (told()["minReplicaCount"], told()["maxReplicaCount"]) == (1, 7)
    assert trigger["metadata"]["threshold"] == "50"


@pytest.mark.parametrize(
    ("target", "microseconds"), [("50us", 50), ("50ms", 50_000), ("2s", 2_000_000), ("1m", 6e7)]
)
def test_a_time_is_in_microseconds_as_triton_counts_it(target: str, microseconds: float) -> None:
    assert told(("target", target))["triggers"][0]["metadata"]["threshold"] == str(
        int(microseconds)
    )


def test_the_queue_of_a_model_is_the_time_of_all_its_requests_over_their_number() -> None:
    """S4-31, -37, corrected: rates of counters, and no mean of means."""
    of = 'namespace="default",pod=~"tritonserver-[a-z0-9]{1,10}-?[a-z0-9]{5}",model="densenet_onnx"'
    answered = f"sum(rate(nv_inference_request_success{{{of}}}[30s]))"
    pending = f"sum(min_over_time(nv_inference_pending_request_count{{{of}}}[30s]))"
    assert manifests.scaling_query(scaled()) == (
        f"sum(rate(nv_inference_queue_duration_us{{{of}}}[30s])) / clamp_min({answered}, 0.1) + "
        f"(30000000 * ({answered} == bool 0) * ({pending} > bool 0) or 0 * {answered})"
    )
    assert "model=" not in manifests.scaling_query(scaled(("model", None)))


def test_replicas_are_in_proportion_to_a_mean_and_each_takes_its_part_of_a_sum() -> None:
    """S4-47: R = ceil(CR x CV / DV), which HorizontalPodAutoscalers compute of a Value."""
    assert told()["triggers"][0]["metricType"] == "Value"
    assert told(of=VLLM)["triggers"][0]["metricType"] == "AverageValue"
    usage = (("metric", "cache-usage"), ("target", 80))
    assert told(*usage, of=VLLM)["triggers"][0]["metricType"] == "Value"


def test_cache_usage_is_queried_under_both_metric_names() -> None:
    query = manifests.scaling_query(scaled(("metric", "cache-usage"), ("target", 80), of=VLLM))
    assert "vllm:kv_cache_usage_perc{" in query
    assert "vllm:gpu_cache_usage_perc{" in query
    assert query.startswith("(100 * avg(")


def test_no_answer_is_never_taken_for_an_idle_server() -> None:
    for of in (TRITON, VLLM):
        for trigger in told(of=of)["triggers"]:
            assert trigger["metadata"]["ignoreNullValues"] == "false"
    assert told()["fallback"] == {
        "failureThreshold": 3,
        "replicas": 1,
        "behavior": "currentReplicasIfHigher",
    }


def test_the_fallback_is_never_without_a_replica() -> None:
    """KEDA takes the last one away where it is 0, min is 0, and Prometheus has no answer."""
    assert scaling(("fallback", None), of=VLLM).fallback_replicas == 1
    assert scaling(("min", 3), ("fallback", None)).fallback_replicas == 3
    assert "must be at least 1 replica" in refusal(written(("fallback.replicas", 0)))


def test_a_missing_metric_counts_as_zero_only_without_pods() -> None:
    sleeping, awake = (manifests.scaling_query(scaled(*c, of=VLLM)) for c in ((), AWAKE))
    of = 'namespace="ai",deployment="llm"'
    assert sleeping == f"({awake}) or sum(kube_deployment_status_replicas{{{of}}} == 0)"
    assert "vector" not in awake


AWAKE = (("min", 1), ("wake", None), ("cooldown", None))


def test_the_wake_query_requests_one_replica() -> None:
    waiting, wake = told(of=VLLM)["triggers"]
    assert waiting["name"] == "requests-waiting"
    assert wake["metadata"]["query"] == (
        '(sum(rate(gateway_requests_total{route="llm"}[2m]))) > bool 0'
    )
    assert (wake["metadata"]["threshold"], wake["metricType"]) == ("1", "AverageValue")
    assert told(of=VLLM)["cooldownPeriod"] == 600
    assert "cooldownPeriod" not in told()


def test_the_default_pace_is_that_of_kubernetes() -> None:
    config = told()["advanced"]["horizontalPodAutoscalerConfig"]
    assert config["behavior"] == {
        "scaleUp": {"stabilizationWindowSeconds": 0},
        "scaleDown": {"stabilizationWindowSeconds": 300},
    }
    assert told(of=VLLM)["advanced"]["horizontalPodAutoscalerConfig"]["behavior"] == {
        "scaleUp": {
            "stabilizationWindowSeconds": 30,
            "policies": [{"type": "Pods", "value": 4, "periodSeconds": 60}],
        },
        "scaleDown": {
            "stabilizationWindowSeconds": 600,
            "policies": [{"type": "Pods", "value": 1, "periodSeconds": 120}],
        },
    }


def test_a_scaled_workload_starts_with_its_minimum_and_an_update_adds_no_pod() -> None:
    ((_, objects),) = manifests.workloads_of(planned(written(("min", 3))))
    made = objects.deployment["spec"]
    assert made["replicas"] == 3
    assert made["strategy"]["rollingUpdate"]["maxSurge"] == 0
    # One at a time, of as many as there may be.
    assert objects.update_minutes == 7 * objects.start_minutes


def test_max_partitions_counts_the_pools_maximum_of_nodes() -> None:
    assert scaling(("max", "partitions")).max == 7
    assert scaling(("max", None)).max == 7
    assert scaling(of=VLLM).max == 16


def test_max_partitions_leaves_out_partitions_of_other_workloads() -> None:
    raw = written(("max", "partitions"))
    other = {k: v for k, v in raw["workloads"][0].items() if k != "autoscaling"}
    raw["workloads"].append(other | {"name": "fixed", "replicas": 2})
    asked = {"metric": "queue-time", "target": "1s", "min": 1, "max": 3}
    raw["workloads"].append(other | {"name": "capped", "autoscaling": asked})
    first, second, third = planned(raw).deployments
    assert first.autoscaling is not None
    assert first.autoscaling.max == 7 - 2 - 3
    assert (first.demanded, first.pending, first.awaited) == (7, 0, True)
    assert (second.demanded, third.demanded) == (7, 7)


def test_only_one_workload_of_a_pool_can_have_max_partitions() -> None:
    raw = written(("max", "partitions"))
    raw["workloads"].append(raw["workloads"][0] | {"name": "second"})
    said = refusal(raw)
    assert "workloads[0].autoscaling.max: second takes all partitions that are left too" in said


def test_max_beyond_the_partitions_is_refused_with_their_number() -> None:
    said = refusal(written(("max", 8)))
    assert "8 replicas never fit: pool a100-40gb has 7 nvidia.com/mig-1g.5gb" in said
    assert "write 7 or less, or partitions" in said


def test_max_beyond_cpu_and_memory_is_refused_with_the_possible_number() -> None:
    raw = stack("vllm")
    raw["pod_autoscaling"] = {"prometheus_url": URL}
    server = {k: v for k, v in raw["workloads"][0].items() if k != "replicas"}
    asked = {"metric": "requests-waiting", "target": 4, "max": 16}
    raw["workloads"] = [server | {"autoscaling": asked, "requests": {"cpu": 30}, "limits": {}}]
    said = refusal(raw)
    assert "nodes of pool h100-partition-3g have processor and memory for 6 at most" in said
    asked["max"] = "partitions"  # type: ignore[assignment]
    (one,) = planned(raw).deployments
    assert one.most == 6


def test_min_beyond_all_partitions_is_refused() -> None:
    said = refusal(written(("min", 8), ("max", "partitions")))
    assert "workloads[0].autoscaling.min: 8 replicas are more than the 7 that fit" in said


@pytest.mark.parametrize(
    ("changes", "of", "said"),
    [
        ([("..replicas", 3)], TRITON, "two owners would undo each other"),
        ([("metric", "requests-waiting")], TRITON, "kind triton has no requests-waiting"),
        ([("metric", "queue-time"), ("target", "1s")], VLLM, "kind vllm has no queue-time"),
        ([("target", 50)], TRITON, "queue-time is a time, and 50 is not"),
        ([("target", "4s")], VLLM, "requests-waiting is a number, and 4s is not"),
        ([("metric", "cache-usage"), ("target", 101)], VLLM, "101 percent is never reached"),
        ([("metric", "query")], VLLM, "is required by metric: query"),
        ([("query", "sum(a)")], VLLM, "requests-waiting has a query of its own"),
        ([("model", "m")], VLLM, "requests-waiting covers the whole server"),
        ([("wake", None)], VLLM, "this metric comes from the replicas"),
        ([("wake", "sum(a)")], TRITON, "there are always 1 replicas or more"),
        ([("cooldown", "5m")], TRITON, "there are always 1 replicas or more"),
        ([("cooldown", "104s")], VLLM, "write 105s or more, or fewer fallback.failures"),
        ([("cooldown", "44s"), ("fallback.failures", 1)], VLLM, "write 45s or more [source"),
        ([("min", 7), ("max", 3)], TRITON, "3 is less than min, 7"),
        ([("fallback.replicas", 8)], TRITON, "8 is more than max, 7"),
        ([("scale_up.stabilization", "61m")], TRITON, "61m is more than Kubernetes allows"),
        ([("scale_down.per", "31m")], TRITON, "31m is more than Kubernetes allows"),
        ([("scale_up.per", "1m")], TRITON, "has no effect without replicas"),
        ([("target", "50")], TRITON, "is not a duration: an integer with"),
        ([("max", "all")], TRITON, "partitions"),
        ([("window", "0s")], TRITON, "is not a time: an integer of at least 1"),
    ],
)
def test_contradictory_autoscaling_settings_are_refused(
    changes: list[tuple[str, Any]], of: int, said: str
) -> None:
    assert said in refusal(written(*changes, of=of))


def test_replicas_that_may_go_before_prometheus_has_lost_all_servers_are_noted() -> None:
    def noted(stabilization: str) -> bool:
        raw = written(("scale_down.stabilization", stabilization))
        raw["monitoring"] = {"prometheus": "existing", "url": URL, "scrape_interval": "20s"}
        return "knows some of them" in "\n".join(plan.notes(planned(raw)))

    assert noted("34s")
    assert not noted("35s")


def test_a_model_that_is_not_loaded_is_refused() -> None:
    loaded = (("..model_control", "explicit"), ("..load_models", ["densenet"]))
    assert "did you mean densenet?" in refusal(written(*loaded))


def test_a_server_of_any_image_follows_a_query_only() -> None:
    raw = copy.deepcopy(CONTAINER)
    raw["pod_autoscaling"] = {"prometheus_url": URL}
    raw["workloads"] = [{k: v for k, v in raw["workloads"][0].items() if k != "replicas"}]
    raw["workloads"][0]["autoscaling"] = {"metric": "queue-time", "target": "1s"}
    assert "a workload of kind container has no queue-time" in refusal(raw)
    raw["workloads"][0]["autoscaling"] = {"metric": "query", "query": "sum(a)", "target": 3}
    (one,) = planned(raw).deployments
    assert manifests.scaling_query(one) == "sum(a)"


def test_autoscaling_requires_a_prometheus() -> None:
    raw = written()
    del raw["pod_autoscaling"]
    assert "workloads[0].autoscaling: needs a Prometheus" in refusal(raw)
    raw["workloads"][0].pop("autoscaling")
    assert planned(raw).pod_autoscaling is None


def test_keda_queries_the_stacks_prometheus_by_default() -> None:
    raw = written()
    del raw["pod_autoscaling"]
    raw["monitoring"] = {"prometheus": "stack"}
    assert told_url(raw) == URL
    raw["monitoring"] = {"prometheus": "existing", "url": "http://there:9090/"}
    assert told_url(raw) == "http://there:9090"
    raw["pod_autoscaling"] = {"prometheus_url": "http://other:9090/"}
    assert told_url(raw) == "http://other:9090"


def told_url(raw: dict[str, Any]) -> str:
    fleet = planned(raw)
    assert fleet.pod_autoscaling is not None
    return fleet.pod_autoscaling.prometheus_url


def test_a_managed_prometheus_that_cannot_be_queried_is_refused() -> None:
    raw = stack("vllm")
    raw["monitoring"] = {"prometheus": "managed"}
    raw["workloads"] = [{k: v for k, v in raw["workloads"][0].items() if k != "replicas"}]
    raw["workloads"][0]["autoscaling"] = {"metric": "requests-waiting", "target": 4}
    assert "add monitoring.url" in refusal(raw)
    raw["monitoring"]["url"] = "http://frontend.monitoring.svc:9090"
    assert told_url(raw) == "http://frontend.monitoring.svc:9090"


def test_a_window_without_two_samples_is_refused() -> None:
    raw = written(("window", "30s"))
    del raw["pod_autoscaling"]
    raw["monitoring"] = {"prometheus": "stack", "scrape_interval": "15s"}
    assert planned(raw).pod_autoscaling is not None
    raw["monitoring"]["scrape_interval"] = "16s"
    said = refusal(raw)
    assert "workloads[0].autoscaling.window: 30s is too short for two samples" in said
    assert "write 64s or more" in said


def test_keda_is_not_installed_without_autoscaled_workloads() -> None:
    raw = written(("..autoscaling", None))
    assert planned(raw).pod_autoscaling is None


def test_keda_has_only_the_rights_that_it_needs() -> None:
    made = manifests.keda_values(planned(FLEET))
    assert made["watchNamespace"] == "ai,default"
    assert made["permissions"]["operator"]["restrict"]["secret"] is True
    assert made["permissions"]["metricServer"]["restrict"]["secret"] is True
    assert made["rbac"] == {"aggregateToDefaultRoles": False, "enabledCustomScaledRefKinds": False}
    assert made["webhooks"] == {"enabled": False}
    assert "nodeSelector" not in made  # nodes of an existing cluster have no such label


def test_kedas_namespace_is_not_one_of_the_workloads() -> None:
    raw = copy.deepcopy(FLEET)
    raw["pod_autoscaling"]["namespace"] = "ai"
    assert "pod_autoscaling.namespace: ai is in use" in refusal(raw)
    raw["pod_autoscaling"]["existing"] = True
    assert planned(raw).pod_autoscaling is not None


def test_an_oci_chart_is_one_address() -> None:
    raw = copy.deepcopy(FLEET)
    assert manifests.keda_chart(planned(raw)) == ("keda", "https://kedacore.github.io/charts")
    raw["pod_autoscaling"]["repository"] = "oci://registry.example.com/charts/"
    assert manifests.keda_chart(planned(raw)) == ("oci://registry.example.com/charts/keda", None)


@pytest.mark.parametrize("existing", [False, True])
def test_the_program_creates_keda_before_the_scaled_objects(
    existing: bool, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(existing_cluster, "provider", lambda *_: k8s.Provider("kubernetes"))
    raw = copy.deepcopy(FLEET)
    raw["pod_autoscaling"]["existing"] = existing
    made = record("autoscaling", fleet=yaml.safe_dump(raw))
    releases = [m for m in made if m.type == "kubernetes:helm.sh/v3:Release"]
    keda = [m for m in releases if m.inputs["chart"] == "keda"]
    assert [(m.inputs["version"], m.inputs["name"]) for m in keda] == (
        [] if existing else [("2.21.0", "keda")]
    )
    objects = {
        m.inputs["metadata"]["name"]: m for m in made if m.inputs.get("kind") == "ScaledObject"
    }
    fleet = planned(raw)
    assert objects.keys() == {"tritonserver", "llm"}
    for one in fleet.deployments:
        expected = manifests.scaled_object(one, URL)
        assert objects[one.name].inputs["spec"] == expected["spec"]
        assert objects[one.name].inputs["metadata"]["namespace"] == one.namespace


def test_the_plan_as_json_says_how_a_workload_is_scaled() -> None:
    from slicewright.show.plan_json import as_json

    first, second = as_json(planned(FLEET))["deployments"]
    assert first["autoscaling"] == {
        "min": 1,
        "max": 7,
        "metric": "queue-time",
        "target": 50,
        "unit": "us",
        "per_replica": False,
        "query": manifests.scaling_query(planned(FLEET).deployments[0]),
        "fallback_replicas": 1,
    }
    assert (second["replicas"], second["autoscaling"]["max"]) == (0, 16)
    json.dumps(second)
