"""Every error that NVML has: what it means for a partitioned node, and the reason that a verdict
gets from it.

Codes: nvml.h nvmlReturn_t (nvidia.md 8.4). The look itself adds two of its own below zero
(`observed`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from node_agent.nvml.observed import BROKEN, TIMED_OUT


@dataclass(frozen=True, kw_only=True)
class Meaning:
    name: str
    """NVIDIA's, without NVML_ERROR_."""
    text: str
    reason: str = "DriverError"
    """Of a verdict that this error keeps from being given. Calls that a verdict can do without just
    leave their fact out.
    """


MEANINGS: Mapping[int, Meaning] = {
    TIMED_OUT: Meaning(
        name="(no answer)",
        text="no answer before the deadline; the look was killed",
        reason="DriverHung",
    ),
    BROKEN: Meaning(
        name="(no look)",
        text="the process that looks ended without an answer",
        reason="ProbeBroken",
    ),
    1: Meaning(name="UNINITIALIZED", text="NVML was shut down in between: a fault of the agent"),
    2: Meaning(
        name="INVALID_ARGUMENT",
        text="a handle of a partition that has gone meanwhile, or the end of a list",
    ),
    3: Meaning(
        name="NOT_SUPPORTED",
        text="this GPU does not have it (MIG, a sensor), or not in this mode: left out",
    ),
    4: Meaning(
        name="NO_PERMISSION",
        text="needs privilege: left out where a verdict can do without, else unknown",
        reason="NoPermission",
    ),
    5: Meaning(name="ALREADY_INITIALIZED", text="not returned any more"),
    6: Meaning(
        name="NOT_FOUND", text="no partition under this index: a hole in the list, passed over"
    ),
    7: Meaning(
        name="INSUFFICIENT_SIZE",
        text="a list has grown while it was read: read again by the next look",
    ),
    8: Meaning(name="INSUFFICIENT_POWER", text="a power cable is not plugged in"),
    9: Meaning(
        name="DRIVER_NOT_LOADED",
        text="the kernel module is not loaded (yet)",
        reason="DriverNotLoaded",
    ),
    10: Meaning(name="TIMEOUT", text="the driver gave up waiting for the GPU", reason="DriverHung"),
    11: Meaning(name="IRQ_ISSUE", text="the kernel has no interrupt for the GPU"),
    12: Meaning(
        name="LIBRARY_NOT_FOUND",
        text="no libnvidia-ml.so.1 in sight",
        reason="DriverLibraryMissing",
    ),
    13: Meaning(name="FUNCTION_NOT_FOUND", text="this driver is older than the question: left out"),
    14: Meaning(
        name="CORRUPTED_INFOROM",
        text="the GPU's own memory of its settings is damaged: replace the GPU",
    ),
    15: Meaning(name="GPU_IS_LOST", text="the GPU fell off the bus", reason="GpuLost"),
    16: Meaning(
        name="RESET_REQUIRED", text="only a reset brings the GPU back", reason="GpuResetRequired"
    ),
    17: Meaning(
        name="OPERATING_SYSTEM",
        text="the operating system has taken the GPU away (control group, suspended)",
    ),
    18: Meaning(
        name="LIB_RM_VERSION_MISMATCH",
        text="library and kernel module are of different versions",
        reason="DriverVersionMismatch",
    ),
    19: Meaning(
        name="IN_USE",
        text="a process uses what would have to change; `apply` names it and puts back what was",
    ),
    20: Meaning(name="MEMORY", text="the driver found no memory"),
    21: Meaning(name="NO_DATA", text="nothing measured yet: left out"),
    22: Meaning(name="VGPU_ECC_NOT_SUPPORTED", text="virtual GPUs only"),
    23: Meaning(
        name="INSUFFICIENT_RESOURCES", text="no room for a partition; `apply` puts back what was"
    ),
    24: Meaning(name="FREQ_NOT_SUPPORTED", text="clocks only: not asked"),
    25: Meaning(
        name="ARGUMENT_VERSION_MISMATCH",
        text="this driver knows an older form of the question: asked again in that",
    ),
    26: Meaning(name="DEPRECATED", text="this driver has dropped the question: left out"),
    27: Meaning(name="NOT_READY", text="the GPU is still starting: read again by the next look"),
    28: Meaning(
        name="GPU_NOT_FOUND",
        text="no GPU in sight: none there, or none that this container may see",
    ),
    29: Meaning(name="INVALID_STATE", text="not possible in the GPU's present state"),
    30: Meaning(name="RESET_TYPE_NOT_SUPPORTED", text="resets only: not asked"),
    999: Meaning(
        name="UNKNOWN", text="the driver does not say what went wrong: see the kernel log"
    ),
}

REASON_OF: Mapping[int, str] = {
    code: meaning.reason for code, meaning in MEANINGS.items() if meaning.reason != "DriverError"
}
"""NVML return code -> reason; every other code is DriverError."""
