"""Compute instances that share GPU instances."""

from __future__ import annotations

from collections import Counter
from itertools import combinations_with_replacement

import pytest

from slicewright.infra import catalog, geometry
from slicewright.infra.geometry import LayoutError
from slicewright.infra.geometry.compute_instances import instances_holding

GPUS = catalog.load().gpus
A100, A30 = GPUS["A100-40"], GPUS["A30"]


@pytest.mark.parametrize(
    ("layout", "instances"),
    [
        ({"1c.3g.20gb": 3}, {"3g.20gb": 1}),
        ({"1c.3g.20gb": 4}, {"3g.20gb": 2}),
        ({"1c.3g.20gb": 1, "2c.3g.20gb": 2}, {"3g.20gb": 2}),
        ({"1c.3g.20gb": 1, "3g.20gb": 1}, {"3g.20gb": 2}),
        ({"2c.4g.20gb": 2, "3g.20gb": 1}, {"4g.20gb": 1, "3g.20gb": 1}),
        ({"3c.7g.40gb": 1, "2c.7g.40gb": 2}, {"7g.40gb": 1}),
        ({"1c.2g.10gb": 0, "1g.5gb": 7}, {"1g.5gb": 7}),
    ],
)
def test_compute_instances_share_the_fewest_gpu_instances(
    layout: dict[str, int], instances: dict[str, int]
) -> None:
    assert geometry.gpu_instances(A100, layout) == instances


def test_a_compute_instance_of_another_gpu_is_an_error() -> None:
    with pytest.raises(LayoutError, match=r"A30 has no profile 1c\.3g\.20gb"):
        geometry.gpu_instances(A30, {"1c.3g.20gb": 1})


@pytest.mark.parametrize("slices", [1, 2, 3, 4, 7])
def test_packing_by_counts_equals_packing_one_by_one(slices: int) -> None:
    """For every multiset of up to seven parts."""
    sizes = [size for size in (1, 2, 3, 4, 7) if size <= slices]
    for many in range(8):
        for parts in combinations_with_replacement(sizes, many):
            rooms: list[int] = []
            for part in sorted(parts, reverse=True):
                at = next((i for i, room in enumerate(rooms) if room >= part), None)
                if at is None:
                    rooms.append(slices - part)
                else:
                    rooms[at] -= part
            assert instances_holding(slices, Counter(parts)) == len(rooms), parts


def test_a_gpu_instance_can_hold_one_compute_instance_of_its_own_profile() -> None:
    assert geometry.compute_instances(A100, "3g.20gb") == {
        "1c.3g.20gb": 3,
        "2c.3g.20gb": 1,
        "3g.20gb": 1,
    }
    assert geometry.compute_instances(A100, "1g.5gb") == {"1g.5gb": 1}
