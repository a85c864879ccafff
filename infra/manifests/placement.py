"""The placement of pods that need no GPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from slicewright.apis.names import POOL_LABEL
from slicewright.infra.manifests.text import JsonObject
from slicewright.infra.plan import SYSTEM_LABELS, ExistingFleetPlan, FleetPlan

GPU_PRESENT_LABEL: Final = "nvidia.com/gpu.present"
"""The label of nodes whose GPU the GPU operator found."""


def system_labels(fleet: FleetPlan) -> Mapping[str, str]:
    """Labels of the stack's nodes for such pods. Empty if it has none: any node will do."""
    if isinstance(fleet, ExistingFleetPlan) or fleet.system is None:
        return {}
    return SYSTEM_LABELS


def placement(fleet: FleetPlan) -> JsonObject:
    """Selects the system pool. Without such a pool, an affinity and no toleration avoid GPU nodes.

    A node that is not yet in its pool has the GPU operator's label, or its taints.
    """
    if labels := system_labels(fleet):
        return {"nodeSelector": dict(labels)}
    away = [
        {"key": POOL_LABEL, "operator": "DoesNotExist"},
        {"key": GPU_PRESENT_LABEL, "operator": "NotIn", "values": ["true"]},
    ]
    required = {"nodeSelectorTerms": [{"matchExpressions": away}]}
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    }
