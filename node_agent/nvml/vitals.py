"""Health of a GPU from NVML. It never makes a probe fail.

Facts that a driver, a GPU or the privileges do not provide are None. Xid errors are missing: NVML
delivers them only to a client that keeps waiting, and such a client makes changes of MIG mode fail.
Their traces are included: counted memory errors, rows to remap, the driver's recovery action.
"""

from __future__ import annotations

import ctypes
import struct
from ctypes import byref
from functools import cache, lru_cache
from typing import Any

import pynvml

from slicewright.node_agent.nvml.binding import (
    INSUFFICIENT_SIZE,
    SUCCESS,
    FieldValue,
    Handle,
    Memory,
    Nvml,
    NvmlError,
    ProcessInfo,
    UtilizationRates,
)
from slicewright.node_agent.nvml.observed import (
    REMAP_FAILED,
    REMAP_PENDING,
    RETIREMENT_PENDING,
    Repair,
    Vitals,
)

# A single call answers all fields, each with a separate return code.
_FIELDS = {
    "ecc_corrected": pynvml.NVML_FI_DEV_ECC_SBE_VOL_TOTAL,
    "ecc_uncorrected": pynvml.NVML_FI_DEV_ECC_DBE_VOL_TOTAL,
    "retired_single": pynvml.NVML_FI_DEV_RETIRED_SBE,
    "retired_double": pynvml.NVML_FI_DEV_RETIRED_DBE,
    "retired_pending": pynvml.NVML_FI_DEV_RETIRED_PENDING,
    "memory_temperature_c": pynvml.NVML_FI_DEV_MEMORY_TEMP,
    "nvlinks": pynvml.NVML_FI_DEV_NVLINK_LINK_COUNT,
    "remapped_correctable": pynvml.NVML_FI_DEV_REMAPPED_COR,
    "remapped_uncorrectable": pynvml.NVML_FI_DEV_REMAPPED_UNC,
    "remap_pending": pynvml.NVML_FI_DEV_REMAPPED_PENDING,
    "remap_failed": pynvml.NVML_FI_DEV_REMAPPED_FAILURE,
    "recovery_action": pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION,
}
_FLAGS = ("retired_pending", "remap_pending", "remap_failed")
_REPAIR_FIELDS = (*_FLAGS, "recovery_action")
# nvmlDeviceGpuRecoveryAction_t, from driver R565 on.
_ACTIONS = ("none", "reset the GPU", "reboot the node", "drain peer-to-peer", "drain and reset")
# The driver requests neither a reset nor a reboot.
_NO_REPAIR = (None, "none", "drain peer-to-peer")
# The bits of nvmlClocksEventReasons. Idle, application clocks, sync boost and display are omitted:
# they are settings, not problems.
_SLOWDOWNS = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x20: "thermal",
    0x40: "hardware thermal",
    0x80: "power brake",
}
_ENABLED = 1
# The members valueType, nvmlReturn and value of nvmlFieldValue_t. On these (little-endian) machines
# value begins with its low 32 bits. Reading them as attributes takes five times as long.
_FIELD = struct.Struct(f"<{FieldValue.valueType.offset}xIIQ")
_Mask = ctypes.c_ulonglong
# Newest first. The plain name has another structure.
_PROCESS_CALLS = (
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetComputeRunningProcesses_v2",
)
_PROCESSES, _ATTEMPTS = 32, 3
"""Initial size of the list, and how often it is enlarged if the list grew meanwhile."""


def read_repairs(nvml: Nvml, device: Handle) -> tuple[Repair, ...]:
    """Reads only `repairs`, in a single call of the driver. Raises no NvmlError."""
    fields = _fields(nvml, device, _REPAIR_FIELDS)
    return _repairs(tuple(map(fields.get, _REPAIR_FIELDS)))


@lru_cache(maxsize=64)
def _repairs(values: tuple[int | None, ...]) -> tuple[Repair, ...]:
    """The repairs for the values of `_REPAIR_FIELDS`."""
    *flags, action = values
    requested: dict[str, Any] = dict(zip(_FLAGS, map(bool, flags), strict=True))
    return repairs(Vitals(**requested, recovery_action=_action(action)))


def repairs(health: Vitals) -> tuple[Repair, ...]:
    """The repairs that the driver requests for a GPU, empty if none is known."""
    action = health.recovery_action
    conditions = {
        action or "": action not in _NO_REPAIR,
        REMAP_FAILED: health.remap_failed,
        REMAP_PENDING: health.remap_pending,
        RETIREMENT_PENDING: health.retired_pending,
    }
    return tuple(repair for repair, present in conditions.items() if present)


def read(nvml: Nvml, device: Handle, *, mig: bool) -> Vitals:
    """The health of a whole GPU. mig: whether MIG is on, without NVLinks. Raises no NvmlError."""
    fields: dict[str, Any] = dict(_fields(nvml, device, tuple(_FIELDS)))
    # They are not read as fields, because the units of these fields changed between drivers.
    sensors: dict[str, Any] = {
        "minor": _number(nvml, "nvmlDeviceGetMinorNumber", device),
        "temperature_c": _number(
            nvml, "nvmlDeviceGetTemperature", device, pynvml.NVML_TEMPERATURE_GPU
        ),
        "power_mw": _number(nvml, "nvmlDeviceGetPowerUsage", device),
        "power_limit_mw": _number(nvml, "nvmlDeviceGetEnforcedPowerLimit", device),
        "sm_clock_mhz": _number(nvml, "nvmlDeviceGetClockInfo", device, pynvml.NVML_CLOCK_SM),
        "pcie_replays": _number(nvml, "nvmlDeviceGetPcieReplayCounter", device),
    }
    reasons = _number(nvml, "nvmlDeviceGetCurrentClocksEventReasons", device, kind=_Mask)
    if reasons is None:
        # The name in older drivers.
        reasons = _number(nvml, "nvmlDeviceGetCurrentClocksThrottleReasons", device, kind=_Mask)
    links = fields.pop("nvlinks", None)
    states = (
        []
        if mig or not links
        else [_number(nvml, "nvmlDeviceGetNvLinkState", device, n) for n in range(links)]
    )
    known_states = [state for state in states if state is not None]
    action = _action(fields.pop("recovery_action", None))
    flags = {name: bool(fields.pop(name)) for name in _FLAGS if name in fields}
    return Vitals(
        **sensors,
        **fields,
        **flags,
        ecc=_ecc(nvml, device),
        utilization_percent=_utilization_percent(nvml, device),
        slowdowns=None
        if reasons is None
        else tuple(word for bit, word in _SLOWDOWNS.items() if reasons & bit),
        nvlinks_up=known_states.count(_ENABLED) if known_states else None,
        nvlinks_down=len(known_states) - known_states.count(_ENABLED) if known_states else None,
        recovery_action=action,
    )


def memory_used_mib(nvml: Nvml, device: Handle) -> int | None:
    """Used memory of a MIG device. It needs no privilege."""
    memory = Memory()
    refused = nvml.function("nvmlDeviceGetMemoryInfo")(device, byref(memory))
    return None if refused else int(memory.used) // 2**20


def processes(nvml: Nvml, device: Handle) -> tuple[int, ...] | None:
    """Process ids on a GPU or MIG device, in the driver's process namespace."""
    for symbol in _PROCESS_CALLS:
        try:
            infos = list_processes(nvml, symbol, device)
        except NvmlError:
            continue
        return tuple(sorted({int(process.pid) for process in infos}))
    return None


def list_processes(nvml: Nvml, symbol: str, device: Handle) -> list[ProcessInfo]:
    """The processes that a function such as those in `_PROCESS_CALLS` lists. Raises NvmlError."""
    call, most = nvml.function(symbol), _PROCESSES
    for _ in range(_ATTEMPTS):
        infos, count = (ProcessInfo * most)(), ctypes.c_uint(most)
        code = call(device, byref(count), infos)
        if code == SUCCESS:
            return list(infos[: count.value])
        if code != INSUFFICIENT_SIZE:
            break
        # Larger than needed, because more processes may have started since.
        most = 2 * count.value + 5
    raise nvml.error(symbol, code)


def _ecc(nvml: Nvml, device: Handle) -> bool | None:
    current, pending = ctypes.c_uint(), ctypes.c_uint()
    refused = nvml.function("nvmlDeviceGetEccMode")(device, byref(current), byref(pending))
    return None if refused else bool(current.value)


def _utilization_percent(nvml: Nvml, device: Handle) -> int | None:
    rates = UtilizationRates()
    refused = nvml.function("nvmlDeviceGetUtilizationRates")(device, byref(rates))
    return None if refused else int(rates.gpu)


def _action(code: int | None) -> str | None:
    if code is None:
        return None
    return _ACTIONS[code] if code < len(_ACTIONS) else f"action {code}"


def _fields(nvml: Nvml, device: Handle, names: tuple[str, ...]) -> dict[str, int]:
    values, request = _request(names)
    values.raw = request
    if nvml.function("nvmlDeviceGetFieldValues")(device, len(names), values):
        return {}
    fields = {}
    for name, (kind, code, value) in zip(names, _FIELD.iter_unpack(values), strict=True):
        if code == SUCCESS:
            # 0 double, 1 unsigned int, 2 unsigned long, 3 unsigned long long, 4 signed long long, 5
            # signed int
            fields[name] = value if kind in (2, 3, 4) else value & 0xFFFF_FFFF
    return fields


@cache
def _request(names: tuple[str, ...]) -> tuple[ctypes.Array[ctypes.c_char], bytes]:
    """The buffer of the answer, and its initial content: the requested fields."""
    fields = (FieldValue * len(names))(*(FieldValue(fieldId=_FIELDS[name]) for name in names))
    return ctypes.create_string_buffer(ctypes.sizeof(fields)), bytes(fields)


def _number(
    nvml: Nvml, symbol: str, *arguments: Any, kind: type[Any] = ctypes.c_uint
) -> int | None:
    """The number that the function writes, None if the driver does not answer."""
    value = kind()
    return None if nvml.function(symbol)(*arguments, byref(value)) else int(value.value)
