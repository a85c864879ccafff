"""A real control plane with Prometheus, its operator and KEDA, from their charts' stand-ins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from slicewright.rehearsal.host.toolchain import Toolchain
from tests.rehearsal.cluster.kubelet.simulated_cluster import running_cluster
from tests.rehearsal.cluster.monitoring.installed import Prometheus, install

NOT_SCRAPED = (
    *("kubeApiServer", "kubelet", "kubeControllerManager", "coreDns", "kubeEtcd", "kubeScheduler"),
    *("kubeProxy", "nodeExporter", "grafana", "alertmanager", "kubeStateMetrics"),
)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory, whole_toolchain: Toolchain) -> Iterator[Any]:
    with running_cluster(tmp_path_factory.mktemp("rehearsal"), whole_toolchain) as made:
        made.add_node("n1")
        yield made


@pytest.fixture(scope="session")
def prometheus(cluster: Any) -> Prometheus:
    """Prometheus, made by its operator."""
    namespace, release = "monitoring", "kube-prom-stack"
    off = {"enabled": False}
    install(
        cluster,
        "kube-prometheus-stack",
        "https://prometheus-community.github.io/helm-charts",
        release,
        namespace,
        {
            **dict.fromkeys(NOT_SCRAPED, off),
            "defaultRules": {"create": False},
            "prometheusOperator": {
                "admissionWebhooks": off,
                "tls": off,
                "kubeletService": off,
                "prometheusInstanceNamespaces": [namespace],
            },
            "prometheus": {"prometheusSpec": {"scrapeInterval": "1s", "scrapeTimeout": "1s"}},
        },
    )
    name = "kube-prom-stack-kube-prome-prometheus"
    cluster.ready(f"/api/v1/namespaces/{namespace}/pods/prometheus-{name}-0")
    return Prometheus(cluster, namespace, name)


@pytest.fixture(scope="session")
def keda(cluster: Any) -> None:
    """KEDA, with its API of external metrics available."""
    install(
        cluster,
        "keda",
        "https://kedacore.github.io/charts",
        "keda",
        "keda",
        {"webhooks": {"enabled": False}},
    )

    def available(found: dict[str, Any] | None) -> bool:
        conditions = ((found or {}).get("status") or {}).get("conditions") or ()
        return any(c["type"] == "Available" and c["status"] == "True" for c in conditions)

    cluster.until(
        "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.external.metrics.k8s.io", available
    )
