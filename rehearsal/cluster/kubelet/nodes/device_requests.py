"""Extended resources in containers and in a node's status. The API server writes 6000 as `6k`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from slicewright.kubeapi import JsonObject
from slicewright.node_agent.cluster.node import quantity

_COUNTED_BY_HAMI: Final = ("gpumem", "gpumem-percentage", "gpucores", "priority")


def devices_asked(container: JsonObject) -> dict[str, int]:
    """The extended resources that a container requests; their limit is their request."""
    limits = (container.get("resources") or {}).get("limits") or {}
    counts = {
        name: quantity(str(amount))
        for name, amount in limits.items()
        if "/" in name and "kubernetes.io/" not in name
    }
    return {name: count for name, count in counts.items() if count > 0}


def is_nvidias_device(resource: str) -> bool:
    """True if NVIDIA's device plugins offer it. HAMi's scheduler alone counts its amounts."""
    prefix, _, name = resource.partition("/")
    return prefix == "nvidia.com" and name not in _COUNTED_BY_HAMI


def differing(now: Mapping[str, str], counts: Mapping[str, int]) -> dict[str, str]:
    """The counts that the node's status has otherwise, as it takes them."""
    return {
        resource: str(count)
        for resource, count in counts.items()
        if resource not in now or quantity(str(now[resource])) != count
    }
