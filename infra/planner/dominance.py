"""Leaves out node types and layouts that no least fleet needs: the program is solved much faster.

One is left out if another one's devices do all that its devices do, for no more money. Two pools
may then become one, so the limit of pools still holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from slicewright.infra.geometry import Layout
from slicewright.infra.planner.candidates import NodeType
from slicewright.infra.planner.demand import Objective, Problem

Service = Mapping[tuple[str, int], int]
"""The use of one device: class and number of whole GPUs -> what one replica serves."""


@dataclass(frozen=True)
class Dominance:
    """The useful part of a problem's node types and layouts."""

    problem: Problem

    @cached_property
    def node_types(self) -> tuple[NodeType, ...]:
        """The node types that are needed, sorted by name."""
        ordered = sorted(
            self.problem.node_types,
            key=lambda node: (node.gpus, price(node, self.problem.objective), node.name),
        )
        needed: list[NodeType] = []
        for node in ordered:
            if not any(self._replaces(other, node) for other in needed):
                needed = [other for other in needed if not self._replaces(node, other)]
                needed.append(node)
        return tuple(sorted(needed, key=lambda node: node.name))

    def layouts(self, node: NodeType) -> tuple[Layout, ...]:
        """Returns the needed layouts of a node type of the problem, in a fixed order."""
        return tuple(layout for layout, _ in self._useful[node.name])

    @cached_property
    def _useful(self) -> Mapping[str, Sequence[tuple[Layout, list[Service]]]]:
        """Node type -> its needed layouts, each with the useful devices of one GPU. Node types are
        compared in pairs, so this is computed once.
        """
        return {node.name: self._useful_layouts(node) for node in self.problem.node_types}

    def _useful_layouts(self, node: NodeType) -> list[tuple[Layout, list[Service]]]:
        ordered = sorted(node.layouts, key=lambda layout: (len(layout), sorted(layout.items())))
        needed: list[tuple[Layout, list[Service]]] = []
        for layout in ordered:
            devices = self._devices(node, layout)
            if devices and not any(_covers(other, devices) for _, other in needed):
                needed = [entry for entry in needed if not _covers(devices, entry[1])]
                needed.append((layout, devices))
        return needed

    def _replaces(self, other: NodeType, node: NodeType) -> bool:
        """Returns True if some nodes of `other` do all that one `node` does, for no more money."""
        limits, objective = self.problem.limits, self.problem.objective
        if other.most is not None or limits.nodes is not None or node.gpus % other.gpus:
            return False
        times = node.gpus // other.gpus
        if times * price(other, objective) > price(node, objective):
            return False
        if other.gpu is not node.gpu and limits.gpus:
            return False
        return all(
            any(_covers(better, devices) for _, better in self._useful[other.name])
            for _, devices in self._useful[node.name]
        )

    def _devices(self, node: NodeType, layout: Layout) -> list[Service]:
        """Returns the useful devices of one GPU. A whole GPU counts with its group on a node."""
        per_gpu = {profile: n // node.gpus for profile, n in node.devices(layout).items()}
        devices = []
        for profile, count in sorted(per_gpu.items()):
            if service := self._service(node, profile):
                devices += [service] * count
        return devices

    def _service(self, node: NodeType, profile: str) -> Service:
        return {
            (demand.name, slot.gpus): each
            for demand in self.problem.classes
            for slot, each in demand.yields.items()
            if slot.profile == profile and node.holds(slot)
        }


def price(node: NodeType, objective: Objective) -> int:
    """Returns the weight of one node in the objective."""
    if objective == "cost":
        return node.cost
    return node.gpus if objective == "gpus" else 1


def _covers(better: Sequence[Service], devices: Sequence[Service]) -> bool:
    """Returns True if each device can be replaced by another one of `better`, none of them twice.

    This is a matching, found by augmenting paths: a GPU has seven devices at most.
    """
    if len(better) < len(devices):
        return False
    holder: dict[int, int] = {}

    def place(device: int, tried: set[int]) -> bool:
        for index, candidate in enumerate(better):
            if index in tried or not _does_all(candidate, devices[device]):
                continue
            tried.add(index)
            if index not in holder or place(holder[index], tried):
                holder[index] = device
                return True
        return False

    return all(place(device, set()) for device in range(len(devices)))


def _does_all(better: Service, service: Service) -> bool:
    return all(better.get(use, 0) >= each for use, each in service.items())
