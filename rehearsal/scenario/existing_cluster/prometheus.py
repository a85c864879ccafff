"""Prometheus and its operator, which a stack with `prometheus: existing` asks of its cluster.

Made from the stand-in for kube-prometheus-stack, as its owner would have installed it, under the
address that the stack file names.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from slicewright.infra.stack_file import ExistingPrometheus
from slicewright.kubeapi import Client, JsonObject
from slicewright.rehearsal.plugins.charts import prometheus_stack
from slicewright.rehearsal.scenario.existing_cluster.objects import Owner

_TIMEOUT_S: Final = 240.0
_SUFFIX: Final = "-prometheus"
"""The chart's, of the name of its Prometheus and of that one's Service."""
_LONGEST_NAME: Final = 26
_PORT: Final = 9090
_NOT_MADE: Final = (
    *("kubeApiServer", "kubelet", "kubeControllerManager", "coreDns", "kubeEtcd", "kubeScheduler"),
    *("kubeProxy", "nodeExporter", "grafana", "alertmanager", "kubeStateMetrics"),
)


def service_of(url: str) -> tuple[str, str] | None:
    """Name and namespace of the Service that the address names; None where it is not one that the
    chart could have made: http://NAME-prometheus.NAMESPACE.svc:9090.
    """
    parts = urlsplit(url)
    name, _, rest = (parts.hostname or "").partition(".")
    namespace, _, domain = rest.partition(".")
    short = name.removesuffix(_SUFFIX)
    made = (
        parts.scheme == "http"
        and parts.port == _PORT
        and not parts.path.strip("/")
        and domain in ("svc", "svc.cluster.local")
        and short != name
        and 0 < len(short) <= _LONGEST_NAME
    )
    return (name, namespace) if made else None


def install(client: Client, asked: ExistingPrometheus) -> None:
    """Returns when it runs. Raises ApiError, Unreachable, and RehearsalError after four minutes."""
    found = service_of(asked.url)
    assert found is not None, "stack_check refuses it"
    name, namespace = found
    owner = Owner(client=client, manager="prometheus-owner", timeout_s=_TIMEOUT_S)
    owner.apply_crds(prometheus_stack.crds())
    for one in sorted({namespace, asked.namespace}):
        owner.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": one}})
    values = _values(name.removesuffix(_SUFFIX), asked)
    for made in prometheus_stack.render(values, name, namespace):
        owner.apply(made)
    of_operator = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    owner.wait(f"{of_operator}/{name.removesuffix(_SUFFIX)}-operator", "Available")
    operated = f"/apis/monitoring.coreos.com/v1/namespaces/{namespace}/prometheuses/{name}"
    owner.wait(operated, "Available")


def _values(fullname: str, asked: ExistingPrometheus) -> JsonObject:
    off: JsonObject = {"enabled": False}
    selector = {"matchLabels": dict(asked.selector_labels)}
    return {
        **dict.fromkeys(_NOT_MADE, off),
        "fullnameOverride": fullname,
        "defaultRules": {"create": False},
        "prometheusOperator": {"admissionWebhooks": off, "tls": off, "kubeletService": off},
        "prometheus": {
            "prometheusSpec": {
                "podMonitorSelector": selector,
                "serviceMonitorSelector": selector,
                "ruleSelector": selector,
            }
        },
    }
