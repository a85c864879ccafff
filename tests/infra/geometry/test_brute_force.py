"""The geometry's tables against a backtracking search that shares no code with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, combinations, combinations_with_replacement, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slicewright.infra import catalog, geometry
from slicewright.infra.catalog import Family, Gpu, Kind
from slicewright.infra.geometry import Fit, LayoutError, Misfit, Placement
from slicewright.infra.geometry.nearest import shrinks
from tests.properties import examples

GPUS = catalog.load().gpus
MIG_GPUS = [gpu for gpu in GPUS.values() if gpu.family]
ONE_OF_EACH = [GPUS["A100-40"], GPUS["A30"], GPUS["RTX-PRO-6000"]]
Layout = tuple[str, ...]
"""Profile names, sorted, as often as there are instances."""


def legal(gpu: Gpu, placed: Sequence[tuple[str, int]]) -> bool:
    """By definition: allowed starts, no overlap, enough compute, engines and instances."""
    assert gpu.family is not None
    kinds = [gpu.profiles[name].kind for name, _ in placed]
    slots = [
        slot
        for (name, start) in placed
        for slot in range(start, start + gpu.profiles[name].kind.size)
    ]
    return (
        all(start in gpu.profiles[name].kind.starts for name, start in placed)
        and len(slots) == len(set(slots))
        and sum(kind.compute for kind in kinds) <= gpu.family.compute
        and all(
            sum(k.engines.get(e, 0) for k in kinds) <= have
            for e, have in gpu.family.engines.items()
        )
        and all(
            n <= gpu.profiles[name].kind.most
            for name, n in Counter(name for name, _ in placed).items()
        )
    )


def ways(
    gpu: Gpu,
    layout: Layout,
    there: tuple[tuple[str, int], ...] = (),
    after: tuple[str, int] = ("", 0),
) -> Iterator[tuple[tuple[str, int], ...]]:
    """Every way to place `layout` beside `there`, equal instances at ascending starts."""
    if not layout:
        yield there
        return
    for start in gpu.profiles[layout[0]].kind.starts:
        more = (*there, (layout[0], start))
        if (layout[0] != after[0] or start > after[1]) and legal(gpu, more):
            yield from ways(gpu, layout[1:], more, more[-1])


def fits(gpu: Gpu, layout: Layout, there: tuple[tuple[str, int], ...] = ()) -> bool:
    return _fits(gpu, tuple(sorted(layout)), tuple(sorted(there)))


@cache
def _fits(gpu: Gpu, layout: Layout, there: tuple[tuple[str, int], ...]) -> bool:
    return next(ways(gpu, layout, there), None) is not None


@cache
def sets_of_placements(family: Family) -> frozenset[frozenset[tuple[str, int]]]:
    """Every valid set of placements of a family, as kinds and starts."""
    gpu = next(g for g in MIG_GPUS if g.family is family)
    kind_of = {p.name: p.kind.kind for p in gpu.profiles.values()}
    places = [(name, start) for name, p in gpu.profiles.items() for start in p.kind.starts]
    found = {frozenset[tuple[str, int]]()}
    edge = list(found)
    while edge:
        chosen = edge.pop()
        for place in places:
            more = chosen | {place}
            if len(more) > len(chosen) and more not in found and legal(gpu, list(more)):
                found.add(more)
                edge.append(more)
    return frozenset(
        frozenset((kind_of[name], start) for name, start in chosen) for chosen in found
    )


@pytest.mark.parametrize("gpu", MIG_GPUS, ids=lambda gpu: gpu.name)
def test_layouts_are_those_that_the_search_finds(gpu: Gpu) -> None:
    assert gpu.family is not None
    name_of = {p.kind.kind: p.name for p in gpu.profiles.values()}
    forced = {
        tuple(sorted(name_of[kind] for kind, _ in chosen))
        for chosen in sets_of_placements(gpu.family)
    }
    assert {
        tuple(sorted(Counter(layout).elements())) for layout in geometry.layouts(gpu)
    } == forced - {()}


@pytest.mark.parametrize(
    ("gpu", "sets", "maximal", "layouts"), [("A100-40", 2318, 239, 64), ("A30", None, None, None)]
)
def test_a_family_has_this_many_sets_of_placements(
    gpu: str, sets: int | None, maximal: int, layouts: int
) -> None:
    """A100: with all seven profiles. A30: with the base profiles 1g, 2g, 4g only."""
    family = GPUS[gpu].family
    assert family is not None
    found = [chosen for chosen in sets_of_placements(family) if chosen]
    if sets is None:
        found = [chosen for chosen in found if {kind for kind, _ in chosen} <= {"1g", "2g", "4g"}]
        sets, maximal, layouts = 25, 5, 4
    assert len(found) == sets
    largest = [chosen for chosen in found if not any(chosen < other for other in found)]
    assert len(largest) == maximal
    assert len({tuple(sorted(kind for kind, _ in chosen)) for chosen in largest}) == layouts


@pytest.mark.parametrize("gpu", ONE_OF_EACH, ids=lambda gpu: gpu.name)
def test_a_fit_has_the_highest_starts_of_large_instances_first(gpu: Gpu) -> None:
    order = [
        profile.name for profile in geometry.creation_order(gpu, dict.fromkeys(gpu.profiles, 1))
    ]

    def starts(placed: Iterable[tuple[str, int]]) -> list[int]:
        return [start for _, start in sorted(placed, key=lambda p: (order.index(p[0]), -p[1]))]

    for layout in geometry.layouts(gpu):
        answer = geometry.check(gpu, layout)
        assert isinstance(answer, Fit)
        found = [p.start for p in answer.placements]
        assert found == max(starts(way) for way in ways(gpu, tuple(Counter(layout).elements())))


# ---- the nearest layout


def smaller_or_equal(large: Kind, small: Kind) -> bool:
    return (
        (small.size, small.compute, small.graphics) <= (large.size, large.compute, large.graphics)
        and small.size <= large.size
        and small.compute <= large.compute
        and small.graphics <= large.graphics
        and all(cost <= large.engines.get(engine, 0) for engine, cost in small.engines.items())
    )


@pytest.mark.parametrize("gpu", ONE_OF_EACH, ids=lambda gpu: gpu.name)
def test_an_instance_can_be_replaced_by_one_that_needs_no_more_of_anything(gpu: Gpu) -> None:
    kinds = [profile.kind for profile in gpu.profiles.values()]
    for large, small in product(kinds, kinds):
        assert shrinks(large, small) == smaller_or_equal(large, small), (large.kind, small.kind)


def cheapest(gpu: Gpu, wanted: Layout) -> tuple[int, int, int, int]:
    """The least cost of all ways to keep, shrink or drop each instance."""
    choices = [
        [
            name,
            None,
            *(
                p.name
                for p in gpu.profiles.values()
                if p.name != name and smaller_or_equal(gpu.profiles[name].kind, p.kind)
            ),
        ]
        for name in wanted
    ]

    def cost(chosen: tuple[str | None, ...]) -> tuple[int, int, int, int]:
        kinds = [gpu.profiles[name].kind for name in chosen if name is not None]
        changed = sum(a != b for a, b in zip(wanted, chosen, strict=True))
        return (
            changed,
            chosen.count(None),
            -sum(k.compute for k in kinds),
            -sum(k.size for k in kinds),
        )

    known = {tuple(sorted(Counter(layout).elements())) for layout in geometry.layouts(gpu)} | {()}
    return min(
        cost(c)
        for c in product(*choices)
        if tuple(sorted(name for name in c if name is not None)) in known
    )


def cost_of(gpu: Gpu, wanted: Layout, found: Mapping[str, int]) -> tuple[int, int, int, int]:
    asked, have = Counter(wanted), Counter(found)
    kinds = [gpu.profiles[name].kind for name in have.elements()]
    kept = (asked & have).total()
    return (
        asked.total() - kept,
        asked.total() - have.total(),
        -sum(k.compute for k in kinds),
        -sum(k.size for k in kinds),
    )


def unfitting(gpu: Gpu, most: int) -> list[Layout]:
    names = sorted(gpu.profiles)
    every = chain.from_iterable(combinations_with_replacement(names, n) for n in range(1, most + 1))
    return [layout for layout in every if isinstance(geometry.check(gpu, Counter(layout)), Misfit)]


@pytest.mark.parametrize(
    ("gpu", "most", "some"),
    [(GPUS["A100-40"], 3, 40), (GPUS["A30"], 4, 60), (GPUS["RTX-PRO-6000"], 3, 250)],
)
def test_nothing_that_fits_is_nearer_than_the_nearest_layout(
    gpu: Gpu, most: int, some: int
) -> None:
    cases = unfitting(gpu, most)
    assert len(cases) > some
    for wanted in cases:
        answer = geometry.check(gpu, Counter(wanted))
        assert isinstance(answer, Misfit)
        assert fits(gpu, tuple(Counter(answer.nearest).elements()))
        assert cost_of(gpu, wanted, answer.nearest) == cheapest(gpu, wanted), (
            wanted,
            answer.nearest,
        )


@given(st.lists(st.sampled_from(sorted(GPUS["A100-40"].profiles)), min_size=4, max_size=5))
@settings(max_examples=examples(40), deadline=None)
def test_nothing_that_fits_is_nearer_for_larger_layouts(wanted: list[str]) -> None:
    gpu = GPUS["A100-40"]
    answer = geometry.check(gpu, Counter(wanted))
    if isinstance(answer, Misfit):
        assert cost_of(gpu, tuple(wanted), answer.nearest) == cheapest(gpu, tuple(wanted))


def replaceable(gpu: Gpu, dropped: Counter[str], added: Layout) -> bool:
    """Whether each added instance can take the place of another, no smaller one that is dropped."""
    if not added:
        return True
    small = gpu.profiles[added[0]].kind
    return any(
        n
        and smaller_or_equal(gpu.profiles[name].kind, small)
        and replaceable(gpu, dropped - Counter([name]), added[1:])
        for name, n in dropped.items()
    )


def preference(gpu: Gpu, wanted: Counter[str], have: Counter[str]) -> tuple[int, ...]:
    """The order in the docstring of `nearest`; the least is the best."""

    def worth(layout: Counter[str]) -> tuple[int, ...]:
        kinds = [(gpu.profiles[name].kind, n) for name, n in layout.items()]
        return (
            -sum(kind.compute * n for kind, n in kinds),
            -sum(kind.size * n for kind, n in kinds),
            -sum(sum(kind.engines.values()) * n for kind, n in kinds),
        )

    kept = wanted & have
    return -kept.total(), -have.total(), *worth(have), *worth(kept)


@pytest.mark.parametrize(("gpu", "step"), [("A100-40", 5), ("A30", 1), ("RTX-PRO-6000", 7)])
def test_the_nearest_of_all_layouts_is_preferred(gpu: str, step: int) -> None:
    """To what asks for an instance or a whole layout more than fits, and for less than fits."""
    of = GPUS[gpu]
    full = [Counter(layout) for layout in geometry.maximal(of)]
    asked = [layout + Counter([name]) for layout in full for name in of.profiles]
    asked += [a + b for a, b in combinations(full, 2)][::step]
    asked += [Counter({name: n}) for name in of.profiles for n in (1, 8, 9, 10**9)]
    layouts = [Counter[str](), *map(Counter, geometry.layouts(of))]
    for wanted in asked[::step]:
        found = Counter(geometry.nearest(of, wanted))
        dropped, added = wanted - found, tuple((found - wanted).elements())
        assert replaceable(of, dropped, added), (wanted, found)
        ordered = sorted((preference(of, wanted, layout), i) for i, layout in enumerate(layouts))
        best = next(
            order
            for order, i in ordered
            if replaceable(of, wanted - layouts[i], tuple((layouts[i] - wanted).elements()))
        )
        assert preference(of, wanted, found) == best, (wanted, found)


# ---- GPUs in use


@st.composite
def in_use(draw: st.DrawFn) -> tuple[Gpu, tuple[tuple[str, int], ...]]:
    gpu = draw(st.sampled_from(ONE_OF_EACH))
    places = [(name, start) for name, p in gpu.profiles.items() for start in p.kind.starts]
    there: tuple[tuple[str, int], ...] = ()
    for place in draw(st.lists(st.sampled_from(places), max_size=6)):
        if legal(gpu, (*there, place)):
            there = (*there, place)
    return gpu, there


def as_placements(gpu: Gpu, there: Sequence[tuple[str, int]]) -> list[Placement]:
    return [
        Placement(profile=name, start=start, size=gpu.profiles[name].kind.size)
        for name, start in there
    ]


def as_pairs(placed: Sequence[Placement]) -> tuple[tuple[str, int], ...]:
    return tuple((p.profile, p.start) for p in placed)


@given(in_use(), st.data())
@settings(max_examples=examples(120), deadline=None)
def test_a_change_keeps_as_much_as_possible(
    case: tuple[Gpu, tuple[tuple[str, int], ...]], data: st.DataObject
) -> None:
    gpu, there = case
    target = Counter(data.draw(st.sampled_from(geometry.layouts(gpu))))
    change = geometry.change(gpu, as_placements(gpu, there), target)
    keep, create = as_pairs(change.keep), as_pairs(change.create)

    assert Counter(keep) + Counter(as_pairs(change.destroy)) == Counter(there)
    assert Counter(name for name, _ in (*keep, *create)) == target
    assert legal(gpu, (*keep, *create))
    assert [p.profile for p in change.create] == [
        p.name for p in geometry.creation_order(gpu, Counter(name for name, _ in create))
    ]

    def worth(kept: Sequence[tuple[str, int]]) -> tuple[int, int, int]:
        kinds = [gpu.profiles[name].kind for name, _ in kept]
        return len(kept), sum(k.compute for k in kinds), sum(k.size for k in kinds)

    def possible(kept: tuple[tuple[str, int], ...]) -> bool:
        names = Counter(name for name, _ in kept)
        return names <= target and fits(gpu, tuple((target - names).elements()), kept)

    every = chain.from_iterable(combinations(there, n) for n in range(len(there) + 1))
    assert worth(keep) == max(worth(kept) for kept in every if possible(kept))


@pytest.mark.parametrize(("gpu", "step"), [("A100-40", 97), ("A30", 1), ("RTX-PRO-6000", 211)])
def test_a_change_keeps_the_most_instances_then_compute_then_memory(gpu: str, step: int) -> None:
    """From every `step`th state to every layout."""
    of = GPUS[gpu]
    assert of.family is not None
    name_of = {p.kind.kind: p.name for p in of.profiles.values()}
    states = sorted(
        tuple(sorted((name_of[kind], start) for kind, start in chosen))
        for chosen in sets_of_placements(of.family)
    )
    by_layout: dict[Layout, list[frozenset[tuple[str, int]]]] = {}
    for state in states:
        layout = tuple(sorted(name for name, _ in state))
        by_layout.setdefault(layout, []).append(frozenset(state))

    def worth(kept: Iterable[tuple[str, int]]) -> tuple[int, int, int]:
        kinds = [of.profiles[name].kind for name, _ in kept]
        return len(kinds), sum(k.compute for k in kinds), sum(k.size for k in kinds)

    for there in states[::step]:
        for layout, ends in by_layout.items():
            change = geometry.change(of, as_placements(of, there), Counter(layout))
            best = max(worth(end.intersection(there)) for end in ends)
            assert worth(as_pairs(change.keep)) == best, (there, layout)


@given(in_use())
@settings(max_examples=examples(120), deadline=None)
def test_headroom_is_what_still_fits_beside_the_instances_in_use(
    case: tuple[Gpu, tuple[tuple[str, int], ...]],
) -> None:
    gpu, there = case
    headroom = geometry.headroom(gpu, as_placements(gpu, there))
    names = tuple(name for name, _ in there)
    for name in gpu.profiles:
        assert fits(gpu, (name,) * headroom.each[name], there)
        assert not fits(gpu, (name,) * (headroom.each[name] + 1), there)
        assert fits(gpu, (*names, *(name,) * headroom.if_moved[name]))
        assert not fits(gpu, (*names, *(name,) * (headroom.if_moved[name] + 1)))
    taken = {slot for p in as_placements(gpu, there) for slot in range(p.start, p.start + p.size)}
    assert gpu.family is not None
    assert set(headroom.free_slots) == set(range(gpu.family.slots)) - taken


@pytest.mark.parametrize(("gpu", "step"), [("A30", 1), ("A100-40", 401), ("RTX-PRO-6000", 701)])
def test_the_maximal_layouts_are_all_that_the_search_finds(gpu: str, step: int) -> None:
    """Beside every `step`th set of instances in use: none where the GPU is full."""
    of = GPUS[gpu]
    assert of.family is not None
    name_of = {p.kind.kind: p.name for p in of.profiles.values()}
    layouts: list[Layout] = [tuple(Counter(x).elements()) for x in geometry.layouts(of)]
    order = [profile.name for profile in geometry.creation_order(of, dict.fromkeys(of.profiles, 1))]
    full = 0
    for kinds in sorted(map(sorted, sets_of_placements(of.family)))[::step]:
        there = tuple((name_of[kind], start) for kind, start in kinds)
        maximal = geometry.headroom(of, as_placements(of, there)).maximal
        found = [tuple(sorted(Counter(layout).elements())) for layout in maximal]
        assert set(found) == {
            tuple(sorted(layout))
            for layout in layouts
            if fits(of, layout, there)
            and not any(fits(of, (*layout, name), there) for name in of.profiles)
        }
        # Those with few small instances first.
        counts = [[Counter(layout)[name] for name in reversed(order)] for layout in maximal]
        assert counts == sorted(counts)
        full += not found
    assert full or step > 1


@given(in_use(), st.data())
@settings(max_examples=examples(150), deadline=None)
def test_the_search_finds_all_layouts_that_fit_beside_instances_in_use(
    case: tuple[Gpu, tuple[tuple[str, int], ...]], data: st.DataObject
) -> None:
    gpu, there = case
    more = data.draw(st.lists(st.sampled_from(sorted(gpu.profiles)), min_size=1, max_size=4))
    answer = geometry.check_beside(gpu, as_placements(gpu, there), Counter(more))
    assert isinstance(answer, Fit) == fits(gpu, tuple(more), there)
    if isinstance(answer, Fit):
        assert legal(gpu, (*there, *as_pairs(answer.placements)))
        assert Counter(p.profile for p in answer.placements) == Counter(more)
    else:
        assert answer.reason


@given(st.sampled_from(ONE_OF_EACH), st.data())
@settings(deadline=None)
def test_impossible_instances_in_use_are_refused(gpu: Gpu, data: st.DataObject) -> None:
    places = st.tuples(st.sampled_from(sorted(gpu.profiles)), st.integers(0, 12))
    there = data.draw(st.lists(places, min_size=1, max_size=3))
    if legal(gpu, there):
        geometry.headroom(gpu, as_placements(gpu, there))
    else:
        with pytest.raises(LayoutError):
            geometry.headroom(gpu, as_placements(gpu, there))


def test_fragmentation_is_the_difference_to_what_fits_after_moving() -> None:
    """A100 with 1g at slots 0, 1 and 5: a 3g, or two 2g more, fit only after moving."""
    gpu = GPUS["A100-40"]
    headroom = geometry.headroom(
        gpu, as_placements(gpu, [("1g.5gb", 0), ("1g.5gb", 1), ("1g.5gb", 5)])
    )
    assert (headroom.each["3g.20gb"], headroom.if_moved["3g.20gb"]) == (0, 1)
    assert (headroom.each["2g.10gb"], headroom.if_moved["2g.10gb"]) == (1, 2)
    assert headroom.free_slots == (2, 3, 4, 6, 7)
    assert {"1g.10gb": 2, "1g.5gb": 1} in [dict(layout) for layout in headroom.maximal]


def test_from_balanced_to_seven_1g_both_1g_are_kept() -> None:
    gpu = GPUS["A100-40"]
    balanced = geometry.check(gpu, gpu.balanced())
    assert isinstance(balanced, Fit)
    change = geometry.change(gpu, balanced.placements, {"1g.5gb": 7})
    assert Counter(p.profile for p in change.keep) == {"1g.5gb": 2}
    assert Counter(p.profile for p in change.destroy) == {"3g.20gb": 1, "2g.10gb": 1}
    assert Counter(p.profile for p in change.create) == {"1g.5gb": 5}


def test_two_1g_instances_are_preferred_to_one_of_double_memory() -> None:
    """Both take two memory slots; the target has a place for a 3g beside either, but not both."""
    gpu = GPUS["A100-40"]
    there = as_placements(gpu, [("1g.10gb", 0), ("1g.5gb", 4), ("1g.5gb", 5)])
    change = geometry.change(gpu, there, {"3g.20gb": 1, "1g.10gb": 1, "1g.5gb": 2})
    assert set(change.keep) == set(there[1:])


def test_a_change_to_a_layout_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(LayoutError, match=r"does not fit on A100-40: 4g\.20gb x2"):
        geometry.change(GPUS["A100-40"], [], {"4g.20gb": 2})
