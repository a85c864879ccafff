"""What a fleet costs per hour at list prices. Unknown is said, never zero; discounts, disks and traffic are not in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from infra import spec
from infra.catalog import Machine, Price
from infra.plan.fleet import ByoFleetPlan, CloudPoolPlan, EksFleetPlan, FleetPlan, GkeFleetPlan


@dataclass(frozen=True, kw_only=True)
class Quote:
    """What the catalog knows of one node's price in US dollars per hour."""

    price: Price | None
    """In the fleet's own region; None: unknown."""
    elsewhere: Price | None
    """In another region, for orientation only; it is in no sum."""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Of all nodes, at their fewest and at their most."""

    fewest: float
    most: float
    unknown: tuple[str, ...]
    """Pools whose price the catalog does not have; they are not in the sums."""

    def as_json(self) -> dict[str, Any]:
        return {"min": round(self.fewest, 4), "max": round(self.most, 4), "unknown": list(self.unknown)}


def quote(machine: Machine, capacity: spec.Capacity, region: str) -> Quote:
    """A reservation is billed like on-demand machines; flex-start, queued and capacity blocks have prices of their own."""
    if not isinstance(capacity, spec.OnDemand | spec.Spot | spec.Reservation):
        return Quote(price=None, elsewhere=None)
    kind = "spot" if isinstance(capacity, spec.Spot) else "on-demand"
    listed = [price for price in machine.prices if price.capacity == kind]
    here = next((price for price in listed if price.region == region), None)
    return Quote(price=here, elsewhere=None if here else next(iter(listed), None))


def pool_quote(pool: CloudPoolPlan, fleet: FleetPlan) -> Quote:
    return quote(pool.machine, pool.capacity, region_of(fleet))


def system_quote(fleet: GkeFleetPlan | EksFleetPlan) -> Quote:
    return quote(fleet.system.machine, spec.OnDemand(), region_of(fleet))


def fleet_cost(fleet: FleetPlan) -> Cost:
    """The GPU pools and the system pool; the control plane is not in the catalog. A sample over zones counts at its dearest."""
    fewest, most, unknown = 0.0, 0.0, []
    priced = [(p.name, p.nodes, pool_quote(p, fleet).price) for p in fleet.pools if isinstance(p, CloudPoolPlan)]
    if not isinstance(fleet, ByoFleetPlan):
        priced.append((fleet.system.name, fleet.system.nodes, system_quote(fleet).price))
    for name, nodes, price in priced:
        if price is None:
            unknown.append(name)
        else:
            fewest += price.usd_per_hour * nodes.min
            most += (price.up_to or price.usd_per_hour) * nodes.max
    return Cost(fewest=fewest, most=most, unknown=tuple(unknown))


def region_of(fleet: FleetPlan) -> str:
    return "" if isinstance(fleet, ByoFleetPlan) else fleet.cluster.region
