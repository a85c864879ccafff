"""An order in which the instances of a layout can be created, whatever the driver chooses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from slicewright.infra import catalog, geometry
from slicewright.infra.catalog import Gpu
from slicewright.infra.geometry import Fit

GPUS = catalog.load().gpus
A100, A30, RTX = GPUS["A100-40"], GPUS["A30"], GPUS["RTX-PRO-6000"]
MIG_GPUS = [gpu for gpu in GPUS.values() if gpu.family]


def outcomes(gpu: Gpu, order: list[str], *, as_drivers_do: bool) -> set[bool]:
    """Whether creating in this order works, for every choice of placements by the driver.

    as_drivers_do: the driver tries a 3g at slot 4 before 0 and a double-memory 1g at 6 first;
    otherwise it may choose any.
    """

    def create(position: int, taken: frozenset[int]) -> Iterator[bool]:
        if position == len(order):
            yield True
            return
        kind = gpu.profiles[order[position]].kind
        free = [s for s in kind.starts if taken.isdisjoint(range(s, s + kind.size))]
        if as_drivers_do and kind.kind == "3g":
            free = sorted(free, reverse=True)[:1]
        if as_drivers_do and kind.kind == "1g-double" and 6 in free:
            free = [6]
        if not free:
            yield False
        for start in free:
            yield from create(position + 1, taken | set(range(start, start + kind.size)))

    return set(create(0, frozenset()))


@pytest.mark.parametrize("gpu", [A100, A30, RTX], ids=lambda gpu: gpu.name)
def test_the_order_of_creation_works_whatever_placements_the_driver_chooses(gpu: Gpu) -> None:
    for layout in geometry.layouts(gpu):
        order = [p.name for p in geometry.creation_order(gpu, layout)]
        assert outcomes(gpu, order, as_drivers_do=True) == {True}, order


def test_on_four_slice_gpus_the_driver_may_choose_any_placement() -> None:
    for gpu in (A30, RTX):
        for layout in geometry.layouts(gpu):
            assert outcomes(
                gpu, [p.name for p in geometry.creation_order(gpu, layout)], as_drivers_do=False
            ) == {True}


def test_other_orders_fail_as_on_a_real_a100() -> None:
    """`nvidia-smi mig -cgi 19,19,14,9` fails with Insufficient Resources, 9,19,14,19 works."""
    assert False in outcomes(A100, ["1g.5gb", "1g.5gb", "2g.10gb", "3g.20gb"], as_drivers_do=True)
    assert True in outcomes(A100, ["3g.20gb", "1g.5gb", "2g.10gb", "1g.5gb"], as_drivers_do=True)


def test_always_taking_the_lowest_start_fails_on_21_layouts() -> None:
    def works(layout: Mapping[str, int]) -> bool:
        taken: set[int] = set()
        for profile in geometry.creation_order(A100, layout):
            places = [set(range(s, s + profile.kind.size)) for s in profile.kind.starts]
            free = [place for place in places if not place & taken]
            if not free:
                return False
            taken |= free[0]
        return True

    assert sum(not works(layout) for layout in geometry.layouts(A100)) == 21


def test_the_order_of_creation_is_large_before_small_whatever_the_order_of_the_layout() -> None:
    def order(gpu: Gpu, *profiles: str) -> list[str]:
        return [p.name for p in geometry.creation_order(gpu, dict.fromkeys(profiles, 1))]

    a100 = ["7g.40gb", "4g.20gb", "3g.20gb", "2g.10gb", "1g.10gb", "1g.5gb+me", "1g.5gb"]
    assert order(A100, *a100) == order(A100, *reversed(a100)) == a100
    rtx = ["1g.24gb+me.all", "1g.24gb+me", "1g.24gb", "1g.24gb-me"]
    assert order(RTX, *rtx) == order(RTX, *reversed(rtx)) == rtx


def test_the_placements_of_a_fit_are_in_the_order_of_creation() -> None:
    for gpu in MIG_GPUS:
        for layout in geometry.layouts(gpu):
            answer = geometry.check(gpu, layout)
            assert isinstance(answer, Fit)
            assert [p.profile for p in answer.placements] == [
                p.name for p in geometry.creation_order(gpu, layout)
            ]
