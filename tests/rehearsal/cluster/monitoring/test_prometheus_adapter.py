"""prometheus-adapter as a stack makes it, and Kubernetes' own HorizontalPodAutoscaler:
existing-a100-t4's way.

The adapter, Prometheus and the autoscaler are real; cert-manager and the servers, whose metrics are
those of Triton, are stand-ins.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from slicewright.infra import manifests, plan, stack_file
from slicewright.infra.manifests.monitoring.scrapes import monitors
from slicewright.kubeapi import ApiError
from slicewright.rehearsal.cluster.cert_manager.certificates import secret_of
from slicewright.rehearsal.scenario.existing_cluster import certificates
from tests.rehearsal.cluster.monitoring.installed import Prometheus, apply
from tests.rehearsal.cluster.monitoring.queued import replicas, serve, waits

pytestmark = [
    pytest.mark.timeout(1200),
    pytest.mark.long(
        "replicas that follow a query, by KEDA: tests/rehearsal/cluster/monitoring/test_keda.py"
    ),
]
GOLDEN = Path(__file__).parents[3] / "infra/golden/prometheus-adapter.yaml"
API = "/apis/custom.metrics.k8s.io/v1beta1"
METRIC = "avg_time_queue_us_tritonserver"
VALUES = f"{API}/namespaces/default/pods/*/{METRIC}"
NAME = "tritonserver"
DEPLOYMENT = f"/apis/apps/v1/namespaces/default/deployments/{NAME}"
NAMESPACE = "prometheus-adapter"
SECRET = f"/api/v1/namespaces/{NAMESPACE}/secrets/prometheus-adapter-tls"
INJECT = "cert-manager.io/inject-ca-from"
OTHER = {"secretName": "o", "dnsNames": ["prometheus-adapter.prometheus-adapter.svc"]}
_LONG_S = 300


def planned() -> plan.FleetPlan:
    raw = yaml.safe_load(GOLDEN.read_text())["config"]["slicewright:fleet"]
    raw["workloads"][0]["autoscaling"]["scale_down"] = {"stabilization": "0s"}
    return plan.read(json.dumps(raw), stack_file.Source("test", raw))


@pytest.fixture(scope="module")
def adapter(cluster: Any, prometheus: Prometheus) -> Iterator[None]:
    """All that a stack makes of it, in a cluster that has cert-manager; and servers."""
    certificates.install(cluster.client)
    fleet = planned()
    (workload,) = fleet.deployments
    assert fleet.pod_autoscaling is not None
    assert prometheus.url == fleet.pod_autoscaling.prometheus_url
    (monitor,) = (one for one in monitors(fleet) if "tritonserver" in one["metadata"]["name"])
    apply(cluster, monitor)
    serve(cluster, NAME, monitor["spec"]["selector"]["matchLabels"])
    made = manifests.adapter_objects(fleet)
    for manifest in (*made, manifests.pod_autoscaler(workload)):
        apply(cluster, dict(manifest))
    cluster.until(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{NAMESPACE}", _available)
    cluster.until(
        "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.custom.metrics.k8s.io", _available
    )
    yield
    # Without the autoscaler, whose metrics no other test's adapter has.
    cluster.client.delete(
        "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers/tritonserver"
    )


def _available(found: dict[str, Any] | None) -> bool:
    conditions = ((found or {}).get("status") or {}).get("conditions") or ()
    return any(c["type"] == "Available" and c["status"] == "True" for c in conditions)


def measured(cluster: Any) -> dict[str, int]:
    """Microseconds by pod of these servers, beside which other tests have theirs; empty while the
    adapter knows of none.
    """
    try:
        items = cluster.client.get(VALUES)["items"]
    except ApiError as e:
        if e.status != 404:
            raise
        return {}
    found = {one["describedObject"]["name"]: _milli(one["value"]) // 1000 for one in items}
    return {name: value for name, value in found.items() if name.startswith(f"{NAME}-")}


def _milli(quantity: str) -> int:
    return int(quantity[:-1]) if quantity.endswith("m") else 1000 * int(quantity)


def until_measured(cluster: Any, wanted: list[int]) -> None:
    deadline = time.monotonic() + _LONG_S
    while sorted((found := measured(cluster)).values()) != wanted:
        assert time.monotonic() < deadline, found
        time.sleep(0.5)


def test_the_metric_is_listed_for_pods_and_namespaces(cluster: Any, adapter: None) -> None:  # S4-43
    deadline = time.monotonic() + _LONG_S
    while not (found := cluster.client.get(API)["resources"]):
        assert time.monotonic() < deadline
        time.sleep(0.5)
    assert {one["name"]: (one["kind"], one["verbs"], one["namespaced"]) for one in found} == {
        f"pods/{METRIC}": ("MetricValueList", ["get"], True),
        f"namespaces/{METRIC}": ("MetricValueList", ["get"], False),
    }


def test_values_can_be_read_for_all_pods_and_replicas_follow_their_mean(
    cluster: Any, adapter: None
) -> None:  # S4-44, -45, -47
    until_measured(cluster, [0])
    waits(cluster, NAME, 190)
    # ceil(190 us in all / 50 us a pod): there the mean is within a tenth of the target, and stays.
    cluster.until(DEPLOYMENT, replicas(4), _LONG_S)
    until_measured(cluster, [0, 0, 0, 190])
    waits(cluster, NAME, 10_000)
    cluster.until(DEPLOYMENT, replicas(7), _LONG_S)
    waits(cluster, NAME, 0)
    cluster.until(DEPLOYMENT, replicas(1), _LONG_S)


def test_without_prometheus_the_replicas_stay(
    cluster: Any, adapter: None, prometheus: Prometheus
) -> None:
    waits(cluster, NAME, 190)
    cluster.until(DEPLOYMENT, replicas(4), _LONG_S)
    path = f"/apis/monitoring.coreos.com/v1/namespaces/monitoring/prometheuses/{prometheus.name}"
    cluster.client.patch(path, {"spec": {"replicas": 0}})
    autoscaler = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers/tritonserver"
    try:

        def has_no_metric(found: dict[str, Any] | None) -> bool:
            conditions = ((found or {}).get("status") or {}).get("conditions") or ()
            return any(
                c["type"] == "ScalingActive" and c["reason"] == "FailedGetPodsMetric"
                for c in conditions
            )

        cluster.until(autoscaler, has_no_metric, _LONG_S)
        # Meanwhile nobody waits any more, which nobody can measure.
        waits(cluster, NAME, 0)
        assert cluster.client.get(DEPLOYMENT)["spec"]["replicas"] == 4
    finally:
        cluster.client.patch(path, {"spec": {"replicas": 1}})
    cluster.until(DEPLOYMENT, replicas(1), _LONG_S)


def test_its_connection_is_verified_by_the_certificates_own_authority(
    cluster: Any, adapter: None
) -> None:  # S4-42, mended
    service = "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.custom.metrics.k8s.io"
    asked = cluster.client.get(service)["spec"]
    assert asked["caBundle"] == cluster.client.get(SECRET)["data"]["ca.crt"]
    assert not asked.get("insecureSkipTLSVerify")
    # Another's in its place, which cert-manager is kept from mending: the API server does not ask.
    other = secret_of({"metadata": {"name": "o", "namespace": "n"}, "spec": OTHER})
    cluster.client.patch(
        service,
        {
            "metadata": {"annotations": {INJECT: None}},
            "spec": {"caBundle": other["data"]["ca.crt"]},
        },
    )

    def refused(found: dict[str, Any] | None) -> bool:
        conditions = ((found or {}).get("status") or {}).get("conditions") or ()
        return any(
            c["type"] == "Available" and c["status"] == "False" and "x509" in c["message"]
            for c in conditions
        )

    try:
        cluster.until(service, refused, _LONG_S)
    finally:
        certificate = f"{NAMESPACE}/prometheus-adapter"
        cluster.client.patch(service, {"metadata": {"annotations": {INJECT: certificate}}})
    cluster.until(service, _available, _LONG_S)


def test_it_may_read_pods_and_namespaces_and_nothing_else_and_says_of_no_right_that_it_lacks(
    cluster: Any, adapter: None
) -> None:
    pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
    (pod,) = cluster.client.get(pods)["items"]
    log = cluster.log(f"{pods}/{pod['metadata']['name']}")
    assert "forbidden" not in log, [line for line in log.splitlines() if "forbidden" in line]
