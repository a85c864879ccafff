"""Which metrics and logs of a GKE cluster go to Google Cloud."""

from __future__ import annotations

import pulumi_gcp as gcp

from infra.spec import GkeLogging, GkeMonitoring


def monitoring_config(
    asked: GkeMonitoring | None,
) -> gcp.container.ClusterMonitoringConfigArgs | None:
    """None leaves it to GKE. Both parts are always stated: with managed Prometheus alone the
    provider sends an empty list of components, which turns all of them off
    (terraform-google-modules/terraform-google-kubernetes-engine #1786).
    """
    if asked is None:
        return None
    return gcp.container.ClusterMonitoringConfigArgs(
        enable_components=list(asked.components),
        managed_prometheus=gcp.container.ClusterMonitoringConfigManagedPrometheusArgs(
            enabled=asked.managed_prometheus
        ),
    )


def logging_config(asked: GkeLogging | None) -> gcp.container.ClusterLoggingConfigArgs | None:
    """None leaves it to GKE."""
    if asked is None:
        return None
    return gcp.container.ClusterLoggingConfigArgs(enable_components=list(asked.components))
