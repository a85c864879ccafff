"""The targets that Prometheus scrapes, and their monitors: of its operator, or of GKE.

Labels that all samples get: `node`, and `pool` or `workload` if the pod has one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from slicewright.apis import names
from slicewright.infra.manifests.text import JsonObject
from slicewright.infra.manifests.workloads.heads import WORKLOAD_LABEL
from slicewright.infra.plan import DeploymentPlan, FleetPlan, GkeFleetPlan, MonitoringPlan
from slicewright.infra.stack_file import ContainerWorkload, TritonWorkload, VllmWorkload

_NAME: Final = "app.kubernetes.io/name"
_TIMEOUT_S: Final = 10
DCGM: Final = "dcgm-exporter"
_SAMPLE_LABELS: Final[Mapping[str, str]] = {names.POOL_LABEL: "pool", WORKLOAD_LABEL: "workload"}
"""Label of a pod -> label of its samples."""


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """One page of metrics of a pod, at /metrics."""

    port: str
    """The port's name in the container."""
    interval_s: int
    honor_labels: bool = False
    """True if all samples have labels `namespace`, `pod` and `container` of another pod."""


@dataclass(frozen=True, kw_only=True)
class Scrape:
    """A target: the pods of one kind in one namespace."""

    name: str
    namespace: str
    selector: Mapping[str, str]
    endpoints: tuple[Endpoint, ...]


def scrapes(fleet: FleetPlan) -> tuple[Scrape, ...]:
    """Agents, fleet controller, DCGM's exporter if the GPU operator runs it, and servers."""
    interval_s = _monitoring(fleet).interval_s
    health = Endpoint(port="http", interval_s=interval_s)
    attribution = Endpoint(port="attribution", interval_s=interval_s, honor_labels=True)
    return (
        Scrape(
            name="node-agent",
            namespace=names.NAMESPACE,
            selector={_NAME: "node-agent"},
            endpoints=(health, attribution) if fleet.node_agent.attribution else (health,),
        ),
        Scrape(
            name="fleet-controller",
            namespace=names.NAMESPACE,
            selector={_NAME: "fleet-controller"},
            endpoints=(health,),
        ),
        *_exporter_scrape(fleet),
        *_server_scrapes(fleet),
    )


def _exporter_scrape(fleet: FleetPlan) -> Iterator[Scrape]:
    operator = fleet.operator
    if operator is not None and fleet.operated and operator.dcgm_exporter.enabled:
        yield Scrape(
            name=DCGM,
            namespace=operator.namespace,
            # Source: NVIDIA/gpu-operator, assets/state-dcgm-exporter, daemonset.
            selector={"app": "nvidia-dcgm-exporter"},
            endpoints=(Endpoint(port="metrics", interval_s=_monitoring(fleet).dcgm_interval_s),),
        )


def _server_scrapes(fleet: FleetPlan) -> Iterator[Scrape]:
    for plan in fleet.deployments:
        if (port := metrics_port(plan)) is not None:
            yield Scrape(
                name=f"workload-{plan.namespace}-{plan.name}",
                namespace=plan.namespace,
                selector={WORKLOAD_LABEL: plan.name},
                endpoints=(Endpoint(port=port, interval_s=_monitoring(fleet).interval_s),),
            )


def _monitoring(fleet: FleetPlan) -> MonitoringPlan:
    assert fleet.monitoring is not None
    return fleet.monitoring


def metrics_port(plan: DeploymentPlan) -> str | None:
    """The port of a server's metrics, by name. None: the server has no known metrics."""
    match plan.workload:
        case TritonWorkload():
            return "metrics"
        case VllmWorkload():
            return "http"
        case ContainerWorkload():
            return None


def monitors(fleet: FleetPlan) -> list[JsonObject]:
    """The scrapes as objects of the Prometheus operator, or of GKE's managed collection."""
    plan = _monitoring(fleet)
    if plan.namespace is None:
        assert isinstance(fleet, GkeFleetPlan)
        return [_pod_monitoring(scrape) for scrape in scrapes(fleet)]
    return [_monitor(scrape, plan, plan.namespace) for scrape in scrapes(fleet)]


def _monitor(scrape: Scrape, plan: MonitoringPlan, namespace: str) -> JsonObject:
    """Source: monitoring.coreos.com/v1, PodMonitor."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": {
            "name": scrape.name,
            "namespace": namespace,
            "labels": dict(plan.selector_labels),
        },
        "spec": {
            "selector": {"matchLabels": dict(scrape.selector)},
            "namespaceSelector": {"matchNames": [scrape.namespace]},
            "podMetricsEndpoints": [_endpoint(endpoint, scrape) for endpoint in scrape.endpoints],
        },
    }


def _endpoint(endpoint: Endpoint, scrape: Scrape) -> JsonObject:
    page: JsonObject = {
        "port": endpoint.port,
        "path": "/metrics",
        "interval": f"{endpoint.interval_s}s",
        # Prometheus refuses a timeout that is longer than the interval.
        "scrapeTimeout": f"{min(_TIMEOUT_S, endpoint.interval_s)}s",
        "relabelings": [
            {"sourceLabels": ["__meta_kubernetes_pod_node_name"], "targetLabel": "node"},
            *(
                {
                    "sourceLabels": [f"__meta_kubernetes_pod_label_{_sanitized(label)}"],
                    "targetLabel": target,
                }
                for label, target in _labels(scrape).items()
            ),
        ],
    }
    if endpoint.honor_labels:
        page["honorLabels"] = True
    return page


def _pod_monitoring(scrape: Scrape) -> JsonObject:
    """A PodMonitoring selects pods of its own namespace.

    Source: GoogleCloudPlatform/prometheus-engine, doc/api.md, PodMonitoring.
    """
    labels = [{"from": label, "to": target} for label, target in _labels(scrape).items()]
    return {
        "apiVersion": "monitoring.googleapis.com/v1",
        "kind": "PodMonitoring",
        "metadata": {"name": scrape.name, "namespace": scrape.namespace},
        "spec": {
            "selector": {"matchLabels": dict(scrape.selector)},
            "endpoints": [
                {
                    "port": endpoint.port,
                    "path": "/metrics",
                    "interval": f"{endpoint.interval_s}s",
                    "timeout": f"{min(_TIMEOUT_S, endpoint.interval_s)}s",
                }
                for endpoint in scrape.endpoints
            ],
            "targetLabels": {
                "metadata": ["pod", "container", "node"],
                **({"fromPod": labels} if labels else {}),
            },
        },
    }


def _labels(scrape: Scrape) -> Mapping[str, str]:
    """The labels that the pods have."""
    if WORKLOAD_LABEL in scrape.selector:
        return {WORKLOAD_LABEL: _SAMPLE_LABELS[WORKLOAD_LABEL]}
    return (
        {names.POOL_LABEL: _SAMPLE_LABELS[names.POOL_LABEL]} if scrape.name == "node-agent" else {}
    )


def _sanitized(label: str) -> str:
    """The name of a label in the form of Prometheus' service discovery."""
    return "".join(c if c.isalnum() else "_" for c in label)


def scraped_jobs(fleet: FleetPlan) -> Sequence[str]:
    """Values of the label `job` of the samples. The operator's rule is `<namespace>/<name>`."""
    plan = _monitoring(fleet)
    if plan.namespace is None:
        return [scrape.name for scrape in scrapes(fleet)]
    return [f"{plan.namespace}/{scrape.name}" for scrape in scrapes(fleet)]
