"""Partitions and whole GPUs of a node cost together as much as the node."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slicewright.infra import catalog, plan, stack_file
from slicewright.infra.catalog import Machine, Price
from slicewright.infra.plan.machines import prices
from slicewright.infra.plan.machines.partition_prices import WHOLE, partition_costs
from tests.properties import examples

PRICED = [m for m in catalog.load().machines.values() if m.gpu and m.prices]


def pool_of(machine: Machine, partition: Any) -> plan.PoolPlan:
    """A pool in an existing cluster with the machine's GPUs, which may have any layout."""
    assert machine.gpu is not None
    gpu = {"model": machine.gpu.name, "count": machine.gpu_count}
    pool = {"name": "a", "gpu": gpu, "nodes": {"count": 1}, "partition": partition}
    raw = {
        "cloud": "byo",
        "cluster": {"name": "c", "context": "c"},
        "gpu_operator": {"mig_strategy": "mixed"},
        "node_pools": [pool],
    }
    fleet = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    return fleet.pools[0]


def partitions_of(pool: plan.PoolPlan) -> dict[str, int]:
    counts: dict[str, int] = {}
    for layout in pool.offer.layouts:
        for name, count in (layout or {WHOLE: 1}).items():
            counts[name] = counts.get(name, 0) + count
    return counts


def month(price: Price) -> float:
    return price.usd_per_hour * prices.HOURS_PER_MONTH


@settings(max_examples=examples(300), deadline=None)
@given(st.sampled_from(PRICED), st.data())
def test_partitions_together_cost_the_nodes_price(machine: Machine, data: Any) -> None:
    gpu = machine.gpu
    assert gpu is not None
    kinds: list[Any] = ["none"]
    if gpu.family:
        whole = next(p.name for p in gpu.profiles.values() if p.kind.size == gpu.family.slots)
        kinds += [{"mode": "operator", "layout": dict(gpu.balanced())}]
        kinds += [{"mode": "operator", "layout": {whole: 1}}]
        some = [
            {"index": [i], "layout": dict(gpu.balanced()) if i % 2 else {}}
            for i in range(machine.gpu_count)
        ]
        if machine.gpu_count > 1:
            kinds += [{"mode": "operator", "gpus": some}]
    pool = pool_of(machine, data.draw(st.sampled_from(kinds)))
    for price in machine.prices:
        costs = partition_costs(pool, price)
        counts = partitions_of(pool)
        assert set(costs) == set(counts)
        total = sum(costs[name].usd * count for name, count in counts.items())
        assert math.isclose(total, month(price), rel_tol=1e-9)


def test_a_larger_partition_costs_more() -> None:
    machine = catalog.load().machines["eks", "p4d.24xlarge"]
    layout = {"1g.5gb": 2, "2g.10gb": 1, "3g.20gb": 1}
    pool = pool_of(machine, {"mode": "operator", "layout": layout})
    price = machine.price("on-demand", "us-east-1")
    assert price is not None
    costs = {name: cost.usd for name, cost in partition_costs(pool, price).items()}
    assert costs["1g.5gb"] < costs["2g.10gb"] < costs["3g.20gb"]
    assert math.isclose(costs["3g.20gb"], 4 * costs["1g.5gb"])


def test_a_spot_sample_gives_a_range() -> None:
    machine = catalog.load().machines["eks", "p5.48xlarge"]
    price = machine.price("spot", "us-west-2")
    assert price is not None
    assert price.up_to is not None
    cost = partition_costs(pool_of(machine, "none"), price)[WHOLE]
    assert cost.as_json() == {
        "min": round(month(price) / 8, 4),
        "max": round(price.up_to * prices.HOURS_PER_MONTH / 8, 4),
    }


@pytest.mark.parametrize(("count", "usd"), [(1, 0.379998 + 0.35), (4, 0.379998 + 4 * 0.35)])
def test_attached_gpus_are_in_the_price_of_a_node(count: int, usd: float) -> None:
    pool = {
        "name": "a",
        "machine_type": "n1-standard-8",
        "gpu": {"model": "T4", "count": count},
        "nodes": {"count": 1},
    }
    cluster = {"name": "c", "location": "us-central1-a"}
    raw = {"cloud": "gke", "cluster": cluster, "node_pools": [pool]}
    fleet = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    (built,) = fleet.pools
    assert isinstance(built.settings, plan.CloudSettings)
    quote = prices.pool_quote(built.settings, built.gpu_count, fleet)
    assert quote.price is not None
    assert math.isclose(quote.price.usd_per_hour, usd, rel_tol=1e-3)
    assert "undated" in quote.price.caveat
