"""The answer: pools, the devices of each class, and the bounds that prove it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from slicewright.infra.geometry import Layout
from slicewright.infra.planner.candidates import NodeType, Slot


@dataclass(frozen=True, kw_only=True)
class Pool:
    node_type: NodeType
    layout: Layout
    """The layout of each GPU. Empty: the GPUs stay whole."""
    nodes: int

    @property
    def gpus(self) -> int:
        return self.nodes * self.node_type.gpus

    @property
    def cost(self) -> int:
        """Thousandths of a US dollar per hour."""
        return self.nodes * self.node_type.cost

    @property
    def outside_partitions(self) -> tuple[int, int]:
        """The compute slices and memory slots of its GPUs that no partition has."""
        gpu = self.node_type.gpu
        if not self.layout or gpu.family is None:
            return 0, 0
        kinds = [(gpu.profiles[name].kind, count) for name, count in self.layout.items()]
        compute = gpu.family.compute - sum(kind.compute * count for kind, count in kinds)
        memory = gpu.family.slots - sum(kind.size * count for kind, count in kinds)
        return compute * self.gpus, memory * self.gpus


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """The replicas of a class on one kind of device of one node type."""

    demand_class: str
    node_type: str
    slot: Slot
    replicas: int


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """The solver's proof. Costs are thousandths of a US dollar per hour; else GPUs or nodes."""

    objective: int
    relaxed: Fraction
    """The optimum without integrality: no answer can be better than this."""
    proven: int
    """The best lower bound of the search, rounded up to the objective's grid."""
    solver: str
    """The solver's name and version."""

    @property
    def gap(self) -> Fraction:
        """The objective's distance from the bound, as a share of the objective. 0: optimal."""
        if self.objective == 0:
            return Fraction(0)
        return Fraction(self.objective - self.proven, self.objective)


@dataclass(frozen=True, kw_only=True)
class Answer:
    pools: tuple[Pool, ...]
    assignments: tuple[Assignment, ...]
    bounds: Bounds

    @property
    def cost(self) -> int:
        """Thousandths of a US dollar per hour."""
        return sum(pool.cost for pool in self.pools)

    @property
    def gpus(self) -> int:
        return sum(pool.gpus for pool in self.pools)

    @property
    def nodes(self) -> int:
        return sum(pool.nodes for pool in self.pools)

    def spare(self) -> Mapping[tuple[str, str], int]:
        """Returns the devices that no replica has, by node type and profile."""
        spare: dict[tuple[str, str], int] = {}
        for pool in self.pools:
            for profile, count in pool.node_type.devices(pool.layout).items():
                key = pool.node_type.name, profile
                spare[key] = spare.get(key, 0) + count * pool.nodes
        for assignment in self.assignments:
            key = assignment.node_type, assignment.slot.profile
            spare[key] = spare.get(key, 0) - assignment.replicas * assignment.slot.gpus
        return {key: count for key, count in sorted(spare.items()) if count}
