"""The cost of a partition: the node's price, divided among its partitions by their memory slots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slicewright.infra.catalog import Price
from slicewright.infra.plan.machines.prices import HOURS_PER_MONTH
from slicewright.infra.plan.model.pools import PoolPlan

WHOLE = "whole GPU"
"""The name of a GPU that is not partitioned, beside the profiles' names."""


@dataclass(frozen=True, kw_only=True)
class MonthlyCost:
    """US dollars a month for one partition, or one whole GPU, of a node that runs all the time."""

    usd: float
    up_to: float | None
    """The cost in the most expensive zone of a sample."""

    def as_json(self) -> dict[str, Any]:
        return {
            "min": round(self.usd, 4),
            "max": round(self.usd if self.up_to is None else self.up_to, 4),
        }


def partition_costs(pool: PoolPlan, price: Price) -> Mapping[str, MonthlyCost]:
    """Profile, or WHOLE -> the cost of one. Together they cost as much as the node.

    A GPU's free slots are charged to the node's partitions: nobody else can use them.
    """
    counts, slots = _counts(pool), _slots(pool)
    total = sum(count * slots[name] for name, count in counts.items())
    shares = {name: slots[name] / total * HOURS_PER_MONTH for name in counts}
    return {
        name: MonthlyCost(
            usd=price.usd_per_hour * share,
            up_to=None if price.up_to is None else price.up_to * share,
        )
        for name, share in shares.items()
    }


def _counts(pool: PoolPlan) -> Mapping[str, int]:
    """Partitions of each profile, and whole GPUs, on one node."""
    counts: dict[str, int] = {}
    for layout in pool.offer.layouts:
        for name, count in (layout or {WHOLE: 1}).items():
            counts[name] = counts.get(name, 0) + count
    return counts


def _slots(pool: PoolPlan) -> Mapping[str, int]:
    """Profile, or WHOLE -> the memory slots that it takes."""
    whole = pool.gpu.family.slots if pool.gpu.family else 1
    return {WHOLE: whole} | {name: p.kind.size for name, p in pool.gpu.profiles.items()}
