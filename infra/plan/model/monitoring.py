"""The plan of a fleet's monitoring, decided to the last value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from slicewright.infra.stack_file import (
    ExistingPrometheus,
    ManagedPrometheus,
    Monitoring,
    PrometheusStack,
)

_CHART: Final = "kube-prometheus-stack"
_LONGEST_NAME: Final = 26
_PORT: Final = 9090
DCGM_INTERVAL_S: Final = 30
"""How often DCGM's exporter has new values (NVIDIA/dcgm-exporter, DCGM_EXPORTER_INTERVAL)."""
_LEAST_WINDOW_S: Final = 60


@dataclass(frozen=True, kw_only=True)
class MonitoringPlan:
    """The monitoring of one fleet that has a cluster."""

    settings: Monitoring

    @property
    def prometheus_url(self) -> str:
        """The URL where pods of the cluster ask PromQL. Empty if nothing in the cluster answers."""
        match self.settings:
            case PrometheusStack(release=release, namespace=namespace):
                return f"http://{chart_name(release)}-prometheus.{namespace}.svc:{_PORT}"
            case ExistingPrometheus(url=url):
                return url.rstrip("/")
            case ManagedPrometheus(url=url):
                return (url or "").rstrip("/")

    @property
    def managed(self) -> bool:
        """Whether GKE's own collectors send the metrics to Managed Service for Prometheus."""
        return isinstance(self.settings, ManagedPrometheus)

    @property
    def namespace(self) -> str | None:
        """Namespace of Prometheus and its objects. None: each is in the namespace of its pods."""
        return None if isinstance(self.settings, ManagedPrometheus) else self.settings.namespace

    @property
    def selector_labels(self) -> Mapping[str, str]:
        """Labels of the monitors and rules that Prometheus selects."""
        match self.settings:
            case PrometheusStack(release=release):
                return {"release": release}
            case ExistingPrometheus(selector_labels=labels):
                return dict(sorted(labels.items()))
            case ManagedPrometheus():
                return {}

    @property
    def dashboards(self) -> bool:
        return not isinstance(self.settings, ManagedPrometheus) and self.settings.dashboards

    @property
    def interval_s(self) -> int:
        """Seconds between two scrapes of agents, fleet controller and workloads."""
        return (
            60 if self.settings.scrape_interval == "1m" else int(self.settings.scrape_interval[:-1])
        )

    @property
    def dcgm_interval_s(self) -> int:
        return max(self.interval_s, DCGM_INTERVAL_S)

    @property
    def window_s(self) -> int:
        """The time span of rates, in seconds: four scrapes, so that one may be lost."""
        return max(_LEAST_WINDOW_S, 4 * self.interval_s)


def chart_name(release: str) -> str:
    """The beginning of the names of the chart's objects.

    Source: prometheus-community/helm-charts, kube-prometheus-stack, templates/_helpers.tpl
    (kube-prometheus-stack.fullname): with the release's name before the chart's, unless it contains
    that, cut to 26 characters.
    """
    name = release if _CHART in release else f"{release}-{_CHART}"
    return name[:_LONGEST_NAME].removesuffix("-")
