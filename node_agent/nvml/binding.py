"""NVML through ctypes: loading the driver's library, calling it, and its structures (nvml.h).

Only what the agent calls. NVIDIA's nvidia-ml-py declares all of NVML: 700 functions and 370
structures, whose import was a quarter of the time from an agent's start to its first verdict, and
half of it in a pod, where Python compiles them first. A test holds every structure and number here
equal to nvidia-ml-py's.
"""

from __future__ import annotations

import _ctypes
import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import Structure, Union, byref, c_char, c_double, c_int64, c_uint, c_uint32, c_ulonglong
from typing import Any

LIBRARY = "libnvidia-ml.so.1"

# nvmlReturn_t
SUCCESS = 0
INVALID_ARGUMENT = 2
NOT_SUPPORTED = 3
NOT_FOUND = 6
INSUFFICIENT_SIZE = 7
LIBRARY_NOT_FOUND = 12
FUNCTION_NOT_FOUND = 13
RESET_REQUIRED = 16
ARGUMENT_VERSION_MISMATCH = 25

ABSENT = (NOT_SUPPORTED, FUNCTION_NOT_FOUND)
"""What a GPU or a driver answers that lacks the feature."""

TEXT_BYTES = 96
"""NVML_DEVICE_NAME_V2_BUFFER_SIZE: enough for every text but a process's name."""

_Function = ctypes.CFUNCTYPE(ctypes.c_int)
"""Of no declared arguments: it takes what it is given."""
Handle = ctypes.c_void_p
"""Of a GPU, a MIG device, an instance or a sample. An instance, never its number: without declared
argument types, ctypes passes a number as an int of 32 bits.
"""


class Memory(Structure):
    """nvmlMemory_t, bytes."""

    _fields_ = [("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong)]


class PciInfo(Structure):
    """nvmlPciInfo_t."""

    _fields_ = [
        ("busIdLegacy", c_char * 16),
        ("domain", c_uint),
        ("bus", c_uint),
        ("device", c_uint),
        ("pciDeviceId", c_uint),
        ("pciSubSystemId", c_uint),
        ("busId", c_char * 32),
    ]


class UtilizationRates(Structure):
    """nvmlUtilization_t, percent."""

    _fields_ = [("gpu", c_uint), ("memory", c_uint)]


class ProcessInfo(Structure):
    """nvmlProcessInfo_t, as the functions that end in _v2 and _v3 fill it."""

    _fields_ = [
        ("pid", c_uint),
        ("usedGpuMemory", c_ulonglong),
        ("gpuInstanceId", c_uint),
        ("computeInstanceId", c_uint),
    ]


class DeviceAttributes(Structure):
    """nvmlDeviceAttributes_t, of a MIG device."""

    _fields_ = [
        ("multiprocessorCount", c_uint),
        ("sharedCopyEngineCount", c_uint),
        ("sharedDecoderCount", c_uint),
        ("sharedEncoderCount", c_uint),
        ("sharedJpegCount", c_uint),
        ("sharedOfaCount", c_uint),
        ("gpuInstanceSliceCount", c_uint),
        ("computeInstanceSliceCount", c_uint),
        ("memorySizeMB", c_ulonglong),
    ]


_INSTANCE_PROFILE: list[tuple[str, Any]] = [
    ("id", c_uint),
    ("isP2pSupported", c_uint),
    ("sliceCount", c_uint),
    ("instanceCount", c_uint),
    ("multiprocessorCount", c_uint),
    ("copyEngineCount", c_uint),
    ("decoderCount", c_uint),
    ("encoderCount", c_uint),
    ("jpegCount", c_uint),
    ("ofaCount", c_uint),
    ("memorySizeMB", c_ulonglong),
]
_COMPUTE_PROFILE: list[tuple[str, Any]] = [
    ("id", c_uint),
    ("sliceCount", c_uint),
    ("instanceCount", c_uint),
    ("multiprocessorCount", c_uint),
    ("sharedCopyEngineCount", c_uint),
    ("sharedDecoderCount", c_uint),
    ("sharedEncoderCount", c_uint),
    ("sharedJpegCount", c_uint),
    ("sharedOfaCount", c_uint),
]


class GpuInstanceProfileInfo(Structure):
    """nvmlGpuInstanceProfileInfo_t."""

    _fields_ = _INSTANCE_PROFILE


class GpuInstanceProfileInfoV2(Structure):
    """nvmlGpuInstanceProfileInfo_v2_t; the caller fills `version`."""

    _fields_ = [("version", c_uint), *_INSTANCE_PROFILE, ("name", c_char * 96)]


class ComputeInstanceProfileInfo(Structure):
    """nvmlComputeInstanceProfileInfo_t."""

    _fields_ = _COMPUTE_PROFILE


class ComputeInstanceProfileInfoV2(Structure):
    """nvmlComputeInstanceProfileInfo_v2_t; the caller fills `version`."""

    _fields_ = [("version", c_uint), *_COMPUTE_PROFILE, ("name", c_char * 96)]


class Placement(Structure):
    """nvmlGpuInstancePlacement_t and nvmlComputeInstancePlacement_t, in slices."""

    _fields_ = [("start", c_uint), ("size", c_uint)]


class GpuInstanceInfo(Structure):
    """nvmlGpuInstanceInfo_t."""

    _fields_ = [
        ("device", Handle),
        ("id", c_uint),
        ("profileId", c_uint),
        ("placement", Placement),
    ]


class ComputeInstanceInfo(Structure):
    """nvmlComputeInstanceInfo_t."""

    _fields_ = [
        ("device", Handle),
        ("gpuInstance", Handle),
        ("id", c_uint),
        ("profileId", c_uint),
        ("placement", Placement),
    ]


class Value(Union):
    """nvmlValue_t; which member holds is said beside it."""

    _fields_ = [("dVal", c_double), ("uiVal", c_uint), ("ullVal", c_ulonglong)]


class FieldValue(Structure):
    """nvmlFieldValue_t."""

    _fields_ = [
        ("fieldId", c_uint32),
        ("scopeId", c_uint32),
        ("timestamp", c_int64),
        ("latencyUsec", c_int64),
        ("valueType", c_uint),
        ("nvmlReturn", c_uint),
        ("value", Value),
    ]


def versioned(structure: type[Structure], version: int) -> Any:
    """A structure whose first field tells the driver its size and version (NVML_STRUCT_VERSION)."""
    return structure(version=ctypes.sizeof(structure) | version << 24)


class NvmlError(Exception):
    """A call of NVML failed."""

    def __init__(self, call: str, code: int, text: str) -> None:
        """text: what the driver says about the code."""
        super().__init__(text)
        self.call, self.code = call, code


class _Library:
    """As ctypes.CDLL, which makes a class for every library that it loads."""

    def __init__(self, path: str) -> None:
        """Raises OSError."""
        self._handle = _ctypes.dlopen(path, ctypes.DEFAULT_MODE)

    def __getattr__(self, symbol: str) -> Any:
        try:
            found = _Function(_ctypes.dlsym(self._handle, symbol))
        except OSError as e:
            raise AttributeError(str(e)) from None
        setattr(self, symbol, found)
        return found


class Nvml:
    """The driver's library, loaded."""

    def __init__(self, library: ctypes.CDLL | _Library) -> None:
        self._library = library

    def function(self, symbol: str) -> Callable[..., int]:
        """A function; one that this driver does not have answers FUNCTION_NOT_FOUND."""
        try:
            found: Callable[..., int] = getattr(self._library, symbol)
        except AttributeError:
            return lambda *_: FUNCTION_NOT_FOUND
        return found

    def call(self, symbol: str, *arguments: Any) -> None:
        """Raises NvmlError."""
        if code := self.function(symbol)(*arguments):
            raise self.error(symbol, code)

    def read(self, symbol: str, kind: type[Any], *arguments: Any) -> Any:
        """What the function writes where its last argument points. Raises NvmlError."""
        found = kind()
        self.call(symbol, *arguments, byref(found))
        return found

    def number(self, symbol: str, *arguments: Any) -> int:
        """An unsigned int that it writes. Raises NvmlError."""
        return int(self.read(symbol, c_uint, *arguments).value)

    def text(self, symbol: str, *arguments: Any, size: int = TEXT_BYTES) -> str:
        """A text that it writes. Raises NvmlError."""
        buffer = ctypes.create_string_buffer(size)
        self.call(symbol, *arguments, buffer, size)
        return plain(buffer.value)

    def device(self, index: int) -> Handle:
        """The handle of a GPU. Raises NvmlError."""
        handle: Handle = self.read("nvmlDeviceGetHandleByIndex_v2", Handle, index)
        return handle

    def error(self, symbol: str, code: int) -> NvmlError:
        """With the function's name as NVML documents it, without its version."""
        name = symbol[:-3] if symbol[-3:] in ("_v2", "_v3") else symbol
        return NvmlError(name, code, self.text_of(code))

    def text_of(self, code: int) -> str:
        """What the driver says about a code."""
        if code == FUNCTION_NOT_FOUND:
            return "Function Not Found"
        try:
            describe = self._library.nvmlErrorString
        except AttributeError:
            return f"NVML error {code}"
        describe.restype = ctypes.c_char_p
        return plain(describe(code))

    def unload(self) -> None:
        """Nothing of it may be used afterwards."""
        _ctypes.dlclose(self._library._handle)


def plain(raw: bytes) -> str:
    return raw.decode(errors="replace")


@contextmanager
def opened() -> Iterator[Nvml]:
    """The library, loaded and initialized. Raises NvmlError.

    At the end it is shut down and unloaded, so that the next use loads the one installed by then.
    Where the shutdown fails it stays loaded, and what was read stays true.
    """
    nvml = load()
    nvml.call("nvmlInit_v2")
    try:
        yield nvml
    finally:
        if nvml.function("nvmlShutdown")() == SUCCESS:
            nvml.unload()


def load() -> Nvml:
    """Loads the driver's library. Raises NvmlError.

    Directories of LD_LIBRARY_PATH are searched here, because the dynamic loader remembers which of
    them did not exist when the process (or the one it was forked from) started, and never looks
    there again: on GKE the directory comes with the driver, minutes after the agent.
    """
    directories = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    for path in (*(f"{directory}/{LIBRARY}" for directory in directories if directory), LIBRARY):
        try:
            return Nvml(_Library(path))
        except OSError:
            pass  # not there, or for another architecture
    raise NvmlError("nvmlInit", LIBRARY_NOT_FOUND, "NVML Shared Library Not Found")
