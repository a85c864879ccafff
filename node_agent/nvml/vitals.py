"""Health of a GPU from NVML; it never makes a probe fail.

What a driver, a GPU or the privileges do not provide is None. Xid errors are not here: NVML
delivers them only to a client that keeps waiting, and such a client makes changes of MIG mode fail.
What they leave behind is: counted memory errors, rows to remap, the driver's recovery action.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pynvml

from node_agent.nvml.observed import (
    REMAP_FAILED,
    REMAP_PENDING,
    RETIREMENT_PENDING,
    Repair,
    Vitals,
)

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
_REPAIR_FIELDS = (*_FLAGS, "recovery_action")
# nvmlDeviceGpuRecoveryAction_t, from driver R565 on.
_ACTIONS = ("none", "reset the GPU", "reboot the node", "drain peer-to-peer", "drain and reset")
# The driver asks for neither a reset nor a reboot.
_NO_REPAIR = (None, "none", "drain peer-to-peer")
# nvmlClocksEventReasons; idle, application clocks, sync boost and display are left out: they are
# settings, not problems.
_SLOWDOWNS = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x20: "thermal",
    0x40: "hardware thermal",
    0x80: "power brake",
}
_ENABLED = 1


def read_repairs(device: Any) -> Vitals:
    """Only what `repairs` needs, in one call of the driver. Raises no NVMLError."""
    fields = _fields(device, _REPAIR_FIELDS)
    action = _action(fields.pop("recovery_action", None))
    flags: dict[str, Any] = {name: bool(value) for name, value in fields.items()}
    return Vitals(**flags, recovery_action=action)


def repairs(health: Vitals) -> tuple[Repair, ...]:
    """What the driver asks for before the GPU is as good as it should be; empty: nothing known."""
    asked = health.recovery_action
    found = {
        asked or "": asked not in _NO_REPAIR,
        REMAP_FAILED: health.remap_failed,
        REMAP_PENDING: health.remap_pending,
        RETIREMENT_PENDING: health.retired_pending,
    }
    return tuple(repair for repair, there in found.items() if there)


def read(device: Any, *, mig: bool) -> Vitals:
    """Of a whole GPU. mig: whether MIG is on, which turns NVLinks off. Raises no NVMLError."""
    fields = _fields(device, tuple(_FIELDS))
    # Not as fields: the units of these fields changed between drivers.
    sensors: dict[str, Any] = {
        "minor": _optional(pynvml.nvmlDeviceGetMinorNumber, device),
        "temperature_c": _optional(
            pynvml.nvmlDeviceGetTemperature, device, pynvml.NVML_TEMPERATURE_GPU
        ),
        "power_mw": _optional(pynvml.nvmlDeviceGetPowerUsage, device),
        "power_limit_mw": _optional(pynvml.nvmlDeviceGetEnforcedPowerLimit, device),
        "sm_clock_mhz": _optional(pynvml.nvmlDeviceGetClockInfo, device, pynvml.NVML_CLOCK_SM),
        "pcie_replays": _optional(pynvml.nvmlDeviceGetPcieReplayCounter, device),
    }
    ecc = _optional(pynvml.nvmlDeviceGetEccMode, device)
    busy = _optional(pynvml.nvmlDeviceGetUtilizationRates, device)
    reasons = _optional(pynvml.nvmlDeviceGetCurrentClocksEventReasons, device)
    if reasons is None:
        # Its name in older drivers.
        reasons = _optional(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, device)
    links = fields.pop("nvlinks", None)
    states = (
        []
        if mig or not links
        else [_optional(pynvml.nvmlDeviceGetNvLinkState, device, n) for n in range(links)]
    )
    known = [state for state in states if state is not None]
    action = _action(fields.pop("recovery_action", None))
    return Vitals(
        **sensors,
        **{name: bool(value) if name in _FLAGS else value for name, value in fields.items()},
        ecc=None if ecc is None else bool(ecc[0]),
        utilization_percent=None if busy is None else int(busy.gpu),
        slowdowns=None
        if reasons is None
        else tuple(word for bit, word in _SLOWDOWNS.items() if reasons & bit),
        nvlinks_up=known.count(_ENABLED) if known else None,
        nvlinks_down=len(known) - known.count(_ENABLED) if known else None,
        recovery_action=action,
    )


def memory_used_mib(device: Any) -> int | None:
    """Of a MIG device; needs no privilege."""
    memory = _optional(pynvml.nvmlDeviceGetMemoryInfo, device)
    return None if memory is None else int(memory.used) // 2**20


def processes(device: Any) -> tuple[int, ...] | None:
    """Process ids on a GPU or MIG device, in the driver's own process namespace."""
    # The plain name raises something other than NVMLError where the driver lacks its version.
    found = _optional(pynvml.nvmlDeviceGetComputeRunningProcesses_v3, device)
    if found is None:
        found = _optional(pynvml.nvmlDeviceGetComputeRunningProcesses_v2, device)
    return None if found is None else tuple(sorted({int(process.pid) for process in found}))


def _action(code: int | None) -> str | None:
    if code is None:
        return None
    return _ACTIONS[code] if code < len(_ACTIONS) else f"action {code}"


def _fields(device: Any, names: Sequence[str]) -> dict[str, Any]:
    ids = [_FIELDS[name] for name in names]
    values = _optional(pynvml.nvmlDeviceGetFieldValues, device, ids) or ()
    found = {}
    for name, value in zip(names, values, strict=False):
        if value.nvmlReturn == pynvml.NVML_SUCCESS:
            # 0 double, 1 unsigned int, 2 unsigned long, 3 unsigned long long, 4 signed long long, 5
            # signed int
            number = (value.value.uiVal, value.value.ullVal)[value.valueType in (2, 3, 4)]
            found[name] = int(number)
    return found


def _optional(call: Callable[..., Any], *arguments: Any) -> Any | None:
    try:
        return call(*arguments)
    except pynvml.NVMLError:
        return None
