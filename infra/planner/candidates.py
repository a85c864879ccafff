"""The node types that an answer may use, each with the layouts that its GPUs may have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

from slicewright.infra import geometry
from slicewright.infra.catalog import Gpu
from slicewright.infra.geometry import Layout

Partitioner = Literal["operator", "native", "none"]
"""mig-manager makes any layout; GKE one profile per node; none leaves the GPUs whole."""
WHOLE: Final = "whole"


@dataclass(frozen=True, kw_only=True, order=True)
class Slot:
    """A device that one replica can get: a MIG profile of a GPU model, or several whole GPUs."""

    gpu: str
    profile: str
    """The profile's name, or WHOLE."""
    gpus: int = 1
    """The number of whole GPUs, all on one node. 1 for a partition."""

    def __str__(self) -> str:
        number = f"{self.gpus} x " if self.gpus > 1 else ""
        return f"{number}{self.profile} of {self.gpu}"


def whole(gpu: Gpu, gpus: int = 1) -> Slot:
    return Slot(gpu=gpu.name, profile=WHOLE, gpus=gpus)


@dataclass(frozen=True, kw_only=True)
class NodeType:
    """A machine type in one region, as it can be ordered."""

    name: str
    gpu: Gpu
    gpus: int
    """The number of GPUs of a node."""
    cost: int
    """The price of a node in thousandths of a US dollar per hour."""
    layouts: tuple[Layout, ...]
    """Each layout that every GPU of a node may have. An empty layout leaves them whole."""
    most: int | None = None
    """The maximum number of nodes, such as a quota. None: no limit."""

    def holds(self, slot: Slot) -> bool:
        """Returns True if a node can have the device, and groups of whole GPUs use all its GPUs."""
        return slot.gpu == self.gpu.name and self.gpus % slot.gpus == 0

    def devices(self, layout: Layout) -> Mapping[str, int]:
        """Returns the devices of a node by profile. Whole GPUs are counted under WHOLE."""
        if not layout:
            return {WHOLE: self.gpus}
        return {profile: count * self.gpus for profile, count in layout.items()}


def node_type(
    name: str,
    gpu: Gpu,
    *,
    gpus: int,
    cost: int,
    partitioner: Partitioner,
    sizes: Sequence[str] | None = None,
    most: int | None = None,
) -> NodeType:
    """Returns a node type with every layout that could be part of a least fleet.

    sizes: the profiles that the native partitioner offers. None: all of the GPU.
    """
    layouts: tuple[Layout, ...] = ({},)
    if partitioner == "native":
        offered = (layout for layout in uniform(gpu) if sizes is None or set(layout) <= set(sizes))
        layouts = (*offered, {})
    elif partitioner == "operator" and gpu.family is not None:
        layouts = (*undominated(gpu), {})
    return NodeType(name=name, gpu=gpu, gpus=gpus, cost=cost, layouts=layouts, most=most)


@cache
def undominated(gpu: Gpu) -> tuple[Layout, ...]:
    """Returns the layouts that no other one equals or exceeds in each profile, in a fixed order.

    A layout with fewer instances of a profile and no more of any other serves no demand better.
    """
    layouts = [_present(layout) for layout in geometry.maximal(gpu)]
    needed = (
        layout
        for layout in layouts
        if not any(exceeds(other, layout) for other in layouts if other != layout)
    )
    return tuple(sorted(needed, key=_order))


@cache
def uniform(gpu: Gpu) -> tuple[Layout, ...]:
    """Returns each profile's layout with as many instances as fit."""
    layouts = ({name: geometry.max_instances(gpu, name)} for name in gpu.profiles)
    return tuple(sorted(layouts, key=_order))


def exceeds(other: Mapping[str, int], layout: Mapping[str, int]) -> bool:
    """Returns True if the other has at least as many of each profile."""
    return all(other.get(profile, 0) >= count for profile, count in layout.items())


def _present(layout: Layout) -> Layout:
    return {profile: count for profile, count in sorted(layout.items()) if count}


def _order(layout: Layout) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(layout.items()))
