"""mig-parted's config: the named layouts that mig-manager applies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slicewright.infra.catalog import Gpu
from slicewright.infra.manifests.text import JsonObject
from slicewright.infra.plan import PoolPlan
from slicewright.infra.plan.model.offers import by_index
from slicewright.infra.plan.partition.layout_names import ALL_DISABLED, layout_name, uniform_layouts

MIG_CONFIG_KEY = "config.yaml"
"""The key that mig-manager mounts. Source: chart values.yaml, migManager.config."""


def mig_parted_config(pools: Sequence[PoolPlan]) -> JsonObject:
    """mig-parted's config v1 with every layout that a node of `pools` may carry, by name.

    These are all that fit on the pools' GPU models
    (`slicewright.infra.plan.partition.layout_names`), and those by GPU index. Each entry is
    filtered by the PCI ids of its GPU: without a filter, mig-parted removes all instances of a GPU
    that lacks the profile and reports success.
    """
    operated = [pool for pool in pools if pool.offer.mig_config is not None]
    layouts: JsonObject = {}
    for gpu in sorted({pool.gpu for pool in operated}, key=lambda gpu: gpu.name):
        for name, layout in uniform_layouts(gpu).items():
            if layout:
                layouts.setdefault(name, []).append(_entry(gpu, "all", layout))
    for pool in operated:
        for by_gpu in (pool.offer.layouts, *pool.offer.previous):
            if any(layout != by_gpu[0] for layout in by_gpu):
                layouts[layout_name(pool.name, pool.gpu, by_gpu)] = [
                    _entry(pool.gpu, indexes, layout) for indexes, layout in by_index(by_gpu)
                ]
    # The operator's default for nodes without the label, with any GPUs.
    layouts[ALL_DISABLED] = [{"devices": "all", "mig-enabled": False}]
    return {"version": "v1", "mig-configs": dict(sorted(layouts.items()))}


def _entry(gpu: Gpu, devices: str | list[int], layout: Mapping[str, int]) -> JsonObject:
    entry: JsonObject = {
        "device-filter": list(gpu.pci_ids),
        "devices": devices,
        "mig-enabled": bool(layout),
    }
    if layout:
        entry["mig-devices"] = dict(sorted(layout.items()))
    return entry
