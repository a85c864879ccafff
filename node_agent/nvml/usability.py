"""Whether programs can use a GPU, as far as NVML knows: its compute mode and its NVLink fabric.

Sources: nvml.h, "Fabric definitions", nvmlComputeMode_t, nvmlDeviceSetComputeMode (MIG).
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from ctypes import byref
from functools import lru_cache
from typing import Any

import pynvml

from slicewright.node_agent.nvml.binding import (
    ARGUMENT_VERSION_MISMATCH,
    FUNCTION_NOT_FOUND,
    NOT_SUPPORTED,
    SUCCESS,
    Handle,
    Nvml,
)
from slicewright.node_agent.nvml.observed import ComputeMode, Fabric, FabricState, MigMode

_COMPUTE_MODES: Mapping[int, ComputeMode] = {
    pynvml.NVML_COMPUTEMODE_DEFAULT: "default",
    pynvml.NVML_COMPUTEMODE_EXCLUSIVE_THREAD: "exclusive thread",
    pynvml.NVML_COMPUTEMODE_PROHIBITED: "prohibited",
    pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS: "exclusive process",
}
_STATES: Mapping[int, FabricState] = {
    pynvml.NVML_GPU_FABRIC_STATE_NOT_SUPPORTED: "not supported",
    pynvml.NVML_GPU_FABRIC_STATE_NOT_STARTED: "not started",
    pynvml.NVML_GPU_FABRIC_STATE_IN_PROGRESS: "in progress",
    pynvml.NVML_GPU_FABRIC_STATE_COMPLETED: "completed",
}
_CALLS: tuple[tuple[str, type[Any]], ...] = (
    ("nvmlDeviceGetGpuFabricInfoV", pynvml.c_nvmlGpuFabricInfo_v3_t),
    ("nvmlDeviceGetGpuFabricInfoV", pynvml.c_nvmlGpuFabricInfo_v2_t),
    ("nvmlDeviceGetGpuFabricInfo", pynvml.c_nvmlGpuFabricInfo_t),
)
"""Newest first. Older drivers refuse the version of the structure, or lack the function."""
_OLDER_DRIVER = (ARGUMENT_VERSION_MISMATCH, FUNCTION_NOT_FOUND)
_STATE_MASK = 0xFF
"""nvml.h has an unsigned char, nvidia-ml-py an unsigned int: three bytes of it are padding."""
# (first bit, value of a fault, text). A healthy mask is not zero: 2 means "no", 0 "not reported".
_NOTES = (
    (0, 1, "degraded bandwidth"),
    (2, 1, "route recovery"),
    (6, 1, "recovery after an access timeout"),
)
_UNHEALTHY_ROUTE = (4, 1, "unhealthy route")
_TWO_BITS = 0x3
_CONFIGURATION_BIT, _CONFIGURATION_MASK, _CONFIGURED = 8, 0xF, 1
_CONFIGURATION_FAULTS: Mapping[int, str] = {
    2: "wrong system GUID",
    3: "wrong chassis serial number",
    4: "no partition of the fabric",
    5: "too few NVLinks",
}


def read_compute_mode(nvml: Nvml, device: Handle, mig: MigMode) -> ComputeMode | None:
    """The compute mode of a whole GPU, None if unknown. In MIG mode it is always the default."""
    if mig == "enabled":
        return None
    mode = nvml.read_or_none("nvmlDeviceGetComputeMode", ctypes.c_uint, device)
    return None if mode is None else _COMPUTE_MODES.get(mode.value)


def read_fabric(nvml: Nvml, device: Handle) -> Fabric | None:
    """The state of a GPU's fabric, None if this driver does not report it."""
    for symbol, kind in _CALLS:
        info = kind()
        code = nvml.function(symbol)(device, byref(info))
        if code == SUCCESS:
            mask = getattr(info, "healthMask", 0)
            return _fabric(info.state & _STATE_MASK, info.status, mask)
        if code == NOT_SUPPORTED:
            return _fabric(pynvml.NVML_GPU_FABRIC_STATE_NOT_SUPPORTED, SUCCESS, 0)
        if code not in _OLDER_DRIVER:
            return None
    return None


@lru_cache(maxsize=64)
def _fabric(state: int, status: int, mask: int) -> Fabric | None:
    if state not in _STATES:
        return None
    completed = state == pynvml.NVML_GPU_FABRIC_STATE_COMPLETED
    return Fabric(
        state=_STATES[state],
        # The driver sets it at the end of the set-up.
        status=status if completed else SUCCESS,
        faults=tuple(_faults(mask)),
        notes=tuple(text for bit, bad, text in _NOTES if mask >> bit & _TWO_BITS == bad),
    )


def _faults(mask: int) -> list[str]:
    bit, bad, text = _UNHEALTHY_ROUTE
    faults = [text] if mask >> bit & _TWO_BITS == bad else []
    configuration = mask >> _CONFIGURATION_BIT & _CONFIGURATION_MASK
    if configuration > _CONFIGURED:
        unnamed = f"wrong configuration {configuration}"
        faults.append(_CONFIGURATION_FAULTS.get(configuration, unnamed))
    return faults
