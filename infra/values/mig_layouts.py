"""mig-parted's config: the named layouts that mig-manager applies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from infra.plan import PoolPlan
from infra.values.text import JsonObject

MIG_CONFIG_KEY = "config.yaml"
"""The key that mig-manager mounts. Source: chart values.yaml, migManager.config."""


def mig_parted_config(pools: Sequence[PoolPlan]) -> JsonObject:
    """mig-parted's config v1: a named layout per partitioned pool, and the default `all-disabled`.

    Each layout is filtered by the PCI ids of the pool's GPU: on any other GPU it matches nothing
    and mig-manager fails. Without a filter, mig-parted removes all instances of a GPU that
    lacks the profile and reports success.
    """
    layouts: JsonObject = {"all-disabled": [{"devices": "all", "mig-enabled": False}]}
    for pool in pools:
        if pool.mig_config is not None:
            layouts[pool.mig_config] = _entries(pool)
    return {"version": "v1", "mig-configs": layouts}


def _entries(pool: PoolPlan) -> list[JsonObject]:
    """One entry for all GPUs, or one for each layout with the indexes of its GPUs."""
    filtered = list(pool.gpu.pci_ids)
    if pool.layout is not None:
        return [_entry(filtered, "all", pool.layout)]
    return [_entry(filtered, indexes, layout) for indexes, layout in pool.gpus_by_layout]


def _entry(
    pci_ids: Sequence[str], devices: str | list[int], layout: Mapping[str, int]
) -> JsonObject:
    entry: JsonObject = {
        "device-filter": list(pci_ids),
        "devices": devices,
        "mig-enabled": bool(layout),
    }
    if layout:
        entry["mig-devices"] = dict(sorted(layout.items()))
    return entry
