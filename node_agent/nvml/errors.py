"""Every NVML error: its meaning for a partitioned node, and the reason of the verdict.

Codes: nvmlReturn_t in nvml.h. Two codes below zero belong to the agent (`observed`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slicewright.node_agent.nvml.observed import BROKEN, TIMED_OUT


@dataclass(frozen=True, kw_only=True)
class Meaning:
    name: str
    """NVIDIA's name, without NVML_ERROR_."""
    text: str
    reason: str = "DriverError"
    """Reason of the verdict if the call was needed. Optional calls only omit a fact."""


MEANINGS: Mapping[int, Meaning] = {
    TIMED_OUT: Meaning(
        name="(no answer)",
        text="no answer before the deadline; the probe was killed",
        reason="DriverHung",
    ),
    BROKEN: Meaning(
        name="(no probe)",
        text="the process that probes the GPUs ended without an answer",
        reason="ProbeBroken",
    ),
    1: Meaning(name="UNINITIALIZED", text="NVML was shut down before the call: a bug in the agent"),
    2: Meaning(
        name="INVALID_ARGUMENT",
        text="the handle of a partition that is gone, or the end of a list",
    ),
    3: Meaning(
        name="NOT_SUPPORTED",
        text="this GPU does not support it (MIG, a sensor), or not in this mode: left out",
    ),
    4: Meaning(
        name="NO_PERMISSION",
        text="needs privileges: left out where a verdict can do without, else Unknown",
        reason="NoPermission",
    ),
    5: Meaning(name="ALREADY_INITIALIZED", text="no longer returned"),
    6: Meaning(name="NOT_FOUND", text="no partition at this index: a gap in the list, skipped"),
    7: Meaning(
        name="INSUFFICIENT_SIZE",
        text="a list grew while it was read: the next probe reads it again",
    ),
    8: Meaning(name="INSUFFICIENT_POWER", text="an auxiliary power cable is not connected"),
    9: Meaning(
        name="DRIVER_NOT_LOADED",
        text="the kernel module is not loaded (yet)",
        reason="DriverNotLoaded",
    ),
    10: Meaning(name="TIMEOUT", text="the driver gave up waiting for the GPU", reason="DriverHung"),
    11: Meaning(name="IRQ_ISSUE", text="the kernel found a problem with the GPU's interrupt"),
    12: Meaning(
        name="LIBRARY_NOT_FOUND",
        text="libnvidia-ml.so.1 cannot be found",
        reason="DriverLibraryMissing",
    ),
    13: Meaning(
        name="FUNCTION_NOT_FOUND", text="this driver does not have the function yet: left out"
    ),
    14: Meaning(
        name="CORRUPTED_INFOROM",
        text="the GPU's infoROM is corrupted: replace the GPU",
    ),
    15: Meaning(name="GPU_IS_LOST", text="the GPU fell off the bus", reason="GpuLost"),
    16: Meaning(
        name="RESET_REQUIRED",
        text="the GPU can be used again only after a reset",
        reason="GpuResetRequired",
    ),
    17: Meaning(
        name="OPERATING_SYSTEM",
        text="the operating system has blocked the GPU (a control group, for example)",
    ),
    18: Meaning(
        name="LIB_RM_VERSION_MISMATCH",
        text="library and kernel module are of different versions",
        reason="DriverVersionMismatch",
    ),
    19: Meaning(
        name="IN_USE",
        text="a process uses what would change; `apply` names it and rolls back",
    ),
    20: Meaning(name="MEMORY", text="the driver could not allocate memory"),
    21: Meaning(name="NO_DATA", text="no data yet: left out"),
    22: Meaning(name="VGPU_ECC_NOT_SUPPORTED", text="virtual GPUs only"),
    23: Meaning(name="INSUFFICIENT_RESOURCES", text="no room for a partition; `apply` rolls back"),
    24: Meaning(name="FREQ_NOT_SUPPORTED", text="clocks only: not called"),
    25: Meaning(
        name="ARGUMENT_VERSION_MISMATCH",
        text="this driver has an older version of the structure: called again with that",
    ),
    26: Meaning(name="DEPRECATED", text="this driver no longer has the function: left out"),
    27: Meaning(name="NOT_READY", text="the GPU is still starting: the next probe reads it again"),
    28: Meaning(
        name="GPU_NOT_FOUND",
        text="no GPU found: the machine has none, or this container may not see it",
    ),
    29: Meaning(name="INVALID_STATE", text="not possible in the GPU's present state"),
    30: Meaning(name="RESET_TYPE_NOT_SUPPORTED", text="resets only: not called"),
    999: Meaning(
        name="UNKNOWN", text="the driver does not say what went wrong: see the kernel log"
    ),
}

REASON_OF: Mapping[int, str] = {
    code: meaning.reason for code, meaning in MEANINGS.items() if meaning.reason != "DriverError"
}
"""NVML return code -> reason. Every other code is DriverError."""
