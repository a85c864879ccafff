"""Describes costs: of a node and its partitions, and of the fleet, by the hour and by the month."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from slicewright.infra import plan
from slicewright.infra.catalog import Price
from slicewright.infra.plan.machines import prices
from slicewright.infra.plan.machines.partition_prices import MonthlyCost, partition_costs
from slicewright.infra.plan.machines.prices import HOURS_PER_MONTH
from slicewright.infra.plan.model.pools import SystemPoolPlan
from slicewright.infra.plan.pools.clusters import SYSTEM_POOL


def system_cost_line(system: SystemPoolPlan, fleet: plan.GkeFleetPlan | plan.EksFleetPlan) -> str:
    return f"  a node costs    {_price(prices.system_quote(system, fleet))}"


def pool_cost_lines(
    pool: plan.PoolPlan, settings: plan.CloudSettings, fleet: plan.FleetPlan
) -> Iterator[str]:
    """The price of a node, and the month of a partition if the price is known."""
    quote = prices.pool_quote(settings, pool.gpu_count, fleet)
    yield f"  a node costs    {_price(quote)}"
    if quote.price is not None:
        costs = partition_costs(pool, quote.price)
        monthly = ", ".join(f"{name} {_month(cost)}" for name, cost in costs.items())
        hours = f"if the node runs all {HOURS_PER_MONTH} hours"
        yield f"  each costs      {monthly} USD/month, {hours}"


def fleet_cost_lines(fleet: plan.FleetPlan) -> Iterator[str]:
    cost = prices.fleet_cost(fleet)
    listed = [name for name in cost.priced if name not in cost.sampled]
    ways = (("at list prices", listed), ("at a spot sample", cost.sampled))
    bases = ", ".join(f"{way} for {_pools(names)}" for way, names in ways if names)
    total = f"{range_text(cost)} {bases}" if cost.priced else "unknown"
    yield f"cost: {total}; never included: {', '.join(prices.NOT_INCLUDED)}"
    if cost.priced:
        yield f"  a month of {HOURS_PER_MONTH} hours: {range_text(cost, month=True)}"
    for name, why in cost.missing:
        yield f"  not included: {_pools([name])}, {why}"


def range_text(cost: prices.Cost, *, month: bool = False) -> str:
    """The least and the greatest cost: 4.00 to 8.00 USD/h."""
    hours, unit = (HOURS_PER_MONTH, "USD/month") if month else (1, "USD/h")
    least, most = f"{cost.fewest * hours:.2f}", f"{cost.most * hours:.2f}"
    return f"{least} {unit}" if least == most else f"{least} to {most} {unit}"


def _month(cost: MonthlyCost) -> str:
    return f"{cost.usd:.2f}" + (f" to {cost.up_to:.2f}" if cost.up_to is not None else "")


def _price(quote: prices.Quote) -> str:
    if quote.price is not None:
        return _listed(quote.price)
    return f"unknown: {quote.missing}" + (
        f"; elsewhere {_listed(quote.elsewhere)}" if quote.elsewhere else ""
    )


def _pools(names: Sequence[str]) -> str:
    return ", ".join("the system pool" if name == SYSTEM_POOL else f"pool {name}" for name in names)


def _listed(price: Price) -> str:
    amount = f"{price.usd_per_hour:.4f}" + (
        f" to {price.up_to:.4f}" if price.up_to is not None else ""
    )
    kind = "spot sample" if price.capacity == "spot" else "list price"
    caveat = f"; {price.caveat}" if price.caveat else ""
    return (
        f"{amount} USD/h ({kind} of {price.date or 'no known date'} in {price.region}; "
        f"{price.source}{caveat})"
    )
