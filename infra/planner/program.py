"""The integer program of a problem: a column for each pool and each use of a device.

    minimise  sum weight_p N_p
    sum of yield_ds Y_dts         >= required_d              each class d
    sum of gpus_s Y_dts over d    <= sum of c_pq (N_p - spare Z_p)   each node type t, profile q
    N_p <= most_p Z_p,  sum of Z_p <= pools                  if the pools are limited

N_p are the nodes of pool p (a node type with one layout), Y_dts replicas of class d on slot s of
node type t, Z_p tells whether pool p exists. All are integers. Names are unique and sorted, so the
program of a problem does not depend on the order of its input.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from slicewright.infra.geometry import Layout
from slicewright.infra.planner.answer import Pool
from slicewright.infra.planner.candidates import WHOLE, NodeType, Slot
from slicewright.infra.planner.demand import DemandClass, Objective, Problem
from slicewright.infra.planner.dominance import Dominance, price


@dataclass(frozen=True, kw_only=True)
class NodesColumn:
    """The nodes of a possible pool."""

    node_type: NodeType
    layout: Layout
    most: int
    """No least fleet has more."""

    @property
    def name(self) -> str:
        layout = "+".join(f"{count}x{profile}" for profile, count in sorted(self.layout.items()))
        return f"nodes {self.node_type.name} {layout or WHOLE}"


@dataclass(frozen=True, kw_only=True)
class ReplicasColumn:
    """The replicas of a class on one slot of a node type."""

    demand_class: DemandClass
    node_type: NodeType
    slot: Slot

    @property
    def name(self) -> str:
        return f"replicas {self.demand_class.name} {self.node_type.name} {self.slot}"


@dataclass(frozen=True, kw_only=True)
class Row:
    """low <= sum of coefficients times columns <= high. None: no limit."""

    name: str
    low: int | None
    high: int | None
    coefficients: Mapping[int, int]


@dataclass(frozen=True)
class Program:
    """The columns, in the order N, Y, Z, and the rows."""

    problem: Problem
    current: tuple[Pool, ...] = ()
    """Pools of today's fleet: columns even if another pool would do as much for no more money."""

    @cached_property
    def nodes(self) -> tuple[NodesColumn, ...]:
        dominance = Dominance(self.problem)
        needed = [
            (node, layout) for node in dominance.node_types for layout in dominance.layouts(node)
        ]
        columns = {
            column.name: column
            for node, layout in (*needed, *((pool.node_type, pool.layout) for pool in self.current))
            if (most := self._most_nodes(node, layout))
            and (column := NodesColumn(node_type=node, layout=layout, most=most))
        }
        return tuple(columns[name] for name in sorted(columns))

    @cached_property
    def replicas(self) -> tuple[ReplicasColumn, ...]:
        profiles: dict[str, set[str]] = {}
        types: dict[str, NodeType] = {}
        for column in self.nodes:
            types[column.node_type.name] = column.node_type
            devices = column.node_type.devices(column.layout)
            profiles.setdefault(column.node_type.name, set()).update(devices)
        columns = (
            ReplicasColumn(demand_class=demand, node_type=node, slot=slot)
            for demand in self.problem.classes
            for node in types.values()
            for slot in sorted(demand.yields)
            if node.holds(slot) and slot.profile in profiles[node.name]
        )
        return tuple(sorted(columns, key=lambda column: column.name))

    @cached_property
    def has_switches(self) -> bool:
        """True if there are columns Z: if a limit counts pools."""
        limits = self.problem.limits
        return bool(limits.spare_nodes) or (
            limits.pools is not None and limits.pools < len(self.nodes)
        )

    @property
    def width(self) -> int:
        return len(self.nodes) * (1 + self.has_switches) + len(self.replicas)

    def switch(self, index: int) -> int:
        """Returns the column of Z for the pool with this index."""
        return len(self.nodes) + len(self.replicas) + index

    def upper(self) -> tuple[int | None, ...]:
        """Returns the upper limit of each column."""
        switches = (1,) * len(self.nodes) if self.has_switches else ()
        return (*(column.most for column in self.nodes), *(None,) * len(self.replicas), *switches)

    def weights(self, objective: Objective) -> tuple[int, ...]:
        """Returns the objective's weight of each column."""
        weights = [price(column.node_type, objective) for column in self.nodes]
        return (*weights, *(0,) * (self.width - len(weights)))

    def rows(self) -> tuple[Row, ...]:
        return (*self._demand(), *self._supply(), *self._pools(), *self._limits())

    def _most_nodes(self, node: NodeType, layout: Layout) -> int:
        """Returns how many nodes of the pool serve every class that it serves at all, without any
        other pool. A node beyond them has no replica, so no least fleet has it.
        """
        devices = node.devices(layout)
        used: dict[str, int] = {}
        for demand in self.problem.classes:
            for slot, each in demand.yields.items():
                if node.holds(slot) and slot.profile in devices:
                    replicas = -(-demand.required // each)
                    used[slot.profile] = used.get(slot.profile, 0) + replicas * slot.gpus
        if not used:
            return 0
        needed = max(-(-count // devices[profile]) for profile, count in used.items())
        most = needed + self.problem.limits.spare_nodes
        return most if node.most is None else min(most, node.most)

    def _demand(self) -> Iterator[Row]:
        for demand in sorted(self.problem.classes, key=lambda demand: demand.name):
            coefficients = {
                len(self.nodes) + index: demand.yields[column.slot]
                for index, column in enumerate(self.replicas)
                if column.demand_class.name == demand.name
            }
            yield Row(
                name=f"demand {demand.name}",
                low=demand.required,
                high=None,
                coefficients=coefficients,
            )

    def _supply(self) -> Iterator[Row]:
        spare = self.problem.limits.spare_nodes
        used: dict[tuple[str, str], dict[int, int]] = {}
        for index, column in enumerate(self.replicas):
            key = column.node_type.name, column.slot.profile
            used.setdefault(key, {})[len(self.nodes) + index] = column.slot.gpus
        for (node, profile), coefficients in sorted(used.items()):
            for index, pool in enumerate(self.nodes):
                if pool.node_type.name != node:
                    continue
                if devices := pool.node_type.devices(pool.layout).get(profile, 0):
                    coefficients[index] = -devices
                    if spare:
                        coefficients[self.switch(index)] = devices * spare
            name = f"devices {node} {profile}"
            yield Row(name=name, low=None, high=0, coefficients=coefficients)

    def _pools(self) -> Iterator[Row]:
        if not self.has_switches:
            return
        for index, pool in enumerate(self.nodes):
            coefficients = {index: 1, self.switch(index): -pool.most}
            yield Row(name=f"pool {pool.name}", low=None, high=0, coefficients=coefficients)
            if spare := self.problem.limits.spare_nodes:
                # A pool that exists has at least its spare nodes, else its supply were negative.
                least = {index: 1, self.switch(index): -spare}
                yield Row(name=f"spare {pool.name}", low=0, high=None, coefficients=least)
        if (pools := self.problem.limits.pools) is not None:
            coefficients = {self.switch(index): 1 for index in range(len(self.nodes))}
            yield Row(name="pools", low=None, high=pools, coefficients=coefficients)

    def _limits(self) -> Iterator[Row]:
        limits = self.problem.limits
        if limits.nodes is not None:
            coefficients = dict.fromkeys(range(len(self.nodes)), 1)
            yield Row(name="nodes", low=None, high=limits.nodes, coefficients=coefficients)
        for gpu, most in sorted(limits.gpus.items()):
            coefficients = {
                index: pool.node_type.gpus
                for index, pool in enumerate(self.nodes)
                if pool.node_type.gpu.name == gpu
            }
            yield Row(name=f"gpus {gpu}", low=None, high=most, coefficients=coefficients)
        for node in sorted(self.problem.node_types, key=lambda node: node.name):
            if node.most is not None:
                coefficients = {
                    index: 1
                    for index, pool in enumerate(self.nodes)
                    if pool.node_type.name == node.name
                }
                yield Row(
                    name=f"nodes of {node.name}",
                    low=None,
                    high=node.most,
                    coefficients=coefficients,
                )
