"""Layouts that do not fit: reason, causes and the nearest layout that does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from slicewright.infra import catalog, geometry
from slicewright.infra.catalog import Gpu
from slicewright.infra.geometry import Fit, LayoutError, Misfit, Placement, naming

GPUS = catalog.load().gpus
A100, A30, RTX = GPUS["A100-40"], GPUS["A30"], GPUS["RTX-PRO-6000"]


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
    assert geometry.check_beside(A100, in_use, {"4g.20gb": 1, "1g.5gb": 0}) == Misfit(
        reason=(
            "memory and compute suffice, but 3g.20gb at slots 0-3 leave no placement: "
            "4g.20gb starts at 0"
        ),
        nearest={},
        causes=("placement",),
    )


def test_only_exceeded_resources_are_causes() -> None:
    answer = geometry.check(A100, {"1g.5gb+me": 1, "2g.10gb": 4})
    assert isinstance(answer, Misfit)
    assert answer.causes == ("count", "memory", "compute")
    in_use = [Placement(profile="1g.5gb", start=start, size=1) for start in (0, 1, 5)]
    beside = geometry.check_beside(A100, in_use, {"3g.20gb": 1})
    assert isinstance(beside, Misfit)
    assert beside.reason == (
        "memory and compute suffice, but 1g.5gb at slot 0, 1g.5gb at slot 1 and 1g.5gb at slot 5 "
        "leave no placement: 3g.20gb starts at 0 and 4"
    )


def test_reason_mentions_profiles_without_media_engines_only_if_the_gpu_has_some() -> None:
    a100 = geometry.check(A100, {"1g.5gb+me": 2})
    rtx = geometry.check(RTX, {"1g.24gb+me": 2})
    assert isinstance(a100, Misfit)
    assert isinstance(rtx, Misfit)
    assert a100.reason.endswith("; 2 of 1 media engines (OFA) needed by 1g.5gb+me")
    assert "(profiles ending in -me need none)" in rtx.reason


@pytest.mark.parametrize(
    ("name", "nearest"), [("3g.40gb", "3g.71gb"), ("2g.70gb", "2g.35gb"), ("5g.1gb", "4g.71gb")]
)
def test_the_nearest_name_has_similar_slices_then_similar_memory(name: str, nearest: str) -> None:
    assert (
        naming.nearest_of(["1g.18gb", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb"], name) == nearest
    )
    assert naming.nearest_of(["1g.18gb", "1g.35gb"], "1g.30gb") == "1g.35gb"


@pytest.mark.parametrize(
    ("gpu", "name", "own"),
    [
        (A100, "1g.20gb", "1g.5gb"),
        (A100, "1g.20gb+me", "1g.5gb+me"),
        (A100, "4g.40gb+me", "4g.20gb"),
        (A100, "9g.5gb", None),
        (A100, "half", None),
        (RTX, "1g.48gb-me", "1g.24gb-me"),
        (RTX, "2g.20gb+gfx", "2g.48gb+gfx"),
        (RTX, "4g.20gb+me.all", "4g.96gb"),
        (GPUS["A100-80"], "7g.79gb", "7g.80gb"),
    ],
)
def test_a_name_of_another_gpu_stands_for_the_smallest_profile_of_its_slices_and_extension(
    gpu: Gpu, name: str, own: str | None
) -> None:
    assert naming.own_name(gpu, name) == own
    # In whatever order the catalog lists the profiles.
    reverse = replace(gpu, profiles=dict(reversed(gpu.profiles.items())))
    assert naming.own_name(reverse, name) == own
    assert naming.why_unknown(reverse, name) == naming.why_unknown(gpu, name)


def test_reason_names_only_requested_instances_that_need_an_engine() -> None:
    answer = geometry.check_beside(A30, [], {"1g.6gb+me": 2, "2g.12gb+me": 0, "1g.6gb": 1})
    assert isinstance(answer, Misfit)
    assert answer.reason.endswith(" media engines (OFA) needed by 1g.6gb+me")


def test_a_shortage_beside_instances_in_use_is_the_reason() -> None:
    in_use = [Placement(profile="4g.20gb", start=0, size=4)]
    assert geometry.check_beside(A100, in_use, {"2g.10gb": 2}) == Misfit(
        reason="together with the instances in use, 8 of 7 compute slices needed",
        nearest={},
        causes=("compute",),
    )


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


def test_a_gpu_without_mig_has_no_instances_in_use() -> None:
    for ask in (
        lambda: geometry.headroom(GPUS["T4"], []),
        lambda: geometry.check_beside(GPUS["T4"], [], {}),
        lambda: geometry.layouts(GPUS["T4"]),
    ):
        with pytest.raises(LayoutError, match=r"^T4 has no MIG$"):
            ask()


@pytest.mark.parametrize(
    ("layout", "causes", "nearest"),
    [
        # The rest of the layout does not fit either.
        ({"9g.5gb": 1, "4g.20gb": 2}, ("profile", "count", "compute"), {}),
        # 1g.10gb is a profile of this GPU, though not its smallest 1g.
        ({"2g.20gb": 1, "1g.10gb": 1}, ("profile",), {"2g.10gb": 1, "1g.10gb": 1}),
        # Two names of one profile, and compute instances beside the profile that holds them.
        ({"2g.20gb": 1, "2g.10gb": 1, "2g.5gb": 1}, ("profile",), {"2g.10gb": 3}),
        ({"1c.3g.20gb": 3, "3g.20gb": 1}, ("profile",), {"3g.20gb": 2}),
        ({"3g.20gb": 1, "1c.3g.20gb": 2}, ("profile",), {"3g.20gb": 2}),
        ({"9g.5gb": 1, "1g.5gb": 1}, ("profile",), {}),
    ],
)
def test_a_layout_with_an_unknown_profile_is_a_misfit(
    layout: dict[str, int], causes: tuple[str, ...], nearest: dict[str, int]
) -> None:
    answer = geometry.check(A100, layout)
    assert isinstance(answer, Misfit)
    assert answer.causes == causes
    assert answer.nearest == nearest


def test_the_reason_names_each_unknown_profile_and_no_other() -> None:
    answer = geometry.check(A100, {"1g.5gb": 1, "9g.5gb": 1, "half": 1})
    assert answer == Misfit(
        reason="A100-40 has no profile 9g.5gb (nearest: 7g.40gb); A100-40 has no profile half",
        nearest={},
        causes=("profile",),
    )


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
