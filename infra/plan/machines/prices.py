"""A fleet's cost per hour at public prices. Unknown prices are reported, not counted as 0."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from slicewright.infra import catalog, stack_file
from slicewright.infra.catalog import Billing, Machine, Price, UnlistedMachine
from slicewright.infra.plan.model.fleets import (
    EksFleetPlan,
    ExistingFleetPlan,
    FleetPlan,
    GkeFleetPlan,
)
from slicewright.infra.plan.model.nodes import NodeCount
from slicewright.infra.plan.model.pools import CloudSettings, GkeSettings, SystemPoolPlan

NOT_INCLUDED: Final = (
    "control plane",
    "disks",
    "address translation",
    "load balancers",
    "traffic",
    "discounts",
)
"""Parts of the cost that no price of the catalog includes."""


HOURS_PER_MONTH: Final = 730
"""365 days of 24 hours, over 12 months, as in both clouds' calculators."""


@dataclass(frozen=True, kw_only=True)
class Quote:
    """One node's price in US dollars per hour, as far as the catalog has it."""

    price: Price | None
    """The price in the fleet's own region."""
    elsewhere: Price | None = None
    """The price in another region, for orientation only. It is not in any sum."""
    missing: str = ""
    """Why there is no price."""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The cost of all nodes, at their least and greatest number. Only valid if a pool is priced."""

    fewest: float
    most: float
    priced: tuple[str, ...]
    """Pools that are in the sums."""
    sampled: tuple[str, ...]
    """Pools in the sums at a sample of spot prices, which vary. The others are at list prices."""
    missing: tuple[tuple[str, str], ...]
    """Pools and hosts whose price is unknown, and the reasons. They are not in the sums."""

    def as_json(self, hours: int = 1) -> dict[str, Any]:
        """The cost of that many hours."""
        return {
            "min": round(self.fewest * hours, 4) if self.priced else None,
            "max": round(self.most * hours, 4) if self.priced else None,
            "spot_samples": list(self.sampled),
            "unknown": [name for name, _ in self.missing],
            "why_unknown": dict(self.missing),
            "not_in_it": list(NOT_INCLUDED),
        }


def quote(machine: Machine | UnlistedMachine, capacity: stack_file.Capacity, region: str) -> Quote:
    """The price of a machine. A reservation is billed as on-demand. Other kinds have own prices."""
    kind = _billing(capacity)
    if kind is None:
        return Quote(price=None, missing=f"there is no list price for {capacity.mode}")
    if isinstance(machine, UnlistedMachine):
        return Quote(price=None, missing=f"{machine.name} is not in the catalog")
    if price := machine.price(kind, region):
        return Quote(price=price)
    return Quote(
        price=None,
        elsewhere=next((price for price in machine.prices if price.capacity == kind), None),
        missing=f"no known list price for {machine.name} {kind} in {region}",
    )


def _billing(capacity: stack_file.Capacity) -> Billing | None:
    """None: at a price of its own, which no list has."""
    if isinstance(capacity, stack_file.Spot):
        return "spot"
    is_on_demand = isinstance(capacity, stack_file.OnDemand | stack_file.Reservation)
    return "on-demand" if is_on_demand else None


def pool_quote(settings: CloudSettings, gpus: int, fleet: FleetPlan) -> Quote:
    """The price of a pool's node. gpus: of a node, counted if they are attached to the machine."""
    region = region_of(fleet)
    quoted = quote(settings.machine, settings.capacity, region)
    if quoted.price is None or not isinstance(settings, GkeSettings) or settings.machine.gpu:
        return quoted
    price = quoted.price
    of_gpu = catalog.load().accelerators[settings.accelerator].price(price.capacity, region)
    if of_gpu is None:
        missing = f"no known list price for {settings.accelerator} {price.capacity} in {region}"
        return Quote(price=None, missing=missing)
    return Quote(price=_with_gpus(price, of_gpu, gpus))


def _with_gpus(machine: Price, gpu: Price, count: int) -> Price:
    """The price of a machine with attached GPUs, as old as the older list."""
    return Price(
        usd_per_hour=machine.usd_per_hour + count * gpu.usd_per_hour,
        capacity=machine.capacity,
        region=machine.region,
        date=gpu.date and min(gpu.date, machine.date or gpu.date),
        source=f"machine: {machine.source}; GPUs: {gpu.source}",
        caveat=gpu.caveat or machine.caveat,
    )


def system_quote(system: SystemPoolPlan, fleet: GkeFleetPlan | EksFleetPlan) -> Quote:
    return quote(system.machine, stack_file.OnDemand(), region_of(fleet))


def fleet_cost(fleet: FleetPlan) -> Cost:
    """The GPU pools and the system pool. The maximum counts spot samples at their dearest zone."""
    fewest, most = 0.0, 0.0
    priced, sampled, missing = [], [], []
    for name, nodes, quoted in _quotes(fleet):
        if quoted.price is None:
            missing.append((name, quoted.missing))
        else:
            priced.append(name)
            if quoted.price.capacity == "spot":
                sampled.append(name)
            fewest += quoted.price.usd_per_hour * nodes.min
            most += (quoted.price.up_to or quoted.price.usd_per_hour) * nodes.max
    return Cost(
        fewest=fewest,
        most=most,
        priced=tuple(priced),
        sampled=tuple(sampled),
        missing=tuple(missing),
    )


def region_of(fleet: FleetPlan) -> str:
    return "" if isinstance(fleet, ExistingFleetPlan) else fleet.cluster.region


def _quotes(fleet: FleetPlan) -> Iterator[tuple[str, NodeCount, Quote]]:
    if isinstance(fleet, ExistingFleetPlan):
        single_node = NodeCount(min=1, max=1, autoscaled=False)
        for name, nodes in (
            *((p.name, p.nodes) for p in fleet.pools),
            *((host.name, single_node) for host in fleet.hosts),
        ):
            yield name, nodes, Quote(price=None, missing="not created by this stack")
        return
    for pool in fleet.pools:
        yield pool.name, pool.nodes, pool_quote(pool.settings, pool.gpu_count, fleet)
    if (system := fleet.system) is not None:
        yield system.name, system.nodes, system_quote(system, fleet)
