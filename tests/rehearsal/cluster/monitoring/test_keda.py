"""KEDA and the real HorizontalPodAutoscaler: replicas follow a query, and stay when it fails."""

from __future__ import annotations

from typing import Any

import pytest

from tests.rehearsal.cluster.monitoring.installed import Prometheus, Source, apply

pytestmark = pytest.mark.timeout(1200)
DEPLOYMENT = "/apis/apps/v1/namespaces/default/deployments/served"
_LONG_S = 300


@pytest.fixture(scope="module")
def demand(cluster: Any, prometheus: Prometheus, keda: None) -> Source:
    """What the Deployment `served` is scaled by: a replica for each."""
    source = Source(cluster, "asked-for", 1)
    prometheus.until("demand{pod='asked-for'}", {"asked-for": 1})
    pod = {
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "main", "image": "registry.k8s.io/pause:3.10"}],
    }
    apply(
        cluster,
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "served", "namespace": "default"},
            "spec": {
                "selector": {"matchLabels": {"app": "served"}},
                "template": {"metadata": {"labels": {"app": "served"}}, "spec": pod},
            },
        },
    )
    pace = {"stabilizationWindowSeconds": 0}
    apply(
        cluster,
        {
            "apiVersion": "keda.sh/v1alpha1",
            "kind": "ScaledObject",
            "metadata": {"name": "served", "namespace": "default"},
            "spec": {
                "scaleTargetRef": {"name": "served"},
                "pollingInterval": 1,
                "minReplicaCount": 1,
                "maxReplicaCount": 7,
                "advanced": {
                    "horizontalPodAutoscalerConfig": {
                        "behavior": {"scaleUp": pace, "scaleDown": pace}
                    }
                },
                "triggers": [
                    {
                        "type": "prometheus",
                        "metadata": {
                            "serverAddress": prometheus.url,
                            "query": "max(demand{pod='asked-for'})",
                            "threshold": "1",
                            "ignoreNullValues": "false",
                        },
                    }
                ],
                "fallback": {"failureThreshold": 2, "replicas": 4, "behavior": "static"},
            },
        },
    )
    return source


def replicas(count: int) -> Any:
    def holds(found: dict[str, Any] | None) -> bool:
        status = (found or {}).get("status") or {}
        return bool(status.get("readyReplicas") == status.get("replicas") == count)

    return holds


def test_replicas_follow_the_query_up_to_the_limit_and_down_again(
    cluster: Any, demand: Source
) -> None:
    cluster.until(DEPLOYMENT, replicas(1), _LONG_S)
    demand.set(5)
    cluster.until(DEPLOYMENT, replicas(5), _LONG_S)
    demand.set(50)
    cluster.until(DEPLOYMENT, replicas(7), _LONG_S)
    demand.set(2)
    cluster.until(DEPLOYMENT, replicas(2), _LONG_S)


def test_without_prometheus_the_replicas_are_those_of_the_fallback(
    cluster: Any, demand: Source, prometheus: Prometheus
) -> None:
    demand.set(2)
    cluster.until(DEPLOYMENT, replicas(2), _LONG_S)
    path = f"/apis/monitoring.coreos.com/v1/namespaces/monitoring/prometheuses/{prometheus.name}"
    cluster.client.patch(path, {"spec": {"replicas": 0}})
    try:
        cluster.until(DEPLOYMENT, replicas(4), _LONG_S)
        scaled = "/apis/keda.sh/v1alpha1/namespaces/default/scaledobjects/served"

        def falls_back(found: dict[str, Any] | None) -> bool:
            conditions = ((found or {}).get("status") or {}).get("conditions") or ()
            return any(c["type"] == "Fallback" and c["status"] == "True" for c in conditions)

        cluster.until(scaled, falls_back)
    finally:
        cluster.client.patch(path, {"spec": {"replicas": 1}})
    # Prometheus has forgotten what it measured, and measures anew.
    cluster.until(DEPLOYMENT, replicas(2), _LONG_S)
