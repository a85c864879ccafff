"""GPU and compute instances: which fit together, their placement, and instances in use."""

from __future__ import annotations

import ctypes
import math
import os
from collections import Counter
from collections.abc import Iterator
from itertools import combinations_with_replacement, permutations
from pathlib import Path
from typing import Any

import pytest

from slicewright.rehearsal.cluster.silicon import placement, state
from slicewright.rehearsal.cluster.silicon.models import Model, model, models

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="cutting GPUs is for root, in reality and on the fake"
)


def _ready(nvml: Any, path: Path) -> tuple[Any, Any]:
    """The module and the handle of GPU 0, MIG mode on."""
    state.set_mig_mode(path, 0, enabled=True)
    n = nvml.on(path)
    return n, n.nvmlDeviceGetHandleByIndex(0)


def _create(n: Any, gpu: Any, *ids: int) -> list[Any]:
    return [n.nvmlDeviceCreateGpuInstance(gpu, id_) for id_ in ids]


def _placements(path: Path) -> list[tuple[str, int]]:
    return [(gi.profile, gi.start) for gi in state.load(path).gpus[0].instances]


def _clear(n: Any, path: Path) -> None:
    gpu = n.nvmlDeviceGetHandleByIndex(0)
    for gi in state.load(path).gpus[0].instances:
        n.nvmlGpuInstanceDestroy(n.nvmlDeviceGetGpuInstanceById(gpu, gi.id))


def test_two_halves_are_placed_at_4_and_0_with_ids_1_and_2(nvml: Any, make_state: Any) -> None:
    path = make_state()
    n, gpu = _ready(nvml, path)
    infos = [n.nvmlGpuInstanceGetInfo(gi) for gi in _create(n, gpu, 9, 9)]
    assert [(i.id, i.profileId, i.placement.start, i.placement.size) for i in infos] == [
        (1, 9, 4, 4),
        (2, 9, 0, 4),
    ]


def test_seven_slices_have_ids_7_to_13(nvml: Any, make_state: Any) -> None:
    path = make_state()
    n, gpu = _ready(nvml, path)
    assert sorted(n.nvmlGpuInstanceGetInfo(gi).id for gi in _create(n, gpu, *[19] * 7)) == list(
        range(7, 14)
    )
    with pytest.raises(n.NVMLError_InsufficientResources):
        n.nvmlDeviceCreateGpuInstance(gpu, 19)


def test_placement_by_the_driver_depends_on_the_order(nvml: Any, make_state: Any) -> None:
    n, gpu = _ready(nvml, make_state())
    with pytest.raises(n.NVMLError_InsufficientResources):
        _create(n, gpu, 19, 19, 14, 9)
    n, gpu = _ready(nvml, make_state())
    assert len(_create(n, gpu, 9, 19, 14, 19)) == 4


def test_a_placement_can_be_chosen_and_a_wrong_one_is_refused(nvml: Any, make_state: Any) -> None:
    path = make_state()
    n, gpu = _ready(nvml, path)

    def at(id_: int, start: int, size: int) -> Any:
        where = n.c_nvmlGpuInstancePlacement_t()
        where.start, where.size = start, size
        return n.nvmlDeviceCreateGpuInstanceWithPlacement(gpu, id_, ctypes.byref(where))

    at(9, 0, 4)
    at(9, 4, 4)
    assert _placements(path) == [("3g.40gb", 0), ("3g.40gb", 4)]
    with pytest.raises(n.NVMLError_InsufficientResources):
        at(19, 6, 1)
    for id_, start, size in ((9, 2, 4), (9, 0, 3), (14, 6, 2), (19, 7, 1), (99, 0, 1)):
        with pytest.raises(n.NVMLError_InvalidArgument):
            at(id_, start, size)


@pytest.mark.parametrize(
    ("key", "names", "maximal", "valid"),
    [
        ("H100-80", ["1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"], 12, 37),
        ("H100-80", ["1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"], 28, 77),
        ("A100-40", ["1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"], 28, 77),
        ("A30", ["1g.6gb", "2g.12gb", "4g.24gb"], 4, 9),
        ("RTX-PRO-6000", ["1g.24gb", "2g.48gb", "4g.96gb"], 4, 9),
    ],
)
def test_exactly_the_published_combinations_fit(
    nvml: Any, make_state: Any, key: str, names: list[str], maximal: int, valid: int
) -> None:
    """By the C library and by the rehearsal's own placement, counted against the enumeration of
    NVIDIA's placements.
    """
    kind = model(key)
    path = make_state(key, 1)
    n, gpu = _ready(nvml, path)

    def fits(names_: tuple[str, ...]) -> bool:
        for order in dict.fromkeys(permutations(sorted(names_, key=lambda x: -kind.slice(x).size))):
            try:
                _create(n, gpu, *(kind.slice(name).id for name in order))
                return True
            except n.NVMLError_InsufficientResources:
                pass
            finally:
                _clear(n, path)
        return False

    good = {names_ for names_ in _multisets(kind, names) if _placeable(kind, names_)}
    assert len(good) == valid
    # The driver's own placing finds every one of them in some order, and none else. (One order in
    # ten is enough to see it.)
    assert all(fits(names_) for names_ in sorted(good)[::7])
    bad = [names_ for names_ in _multisets(kind, names) if names_ not in good and len(names_) <= 3]
    assert not any(fits(names_) for names_ in bad[::5])
    counters = [Counter(names_) for names_ in good]
    assert sum(not any(a != b and a <= b for b in counters) for a in counters) == maximal


def _multisets(kind: Model, names: list[str]) -> Iterator[tuple[str, ...]]:
    for size in range(1, max(kind.compute_slices, 1) + 1):
        yield from combinations_with_replacement(names, size)


def _placeable(kind: Model, names: tuple[str, ...]) -> bool:
    try:
        placement.place(kind, [kind.slice(name) for name in names])
    except placement.NoRoom:
        return False
    return True


@pytest.mark.parametrize(
    ("key", "names", "fits"),
    [
        ("H100-80", ["1g.10gb+me", "1g.10gb+me"], False),
        ("H100-80", ["1g.10gb+me"] + ["1g.10gb"] * 6, True),
        ("RTX-PRO-6000", ["1g.24gb+me.all", "1g.24gb"], False),
        ("RTX-PRO-6000", ["1g.24gb+me.all"] + ["1g.24gb-me"] * 3, True),
        ("A30", ["2g.12gb+me", "1g.6gb+me"], False),
        ("A30", ["2g.12gb+me", "2g.12gb"], True),
    ],
)
def test_media_engines_are_limited_separately(
    nvml: Any, make_state: Any, key: str, names: list[str], fits: bool
) -> None:
    n, gpu = _ready(nvml, make_state(key, 1))
    ids = [model(key).slice(name).id for name in names]
    assert _placeable(model(key), tuple(names)) is fits
    if fits:
        assert len(_create(n, gpu, *ids)) == len(ids)
    else:
        with pytest.raises(n.NVMLError_InsufficientResources):
            _create(n, gpu, *ids)


def test_capacity_counts_what_is_left(nvml: Any, make_state: Any) -> None:
    n, gpu = _ready(nvml, make_state())
    assert [
        n.nvmlDeviceGetGpuInstanceRemainingCapacity(gpu, id_) for id_ in (19, 15, 14, 9, 5, 0)
    ] == [7, 4, 3, 2, 1, 1]
    _create(n, gpu, 9)
    assert [
        n.nvmlDeviceGetGpuInstanceRemainingCapacity(gpu, id_) for id_ in (19, 15, 14, 9, 5, 0)
    ] == [4, 2, 2, 1, 1, 0]


def test_placements_are_reported_with_mig_disabled_too(nvml: Any, make_state: Any) -> None:
    n = nvml.on(make_state())
    gpu = n.nvmlDeviceGetHandleByIndex(0)
    count = ctypes.c_uint(0)
    n.nvmlDeviceGetGpuInstancePossiblePlacements(gpu, 14, None, ctypes.byref(count))
    found = (n.c_nvmlGpuInstancePlacement_t * count.value)()
    n.nvmlDeviceGetGpuInstancePossiblePlacements(gpu, 14, found, ctypes.byref(count))
    assert [(p.start, p.size) for p in found] == [(0, 2), (2, 2), (4, 2)]


def test_compute_instances_are_destroyed_before_their_gpu_instance(
    nvml: Any, make_state: Any
) -> None:
    n, gpu = _ready(nvml, make_state())
    (gi,) = _create(n, gpu, 9)
    ci = n.nvmlGpuInstanceCreateComputeInstance(gi, 2)
    with pytest.raises(n.NVMLError_InUse):
        n.nvmlGpuInstanceDestroy(gi)
    n.nvmlComputeInstanceDestroy(ci)
    n.nvmlGpuInstanceDestroy(gi)
    for call in (lambda: n.nvmlGpuInstanceDestroy(gi), lambda: n.nvmlComputeInstanceGetInfo(ci)):
        with pytest.raises(n.NVMLError_InvalidArgument):
            call()


def test_a_handle_of_a_destroyed_instance_does_not_refer_to_its_successor(
    nvml: Any, make_state: Any
) -> None:
    path = make_state()
    n, gpu = _ready(nvml, path)
    state.repartition(path, 0, ["3g.40gb"])
    mig = n.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0)
    before = n.nvmlDeviceGetUUID(mig)
    state.repartition(path, 0, ["3g.40gb"])
    with pytest.raises(n.NVMLError_InvalidArgument):
        n.nvmlDeviceGetUUID(mig)
    assert n.nvmlDeviceGetUUID(n.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0)) != before


def test_a_gpu_instance_is_shared_by_compute_instances_until_it_is_full(
    nvml: Any, make_state: Any
) -> None:
    n, gpu = _ready(nvml, make_state())
    (gi,) = _create(n, gpu, 9)
    made = [n.nvmlGpuInstanceCreateComputeInstance(gi, id_) for id_ in (0, 0, 0)]
    with pytest.raises(n.NVMLError_InsufficientResources):
        n.nvmlGpuInstanceCreateComputeInstance(gi, 0)
    assert [n.nvmlComputeInstanceGetInfo(ci).placement.start for ci in made] == [0, 1, 2]
    names = [n.nvmlDeviceGetName(n.nvmlDeviceGetMigDeviceHandleByIndex(gpu, i)) for i in range(3)]
    assert names == ["NVIDIA H100 80GB HBM3 MIG 1c.3g.40gb"] * 3
    with pytest.raises(n.NVMLError_InvalidArgument):
        n.nvmlGpuInstanceCreateComputeInstance(gi, 4)  # seven slices in three


@pytest.mark.parametrize(
    ("start", "size"), [(3, 1), (1, 2), (0, 2), (2**32 - 1, 1), (2**32 - 1, 2**32 - 1)]
)
def test_a_compute_instance_outside_its_gpu_instance_is_refused(
    nvml: Any, make_state: Any, start: int, size: int
) -> None:
    n, gpu = _ready(nvml, make_state())
    (gi,) = _create(n, gpu, 9)
    where = n.c_nvmlComputeInstancePlacement_t()
    where.start, where.size = start, size
    with pytest.raises(n.NVMLError_InvalidArgument):
        n.nvmlGpuInstanceCreateComputeInstanceWithPlacement(gi, 0, ctypes.byref(where))


def test_indexes_of_mig_devices_do_not_change_and_leave_gaps(nvml: Any, make_state: Any) -> None:
    path = make_state()
    n, gpu = _ready(nvml, path)
    state.repartition(path, 0, ["3g.40gb", "2g.20gb", "1g.10gb"])
    gone = n.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 1)
    gi = n.nvmlDeviceGetGpuInstanceById(gpu, n.nvmlDeviceGetGpuInstanceId(gone))
    n.nvmlComputeInstanceDestroy(
        n.nvmlGpuInstanceGetComputeInstanceById(gi, n.nvmlDeviceGetComputeInstanceId(gone))
    )
    found = []
    for index in range(n.nvmlDeviceGetMaxMigDeviceCount(gpu)):
        try:
            n.nvmlDeviceGetMigDeviceHandleByIndex(gpu, index)
            found.append(index)
        except n.NVMLError_NotFound:
            pass
    assert found == [0, 2]


def test_uuids_are_new_when_a_layout_is_made_again_by_the_library(
    nvml: Any, make_state: Any
) -> None:
    path = make_state()
    n, gpu = _ready(nvml, path)
    seen = set()
    for _ in range(20):
        (gi,) = _create(n, gpu, 0)
        ci = n.nvmlGpuInstanceCreateComputeInstance(gi, 4)
        seen.add(n.nvmlDeviceGetUUID(n.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0)))
        n.nvmlComputeInstanceDestroy(ci)
        n.nvmlGpuInstanceDestroy(gi)
    assert len(seen) == 20


def test_an_instance_with_a_process_cannot_be_destroyed(nvml: Any, make_state: Any) -> None:
    path = make_state()
    n, gpu = _ready(nvml, path)
    (gi,) = _create(n, gpu, 9)
    ci = n.nvmlGpuInstanceCreateComputeInstance(gi, 2)
    state.run_process(path, state.Process(gpu=0, pid=77, gi=1, ci=0, memory_mib=1000))
    with pytest.raises(n.NVMLError_InUse):
        n.nvmlComputeInstanceDestroy(ci)
    mig = n.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0)
    assert [
        (p.pid, p.usedGpuMemory, p.gpuInstanceId)
        for p in n.nvmlDeviceGetComputeRunningProcesses(mig)
    ] == [(77, 1000 * 2**20, 1)]
    assert n.nvmlDeviceGetMemoryInfo(mig).used >= 1000 * 2**20
    state.end_processes(path)
    n.nvmlComputeInstanceDestroy(ci)


def test_every_profile_of_every_model_can_be_created_its_maximum_of_times(
    nvml: Any, make_state: Any
) -> None:
    for kind in models().values():
        if kind.mig == "none":
            continue
        path = make_state(kind.key, 1)
        n, gpu = _ready(nvml, path)
        for slice_ in kind.slices:
            made = _create(n, gpu, *[slice_.id] * slice_.most)
            with pytest.raises(n.NVMLError_InsufficientResources):
                n.nvmlDeviceCreateGpuInstance(gpu, slice_.id)
            info = n.nvmlDeviceGetGpuInstanceProfileInfo(gpu, slice_.profile)
            assert (info.id, info.memorySizeMB) == (slice_.id, slice_.memory_mib)
            for gi in made:
                n.nvmlGpuInstanceDestroy(gi)


def test_profile_names_follow_from_memory_as_nvidia_computes_them() -> None:
    """The rule that mig-parted and the device plugin apply to the driver's figures gives the names
    that the driver gives.
    """
    for kind in models().values():
        for slice_ in kind.slices:
            eighths = math.ceil(slice_.memory_mib / kind.memory_mib * 8) / 8
            gigabytes = math.floor(eighths * math.ceil(kind.memory_mib / 1024) + 0.5)
            name = slice_.name.replace("-", "+").split("+")[0]
            assert name == f"{slice_.compute_slices}g.{gigabytes}gb", (kind.key, slice_.name)
