"""The cards that pods share by fractions, as JSON."""

from __future__ import annotations

from slicewright.infra import plan
from slicewright.infra.manifests import JsonObject
from slicewright.infra.plan import FractionalPlacement, PlacedNode
from slicewright.show.shared_cards import density


def shared_cards_json(fleet: plan.FleetPlan) -> JsonObject | None:
    """None if no GPU is shared by fractions."""
    engine, placement = fleet.engine, fleet.placement
    if engine is None:
        return None
    settings = engine.settings
    written: JsonObject = {
        "provider": engine.provider,
        "node_policy": settings.node_policy,
        "gpu_policy": settings.gpu_policy,
        "policies_per_pod": engine.provider == "hami",
        "shares_per_gpu": engine.shares_per_gpu,
        "memory_unit_mib": engine.memory_factor,
        "oversubscription": settings.oversubscription.model_dump(),
        "nodes": None,
        "do_not_fit": None,
        "density": None,
    }
    return written if placement is None else written | _placement(placement)


def _placement(placement: FractionalPlacement) -> JsonObject:
    average = density(placement)
    return {
        "nodes": [_node(node) for node in placement.nodes],
        "do_not_fit": [
            {"pod": misfit.pod, "workload": misfit.workload, "reason": misfit.reason}
            for misfit in placement.misfits
        ],
        "density": {
            "shares": placement.containers,
            "cards_in_use": placement.used_cards,
            "percent": None if average is None else round(average * 100),
            "measured": False,
        },
    }


def _node(node: PlacedNode) -> JsonObject:
    return {
        "name": node.name,
        "pool": node.pool,
        "cards": [
            {
                "index": index,
                "memory_mib": card.card.memory_mib,
                "compute_percent": card.card.compute_percent,
                "free_mib": card.free_mib,
                "free_percent": card.free_percent,
                "shares": [
                    {
                        "pod": share.pod,
                        "workload": share.workload,
                        "memory_mib": share.memory_mib,
                        "compute_percent": share.compute_percent,
                    }
                    for share in card.shares
                ],
            }
            for index, card in enumerate(node.cards)
        ],
    }
