"""Where a fleet's metrics go: a Prometheus that the stack installs, one that is there, or GKE's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from infra.spec.schema import charts
from infra.spec.schema.constraints import OWN_LIMIT, DnsLabel, IntRange, Pattern
from infra.spec.schema.field_types import LabelKey, LabelValue, Memory, NamespaceName
from infra.spec.schema.model import SpecModel
from infra.spec.schema.served import ObjectName

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
    """A volume for what Prometheus keeps."""

    size: Memory
    storage_class: ObjectName | None = None
    """None: the cluster's default."""


class Alertmanager(SpecModel):
    """The chart's Alertmanager."""

    config_secret: ObjectName
    """A Secret that exists in the namespace, with Alertmanager's configuration under the key
    `alertmanager.yaml`: it has the passwords of those that it notifies.
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
    """Of agents, fleet controller and workloads. DCGM is asked every 30 seconds at most: its
    exporter has new values no sooner.
    """
    alerts: bool = True
    """Alerts, and the rules that compute what they and the dashboards need."""
    runbooks: Url | None = None
    """Where people of the cluster find slicewright's `docs`, for the links of alerts. By default
    the links are paths below it.
    """


class _Operated(_Monitoring):
    """By the Prometheus operator."""

    namespace: NamespaceName = "monitoring"
    """Of Prometheus. Here are monitors, rules and dashboards made."""
    dashboards: bool = True
    """Dashboards, as ConfigMaps with the label `grafana_dashboard`, by which the sidecar of
    a Grafana finds them. The stack deploys no Grafana.
    """


class PrometheusStack(_Operated):
    """The chart kube-prometheus-stack, pinned, on the system pool."""

    prometheus: Literal["stack"]
    create_namespace: bool = True
    """Whether the stack makes the namespace. Not where it holds Secrets that the chart needs."""
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
    """The chart of that version as a file or directory, in place of `repository`."""
    registry: charts.Registry | None = None
    """A mirror in place of quay.io and registry.k8s.io, with the same paths below it."""
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
    """None: what was measured goes with the pod."""
    alertmanager: Alertmanager | None = None
    """None: none is installed, and alerts are seen in Prometheus only."""


class ExistingPrometheus(_Operated):
    """A Prometheus in the cluster, with the Prometheus operator."""

    prometheus: Literal["existing"]
    url: Url
    """As pods of the cluster reach it."""
    selector_labels: Annotated[Mapping[LabelKey, LabelValue], Field()] = {
        "release": "kube-prom-stack"
    }
    """By which it selects monitors and rules: its `podMonitorSelector`, `serviceMonitorSelector`
    and `ruleSelector`.
    """


class ManagedPrometheus(_Monitoring):
    """Google Cloud Managed Service for Prometheus, on GKE."""

    prometheus: Literal["managed"]
    url: Url | None = None
    """Of a frontend in the cluster that answers queries; None: nothing in the cluster can ask."""


Monitoring = Annotated[
    PrometheusStack | ExistingPrometheus | ManagedPrometheus, Field(discriminator="prometheus")
]
