"""The namespaces that are exempt from the admission policy on pods."""

from __future__ import annotations

from typing import Final

from slicewright.infra.manifests.fractional.charts import engine_charts
from slicewright.infra.plan import FleetPlan, GkeFleetPlan
from slicewright.infra.stack_file import PodGuard

_GKE_NAMESPACES: Final = ("gke-managed-system", "gmp-system")
"""Namespaces of GKE's DCGM exporter and of its collectors of metrics, which run on every node.
Sources: GKE docs, "Collect and view DCGM metrics"; GoogleCloudPlatform/prometheus-engine,
manifests/operator.yaml.
"""


def exempt_namespaces(fleet: FleetPlan, guard: PodGuard) -> list[str]:
    """The namespaces of the stack file, and those of the programs that run on every node.

    The latter exist before any tenant can create a namespace with such a name.
    """
    operator = [fleet.operator.namespace] if fleet.operator is not None else []
    of_gke = _GKE_NAMESPACES if isinstance(fleet, GkeFleetPlan) else ()
    return sorted({*operator, *of_gke, *_device_plugins(fleet), *guard.exempt_namespaces})


def _device_plugins(fleet: FleetPlan) -> list[str]:
    """The namespaces of an engine's device plugin, which asks for all GPUs of unverified nodes."""
    return [chart.namespace for chart in engine_charts(fleet) if chart.device_plugin]
