"""The charts of a fleet's engine for fractions."""

from __future__ import annotations

from slicewright.infra.manifests.fractional.engine_chart import NAMESPACES, EngineChart
from slicewright.infra.manifests.fractional.hami import hami_chart
from slicewright.infra.manifests.fractional.volcano import volcano_charts
from slicewright.infra.plan import FleetPlan


def engine_namespace(fleet: FleetPlan) -> str | None:
    """The namespace of the engine's scheduler. None without an engine that pods can use."""
    engine = fleet.engine
    if engine is None or engine.settings.provider == "vke":
        return None
    return engine.settings.namespace or NAMESPACES[engine.settings.provider]


def engine_charts(fleet: FleetPlan) -> tuple[EngineChart, ...]:
    """Empty without an engine, and for VKE, whose scheduler belongs to the cluster."""
    engine = fleet.engine
    if engine is None or engine.provider == "vke":
        return ()
    if engine.provider == "hami":
        return (hami_chart(fleet, engine),)
    return volcano_charts(fleet, engine)
