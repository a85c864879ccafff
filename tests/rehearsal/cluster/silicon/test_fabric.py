"""The fabric of NVSwitch machines, the compute mode in MIG mode, and cold GPUs, through NVIDIA's
binding.
"""

from __future__ import annotations

import ctypes
import os
import time
from typing import Any

import pytest

from slicewright.rehearsal.cluster.silicon import fabric, state

_HEALTHY_BLACKWELL = 0x1AA
_root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root changes the compute mode")


def _fabric(n: Any, index: int = 0) -> Any:
    """The answer in version 3 of the structure."""
    info = n.c_nvmlGpuFabricInfo_v3_t()
    return n.nvmlDeviceGetGpuFabricInfoV(
        n.nvmlDeviceGetHandleByIndex(index), ctypes.byref(info)
    ), info


@pytest.mark.parametrize(
    ("model", "count", "mask", "summary"),
    [
        ("H100-80", 8, 0, 0),
        ("H200", 8, 0, 0),
        ("B200", 8, _HEALTHY_BLACKWELL, 1),
        ("GB200", 4, _HEALTHY_BLACKWELL, 1),
    ],
)
def test_gpus_behind_switches_have_a_fabric(
    model: str, count: int, mask: int, summary: int, nvml: Any, make_state: Any
) -> None:
    path = make_state(model, count)
    assert fabric.has_fabric(state.load(path))
    n = nvml.on(path)
    _, info = _fabric(n, count - 1)
    assert (info.state & 0xFF, info.status) == (n.NVML_GPU_FABRIC_STATE_COMPLETED, 0)
    assert (info.healthMask, info.healthSummary) == (mask, summary)
    first = n.nvmlDeviceGetHandleByIndex(0)
    old = n.c_nvmlGpuFabricInfo_t()
    n.nvmlDeviceGetGpuFabricInfo(first, ctypes.byref(old))
    assert old.state & 0xFF == n.NVML_GPU_FABRIC_STATE_COMPLETED


@pytest.mark.parametrize(
    ("model", "count"),
    [("A100-80", 8), ("H100-80", 1), ("H100-80", 4), ("H100-NVL", 8), ("L4", 8), ("T4", 1)],
)
def test_nvml_knows_no_fabric_of_older_gpus_of_cards_and_of_parts_of_a_board(
    model: str, count: int, nvml: Any, make_state: Any
) -> None:
    path = make_state(model, count)
    assert not fabric.has_fabric(state.load(path))
    n = nvml.on(path)
    with pytest.raises(n.NVMLError_NotSupported):
        _fabric(n)
    gpu, info = n.nvmlDeviceGetHandleByIndex(0), n.c_nvmlGpuFabricInfo_t()
    assert n.nvmlLib.nvmlDeviceGetGpuFabricInfo(gpu, ctypes.byref(info)) == 3


@pytest.mark.parametrize(
    ("driver", "third", "second", "first"),
    [
        ("580.65.06", 0, 0, 0),
        ("550.90.07", 25, 0, 0),
        ("535.183.01", 13, 13, 0),
        ("510.1.1", 13, 13, 13),
    ],
)
def test_older_drivers_have_older_versions_of_the_structure(
    driver: str, third: int, second: int, first: int, nvml: Any, make_state: Any
) -> None:
    n = nvml.on(make_state("H100-80", 8, driver))
    gpu = n.nvmlDeviceGetHandleByIndex(0)
    v3 = n.c_nvmlGpuFabricInfo_v3_t()
    v2 = n.c_nvmlGpuFabricInfo_v2_t()
    v1 = n.c_nvmlGpuFabricInfo_t()
    lib = n.nvmlLib
    assert lib.nvmlDeviceGetGpuFabricInfoV(gpu, ctypes.byref(v3)) == third
    assert lib.nvmlDeviceGetGpuFabricInfoV(gpu, ctypes.byref(v2)) == second
    assert lib.nvmlDeviceGetGpuFabricInfo(gpu, ctypes.byref(v1)) == first


def test_a_shorter_structure_is_not_written_beyond_its_end(nvml: Any, make_state: Any) -> None:
    n = nvml.on(make_state("B200", 8))
    size = ctypes.sizeof(n.c_nvmlGpuFabricInfo_v2_t)
    memory = ctypes.create_string_buffer(b"\xee" * (size + 8), size + 8)
    n.c_nvmlGpuFabricInfo_v2_t.from_buffer(memory).version = n.nvmlGpuFabricInfo_v2
    gpu = n.nvmlDeviceGetHandleByIndex(0)
    assert n.nvmlLib.nvmlDeviceGetGpuFabricInfoV(gpu, memory) == 0
    assert memory.raw[size:] == b"\xee" * 8


def test_the_state_outlives_fabric_manager_until_the_node_restarts(
    nvml: Any, make_state: Any
) -> None:
    path = make_state("H100-80", 8)
    n = nvml.on(path)
    fabric.stop_fabric_manager(path)
    assert _fabric(n)[1].state & 0xFF == n.NVML_GPU_FABRIC_STATE_COMPLETED
    state.reboot(path)
    assert _fabric(n)[1].state & 0xFF == n.NVML_GPU_FABRIC_STATE_NOT_STARTED
    state.reboot(path)
    assert _fabric(n)[1].state & 0xFF == n.NVML_GPU_FABRIC_STATE_NOT_STARTED
    fabric.start_fabric_manager(path)
    assert _fabric(n)[1].state & 0xFF == n.NVML_GPU_FABRIC_STATE_COMPLETED
    assert not any(gpu.health for gpu in state.load(path).gpus)


def test_a_fault_of_the_fabric_shows_in_status_and_health(nvml: Any, make_state: Any) -> None:
    path = make_state("B200", 8)
    n = nvml.on(path)
    state.set_health(path, 3, fabric_status=999, fabric_health=0x19A)
    _, info = _fabric(n, 3)
    assert (info.status, info.healthMask, info.healthSummary) == (999, 0x19A, 2)
    assert _fabric(n, 2)[1].healthMask == _HEALTHY_BLACKWELL


@_root_only
def test_in_mig_mode_the_compute_mode_is_the_default_and_stays_so(
    nvml: Any, make_state: Any
) -> None:
    path = make_state()
    n = nvml.on(path)
    gpu = n.nvmlDeviceGetHandleByIndex(0)
    n.nvmlDeviceSetComputeMode(gpu, n.NVML_COMPUTEMODE_PROHIBITED)
    state.repartition(path, 0, ["3g.40gb"])
    for device in (gpu, n.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0)):
        assert n.nvmlDeviceGetComputeMode(device) == n.NVML_COMPUTEMODE_DEFAULT
    with pytest.raises(n.NVMLError_NotSupported):
        n.nvmlDeviceSetComputeMode(gpu, n.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS)


def _took_s(n: Any, count: int) -> float:
    began = time.monotonic()
    for index in range(count):
        n.nvmlDeviceGetHandleByIndex(index)
    return time.monotonic() - began


def test_a_cold_gpu_starts_once_for_a_client_and_again_for_the_next(
    nvml: Any, make_state: Any
) -> None:
    path = make_state()
    for index in range(2):
        state.set_health(path, index, persistence=0, start_ms=100)
    for _ in range(2):
        n = nvml.on(path)
        assert _took_s(n, 2) >= 0.2, "one after the other"
        assert _took_s(n, 2) < 0.2, "held until the client's end"


def test_a_gpu_that_a_process_or_persistence_mode_holds_is_warm(nvml: Any, make_state: Any) -> None:
    path = make_state()
    state.set_health(path, 0, start_ms=5000)
    state.set_health(path, 1, persistence=0, start_ms=5000)
    state.run_process(path, state.Process(gpu=1, pid=77))
    assert _took_s(nvml.on(path), 2) < 5
