"""The picture of one GPU: every slot once, whatever the layout and the width."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from slicewright.infra import catalog, geometry
from slicewright.show.picture import draw, placements_of


def rows(gpu: str, layout: Mapping[str, int], width: int = 200) -> list[str]:
    found = catalog.load().gpus[gpu]
    return [line.plain for line in draw(found, placements_of(found, layout), width=width)]


def test_a_small_instance_leaves_the_rest_empty() -> None:
    _, memory, compute = rows("A100-40", {"1g.5gb": 1})
    assert memory.count("·") == 7
    assert compute.count("·") == 6
    assert memory.count("[1g.5gb]") == 1


def test_double_memory_takes_two_slots_and_one_slice() -> None:
    _, memory, compute = rows("A100-40", {"1g.10gb": 4})
    assert (memory.count("["), memory.count("·")) == (4, 0)
    assert (compute.count("["), compute.count("·")) == (4, 3)


@pytest.mark.parametrize("width", [20, 40, 60, 80, 200])
@pytest.mark.parametrize(
    "gpu", sorted(name for name, gpu in catalog.load().gpus.items() if gpu.family)
)
def test_every_maximal_layout_is_drawn_in_full_at_any_width(gpu: str, width: int) -> None:
    found = catalog.load().gpus[gpu]
    assert found.family is not None
    for layout in geometry.maximal(found):
        placed = placements_of(found, layout)
        numbers, memory, compute, *legend = (
            line.plain for line in draw(found, placed, width=width)
        )
        assert numbers.split()[1:] == [str(slot) for slot in range(found.family.slots)]
        assert memory.count("[") == sum(layout.values())
        assert memory.count("·") == found.family.slots - sum(p.size for p in placed)
        assert compute.count("[") == sum(
            1 for p in placed if found.profiles[p.profile].kind.compute
        )
        names = " ".join(legend) if legend else memory
        assert all(profile in names for profile in layout)


def test_rows_align_for_slices_of_three_slots() -> None:
    numbers, memory, compute = rows("RTX-PRO-6000", {"2g.48gb": 1, "1g.24gb": 2})
    assert numbers.split()[-1] == "11"
    assert [i for i, c in enumerate(memory) if c == "["] == [
        i for i, c in enumerate(compute) if c == "["
    ]
    assert len(memory) == len(compute)
