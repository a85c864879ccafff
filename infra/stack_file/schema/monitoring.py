"""The Prometheus of a fleet: installed by the stack, existing, or managed by GKE."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from slicewright.infra.stack_file.schema import charts
from slicewright.infra.stack_file.schema.constraints import OWN_LIMIT, DnsLabel, IntRange, Pattern
from slicewright.infra.stack_file.schema.field_types import (
    LabelKey,
    LabelValue,
    Memory,
    NamespaceName,
    ObjectName,
)
from slicewright.infra.stack_file.schema.model import SpecModel

_CHART = "prometheus-community/helm-charts, charts/kube-prometheus-stack"
Url = Annotated[
    str,
    Pattern(
        pattern=r"https?://[A-Za-z0-9][-A-Za-z0-9.]*(?::[0-9]{1,5})?(?:/[^\s\x00-\x1f?#]*)?",
        is_not="the URL of a server, with http or https and without a query",
        examples=("http://prometheus-operated.monitoring.svc:9090",),
        source="Prometheus docs, HTTP API",
    ),
]


class Storage(SpecModel):
    """A volume for Prometheus' data."""

    size: Memory
    storage_class: ObjectName | None = None
    """None: the cluster's default."""


class Alertmanager(SpecModel):
    """The chart's Alertmanager."""

    config_secret: ObjectName
    """An existing Secret of the namespace, with Alertmanager's configuration under the key
    `alertmanager.yaml`, which contains the passwords of the notified services.
    """


class _Monitoring(SpecModel):
    scrape_interval: Annotated[
        str,
        Pattern(
            pattern=r"(?:[1-9]|[1-5][0-9]|60)s|1m",
            is_not="an interval between two scrapes, of 1s to 60s",
            examples=("10s", "30s"),
            source="Prometheus docs, scrape_interval; samples are stale after 5 minutes",
        ),
    ] = "10s"
    """Interval between scrapes of agents, fleet controller and workloads. DCGM's exporter is
    scraped at most every 30 seconds, because it updates its values no more often.
    """
    alerts: bool = True
    """Alerts, and the recording rules for alerts and dashboards."""
    runbooks: Url | None = None
    """URL of slicewright's `docs` for the links of alerts. By default links are relative paths.
    """


class _Operated(_Monitoring):
    """Monitoring with the Prometheus operator."""

    namespace: NamespaceName = "monitoring"
    """Namespace of Prometheus, monitors, rules and dashboards."""
    dashboards: bool = True
    """Dashboards, as ConfigMaps with the label `grafana_dashboard`, selected by the sidecar of
    a Grafana. The stack deploys no Grafana.
    """


class PrometheusStack(_Operated):
    """The chart kube-prometheus-stack, pinned, on the system pool."""

    prometheus: Literal["stack"]
    create_namespace: bool = True
    """Whether the stack creates the namespace. False if it has Secrets that the chart needs."""
    release: Annotated[str, DnsLabel(53, "Helm docs, release names", "kube-prom-stack")] = (
        "kube-prom-stack"
    )
    repository: Annotated[
        str,
        charts.repository(
            "https://prometheus-community.github.io/helm-charts",
            "oci://ghcr.io/prometheus-community/charts",
        ),
    ] = "https://prometheus-community.github.io/helm-charts"
    chart_version: Annotated[
        str,
        Pattern(
            pattern=r"[0-9]+\.[0-9]+\.[0-9]+",
            is_not="a version of kube-prometheus-stack: one exact version, not a range",
            examples=("88.5.3",),
            source=_CHART,
        ),
    ] = "88.5.3"
    chart_path: (
        Annotated[
            str,
            charts.path("charts/kube-prometheus-stack-88.5.3.tgz"),
        ]
        | None
    ) = None
    """The chart of that version as a file or directory, instead of `repository`."""
    registry: charts.Registry | None = None
    """A mirror instead of quay.io and registry.k8s.io, with the same paths."""
    image_pull_secrets: tuple[ObjectName, ...] = ()
    """Secrets of the namespace."""
    retention_days: Annotated[
        int,
        IntRange(
            minimum=1,
            maximum=365,
            unit="day",
            why_maximum="one Prometheus with one volume is not an archive",
            source=OWN_LIMIT,
        ),
    ] = 10
    storage: Storage | None = None
    """None: the data is lost with the pod."""
    alertmanager: Alertmanager | None = None
    """None: Alertmanager is not installed, and only Prometheus shows alerts."""


class ExistingPrometheus(_Operated):
    """A Prometheus in the cluster, with the Prometheus operator."""

    prometheus: Literal["existing"]
    url: Url
    """URL for pods of the cluster."""
    selector_labels: Annotated[Mapping[LabelKey, LabelValue], Field()] = {
        "release": "kube-prom-stack"
    }
    """Labels that it selects: its `podMonitorSelector`, `serviceMonitorSelector` and
    `ruleSelector`.
    """


class ManagedPrometheus(_Monitoring):
    """Google Cloud Managed Service for Prometheus, on GKE."""

    prometheus: Literal["managed"]
    url: Url | None = None
    """URL of a query frontend in the cluster. None: the cluster cannot query it."""


Monitoring = Annotated[
    PrometheusStack | ExistingPrometheus | ManagedPrometheus, Field(discriminator="prometheus")
]
