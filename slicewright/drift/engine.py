"""Compares the configuration of Volcano's scheduler with the plan. Pure.

HAMi's scheduler has its settings in the pods, and the placement of HAMi's pods in annotations of
the pods, which Pulumi compares.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from slicewright.drift.findings import Between, Finding
from slicewright.infra import manifests
from slicewright.infra.plan import FleetPlan


def is_compared(fleet: FleetPlan) -> bool:
    """True if the fleet has an engine whose configuration is an object of its own."""
    return fleet.engine is not None and fleet.engine.settings.provider == "volcano"


def engine_drift(data: Mapping[str, Any] | None, fleet: FleetPlan) -> Iterator[Finding]:
    """data: of the scheduler's ConfigMap. None: it does not exist."""
    assert fleet.engine is not None
    namespace, name = manifests.engine_namespace(fleet), manifests.VOLCANO_CONFIG_MAP
    where = f"ConfigMap {namespace}/{name}"
    if data is None:
        differences: tuple[str, ...] = ("does not exist",)
    else:
        differences = manifests.volcano_mismatches(data, fleet.engine)
    if differences:
        yield Finding(
            between=Between.ENGINE,
            where=where,
            difference="; ".join(differences),
            heal=_restored(fleet),
        )


def _restored(fleet: FleetPlan) -> str:
    """Helm's own command. Pulumi knows only the release, which is unchanged. Empty for a Volcano
    that the stack did not install.
    """
    assert fleet.engine is not None
    if fleet.engine.settings.existing:
        return ""
    namespace = manifests.engine_namespace(fleet)
    return f"helm -n {namespace} get manifest volcano | kubectl apply --server-side -f -"
