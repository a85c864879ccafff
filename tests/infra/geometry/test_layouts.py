"""Which layouts fit, and what a fit is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewright.infra import catalog, geometry
from slicewright.infra.catalog import Gpu
from slicewright.infra.geometry import Fit, LayoutError, Misfit, Placement, fitting

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


def test_no_sum_of_slices_alone_decides_whether_a_layout_fits() -> None:
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
def test_enough_slices_and_memory_may_still_have_no_placement_beside_instances_in_use(
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
def test_an_instance_too_many_for_an_empty_gpu_lacks_memory_compute_or_media(gpu: Gpu) -> None:
    """Placements alone are never the cause; and a maximal layout is one that no instance fits."""
    maximal = []
    for layout in geometry.layouts(gpu):
        more = [
            geometry.check(gpu, {**layout, name: layout.get(name, 0) + 1}) for name in gpu.profiles
        ]
        misfits = [answer for answer in more if isinstance(answer, Misfit)]
        assert all({"memory", "compute", "media"} & set(misfit.causes) for misfit in misfits)
        if len(misfits) == len(more):
            maximal.append(layout)
    assert geometry.maximal(gpu) == tuple(maximal)


def test_4g_and_3g_need_driver_510_together_on_ampere() -> None:
    layout = {"4g.20gb": 1, "3g.20gb": 1}
    answer = geometry.check(A100, layout)
    assert isinstance(answer, Fit)
    assert {(p.profile, p.start) for p in answer.placements} == {("4g.20gb", 0), ("3g.20gb", 4)}
    assert geometry.minimum_driver(A100, layout) == "510.39.01"
    assert geometry.minimum_driver(A100, {"4g.20gb": 1}) == "450.80.02"
    assert geometry.minimum_driver(A100, {"3g.20gb": 1, "1g.10gb": 1}) == "525.60.13"
    assert geometry.minimum_driver(GPUS["H100-80"], {"4g.40gb": 1, "3g.40gb": 1}) == "525.85.12"


@pytest.mark.parametrize(
    "gpu", [GPUS["A100-40"], GPUS["H100-80"], replace(A100, minimum_driver="1000.1")]
)
def test_the_minimum_driver_is_the_newest_that_any_instance_needs(gpu: Gpu) -> None:
    """Compared number by number: 1000 is newer than 525."""
    for layout in geometry.layouts(gpu):
        kinds = kinds_of(gpu, layout)
        needed = [gpu.profiles[name].minimum_driver for name in layout]
        needed += [rule.minimum_driver for rule in gpu.together if rule.kinds.issubset(kinds)]
        needed.append(gpu.minimum_driver)
        assert geometry.minimum_driver(gpu, layout) == max(
            filter(None, needed), key=lambda driver: [int(part) for part in driver.split(".")]
        )


def test_the_empty_layout_fits_and_counts_of_zero_are_ignored() -> None:
    assert geometry.check(A100, {}) == Fit(placements=())
    there = [Placement(profile="1g.5gb", start=start, size=1) for start in (1, 5)]
    none = dict.fromkeys(A100.profiles, 0)
    for layout in ({"7g.40gb": 1}, {"3g.20gb": 1}, {"4g.20gb": 2}, {"9g.5gb": 1}, {"2g.20gb": 1}):
        zeros = none | layout | {"8g.5gb": 0}
        assert geometry.check(A100, zeros) == geometry.check(A100, layout)
        if layout.keys() <= A100.profiles.keys():
            assert geometry.nearest(A100, none | layout) == geometry.nearest(A100, layout)
            assert geometry.check_beside(A100, there, none | layout) == geometry.check_beside(
                A100, there, layout
            )
    assert geometry.change(A100, there, none | {"2g.10gb": 1}) == geometry.change(
        A100, there, {"2g.10gb": 1}
    )


@pytest.mark.parametrize("gpu", MIG_GPUS, ids=lambda gpu: gpu.name)
def test_max_instances_is_the_largest_count_that_fits(gpu: Gpu) -> None:
    for name in gpu.profiles:
        most = geometry.max_instances(gpu, name)
        assert isinstance(geometry.check(gpu, {name: most}), Fit)
        assert isinstance(geometry.check(gpu, {name: most + 1}), Misfit)
    assert geometry.max_instances(gpu, "9g.5gb") == 0


def test_a_negative_count_is_an_error() -> None:
    for layout in ({"1g.5gb": -1}, {"9g.5gb": 1, "1g.5gb": -1}, {"2g.10gb": 100, "1g.5gb": -1}):
        with pytest.raises(LayoutError):
            geometry.check(A100, layout)
    with pytest.raises(LayoutError, match=r"1g\.5gb: the count must not be negative, but is -1"):
        geometry.check(A100, {"1g.5gb": -1})


def test_an_unknown_profile_is_reported_besides_an_excessive_count() -> None:
    layout = {"1g.5gb": 100, "9g.5gb": 1}
    answer = geometry.check(A100, layout)
    assert isinstance(answer, Misfit)
    assert answer.causes == ("profile", "count", "memory", "compute")
    with pytest.raises(LayoutError, match=r"^A100-40 has no profile 9g\.5gb$"):
        geometry.check_beside(A100, [], layout)


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
