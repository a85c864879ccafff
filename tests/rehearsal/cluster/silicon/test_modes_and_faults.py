"""MIG mode, permissions, models without MIG, old drivers, injected faults, health, events."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slicewright.rehearsal.cluster.silicon import state
from slicewright.rehearsal.cluster.silicon.state import Injection

_root_only = pytest.mark.skipif(
    os.geteuid() != 0, reason="changing MIG mode needs root, as on real GPUs"
)


@_root_only
def test_hopper_changes_mig_mode_at_once_and_disabling_removes_the_instances(
    nvml: Any, make_state: Any
) -> None:
    path = make_state("H100-80")
    n = nvml.on(path)
    gpu = n.nvmlDeviceGetHandleByIndex(0)
    assert n.nvmlDeviceSetMigMode(gpu, 1) == n.NVML_SUCCESS
    assert n.nvmlDeviceGetMigMode(gpu) == [1, 1]
    n.nvmlDeviceCreateGpuInstance(gpu, 9)
    n.nvmlDeviceSetMigMode(gpu, 0)
    assert n.nvmlDeviceGetMigMode(gpu) == [0, 0]
    assert state.load(path).gpus[0].instances == ()


@_root_only
def test_the_compute_mode_is_kept_until_a_reboot(nvml: Any, make_state: Any) -> None:
    path = make_state()
    n = nvml.on(path)
    gpu = n.nvmlDeviceGetHandleByIndex(0)
    n.nvmlDeviceSetComputeMode(gpu, n.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS)
    assert n.nvmlDeviceGetComputeMode(gpu) == n.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS
    state.reboot(path)
    assert n.nvmlDeviceGetComputeMode(gpu) == n.NVML_COMPUTEMODE_DEFAULT


@_root_only
@pytest.mark.parametrize("model", ["A100-40", "A100-80", "A30"])
def test_amperes_mig_mode_is_pending_until_a_reboot_and_survives_the_next(
    nvml: Any, make_state: Any, model: str
) -> None:
    path = make_state(model)
    n = nvml.on(path)
    gpu = n.nvmlDeviceGetHandleByIndex(0)
    assert n.nvmlDeviceSetMigMode(gpu, 1) == n.NVML_ERROR_RESET_REQUIRED
    assert n.nvmlDeviceGetMigMode(gpu) == [0, 1]
    assert n.nvmlDeviceGetMaxMigDeviceCount(gpu) == 0
    state.reboot(path)
    assert n.nvmlDeviceGetMigMode(gpu) == [1, 1]
    state.reboot(path)
    assert n.nvmlDeviceGetMigMode(gpu) == [1, 1]


def test_a_reboot_removes_instances_and_disables_mig_on_hopper_but_not_ampere(
    make_state: Any,
) -> None:
    for model, mode in (("H100-80", False), ("A100-80", True)):
        path = make_state(model)
        state.repartition(path, 0, ["3g.40gb"])
        state.run_process(path, state.Process(gpu=0, pid=1, gi=1, ci=0))
        state.reboot(path)
        node = state.load(path)
        assert (
            node.gpus[0].mig,
            node.gpus[0].mig_pending,
            node.gpus[0].instances,
            node.processes,
        ) == (mode, mode, (), ())


@_root_only
def test_a_gpu_in_use_keeps_its_mig_mode(nvml: Any, make_state: Any) -> None:
    path = make_state()
    n = nvml.on(path)
    gpu = n.nvmlDeviceGetHandleByIndex(0)
    state.run_process(path, state.Process(gpu=0, pid=9))
    assert n.nvmlDeviceSetMigMode(gpu, 1) == n.NVML_ERROR_IN_USE
    assert n.nvmlDeviceGetMigMode(gpu) == [0, 1]


@pytest.mark.parametrize("model", ["T4", "L4", "A10G", "L40S"])
def test_gpus_without_mig_return_not_supported(nvml: Any, make_state: Any, model: str) -> None:
    n = nvml.on(make_state(model, 1))
    gpu = n.nvmlDeviceGetHandleByIndex(0)
    assert n.nvmlDeviceGetMaxMigDeviceCount(gpu) == 0
    for call in (
        lambda: n.nvmlDeviceGetMigMode(gpu),
        lambda: n.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0),
        lambda: n.nvmlDeviceGetGpuInstanceProfileInfo(gpu, 0),
    ):
        with pytest.raises(n.NVMLError_NotSupported):
            call()


@pytest.mark.parametrize(("driver", "known"), [("535.129.03", False), ("550.90.07", True)])
def test_old_drivers_list_no_profiles_while_mig_is_disabled(
    nvml: Any, make_state: Any, driver: str, known: bool
) -> None:
    path = make_state("H100-80", 1, driver)
    n = nvml.on(path)
    gpu = n.nvmlDeviceGetHandleByIndex(0)
    for version in (1, 2):
        if known:
            assert n.nvmlDeviceGetGpuInstanceProfileInfo(gpu, 0, version=version).id == 19
        else:
            with pytest.raises(n.NVMLError_NotSupported):
                n.nvmlDeviceGetGpuInstanceProfileInfo(gpu, 0, version=version)
    state.set_mig_mode(path, 0, enabled=True)
    assert n.nvmlDeviceGetGpuInstanceProfileInfo(gpu, 0).id == 19


def test_an_ordinary_user_sees_mig_devices_and_nothing_privileged(
    nvml: Any, make_state: Any, nobody: Callable[[], None]
) -> None:
    path = make_state()
    state.repartition(path, 0, ["3g.40gb", "3g.40gb"])
    n = nvml.on(path)
    os.chmod(path.parent.parent, 0o755)  # noqa: PTH101
    for parent in path.parents:
        if parent != Path("/") and parent.owner() == "root":
            parent.chmod(parent.stat().st_mode | 0o055)
    nobody()
    gpu = n.nvmlDeviceGetHandleByIndex(0)
    mig = n.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 1)
    assert n.nvmlDeviceGetAttributes(mig).memorySizeMB == 40448
    assert n.nvmlDeviceGetMemoryInfo(mig).total == 40448 * 2**20
    assert n.nvmlDeviceGetGpuInstanceId(mig) == 2
    assert n.nvmlDeviceGetMemoryInfo(n.nvmlDeviceGetHandleByIndex(1)).total == 81559 * 2**20
    for call in (
        lambda: n.nvmlDeviceGetMemoryInfo(gpu),
        lambda: n.nvmlDeviceSetMigMode(gpu, 0),
        lambda: n.nvmlDeviceCreateGpuInstance(gpu, 19),
        lambda: n.nvmlDeviceGetGpuInstanceById(gpu, 1),
        lambda: n.nvmlDeviceGetGpuInstanceRemainingCapacity(gpu, 19),
    ):
        with pytest.raises(n.NVMLError_NoPermission):
            call()


def test_calls_before_init_and_after_shutdown_return_uninitialized(
    nvml: Any, make_state: Any
) -> None:
    n = nvml.on(make_state())
    gpu = n.nvmlDeviceGetHandleByIndex(0)
    n.nvmlInit()
    n.nvmlShutdown()
    n.nvmlDeviceGetName(gpu)
    nvml.close()
    assert n.nvmlLib.nvmlDeviceGetMinorNumber(gpu, None) == n.NVML_ERROR_UNINITIALIZED


def test_without_a_state_the_driver_is_not_loaded(nvml: Any, tmp_path: Path) -> None:
    with pytest.raises(nvml.module.NVMLError_DriverNotLoaded):
        nvml.on(tmp_path / "none")


def test_an_invalid_state_file_is_an_unknown_error_and_is_named(
    nvml: Any, make_state: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    path = make_state()
    path.write_text(path.read_text().replace("minor=1", "minor=one"))
    with pytest.raises(nvml.module.NVMLError_Unknown):
        nvml.on(path)
    assert f"{path} line 4 is invalid" in capfd.readouterr().err


def test_a_fault_applies_to_its_call_on_its_gpu_the_given_number_of_times(
    nvml: Any, make_state: Any
) -> None:
    path = make_state()
    state.inject(path, Injection(call="nvmlDeviceGetMigMode", gpu=1, code=15, times=2))
    n = nvml.on(path)
    first, second = (n.nvmlDeviceGetHandleByIndex(i) for i in range(2))
    assert n.nvmlDeviceGetMigMode(first) == [0, 0]
    for _ in range(2):
        with pytest.raises(n.NVMLError_GpuIsLost):
            n.nvmlDeviceGetMigMode(second)
    assert n.nvmlDeviceGetMigMode(second) == [0, 0]
    assert n.nvmlDeviceGetName(second) == "NVIDIA H100 80GB HBM3"


def test_a_fault_of_init_can_be_removed(nvml: Any, make_state: Any) -> None:
    path = make_state()
    state.inject(path, Injection(call="nvmlInit", code=18))
    with pytest.raises(nvml.module.NVMLError_LibRmVersionMismatch):
        nvml.on(path)
    state.heal(path)
    assert nvml.on(path).nvmlDeviceGetCount() == 2


def test_a_hanging_call_does_not_block_other_threads(nvml: Any, make_state: Any) -> None:
    path = make_state()
    n = nvml.on(path)
    first, second = (n.nvmlDeviceGetHandleByIndex(i) for i in range(2))
    state.inject(path, Injection(call="nvmlDeviceGetName", gpu=0, delay_ms=3000))
    began = time.monotonic()
    hanging = threading.Thread(target=n.nvmlDeviceGetName, args=(first,))
    hanging.start()
    n.nvmlDeviceGetName(second)
    assert hanging.is_alive()
    hanging.join()
    assert time.monotonic() - began >= 3


def test_a_call_that_is_held_goes_on_when_its_injection_is_removed(
    nvml: Any, make_state: Any
) -> None:
    path = make_state()
    n = nvml.on(path)
    gpu = n.nvmlDeviceGetHandleByIndex(0)
    held = Injection(call="nvmlDeviceGetName", gpu=0, delay_ms=3_600_000)
    state.inject(path, held)
    names: list[str] = []
    calling = threading.Thread(target=lambda: names.append(n.nvmlDeviceGetName(gpu)), daemon=True)
    calling.start()
    calling.join(timeout=0.3)
    assert calling.is_alive()
    state.heal(path)
    calling.join(timeout=60)
    assert names == [n.nvmlDeviceGetName(gpu)]


def test_every_call_on_a_lost_gpu_fails_and_other_gpus_answer(nvml: Any, make_state: Any) -> None:
    path = make_state()
    n = nvml.on(path)
    gpu = n.nvmlDeviceGetHandleByIndex(0)
    state.lose(path, 0)
    for call in (
        lambda: n.nvmlDeviceGetHandleByIndex(0),
        lambda: n.nvmlDeviceGetUUID(gpu),
        lambda: n.nvmlDeviceGetMigMode(gpu),
    ):
        with pytest.raises(n.NVMLError_GpuIsLost):
            call()
    assert n.nvmlDeviceGetCount() == 2
    assert n.nvmlDeviceGetUUID(n.nvmlDeviceGetHandleByIndex(1)).startswith("GPU-")


def test_health_values_come_from_the_state_file(nvml: Any, make_state: Any) -> None:
    path = make_state()
    n = nvml.on(path)
    gpu = n.nvmlDeviceGetHandleByIndex(0)
    assert n.nvmlDeviceGetRemappedRows(gpu) == (0, 0, 0, 0) or list(
        n.nvmlDeviceGetRemappedRows(gpu)
    ) == [0, 0, 0, 0]
    state.set_health(
        path, 0, ecc_uncorrected_volatile=3, remapped_uncorrectable=1, remap_pending=1,
            temperature_c=91, recovery_action=1,
        throttle_reasons=0x48, nvlinks_down=0b10,
    )  # fmt: skip
    volatile, uncorrected = n.NVML_VOLATILE_ECC, n.NVML_MEMORY_ERROR_TYPE_UNCORRECTED
    assert n.nvmlDeviceGetTotalEccErrors(gpu, uncorrected, volatile) == 3
    assert list(n.nvmlDeviceGetRemappedRows(gpu)) == [0, 1, 1, 0]
    assert n.nvmlDeviceGetTemperature(gpu, n.NVML_TEMPERATURE_GPU) == 91
    assert n.nvmlDeviceGetCurrentClocksEventReasons(gpu) == 0x48
    assert [n.nvmlDeviceGetNvLinkState(gpu, link) for link in range(3)] == [1, 0, 1]
    (value,) = n.nvmlDeviceGetFieldValues(gpu, [n.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])
    assert (value.nvmlReturn, value.value.uiVal) == (0, 1)
    with pytest.raises(n.NVMLError_NotSupported):
        n.nvmlDeviceGetRetiredPages(gpu, n.NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR)
    with pytest.raises(ValueError, match="unknown health value temprature"):
        state.set_health(path, 0, temprature=1)


def test_utilization_is_not_reported_in_mig_mode(nvml: Any, make_state: Any) -> None:
    path = make_state()
    state.set_health(path, 0, utilization_gpu=87)
    n = nvml.on(path)
    gpu = n.nvmlDeviceGetHandleByIndex(0)
    assert n.nvmlDeviceGetUtilizationRates(gpu).gpu == 87
    state.set_mig_mode(path, 0, enabled=True)
    with pytest.raises(n.NVMLError_NotSupported):
        n.nvmlDeviceGetUtilizationRates(gpu)


def test_registered_event_sets_get_each_event_once_in_order(nvml: Any, make_state: Any) -> None:
    path = make_state()
    n = nvml.on(path)
    first, second = (n.nvmlDeviceGetHandleByIndex(i) for i in range(2))
    state.record_xid(path, 0, 13)
    events = n.nvmlEventSetCreate()
    n.nvmlDeviceRegisterEvents(first, n.nvmlEventTypeXidCriticalError, events)
    state.record_xid(path, 1, 94)
    state.record_xid(path, 0, 48)
    state.record_xid(path, 0, 79, gi=2, ci=0)
    got = [n.nvmlEventSetWait_v2(events, 1000) for _ in range(2)]
    assert [(e.eventData, e.gpuInstanceId) for e in got] == [(48, 0xFFFFFFFF), (79, 2)]
    assert n.nvmlDeviceGetUUID(got[0].device) == n.nvmlDeviceGetUUID(first)
    began = time.monotonic()
    with pytest.raises(n.NVMLError_Timeout):
        n.nvmlEventSetWait_v2(events, 150)
    assert time.monotonic() - began >= 0.15
    waiting = threading.Timer(0.1, state.record_xid, (path, 0, 63))
    waiting.start()
    assert n.nvmlEventSetWait_v2(events, 3000).eventData == 63
    waiting.join()
    n.nvmlEventSetFree(events)
    assert second is not None
