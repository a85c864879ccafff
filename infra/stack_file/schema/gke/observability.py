"""The metrics and logs that a GKE cluster sends to Google Cloud."""

from __future__ import annotations

from typing import Literal

from slicewright.infra.stack_file.schema.model import SpecModel

MetricsComponent = Literal[
    "SYSTEM_COMPONENTS",
    "APISERVER",
    "SCHEDULER",
    "CONTROLLER_MANAGER",
    "STORAGE",
    "HPA",
    "POD",
    "DAEMONSET",
    "DEPLOYMENT",
    "STATEFULSET",
    "CADVISOR",
    "KUBELET",
    "DCGM",
    "JOBSET",
]
"""Source: GKE API, MonitoringComponentConfig.enableComponents, in its order."""
LogsComponent = Literal[
    "SYSTEM_COMPONENTS",
    "WORKLOADS",
    "APISERVER",
    "SCHEDULER",
    "CONTROLLER_MANAGER",
    "KCP_SSHD",
    "KCP_CONNECTION",
    "KCP_HPA",
]
"""Source: GKE API, LoggingComponentConfig.enableComponents, in its order."""


class GkeMonitoring(SpecModel):
    """GKE turns off every component that is not listed."""

    components: tuple[MetricsComponent, ...]
    """Components with metrics in Cloud Monitoring. `[]`: none."""
    managed_prometheus: bool = True
    """Managed collection of Google Cloud Managed Service for Prometheus."""


class GkeLogging(SpecModel):
    components: tuple[LogsComponent, ...]
    """Components with logs in Cloud Logging. `[]`: none."""
