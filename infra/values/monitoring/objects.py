"""Everything that the stack makes for a fleet's Prometheus besides its chart."""

from __future__ import annotations

from typing import Final

from infra.plan import FleetPlan
from infra.values.monitoring.scrapes import monitors
from infra.values.text import JsonObject

OPERATOR_GROUP: Final = "monitoring.coreos.com"
OPERATOR_KINDS: Final = ("podmonitors", "servicemonitors", "prometheusrules")
"""Of the objects below, where a Prometheus operator reads them."""


def monitoring_objects(fleet: FleetPlan) -> list[JsonObject]:
    """Manifests, each with a name that no other of its kind has in its namespace."""
    return monitors(fleet)
