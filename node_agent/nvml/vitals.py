"""Health of a GPU, asked of NVML: for people and metrics, and never a reason why a look fails.

Whatever a driver, a GPU or a privilege does not give is None. Xid errors are not here: NVML hands
them only to a client that waits for them, and nothing is held between looks (a client that stays
makes changes of MIG mode fail). What they leave behind is here: counted memory errors, rows to
remap, the recovery action that the driver asks for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pynvml

from node_agent.nvml.observed import Vitals

# NVML_FI_DEV_*; one call answers all, each with a return code of its own.
_FIELDS = {
    "ecc_corrected": 3,
    "ecc_uncorrected": 4,
    "retired_single": 29,
    "retired_double": 30,
    "retired_pending": 31,
    "memory_temperature_c": 82,
    "nvlinks": 91,
    "remapped_correctable": 142,
    "remapped_uncorrectable": 143,
    "remap_pending": 144,
    "remap_failed": 145,
    "recovery_action": 230,
}
_FLAGS = ("retired_pending", "remap_pending", "remap_failed")
# nvmlDeviceGpuRecoveryAction_t
_ACTIONS = ("none", "reset the GPU", "reboot the node", "drain peer-to-peer", "drain and reset")
# nvmlClocksEventReasons; idle, application clocks, sync boost and display are choices and no
# trouble.
_SLOWDOWNS = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x20: "thermal",
    0x40: "hardware thermal",
    0x80: "power brake",
}
_ENABLED = 1


def read(device: Any, *, mig: bool) -> Vitals:
    """Of a whole GPU. mig: whether MIG is on, which turns NVLinks off. Raises nothing that the
    driver says.
    """
    fields = _fields(device)
    # Every sensor by its own call: the fields of these have units that changed between drivers.
    told: dict[str, Any] = {
        "minor": _told(pynvml.nvmlDeviceGetMinorNumber, device),
        "temperature_c": _told(
            pynvml.nvmlDeviceGetTemperature, device, pynvml.NVML_TEMPERATURE_GPU
        ),
        "power_mw": _told(pynvml.nvmlDeviceGetPowerUsage, device),
        "power_limit_mw": _told(pynvml.nvmlDeviceGetEnforcedPowerLimit, device),
        "sm_clock_mhz": _told(pynvml.nvmlDeviceGetClockInfo, device, pynvml.NVML_CLOCK_SM),
        "pcie_replays": _told(pynvml.nvmlDeviceGetPcieReplayCounter, device),
    }
    ecc = _told(pynvml.nvmlDeviceGetEccMode, device)
    busy = _told(pynvml.nvmlDeviceGetUtilizationRates, device)
    reasons = _told(pynvml.nvmlDeviceGetCurrentClocksEventReasons, device)
    if reasons is None:
        # The same under its older name.
        reasons = _told(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, device)
    links = fields.pop("nvlinks", None)
    states = (
        []
        if mig or not links
        else [_told(pynvml.nvmlDeviceGetNvLinkState, device, n) for n in range(links)]
    )
    known = [state for state in states if state is not None]
    action = fields.pop("recovery_action", None)
    return Vitals(
        **told,
        **{name: bool(value) if name in _FLAGS else value for name, value in fields.items()},
        ecc=None if ecc is None else bool(ecc[0]),
        utilization_percent=None if busy is None else int(busy.gpu),
        slowdowns=None
        if reasons is None
        else tuple(word for bit, word in _SLOWDOWNS.items() if reasons & bit),
        nvlinks_up=known.count(_ENABLED) if known else None,
        nvlinks_down=len(known) - known.count(_ENABLED) if known else None,
        recovery_action=None
        if action is None
        else _ACTIONS[action]
        if action < len(_ACTIONS)
        else f"action {action}",
    )


def memory_used_mib(device: Any) -> int | None:
    """Of a MIG device; anybody may ask."""
    memory = _told(pynvml.nvmlDeviceGetMemoryInfo, device)
    return None if memory is None else int(memory.used) // 2**20


def processes(device: Any) -> tuple[int, ...] | None:
    """Process ids on a GPU or MIG device, in the driver's own process namespace."""
    # By version: without the newest one, nvidia-ml-py's plain name raises what is no NVMLError.
    found = _told(pynvml.nvmlDeviceGetComputeRunningProcesses_v3, device)
    if found is None:
        found = _told(pynvml.nvmlDeviceGetComputeRunningProcesses_v2, device)
    return None if found is None else tuple(sorted({int(process.pid) for process in found}))


def _fields(device: Any) -> dict[str, Any]:
    values = _told(pynvml.nvmlDeviceGetFieldValues, device, list(_FIELDS.values())) or ()
    found = {}
    for name, value in zip(_FIELDS, values, strict=False):
        if value.nvmlReturn == pynvml.NVML_SUCCESS:
            # 0 double, 1 unsigned int, 2 unsigned long, 3 unsigned long long, 4 signed long long, 5
            # signed int
            number = (value.value.uiVal, value.value.ullVal)[value.valueType in (2, 3, 4)]
            found[name] = int(number)
    return found


def _told(call: Callable[..., Any], *arguments: Any) -> Any | None:
    try:
        return call(*arguments)
    except pynvml.NVMLError:
        return None
