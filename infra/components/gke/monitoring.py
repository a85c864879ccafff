"""The metrics and logs that a GKE cluster sends to Google Cloud."""

from __future__ import annotations

import pulumi_gcp as gcp

from slicewright.infra.stack_file import GkeLogging, GkeMonitoring


def monitoring_config(
    monitoring: GkeMonitoring | None,
) -> gcp.container.ClusterMonitoringConfigArgs | None:
    """The settings of a stack file. None leaves them to GKE.

    Both parts are always stated: with managed Prometheus alone the provider sends an empty list of
    components, which turns all of them off
    (terraform-google-modules/terraform-google-kubernetes-engine #1786).
    """
    if monitoring is None:
        return None
    return gcp.container.ClusterMonitoringConfigArgs(
        enable_components=list(monitoring.components),
        managed_prometheus=gcp.container.ClusterMonitoringConfigManagedPrometheusArgs(
            enabled=monitoring.managed_prometheus
        ),
    )


def logging_config(logging: GkeLogging | None) -> gcp.container.ClusterLoggingConfigArgs | None:
    """The settings of a stack file. None leaves them to GKE."""
    if logging is None:
        return None
    return gcp.container.ClusterLoggingConfigArgs(enable_components=list(logging.components))
