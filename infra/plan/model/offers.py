"""An offer is the set of resources that a pool's nodes advertise once they are partitioned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from slicewright.apis.desired_state import Desired, digest, dump
from slicewright.infra.plan.model.nodes import Layout, SharingStrategy

MEMORY_AMOUNTS: Final = frozenset({"volcano.sh/vgpu-memory", "vke.volcengine.com/mgpu-memory"})
_AMOUNTS: Final = MEMORY_AMOUNTS | {"volcano.sh/vgpu-cores", "vke.volcengine.com/mgpu-core"}
"""Resources that are amounts of memory and compute, not devices that each bring a pod."""


@dataclass(frozen=True, kw_only=True)
class ReplicatedResource:
    """A resource whose every device is advertised `replicas` times, by time-slicing or MPS."""

    resource: str
    """The resource without sharing: nvidia.com/gpu, nvidia.com/mig-1g.5gb."""
    advertised: str
    """The resource that pods request: the same, or with the suffix `.shared`."""
    strategy: SharingStrategy
    replicas: int
    fail_requests_greater_than_one: bool


def by_index(layouts: Sequence[Layout]) -> list[tuple[list[int], Layout]]:
    """The indexes of the GPUs that have the same layout, with the layout. Sorted by index."""
    groups: list[tuple[list[int], Layout]] = []
    for index, layout in enumerate(layouts):
        same = next((indexes for indexes, group_layout in groups if group_layout == layout), None)
        if same is None:
            groups.append(([index], layout))
        else:
            same.append(index)
    return groups


def same_layout(layouts: Sequence[Layout]) -> bool:
    """Whether all GPUs have one layout."""
    # `count` takes a layout to equal itself. All GPUs mostly share one object.
    return layouts.count(layouts[0]) == len(layouts)


def instances_of(layouts: Sequence[Layout]) -> dict[str, int]:
    """MIG profile -> instances on all these GPUs together."""
    if same_layout(layouts):
        return {profile: count * len(layouts) for profile, count in layouts[0].items()}
    instances: dict[str, int] = {}
    for layout in layouts:
        for profile, count in layout.items():
            instances[profile] = instances.get(profile, 0) + count
    return instances


@dataclass(frozen=True, kw_only=True)
class Offer:
    """The resources that each node of a pool will advertise."""

    layouts: tuple[Layout, ...]
    """Layouts by GPU index: MIG profile -> instances. An empty one is a whole GPU."""
    devices: Mapping[str, int]
    """Extended resource -> devices per node, before sharing."""
    sharing: tuple[ReplicatedResource, ...]
    """Empty if no device is shared."""
    resources: Mapping[str, int]
    """Extended resource -> allocatable per node, once partitioned and shared."""
    expected: Desired
    """The state that the agent must find on each node."""
    mig_config: str | None
    """Value of the node label nvidia.com/mig.config, which only the fleet controller sets. None
    without mig-manager.
    """
    previous: tuple[tuple[Layout, ...], ...] = ()
    """Earlier `layouts` by GPU index that nodes may still have."""

    @cached_property
    def desired(self) -> str:
        """The agent's desired-state file, canonical JSON. Not made before somebody asks: of the
        time to plan a pool it was a fifth.
        """
        return dump(self.expected)

    @cached_property
    def layout_hash(self) -> str:
        """SHA-256 of `desired`. Every node's report must have it."""
        return digest(self.desired)

    @property
    def layout(self) -> Layout | None:
        """The layout of every GPU. None if they differ."""
        return self.layouts[0] if same_layout(self.layouts) else None

    @property
    def partitioned(self) -> bool:
        return any(self.layouts)

    @property
    def partitions(self) -> int:
        """MIG partitions of one node, before sharing."""
        return sum(sum(layout.values()) for layout in self.layouts)

    @property
    def whole_gpus(self) -> int:
        """GPUs of one node that are not partitioned."""
        return sum(not layout for layout in self.layouts)

    @property
    def advertised(self) -> int:
        """The devices that one node advertises: partitions and whole GPUs, times their replicas."""
        return sum(count for name, count in self.resources.items() if name not in _AMOUNTS)
