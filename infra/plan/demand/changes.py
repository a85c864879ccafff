"""The changes that a new plan makes to the pools of a stack file, and the changed pools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from slicewright.infra.catalog import Machine
from slicewright.infra.geometry import Layout
from slicewright.infra.plan.demand.fragment import node_pool
from slicewright.infra.plan.demand.node_types import cost_of
from slicewright.infra.plan.demand.offers import CloudFleet, region_of
from slicewright.infra.plan.model.fleets import FleetPlan
from slicewright.infra.plan.model.pools import CloudSettings
from slicewright.infra.planner import Answer, NodeType, Pool, Problem

Verb = Literal["stays", "changes its layout", "comes", "goes"]


@dataclass(frozen=True, kw_only=True)
class CurrentPool:
    """A pool of the stack file."""

    name: str
    machine: Machine
    layout: Layout | None
    """The layout of each GPU. None: they differ, or the planner could not write it."""
    nodes: int
    """Autoscaled pools count with their maximum, unless the cluster has been read."""
    bounds: tuple[int, int]
    """The minimum and the maximum number of nodes that the stack file allows."""
    stated: Mapping[str, Any]
    """The pool as the stack file has it."""


@dataclass(frozen=True, kw_only=True)
class PoolChange:
    verb: Verb
    current: CurrentPool | None
    planned: Pool | None

    @property
    def before(self) -> int:
        return self.current.nodes if self.current else 0

    @property
    def after(self) -> int:
        return self.planned.nodes if self.planned else 0


def current_pools(
    fleet: FleetPlan, stated: Sequence[Mapping[str, Any]], problem: Problem
) -> tuple[CurrentPool, ...]:
    """Returns the pools of a stack file, in its order."""
    by_name = {entry["name"]: entry for entry in stated}
    offered = {node.name: node for node in problem.node_types}
    pools = []
    for pool in fleet.pools:
        assert isinstance(pool.settings, CloudSettings)  # an existing cluster has no demand
        machine = pool.settings.machine
        layout = _layout(pool.offer.layout, by_name[pool.name], offered.get(machine.name))
        pools.append(
            CurrentPool(
                name=pool.name,
                machine=machine,
                layout=layout,
                nodes=pool.nodes.max,
                bounds=(pool.nodes.min, pool.nodes.max),
                stated=by_name[pool.name],
            )
        )
    return tuple(pools)


def with_living_nodes(
    pools: Iterable[CurrentPool], living: Mapping[str, int]
) -> tuple[CurrentPool, ...]:
    """Returns the pools with the nodes that a cluster has, by the pool's name. Pools that the
    cluster does not have are without nodes.
    """
    return tuple(replace(pool, nodes=living.get(pool.name, 0)) for pool in pools)


def standing(current: Iterable[CurrentPool], problem: Problem) -> tuple[Pool, ...]:
    """Returns the pools that an answer could keep. Pools that are alike count together."""
    nodes: dict[tuple[str, str], Pool] = {}
    offered = {node.name: node for node in problem.node_types}
    for pool in current:
        if pool.layout is None or pool.machine.name not in offered:
            continue
        key = pool.machine.name, str(sorted(pool.layout.items()))
        before = nodes[key].nodes if key in nodes else 0
        nodes[key] = Pool(
            node_type=offered[pool.machine.name], layout=pool.layout, nodes=before + pool.nodes
        )
    return tuple(nodes[key] for key in sorted(nodes))


def changes(current: Sequence[CurrentPool], answer: Answer) -> tuple[PoolChange, ...]:
    """Returns the change of each pool: first of those that exist, in their order."""
    planned = list(answer.pools)
    matched: dict[str, PoolChange] = {}
    for new in answer.pools:
        alike = [pool for pool in current if _equal(pool, new)]
        for pool, nodes in zip(alike, _shares(alike, new.nodes), strict=True):
            if nodes:
                share = replace(new, nodes=nodes)
                matched[pool.name] = PoolChange(verb="stays", current=pool, planned=share)
        if alike:
            planned.remove(new)
    for pool in current:
        candidate = next((new for new in planned if _partitioned_again(pool, new)), None)
        if pool.name not in matched and candidate is not None:
            planned.remove(candidate)
            verb: Verb = "changes its layout"
            matched[pool.name] = PoolChange(verb=verb, current=pool, planned=candidate)
    existing = (
        matched.get(pool.name, PoolChange(verb="goes", current=pool, planned=None))
        for pool in current
    )
    return (*existing, *(PoolChange(verb="comes", current=None, planned=p) for p in planned))


def _shares(alike: Sequence[CurrentPool], nodes: int) -> list[int]:
    """Divides nodes over pools that are alike: the nodes they have, the rest to the first."""
    shares = []
    remaining = nodes
    for pool in alike:
        shares.append(min(pool.nodes, remaining))
        remaining -= shares[-1]
    if shares:
        shares[0] += remaining
    return shares


def changed_node_pools(
    fleet: CloudFleet, pool_changes: Iterable[PoolChange]
) -> list[dict[str, Any]]:
    """Returns the pools of the answer. Those that exist keep their name and all other keys."""
    return [
        _changed(fleet, change.current, change.planned)
        for change in pool_changes
        if change.planned is not None
    ]


def cost_today(fleet: CloudFleet, current: Iterable[CurrentPool]) -> int | None:
    """Returns the list price of today's nodes. None: a machine type has none in the region."""
    assert fleet.demand is not None  # it has been planned for
    demand = fleet.demand
    costs = [(cost_of(pool.machine, demand, region_of(fleet)), pool.nodes) for pool in current]
    if any(cost is None for cost, _ in costs):
        return None
    return sum((cost or 0) * nodes for cost, nodes in costs)


def _layout(
    layout: Layout | None, stated: Mapping[str, Any], node: NodeType | None
) -> Layout | None:
    """Returns the layout if the planner has it: on GKE not with mig-manager, on EKS not at boot."""
    if layout is None or node is None:
        return layout
    mode = _mode(stated)
    native = dict(layout) in [dict(offered) for offered in node.layouts]
    if layout and mode != "operator" and not (mode == "native" and native):
        return None
    by_manager = any(len(offered) > 1 for offered in node.layouts)
    return None if mode == "operator" and not by_manager else layout


def _mode(stated: Mapping[str, Any]) -> str:
    partition = stated.get("partition")
    return str(partition.get("mode", "none")) if isinstance(partition, Mapping) else "none"


def _equal(pool: CurrentPool, planned: Pool) -> bool:
    return (
        pool.machine.name == planned.node_type.name
        and pool.layout is not None
        and dict(pool.layout) == dict(planned.layout)
    )


def _partitioned_again(pool: CurrentPool, planned: Pool) -> bool:
    """Returns True if mig-manager can give the pool's nodes the planned layout."""
    return (
        pool.machine.name == planned.node_type.name
        and _mode(pool.stated) == "operator"
        and bool(planned.layout)
    )


def _changed(fleet: CloudFleet, current: CurrentPool | None, planned: Pool) -> dict[str, Any]:
    new = node_pool(fleet, planned)
    if current is None:
        return new
    stated = dict(current.stated)
    least, most = current.bounds
    if planned.nodes != current.nodes or not least <= planned.nodes <= most:
        stated["nodes"] = new["nodes"]
    if current.layout is None or dict(current.layout) != dict(planned.layout):
        stated["partition"] = new["partition"]
    return stated
