"""The node types that the pools of an answer may have: machine types of the region with a price."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_CEILING, Decimal

from slicewright.infra import catalog, planner, stack_file
from slicewright.infra.catalog import Machine
from slicewright.infra.plan.demand.offers import CloudFleet, region_of, zones_for
from slicewright.infra.plan.findings import CATALOG, Checked, nearest, refuse, rule


@rule("demand-price")
def node_types(
    fleet: CloudFleet, demand: stack_file.Demand
) -> Checked[tuple[planner.NodeType, ...]]:
    """Returns every allowed node type with a price in the fleet's region."""
    region = region_of(fleet)
    machines = {
        name: machine
        for (cloud, name), machine in catalog.load().machines.items()
        if cloud == fleet.cloud and machine.gpu is not None
    }
    yield from _check_names(demand, machines)
    yield from _check_offers(fleet, demand, machines)
    chosen = machines if demand.machine_types is None else demand.machine_types
    priced = []
    for name in sorted(set(chosen) & set(machines)):
        if zones_for(fleet, machines[name]) == ():
            continue
        cost = cost_of(machines[name], demand, region)
        if cost is not None:
            most = demand.max_machines.get(name)
            priced.append(_node_type(machines[name], cost, fleet, most))
        elif demand.machine_types is not None:
            yield refuse(
                ("demand", "machine_types", demand.machine_types.index(name)),
                f"{name} has no known list price on demand in {region}",
                f"state its price under demand.usd_per_hour.{name}, or leave it out",
                CATALOG,
            )
    if not priced and demand.machine_types is None:
        yield refuse(
            ("demand",),
            f"no GPU machine type that the cluster's zones offer has a known list price in "
            f"{region}",
            "state prices under demand.usd_per_hour",
            CATALOG,
        )
    return tuple(priced)


@rule("demand-machine-type")
def _check_names(demand: stack_file.Demand, machines: Mapping[str, Machine]) -> Checked[None]:
    for i, name in enumerate(demand.machine_types or ()):
        if name not in machines:
            path = ("demand", "machine_types", i)
            yield refuse(path, f"{name} is no machine type with GPUs", nearest(name, [*machines]))
    for key, names in (
        ("usd_per_hour", [*demand.usd_per_hour]),
        ("max_machines", [*demand.max_machines]),
    ):
        for name in names:
            if name not in machines:
                yield refuse(
                    ("demand", key, name),
                    f"{name} is no machine type with GPUs",
                    nearest(name, [*machines]),
                    in_key=True,
                )


@rule("demand-offer")
def _check_offers(
    fleet: CloudFleet, demand: stack_file.Demand, machines: Mapping[str, Machine]
) -> Checked[None]:
    for i, name in enumerate(demand.machine_types or ()):
        if name in machines and zones_for(fleet, machines[name]) == ():
            yield refuse(
                ("demand", "machine_types", i),
                f"{name} is offered in no zone of the cluster, as far as the catalog knows",
                "leave it out, or write a location or zones of the cluster that have it",
                CATALOG,
            )


def cost_of(machine: Machine, demand: stack_file.Demand, region: str) -> int | None:
    """Returns the price of a node in thousandths of a US dollar per hour, rounded up."""
    usd = demand.usd_per_hour.get(machine.name)
    if usd is None:
        price = machine.price("on-demand", region)
        usd = None if price is None else price.usd_per_hour
    if usd is None:
        return None
    return int((Decimal(str(usd)) * 1000).to_integral_value(ROUND_CEILING))


def price_sources(fleet: CloudFleet, answer: planner.Answer) -> Mapping[str, str]:
    """Returns the source of the price of each machine type in the answer, sorted by name."""
    assert fleet.demand is not None  # it has been planned for
    names = sorted({pool.node_type.name for pool in answer.pools})
    return {name: _price_source(fleet, fleet.demand, name) for name in names}


def _price_source(fleet: CloudFleet, demand: stack_file.Demand, name: str) -> str:
    if name in demand.usd_per_hour:
        return "demand.usd_per_hour"
    region = region_of(fleet)
    price = catalog.load().machines[fleet.cloud, name].price("on-demand", region)
    assert price is not None  # machine types without a price are not planned
    return f"list price of {price.date or 'no known date'} in {region}"


def _node_type(
    machine: Machine, cost: int, fleet: CloudFleet, most: int | None
) -> planner.NodeType:
    assert machine.gpu is not None
    if isinstance(fleet, stack_file.EksFleet):
        return planner.node_type(
            machine.name,
            machine.gpu,
            gpus=machine.gpu_count,
            cost=cost,
            partitioner="operator",
            most=most,
        )
    # With `mode: operator`, GKE's nodes could have any layout, but GKE's own way needs no operator.
    accelerator = catalog.load().accelerators[machine.accelerator or ""]
    return planner.node_type(
        machine.name,
        machine.gpu,
        gpus=machine.gpu_count,
        cost=cost,
        partitioner="native",
        sizes=accelerator.sizes,
        most=most,
    )
