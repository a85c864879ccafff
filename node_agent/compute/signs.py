"""The meaning of each failure of the proof: its usual causes on a GPU node, and the way out.

Codes and names: NVIDIA, CUDA Driver API reference manual, CUresult. Causes without a source were
inferred from that manual and from users' reports.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

Scope = Literal["partition", "node", "environment"]
"""`environment`: the proof could not be tried here, which says nothing about the partition."""


@dataclass(frozen=True, kw_only=True)
class Sign:
    """A name of CUDA for a failure, or one of ours below."""

    name: str
    code: int | None
    """The CUresult; None for a name of ours."""
    scope: Scope
    cause: str
    remedy: str

    @property
    def title(self) -> str:
        return self.name if self.code is None else f"{self.name} ({self.code})"


WRONG_WORDS: Final = "WRONG_WORDS"
TIMED_OUT: Final = "TIMED_OUT"
NOT_ENUMERATED: Final = "NOT_ENUMERATED"
PROCESS_ENDED: Final = "PROCESS_ENDED"
LIBRARY_MISSING: Final = "LIBRARY_MISSING"
NOT_REACHED: Final = "NOT_REACHED"
IN_USE: Final = "IN_USE"
UNEXPECTED_DEVICE: Final = "UNEXPECTED_DEVICE"

OUT_OF_MEMORY: Final = 2
NO_DEVICE: Final = 100

_RESET: Final = (
    "read the kernel log for Xids, drain the node and reset the GPU; if it comes again, replace "
    "the GPU"
)
_MOUNTS: Final = (
    "mend the driver libraries that are mounted into this container; the GPU is not the cause"
)
_BUG: Final = "report it with this output: it is a defect of the proof"
_MPS: Final = "restart the MPS control daemon of this node, as the user of its clients"


def _cuda(code: int, name: str, scope: Scope, cause: str, remedy: str) -> Sign:
    return Sign(name=f"CUDA_ERROR_{name}", code=code, scope=scope, cause=cause, remedy=remedy)


def _proof_sign(name: str, scope: Scope, cause: str, remedy: str) -> Sign:
    return Sign(name=name, code=None, scope=scope, cause=cause, remedy=remedy)


def _hardware(code: int, name: str, cause: str) -> Sign:
    return _cuda(code, name, "partition", cause, _RESET)


_TABLE: Final = (
    _cuda(1, "INVALID_VALUE", "environment", "a call with a wrong argument", _BUG),
    _cuda(
        OUT_OF_MEMORY,
        "OUT_OF_MEMORY",
        "environment",
        "another process holds the memory, or an MPS or cgroup limit applies",
        "end the processes that `slicewright-agent show` lists on this device",
    ),
    _cuda(3, "NOT_INITIALIZED", "environment", "CUDA was used after a fork", _BUG),
    _cuda(4, "DEINITIALIZED", "environment", "CUDA was used while it shuts down", _BUG),
    _cuda(
        34,
        "STUB_LIBRARY",
        "environment",
        "a CUDA toolkit's stub of libcuda comes before the driver's",
        "take the toolkit's `stubs` directory out of LD_LIBRARY_PATH",
    ),
    _cuda(
        35,
        "INSUFFICIENT_DRIVER",
        "environment",
        "the driver is older than the CUDA runtime in use",
        "install a newer driver",
    ),
    _cuda(
        36,
        "CALL_REQUIRES_NEWER_DRIVER",
        "environment",
        "the driver is older than this call",
        "install a newer driver",
    ),
    _cuda(
        46,
        "DEVICE_UNAVAILABLE",
        "node",
        "the compute mode is exclusive and another process, or an MPS server, owns the device; or "
        "the compute mode is prohibited",
        "`nvidia-smi -c 0` for the default mode, and end the MPS daemon if the pool does not use "
        "MPS",
    ),
    _cuda(
        NO_DEVICE,
        "NO_DEVICE",
        "node",
        "CUDA sees no device with this UUID: the layout has changed since it was read, or the "
        "device nodes of the partition are missing here",
        "compare with `slicewright-agent show`; in a container, create a new container",
    ),
    _cuda(
        101,
        "INVALID_DEVICE",
        "partition",
        "MIG is on and the GPU instance has no compute instance",
        "partition the GPU again",
    ),
    _cuda(
        102,
        "DEVICE_NOT_LICENSED",
        "node",
        "a virtual GPU without a licence",
        "give this machine a vGPU licence",
    ),
    _cuda(201, "INVALID_CONTEXT", "environment", "a call without a context", _BUG),
    _cuda(
        209,
        "NO_BINARY_FOR_GPU",
        "environment",
        "the GPU is older than Volta, which the kernels of the proof need",
        "none: this GPU cannot be tested",
    ),
    _hardware(214, "ECC_UNCORRECTABLE", "an uncorrectable memory error"),
    _cuda(218, "INVALID_PTX", "environment", "the driver refuses the kernels' text", _BUG),
    _hardware(220, "NVLINK_UNCORRECTABLE", "an uncorrectable NVLink error"),
    _cuda(
        221,
        "JIT_COMPILER_NOT_FOUND",
        "environment",
        "libnvidia-ptxjitcompiler.so.1 is not beside the driver's libraries",
        _MOUNTS,
    ),
    _cuda(
        222,
        "UNSUPPORTED_PTX_VERSION",
        "environment",
        "the driver is older than the kernels' PTX version",
        "install a newer driver",
    ),
    _cuda(
        223,
        "JIT_COMPILATION_DISABLED",
        "environment",
        "CUDA_DISABLE_PTX_JIT is set",
        "unset CUDA_DISABLE_PTX_JIT",
    ),
    _hardware(226, "CONTAINED", "a hardware error that the GPU has contained"),
    _cuda(
        303,
        "SHARED_OBJECT_INIT_FAILED",
        "environment",
        "libraries of different driver versions",
        _MOUNTS,
    ),
    _cuda(
        304,
        "OPERATING_SYSTEM",
        "environment",
        "the kernel refused to open a device",
        "check the device rules of this container or service",
    ),
    _hardware(700, "ILLEGAL_ADDRESS", "a memory access that the kernel does not make (Xid 13, 31)"),
    _hardware(702, "LAUNCH_TIMEOUT", "a kernel that did not end"),
    _hardware(715, "ILLEGAL_INSTRUCTION", "an instruction that the kernel does not have"),
    _hardware(716, "MISALIGNED_ADDRESS", "a memory access that the kernel does not make"),
    _hardware(717, "INVALID_ADDRESS_SPACE", "a memory access that the kernel does not make"),
    _hardware(718, "INVALID_PC", "a jump that the kernel does not make"),
    _hardware(719, "LAUNCH_FAILED", "an exception on the GPU, mostly with an Xid"),
    _cuda(
        801,
        "NOT_SUPPORTED",
        "environment",
        "the device does not support a step of the proof",
        "none: this device cannot be tested",
    ),
    _cuda(
        802,
        "SYSTEM_NOT_READY",
        "node",
        "the machine has NVSwitches, and Fabric Manager does not run or is of another version than "
        "the driver; or confidential computing is not set ready",
        "start Fabric Manager in exactly the driver's version; in a cloud, use a node image that "
        "brings it",
    ),
    _cuda(
        803,
        "SYSTEM_DRIVER_MISMATCH",
        "environment",
        "libcuda and the kernel module are of different versions, as after an upgrade",
        "create a new container; if it comes again, reboot the node",
    ),
    _cuda(
        804,
        "COMPAT_NOT_SUPPORTED_ON_DEVICE",
        "environment",
        "a forward-compatibility libcuda comes before the driver's",
        "take CUDA's `compat` directory out of LD_LIBRARY_PATH",
    ),
    _cuda(805, "MPS_CONNECTION_FAILED", "node", "the MPS control daemon does not answer", _MPS),
    _cuda(806, "MPS_RPC_FAILURE", "node", "the MPS server does not answer", _MPS),
    _cuda(807, "MPS_SERVER_NOT_READY", "node", "the MPS server is not ready", _MPS),
    _cuda(
        808, "MPS_MAX_CLIENTS_REACHED", "environment", "the MPS server has all its clients", _MPS
    ),
    _cuda(909, "TIMEOUT", "partition", "a hung GPU", _RESET),
    _cuda(
        919,
        "FABRIC_NOT_READY",
        "node",
        "the GPU's registration with the NVLink fabric has not ended",
        "try again in a minute; if it stays, start Fabric Manager in the driver's version",
    ),
    _cuda(
        999,
        "UNKNOWN",
        "node",
        "/dev/nvidia-uvm is missing or its kernel module is not loaded, or a reload of systemd has "
        "taken the devices from this container",
        "`modprobe nvidia-uvm` on the host, or a new container; if it stays, read the kernel log",
    ),
    _proof_sign(
        WRONG_WORDS,
        "partition",
        "the memory or the multiprocessors of the partition return other words than were written",
        _RESET,
    ),
    _proof_sign(
        TIMED_OUT,
        "partition",
        "the driver did not answer before the deadline",
        "read the kernel log for Xids; reset the GPU, or reboot the node",
    ),
    _proof_sign(
        NOT_ENUMERATED,
        "node",
        "NVML lists the device and CUDA does not",
        "compare with `slicewright-agent show`; in a container, create a new container",
    ),
    _proof_sign(
        PROCESS_ENDED,
        "partition",
        "the process that used the device ended without a result, mostly by a crash in the driver",
        "read the kernel log; reset the GPU, or reboot the node",
    ),
    _proof_sign(
        LIBRARY_MISSING,
        "environment",
        "libcuda.so.1 cannot be loaded",
        "on a host, install the driver with its compute libraries; in a container, ask NVIDIA's "
        "runtime for the capability `compute`",
    ),
    _proof_sign(
        NOT_REACHED,
        "environment",
        "the time for the whole proof was over before its turn",
        "run it again; a slow start is usual without nvidia-persistenced",
    ),
    _proof_sign(
        IN_USE, "environment", "a process uses a GPU", "end the process, and run the proof again"
    ),
    _proof_sign(
        UNEXPECTED_DEVICE,
        "node",
        "CUDA shows a device that was not requested",
        "report it with this output",
    ),
)

SIGNS: Final[Mapping[str, Sign]] = MappingProxyType({sign.name: sign for sign in _TABLE})
_BY_CODE: Final = {sign.code: sign for sign in _TABLE if sign.code is not None}


def of_code(code: int, driver_name: str | None = None) -> Sign:
    """The sign of a CUresult. A code without an entry counts as one of the partition.

    driver_name: the driver's own name of the code, for a code without an entry.
    """
    if code in _BY_CODE:
        return _BY_CODE[code]
    return Sign(
        name=driver_name or "CUDA_ERROR",
        code=code,
        scope="partition",
        cause="an error that the proof does not know",
        remedy="look it up in NVIDIA's list of CUresult, and read the kernel log",
    )


def of_name(name: str, code: int | None) -> Sign:
    """The sign with this name of ours, or of this code."""
    return of_code(code, name) if code is not None else SIGNS[name]
