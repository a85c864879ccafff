"""The search for placements, against the fake driver's own rules and against trying
everything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slicewright.apis.layout import GpuLayout, parse
from slicewright.node_agent.host.mig_state import (
    ComputeInstance,
    ComputeProfile,
    GpuInstance,
    Profile,
    same_compute_instances,
)
from slicewright.node_agent.host.placement import LayoutImpossible, place, place_compute_instances
from slicewright.node_agent.nvml.observed import Engines
from slicewright.rehearsal.cluster.silicon import models
from slicewright.rehearsal.cluster.silicon import placement as silicon_rules
from tests.properties import examples

MIG_MODELS = sorted(key for key, model in models.models().items() if model.slices)


def offered(key: str) -> tuple[Profile, ...]:
    return tuple(
        Profile(
            id=s.id,
            name=s.name,
            slices=s.compute_slices,
            size=s.size,
            starts=tuple(s.starts),
            most=s.most,
            engines=Engines(decoders=s.decoders, encoders=s.encoders, jpeg=s.jpegs, ofa=s.ofas),
        )
        for s in models.model(key).slices
    )


def wanted(text: str) -> GpuLayout:
    ((_, layout),) = parse([f"0:{text}"]).clauses
    return layout


def names(key: str, instances: Sequence[GpuInstance]) -> Counter[str]:
    by_id = {p.id: p.name for p in offered(key)}
    return Counter(by_id[i.profile] for i in instances)


@st.composite
def a_model_and_profiles(draw: st.DrawFn) -> tuple[str, list[str]]:
    key = draw(st.sampled_from(MIG_MODELS))
    return key, draw(
        st.lists(st.sampled_from([p.name for p in offered(key)]), min_size=1, max_size=7)
    )


@given(a_model_and_profiles())
@settings(max_examples=examples(300), deadline=None)
def test_placement_is_found_exactly_if_one_exists(case: tuple[str, list[str]]) -> None:
    key, profiles = case
    model = models.model(key)
    try:
        silicon_rules.place(model, [model.slice(name) for name in profiles])
        possible = True
    except silicon_rules.NoRoom:
        possible = False
    try:
        placed = place(wanted(",".join(profiles)), offered(key))
    except LayoutImpossible:
        assert not possible
    else:
        assert possible
        assert names(key, placed) == Counter(profiles)
        taken = [slot for i in placed for slot in range(i.start, i.start + i.size)]
        assert len(taken) == len(set(taken))


@given(a_model_and_profiles(), st.data())
@settings(max_examples=examples(150), deadline=None)
def test_placement_keeps_as_many_instances_as_possible(
    case: tuple[str, list[str]], data: st.DataObject
) -> None:
    key, profiles = case
    there_names = data.draw(st.lists(st.sampled_from([p.name for p in offered(key)]), max_size=5))
    try:
        there = place(wanted(",".join(there_names)), offered(key)) if there_names else ()
        placed = place(wanted(",".join(profiles)), offered(key), there)
    except LayoutImpossible:
        return
    assert sum(_stays(i, there) for i in placed) == _most_that_can_stay(key, profiles, there)


def _stays(instance: GpuInstance, there: Sequence[GpuInstance]) -> bool:
    return any(instance.position == other.position for other in there)


def _most_that_can_stay(key: str, profiles: list[str], there: Sequence[GpuInstance]) -> int:
    """By trying every place for every instance."""
    by_name = {p.name: p for p in offered(key)}
    best = 0
    for starts in product(*(by_name[name].starts for name in profiles)):
        pairs = list(zip(profiles, starts, strict=True))
        taken = [slot for name, start in pairs for slot in range(start, start + by_name[name].size)]
        if len(taken) == len(set(taken)):
            best = max(
                best, len({(by_name[n].id, s) for n, s in pairs} & {i.position for i in there})
            )
    return best


def test_halves_go_to_0_and_4() -> None:
    assert [(i.start, i.size) for i in place(wanted("3g.20gb*2"), offered("A100-40"))] == [
        (0, 4),
        (4, 4),
    ]


def test_placement_succeeds_where_the_drivers_order_fails() -> None:
    """`-cgi 19,19,14,9` fails with the driver's first fit (NVIDIA MIG User Guide)."""
    placed = place(wanted("19,19,14,9"), offered("A100-40"))
    assert names("A100-40", placed) == {"1g.5gb": 2, "2g.10gb": 1, "3g.20gb": 1}


@pytest.mark.parametrize(
    ("layout", "complaint"),
    [
        ("4g.20gb*2", "4g.20gb x2: the driver allows 1"),
        ("3g.20gb*3", "3g.20gb x3: the driver allows 2"),
        ("3g.20gb*2,1g.5gb", "they need 9 memory slices, the GPU has 8"),
        ("7g.40gb,1g.5gb", "need 8 compute slices, the GPU has 7"),
        ("2g.10gb*3,1g.5gb*2", "need 8 compute slices, the GPU has 7"),
        ("1g.5gb+me*2", "1g.5gb+me x2: the driver allows 1"),
        ("3g.20gb@2", "3g.20gb cannot start at memory slice 2; it can start at 0, 4"),
        ("3g.40gb", "does not offer 3g.40gb; it offers 1g.5gb (19), 2g.10gb (14), 3g.20gb (9)"),
        ("3g.20gb@0,3g.20gb@0", "their placements overlap"),
        ("4c.3g.20gb", "3g.20gb has 3 compute slices, not 4"),
        ("2c.3g.20gb@0*2", "2c, 2c do not fit into one 3g.20gb with 3 compute slices"),
    ],
)
def test_impossible_layout_is_refused_with_its_reason(layout: str, complaint: str) -> None:
    with pytest.raises(LayoutImpossible) as refused:
        place(wanted(layout), offered("A100-40"))
    assert complaint in str(refused.value)


def test_media_engines_are_shared_out() -> None:
    with pytest.raises(LayoutImpossible, match="decoders engines, the GPU has 4"):
        place(wanted("1g.24gb+me.all,1g.24gb"), offered("RTX-PRO-6000"))
    assert place(wanted("1g.24gb+me.all,1g.24gb-me*3"), offered("RTX-PRO-6000"))


def test_engine_numbers_that_do_not_add_up_refuse_nothing() -> None:
    """As NVIDIA's guide prints them for the B200: one of each for every profile."""
    one = Engines(decoders=1, encoders=0, jpeg=1, ofa=0)
    guide = [Profile(**{**vars(p), "engines": one}) for p in offered("B200")]
    assert len(place(wanted("1g.23gb*7"), guide)) == 7


def test_smaller_compute_instances_share_gpu_instances() -> None:
    placed = place(wanted("1c.3g.20gb*4,2c.3g.20gb"), offered("A100-40"))
    assert sorted(sorted(c.slices for c in i.compute_instances) for i in placed) == [
        [1, 1, 1],
        [1, 2],
    ]


seven = tuple(
    ComputeProfile(id=n, slices=n, starts=s)
    for n, s in [(1, tuple(range(7))), (2, (0, 2, 4)), (3, (0, 4)), (4, (0,))]
)


def test_compute_instances_are_placed_where_order_alone_would_fail() -> None:
    """Largest first puts 3 at 0 and leaves no room for a second pair; 3 at 4 does."""
    placed = place_compute_instances([ComputeInstance(slices=n) for n in (3, 2, 2)], seven)
    assert placed is not None
    assert {(c.slices, c.start) for c in placed} == {(3, 4), (2, 0), (2, 2)}


def test_compute_instances_that_are_right_stay() -> None:
    there = (ComputeInstance(slices=1, start=5, id=0), ComputeInstance(slices=1, start=6, id=1))
    placed = place_compute_instances([ComputeInstance(slices=n) for n in (4, 1, 1)], seven, there)
    assert placed is not None
    assert {(c.slices, c.start) for c in placed} == {(4, 0), (1, 5), (1, 6)}


def test_too_many_compute_instances_do_not_fit() -> None:
    assert (
        place_compute_instances([ComputeInstance(slices=4), ComputeInstance(slices=4)], seven)
        is None
    )
    assert place_compute_instances([ComputeInstance(slices=5)], seven) is None


def test_without_known_placements_the_largest_comes_first() -> None:
    blind = tuple(ComputeProfile(id=n, slices=n, starts=None) for n in (1, 2, 3))
    placed = place_compute_instances([ComputeInstance(slices=n) for n in (1, 2)], blind)
    assert placed is not None
    assert [(c.slices, c.start) for c in placed] == [(2, None), (1, None)]


def test_an_open_start_agrees_with_any_and_a_given_one_only_with_itself() -> None:
    there = (ComputeInstance(slices=1, start=0, id=0), ComputeInstance(slices=2, start=1, id=1))
    assert same_compute_instances(there, (ComputeInstance(slices=2), ComputeInstance(slices=1)))
    assert not same_compute_instances(
        there, (ComputeInstance(slices=2), ComputeInstance(slices=1, start=3))
    )
    assert not same_compute_instances(there, (ComputeInstance(slices=2),))
