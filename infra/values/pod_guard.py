"""Which namespaces the admission policy on pods leaves alone."""

from __future__ import annotations

from typing import Final

from infra.plan import FleetPlan, GkeFleetPlan
from infra.spec import PodGuard

_GKES: Final = ("gke-managed-system", "gmp-system")
"""Namespaces of GKE's DCGM exporter and of its collectors of metrics, which run on every node.
Sources: GKE docs, "Collect and view DCGM metrics"; GoogleCloudPlatform/prometheus-engine,
manifests/operator.yaml.
"""


def exempt_namespaces(fleet: FleetPlan, guard: PodGuard) -> list[str]:
    """The namespaces of the stack file, and the namespaces of the programs that serve the nodes.

    Each of the latter exists before any tenant can make one of that name.
    """
    operator = [fleet.operator.namespace] if fleet.operator is not None else []
    gkes = _GKES if isinstance(fleet, GkeFleetPlan) else ()
    return sorted({*operator, *gkes, *guard.exempt_namespaces})
