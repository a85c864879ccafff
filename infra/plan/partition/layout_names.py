"""Names of layouts: values of the node label nvidia.com/mig.config, keys of mig-parted's config.

A layout of all GPUs of a node is named by its content, and the config has every one that the GPU
model allows, some 130. So any such layout that a node still carries is in the config, and stays
there: nothing has to be remembered, and a change of a layout changes only the node's label. If the
config only had the pools' present layouts, a node that pods hold on its old layout, or whose turn
has not come, would carry a missing name: mig-manager fails it at its next start with "selected
mig-config not present" (NVIDIA/mig-parted, cmd/nvidia-mig-manager), also after a reboot, when the
partitions are gone.

Layouts by GPU index are too many for that: they have the pool's name and a hash, and those that
nodes may still carry are listed in the stack file (`previous`).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final

from slicewright.infra import catalog, geometry
from slicewright.infra.catalog import Gpu
from slicewright.infra.plan.model.nodes import Layout
from slicewright.infra.plan.model.offers import same_layout

ALL_DISABLED: Final = "all-disabled"
"""NVIDIA's name of MIG turned off on all GPUs of a node."""
_LABEL_LONGEST = 63


def layout_name(pool: str, gpu: Gpu, layouts: tuple[Layout, ...]) -> str:
    """The name of a node's layouts, one per GPU. Other layouts have another name, because
    mig-manager acts only when the label's value changes.
    """
    if same_layout(layouts):
        return _names(gpu)[_key(layouts[0])]
    content = json.dumps(
        {"gpu": list(gpu.pci_ids), "layout": [dict(layout) for layout in layouts]}, sort_keys=True
    )
    name = f"{pool}-{hashlib.sha256(content.encode()).hexdigest()[:8]}"
    assert len(name) <= _LABEL_LONGEST, f"pool names leave room for the hash: {name}"
    return name


def is_by_index(pool: str, name: str) -> bool:
    """Whether `layout_name` gives such a name to layouts by GPU index of this pool."""
    return re.fullmatch(r"[0-9a-f]{8}", name.removeprefix(f"{pool}-")) is not None


@cache
def uniform_layouts(gpu: Gpu) -> Mapping[str, Layout]:
    """Name -> layout of every GPU, for all layouts that fit on `gpu`. The empty one: no MIG."""
    return {name: dict(key) for key, name in _names(gpu).items()}


@cache
def _names(gpu: Gpu) -> Mapping[tuple[tuple[str, int], ...], str]:
    """NVIDIA's own name if the layout has one, such as all-1g.5gb, else its content."""
    nvidia_names = {
        _key(config.layout): name
        for name, config in catalog.load().named_configs[gpu.name].items()
        if config.layout
    }
    named: dict[tuple[tuple[str, int], ...], str] = {(): ALL_DISABLED}
    for layout in geometry.layouts(gpu):
        named[_key(layout)] = nvidia_names.get(_key(layout)) or "_".join(_parts(gpu, layout))
    assert len(set(named.values())) == len(named), f"two layouts of {gpu.name} have one name"
    return named


def _parts(gpu: Gpu, layout: Layout) -> Iterator[str]:
    """`3g.20gb-1`, `1g.5gb.me-1`, the largest first. A label has no `+`."""
    profiles = dict.fromkeys(p.name for p in geometry.creation_order(gpu, layout))
    for profile in profiles:
        yield f"{profile.replace('+', '.')}-{layout[profile]}"


def _key(layout: Layout) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(layout.items()))
