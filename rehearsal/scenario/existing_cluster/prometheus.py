"""Prometheus and its operator, which a stack with `prometheus: existing` asks of its cluster.

Made from the stand-in for kube-prometheus-stack, as its owner would have installed it, under the
address that the stack file names.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from infra.spec import ExistingPrometheus
from kubeapi import Client, JsonObject
from kubeapi.client import path_of
from rehearsal.plugins.charts import prometheus_stack
from rehearsal.scenario.errors import RehearsalError

_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_OWNER: Final = "prometheus-owner"
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
    for crd in prometheus_stack.crds():
        _apply(client, f"{_CRDS}/{crd['metadata']['name']}", crd)
    for crd in prometheus_stack.crds():
        _until(client, f"{_CRDS}/{crd['metadata']['name']}", "Established")
    for one in sorted({namespace, asked.namespace}):
        made: JsonObject = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": one}}
        _apply(client, f"/api/v1/namespaces/{one}", made)
    values = _values(name.removesuffix(_SUFFIX), asked)
    for made in prometheus_stack.render(values, name, namespace):
        _apply(client, _path(made), made)
    of_operator = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    _until(client, f"{of_operator}/{name.removesuffix(_SUFFIX)}-operator", "Available")
    operated = f"/apis/monitoring.coreos.com/v1/namespaces/{namespace}/prometheuses/{name}"
    _until(client, operated, "Available")


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


def _path(made: JsonObject) -> str:
    metadata, lower = made["metadata"], made["kind"].lower()
    plural = f"{lower}es" if lower.endswith("s") else f"{lower}s"
    return path_of(made["apiVersion"], plural, metadata["name"], metadata.get("namespace"))


def _apply(client: Client, path: str, made: JsonObject) -> None:
    client.patch(path, made, kind="apply", fieldManager=_OWNER, force="true")


def _until(client: Client, path: str, condition: str) -> None:
    deadline = time.monotonic() + _TIMEOUT_S
    while condition not in set(_true(client.get(path))):
        if time.monotonic() > deadline:
            raise RehearsalError(
                f"existing cluster: {path} is not {condition} after {_TIMEOUT_S:.0f} s"
            )
        time.sleep(0.2)


def _true(found: JsonObject) -> Iterator[str]:
    for one in (found.get("status") or {}).get("conditions") or ():
        if one["status"] == "True":
            yield one["type"]
