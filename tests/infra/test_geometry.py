"""Which layouts fit, and the reason and nearest layout of those that do not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import combinations_with_replacement, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra import catalog, geometry
from infra.catalog import Gpu
from infra.geometry import Fit, LayoutError, Misfit, Placement, fitting, naming
from infra.geometry.compute_instances import instances_holding

GPUS = catalog.load().gpus
A100, A30, RTX = GPUS["A100-40"], GPUS["A30"], GPUS["RTX-PRO-6000"]
MIG_GPUS = [gpu for gpu in GPUS.values() if gpu.family]
SEVEN_SLICE = [gpu for gpu in MIG_GPUS if gpu.family and gpu.family.name == "seven-slice"]
gpus = st.sampled_from(MIG_GPUS)


@st.composite
def asked(draw: st.DrawFn) -> tuple[Gpu, dict[str, int]]:
    gpu = draw(gpus)
    return gpu, draw(
        st.dictionaries(
            st.sampled_from(sorted(gpu.profiles)), st.integers(1, 20), min_size=1, max_size=5
        )
    )


@st.composite
def accepted(draw: st.DrawFn) -> tuple[Gpu, dict[str, int]]:
    gpu = draw(gpus)
    return gpu, dict(draw(st.sampled_from(geometry.layouts(gpu))))


def kinds_of(gpu: Gpu, layout: Mapping[str, int]) -> set[str]:
    return {gpu.profiles[name].kind.kind for name in layout}


def needs(gpu: Gpu, layout: Mapping[str, int], what: str) -> int:
    return sum(getattr(gpu.profiles[name].kind, what) * count for name, count in layout.items())


# ---- counts of layouts


@pytest.mark.parametrize("gpu", SEVEN_SLICE, ids=lambda gpu: gpu.name)
def test_a_seven_slice_gpu_has_127_layouts(gpu: Gpu) -> None:
    """37 of 1g, 2g, 3g, 4g, 7g; 77 with the double-memory 1g; 127 with +me too."""
    layouts = geometry.layouts(gpu)
    assert len(layouts) == 127
    assert len([x for x in layouts if "1g+me" not in kinds_of(gpu, x)]) == 77
    assert len([x for x in layouts if not kinds_of(gpu, x) & {"1g+me", "1g-double"}]) == 37


@pytest.mark.parametrize(
    ("without", "undominated"), [((), 44), (("1g+me",), 28), (("1g+me", "1g-double"), 12)]
)
def test_44_of_the_layouts_are_maximal(without: tuple[str, ...], undominated: int) -> None:
    layouts = [Counter(x) for x in geometry.layouts(A100) if not kinds_of(A100, x) & set(without)]
    assert len([x for x in layouts if not any(x < other for other in layouts)]) == undominated
    if not without:
        assert len(geometry.maximal(A100)) == undominated


@pytest.mark.parametrize("gpu", [A30, RTX], ids=lambda gpu: gpu.name)
def test_a_four_slice_gpu_has_9_layouts_of_base_profiles_and_4_are_maximal(gpu: Gpu) -> None:
    base = [Counter(x) for x in geometry.layouts(gpu) if kinds_of(gpu, x) <= {"1g", "2g", "4g"}]
    assert len(base) == 9
    assert len([x for x in base if not any(x < other for other in base)]) == 4


def test_twelve_layouts_of_base_profiles_are_maximal() -> None:
    base = [
        Counter(x) for x in geometry.layouts(A100) if not kinds_of(A100, x) & {"1g+me", "1g-double"}
    ]
    short = {
        "".join(sorted(name[0] * n for name, n in x.items()))
        for x in base
        if not any(x < y for y in base)
    }
    assert short == {
        "7",
        "34",
        "124",
        "1114",
        "33",
        "223",
        "1123",
        "11113",
        "1222",
        "11122",
        "111112",
        "1111111",
    }


def test_no_sum_of_slices_alone_decides_what_fits() -> None:
    """Without the sum of memory 32 impossible layouts pass, without that of compute 9; with seven
    OFA engines instead of one, 203 fit instead of 127.
    """
    profiles = list(A100.profiles.values())

    def passing(*, memory: bool = True, compute: bool = True, media: int) -> int:
        def grow(first: int, size: int, slices: int, engines: int) -> int:
            found = 1
            for i, kind in enumerate((p.kind for p in profiles[first:]), start=first):
                left = (
                    size - kind.size * memory,
                    slices - kind.compute * compute,
                    engines - (kind.kind == "1g+me"),
                )
                if min(left) >= 0:
                    found += grow(i, *left)
            return found

        return grow(0, 8, 7, media) - 1

    assert passing(media=1) == 127
    assert passing(media=7) == 203
    assert passing(media=0) == 77
    assert passing(media=0, memory=False) == 77 + 32
    assert passing(media=0, compute=False) == 77 + 9


@pytest.mark.parametrize(
    ("layout", "compute", "memory", "causes"),
    [
        ({"3g.20gb": 2, "1g.5gb": 1}, 7, 9, ("memory",)),
        ({"4g.20gb": 2}, 8, 8, ("count", "compute")),
        ({"4g.20gb": 1, "3g.20gb": 1}, 7, 8, None),
        ({"1g.10gb": 4, "1g.5gb": 1}, 5, 9, ("memory",)),
        ({"1g.5gb+me": 2}, 2, 2, ("count", "media")),
    ],
)
def test_the_examples_of_misleading_sums_in_the_docstring_are_true(
    layout: dict[str, int], compute: int, memory: int, causes: tuple[str, ...] | None
) -> None:
    assert (needs(A100, layout, "compute"), needs(A100, layout, "size")) == (compute, memory)
    assert compute <= 7 or memory <= 8  # at least one sum allows it
    answer = geometry.check(A100, layout)
    assert (answer.causes if isinstance(answer, Misfit) else None) == causes
    written = " + ".join(
        f"{name} x{count}" if count > 1 else name for name, count in layout.items()
    )
    assert f"- {written}: " in (fitting.__doc__ or "")


def test_4g_and_3g_fit_together_only_with_a_newer_driver_and_the_4g_first() -> None:
    alone = [geometry.minimum_driver(A100, [name]) for name in ("4g.20gb", "3g.20gb")]
    assert (alone, geometry.minimum_driver(A100, ["4g.20gb", "3g.20gb"])) == (
        ["450.80.02"] * 2,
        "510.39.01",
    )
    beside_it = {
        start: geometry.check_beside(
            A100, [Placement(profile="3g.20gb", start=start, size=4)], {"4g.20gb": 1}
        )
        for start in (0, 4)
    }
    assert isinstance(beside_it[4], Fit)
    assert isinstance(beside_it[0], Misfit)
    assert beside_it[0].causes == ("placement",)


@pytest.mark.parametrize(("taken", "wanted"), [((1, 3, 5, 6), "1g.10gb"), ((1, 5), "3g.20gb")])
def test_what_both_sums_allow_beside_instances_in_use_may_have_no_placement(
    taken: tuple[int, ...], wanted: str
) -> None:
    there = [Placement(profile="1g.5gb", start=start, size=1) for start in taken]
    both = {"1g.5gb": len(taken), wanted: 1}
    assert needs(A100, both, "compute") <= 7
    assert needs(A100, both, "size") <= 8
    answer = geometry.check_beside(A100, there, {wanted: 1})
    assert isinstance(answer, Misfit)
    assert answer.causes == ("placement",)


@pytest.mark.parametrize("gpu", SEVEN_SLICE, ids=lambda gpu: gpu.name)
def test_on_an_empty_seven_slice_gpu_two_sums_and_one_ofa_engine_decide(gpu: Gpu) -> None:
    profiles = list(gpu.profiles.values())
    for n in product(*(range(p.kind.most + 1) for p in profiles)):
        layout = dict(zip(gpu.profiles, n, strict=True))
        media = sum(c for p, c in zip(profiles, n, strict=True) if p.kind.kind == "1g+me")
        decided = (
            needs(gpu, layout, "compute") <= 7 and needs(gpu, layout, "size") <= 8 and media <= 1
        )
        assert isinstance(geometry.check(gpu, layout), Fit) == decided, layout


# ---- layouts that fit


@given(asked())
def test_a_fit_has_valid_placements_of_the_whole_layout(
    case: tuple[Gpu, dict[str, int]],
) -> None:
    check_fit(*case)


@given(accepted())
def test_every_listed_layout_fits(case: tuple[Gpu, dict[str, int]]) -> None:
    assert isinstance(geometry.check(*case), Fit)
    check_fit(*case)


def check_fit(gpu: Gpu, layout: dict[str, int]) -> None:
    answer = geometry.check(gpu, layout)
    if isinstance(answer, Fit):
        assert Counter(p.profile for p in answer.placements) == Counter(layout)
        taken = [slot for p in answer.placements for slot in range(p.start, p.start + p.size)]
        assert len(taken) == len(set(taken))
        assert all(p.start in gpu.profiles[p.profile].kind.starts for p in answer.placements)
        assert all(p.size == gpu.profiles[p.profile].kind.size for p in answer.placements)
        assert gpu.family is not None
        assert needs(gpu, layout, "compute") <= gpu.family.compute
        for engine, have in gpu.family.engines.items():
            assert (
                sum(gpu.profiles[n].kind.engines.get(engine, 0) * c for n, c in layout.items())
                <= have
            )


@given(accepted(), st.data())
def test_a_layout_without_one_of_its_instances_fits_too(
    case: tuple[Gpu, dict[str, int]], data: st.DataObject
) -> None:
    gpu, layout = case
    name = data.draw(st.sampled_from(sorted(layout)))
    assert isinstance(geometry.check(gpu, {**layout, name: layout[name] - 1}), Fit)


@pytest.mark.parametrize("gpu", MIG_GPUS, ids=lambda gpu: gpu.name)
def test_nothing_can_be_added_to_a_maximal_layout(gpu: Gpu) -> None:
    for layout in geometry.maximal(gpu):
        for name in gpu.profiles:
            assert isinstance(
                geometry.check(gpu, {**layout, name: layout.get(name, 0) + 1}), Misfit
            )


def test_4g_and_3g_need_driver_510_together_on_ampere() -> None:
    layout = {"4g.20gb": 1, "3g.20gb": 1}
    answer = geometry.check(A100, layout)
    assert isinstance(answer, Fit)
    assert {(p.profile, p.start) for p in answer.placements} == {("4g.20gb", 0), ("3g.20gb", 4)}
    assert geometry.minimum_driver(A100, layout) == "510.39.01"
    assert geometry.minimum_driver(A100, {"4g.20gb": 1}) == "450.80.02"
    assert geometry.minimum_driver(A100, {"3g.20gb": 1, "1g.10gb": 1}) == "525.60.13"
    assert geometry.minimum_driver(GPUS["H100-80"], {"4g.40gb": 1, "3g.40gb": 1}) == "525.85.12"


def test_the_empty_layout_fits_and_counts_of_zero_are_ignored() -> None:
    assert geometry.check(A100, {}) == Fit(placements=())
    assert geometry.check(A100, {"1g.5gb": 0, "7g.40gb": 1}) == geometry.check(A100, {"7g.40gb": 1})


@pytest.mark.parametrize("gpu", MIG_GPUS, ids=lambda gpu: gpu.name)
def test_max_instances_is_the_largest_count_that_fits(gpu: Gpu) -> None:
    for name in gpu.profiles:
        most = geometry.max_instances(gpu, name)
        assert isinstance(geometry.check(gpu, {name: most}), Fit)
        assert isinstance(geometry.check(gpu, {name: most + 1}), Misfit)
    assert geometry.max_instances(gpu, "9g.5gb") == 0


def test_a_negative_count_is_an_error() -> None:
    with pytest.raises(LayoutError, match=r"1g\.5gb: the count must not be negative, but is -1"):
        geometry.check(A100, {"1g.5gb": -1})


# ---- the order of creation


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


# ---- layouts that do not fit


@given(asked())
def test_a_misfit_has_a_reason_and_a_nearest_layout_that_fits(
    case: tuple[Gpu, dict[str, int]],
) -> None:
    gpu, layout = case
    answer = geometry.check(gpu, layout)
    if isinstance(answer, Misfit):
        assert answer.reason
        assert answer.causes
        assert answer.nearest
        assert isinstance(geometry.check(gpu, answer.nearest), Fit)
        assert sum(answer.nearest.values()) <= sum(layout.values())


def impossible() -> Iterator[tuple[Gpu, dict[str, int], str, str, dict[str, int]]]:
    yield A100, {"4g.20gb": 2}, "count", "8 of 7 compute slices", {"3g.20gb": 1, "4g.20gb": 1}
    yield (
        A100,
        {"3g.20gb": 2, "1g.5gb": 1},
        "memory",
        "9 of 8 memory slots",
        {"3g.20gb": 1, "2g.10gb": 1, "1g.5gb": 1},
    )
    yield (
        A100,
        {"2g.10gb": 3, "1g.5gb": 2},
        "compute",
        "8 of 7 compute slices",
        {"2g.10gb": 2, "1g.10gb": 1, "1g.5gb": 2},
    )
    yield (
        A100,
        {"7g.40gb": 1, "1g.5gb": 1},
        "memory",
        "9 of 8 memory slots",
        {"4g.20gb": 1, "1g.5gb": 1},
    )
    yield A100, {"3g.20gb": 3}, "count", "at most 2 fit", {"3g.20gb": 2}
    yield A100, {"1g.5gb": 8}, "count", "at most 7 fit", {"1g.5gb": 7}
    yield A100, {"1g.5gb": 100}, "count", "1g.5gb x100: at most 7 fit", {"1g.5gb": 7}
    yield (
        A100,
        {"1g.5gb+me": 2},
        "count",
        "2 of 1 media engines (OFA) needed by 1g.5gb+me",
        {"1g.5gb+me": 1, "1g.5gb": 1},
    )
    yield (
        A30,
        {"1g.6gb+me": 1, "2g.12gb+me": 1},
        "media",
        "2 of 1 media engines (OFA)",
        {"1g.6gb": 1, "2g.12gb+me": 1},
    )
    yield (
        RTX,
        {"1g.24gb+me.all": 1, "1g.24gb": 1},
        "media",
        "5 of 4 media engines (video decoders)",
        {"1g.24gb+me.all": 1, "1g.24gb-me": 1},
    )
    yield (
        A100,
        {"2g.20gb": 1},
        "profile",
        "has no profile 2g.20gb (its 2g: 2g.10gb)",
        {"2g.10gb": 1},
    )
    yield A100, {"9g.5gb": 7}, "profile", "has no profile 9g.5gb (nearest: 7g.40gb)", {}
    yield A30, {"3g.20gb": 1}, "profile", "has no profile 3g.20gb (nearest: 2g.12gb, 4g.24gb)", {}
    yield (
        A100,
        {"4g.40gb+me": 1},
        "profile",
        "has no profile 4g.40gb+me (its 4g: 4g.20gb)",
        {"4g.20gb": 1},
    )
    yield A100, {"half": 1}, "profile", "has no profile half", {}
    yield (
        A100,
        {"1c.3g.20gb": 3},
        "profile",
        "is a compute instance profile, 3 of which share one 3g.20gb",
        {"3g.20gb": 1},
    )
    yield (
        GPUS["A100-80"],
        {"7g.79gb": 1},
        "profile",
        "another name of A100-80's 7g.80gb in some drivers",
        {"7g.80gb": 1},
    )
    yield GPUS["T4"], {"1g.5gb": 1}, "no MIG", "T4 has no MIG", {}


@pytest.mark.parametrize(
    ("gpu", "layout", "cause", "reason", "nearest"), list(impossible()), ids=str
)
def test_a_misfit_has_this_cause_reason_and_nearest_layout(
    gpu: Gpu, layout: dict[str, int], cause: str, reason: str, nearest: dict[str, int]
) -> None:
    answer = geometry.check(gpu, layout)
    assert isinstance(answer, Misfit)
    assert answer.causes[0] == cause
    assert reason in answer.reason
    assert dict(answer.nearest) == nearest


def test_1g_at_slots_0_1_and_5_leave_no_placement_for_a_3g() -> None:
    """kubernetes-sigs/dra-driver-nvidia-gpu #933."""
    in_use = [Placement(profile="1g.5gb", start=start, size=1) for start in (0, 1, 5)]
    answer = geometry.check_beside(A100, in_use, {"3g.20gb": 1})
    assert isinstance(answer, Misfit)
    assert answer.causes == ("placement",)
    assert "1g.5gb at slot 0, 1g.5gb at slot 1 and 1g.5gb at slot 5" in answer.reason
    assert "3g.20gb starts at 0 and 4" in answer.reason
    assert geometry.check_beside(A100, in_use[:2], {"3g.20gb": 1}) == Fit(
        placements=(Placement(profile="3g.20gb", start=4, size=4),)
    )


def test_the_reason_for_no_placement_names_slots_and_starts() -> None:
    in_use = [Placement(profile="3g.20gb", start=0, size=4)]
    answer = geometry.check_beside(A100, in_use, {"4g.20gb": 1})
    assert isinstance(answer, Misfit)
    assert answer.reason == (
        "memory and compute suffice, but 3g.20gb at slots 0-3 leave no placement: "
        "4g.20gb starts at 0"
    )


def test_only_where_there_are_profiles_without_media_engines_does_the_reason_mention_them() -> None:
    a100 = geometry.check(A100, {"1g.5gb+me": 2})
    rtx = geometry.check(RTX, {"1g.24gb+me": 2})
    assert isinstance(a100, Misfit)
    assert isinstance(rtx, Misfit)
    assert "-me" not in a100.reason
    assert "(profiles ending in -me need none)" in rtx.reason


@pytest.mark.parametrize(
    ("name", "nearest"), [("3g.40gb", "3g.71gb"), ("2g.70gb", "2g.35gb"), ("5g.1gb", "4g.71gb")]
)
def test_the_nearest_name_has_similar_slices_then_similar_memory(name: str, nearest: str) -> None:
    assert (
        naming.nearest_of(["1g.18gb", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb"], name) == nearest
    )
    assert naming.nearest_of(["1g.18gb", "1g.35gb"], "1g.30gb") == "1g.35gb"


def test_a_shortage_beside_instances_in_use_is_the_reason() -> None:
    in_use = [Placement(profile="4g.20gb", start=0, size=4)]
    answer = geometry.check_beside(A100, in_use, {"2g.10gb": 2})
    assert isinstance(answer, Misfit)
    assert "8 of 7 compute slices" in answer.reason


@pytest.mark.parametrize(
    ("in_use", "says"),
    [
        ([("3g.20gb", 2, 4)], "cannot start at slot 2 of A100-40; it can start at 0, 4"),
        ([("3g.20gb", 0, 4), ("1g.5gb", 3, 1)], "cannot have 3g.20gb at 0, 1g.5gb at 3 together"),
        ([("1g.5gb", 3, 1), ("1g.5gb", 3, 1)], "two instances of 1g.5gb at slot 3"),
        ([("1g.6gb", 0, 1)], "has no profile 1g.6gb"),
    ],
)
def test_impossible_instances_in_use_are_an_error(
    in_use: list[tuple[str, int, int]], says: str
) -> None:
    with pytest.raises(LayoutError, match=says):
        geometry.headroom(
            A100, [Placement(profile=name, start=start, size=size) for name, start, size in in_use]
        )


@pytest.mark.parametrize(
    ("layout", "causes", "nearest"),
    [
        # The rest of the layout does not fit either.
        ({"9g.5gb": 1, "4g.20gb": 2}, ("profile", "count", "compute"), {}),
        # 1g.10gb is a profile of this GPU, though not its smallest 1g.
        ({"2g.20gb": 1, "1g.10gb": 1}, ("profile",), {"2g.10gb": 1, "1g.10gb": 1}),
    ],
)
def test_a_layout_with_an_unknown_profile_is_a_misfit(
    layout: dict[str, int], causes: tuple[str, ...], nearest: dict[str, int]
) -> None:
    answer = geometry.check(A100, layout)
    assert isinstance(answer, Misfit)
    assert answer.causes == causes
    assert answer.nearest == nearest


def test_zero_instances_of_an_unknown_profile_fit() -> None:
    fit = geometry.check(A100, {"2g.10gb": 1})
    assert geometry.check(A100, {"9g.5gb": 0, "2g.10gb": 1}) == fit
    answer = geometry.check(A100, {"9g.5gb": 1, "2g.10gb": 0})
    assert isinstance(answer, Misfit)


@pytest.mark.parametrize("count", [8, 15, 16, 17, 1000])
def test_no_large_count_fits_beside_instances_in_use(count: int) -> None:
    answer = geometry.check_beside(A100, [], {"1g.5gb": count})
    assert isinstance(answer, Misfit)
    assert answer.causes[0] == "count"


# ---- compute instances


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
