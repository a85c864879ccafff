"""NVML through ctypes: loading the driver's library, and calling it.

Structures and numbers come from NVIDIA's nvidia-ml-py (`pynvml`). Its functions are not used,
because that module never unloads the library, but the agent unloads it after each look. Also, a
look makes hundreds of calls, and each call of that module costs several times as much (a lock, a
search for the symbol, a new handle).
"""

from __future__ import annotations

import _ctypes
import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import byref, c_uint
from typing import Any

import pynvml

LIBRARY = "libnvidia-ml.so.1"

SUCCESS = pynvml.NVML_SUCCESS
INVALID_ARGUMENT = pynvml.NVML_ERROR_INVALID_ARGUMENT
NOT_SUPPORTED = pynvml.NVML_ERROR_NOT_SUPPORTED
NOT_FOUND = pynvml.NVML_ERROR_NOT_FOUND
INSUFFICIENT_SIZE = pynvml.NVML_ERROR_INSUFFICIENT_SIZE
LIBRARY_NOT_FOUND = pynvml.NVML_ERROR_LIBRARY_NOT_FOUND
FUNCTION_NOT_FOUND = pynvml.NVML_ERROR_FUNCTION_NOT_FOUND
RESET_REQUIRED = pynvml.NVML_ERROR_RESET_REQUIRED
ARGUMENT_VERSION_MISMATCH = pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH

ABSENT = (NOT_SUPPORTED, FUNCTION_NOT_FOUND)
"""Return codes of a GPU or a driver that lacks the feature."""

TEXT_BYTES = pynvml.NVML_DEVICE_NAME_V2_BUFFER_SIZE
"""Enough for every text but a process's name."""

_Function = ctypes.PYFUNCTYPE(ctypes.c_int)
"""A function without declared arguments: it accepts any. It keeps Python's lock, because no process
that calls NVML has a second thread.
"""
Handle = ctypes.c_void_p
"""Handle of a GPU, a MIG device, an instance or a sample. Pass the handle, never a number: without
declared argument types, ctypes passes a number as an int of 32 bits.
"""


# Structures, as nvml.h has them.
Memory = pynvml.c_nvmlMemory_t
PciInfo = pynvml.nvmlPciInfo_t
UtilizationRates = pynvml.c_nvmlUtilization_t
ProcessInfo = pynvml.c_nvmlProcessInfo_v3_t
"""The structure for functions that end in _v2 and _v3."""
DeviceAttributes = pynvml.c_nvmlDeviceAttributes
GpuInstanceProfileInfo = pynvml.c_nvmlGpuInstanceProfileInfo_t
GpuInstanceProfileInfoV2 = pynvml.c_nvmlGpuInstanceProfileInfo_v2_t
ComputeInstanceProfileInfo = pynvml.c_nvmlComputeInstanceProfileInfo_t
ComputeInstanceProfileInfoV2 = pynvml.c_nvmlComputeInstanceProfileInfo_v2_t
Placement = pynvml.c_nvmlGpuInstancePlacement_t
"""Placement of GPU instances and compute instances, in slices. Their structures are equal."""
GpuInstanceInfo = pynvml.c_nvmlGpuInstanceInfo_t
ComputeInstanceInfo = pynvml.c_nvmlComputeInstanceInfo_t
FieldValue = pynvml.c_nvmlFieldValue_t


class NvmlError(Exception):
    """A call of NVML failed."""

    def __init__(self, call: str, code: int, text: str) -> None:
        """text: the driver's text for the code."""
        super().__init__(text)
        self.call, self.code = call, code


class _Library:
    """Replaces ctypes.CDLL, which creates a class for every library that it loads."""

    def __init__(self, path: str) -> None:
        """Raises OSError."""
        self._handle = _ctypes.dlopen(path, ctypes.DEFAULT_MODE)

    def __getattr__(self, symbol: str) -> Any:
        try:
            function = _Function(_ctypes.dlsym(self._handle, symbol))
        except OSError as e:
            raise AttributeError(str(e)) from None
        setattr(self, symbol, function)
        return function


class Nvml:
    """The driver's library, loaded."""

    def __init__(self, library: ctypes.CDLL | _Library) -> None:
        self._library = library

    def function(self, symbol: str) -> Callable[..., int]:
        """A function of the library. A missing function returns FUNCTION_NOT_FOUND."""
        try:
            function: Callable[..., int] = getattr(self._library, symbol)
        except AttributeError:
            return lambda *_: FUNCTION_NOT_FOUND
        return function

    def call(self, symbol: str, *arguments: Any) -> None:
        """Calls a function. Raises NvmlError."""
        if code := self.function(symbol)(*arguments):
            raise self.error(symbol, code)

    def read(self, symbol: str, kind: type[Any], *arguments: Any) -> Any:
        """The value that the function writes to its last argument. Raises NvmlError."""
        value = kind()
        self.call(symbol, *arguments, byref(value))
        return value

    def read_or_none(self, symbol: str, kind: type[Any], *arguments: Any) -> Any | None:
        """The value, None without an answer. Only for facts that a verdict does not need."""
        value = kind()
        return None if self.function(symbol)(*arguments, byref(value)) else value

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
        """The error of a call, with NVML's documented function name, without its version."""
        name = symbol[:-3] if symbol[-3:] in ("_v2", "_v3") else symbol
        return NvmlError(name, code, self.text_of(code))

    def text_of(self, code: int) -> str:
        """The driver's text for a code."""
        if code == FUNCTION_NOT_FOUND:
            return "Function Not Found"
        try:
            describe = self._library.nvmlErrorString
        except AttributeError:
            return f"NVML error {code}"
        describe.restype = ctypes.c_char_p
        return plain(describe(code))

    def unload(self) -> None:
        """Unloads the library. It cannot be used afterwards."""
        _ctypes.dlclose(self._library._handle)


def plain(raw: bytes | str) -> str:
    """The text as a string. nvidia-ml-py decodes the texts of most structures itself."""
    return raw if isinstance(raw, str) else raw.decode(errors="replace")


@contextmanager
def opened() -> Iterator[Nvml]:
    """The library, loaded and initialized. Raises NvmlError.

    At the end it is shut down and unloaded, so that the next use loads the library installed then.
    If the shutdown fails, it stays loaded, and the facts remain valid.
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
    them did not exist when the process (or its parent before the fork) started, and never checks
    them again: on GKE the directory comes with the driver, minutes after the agent.
    """
    directories = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    for path in (*(f"{directory}/{LIBRARY}" for directory in directories if directory), LIBRARY):
        try:
            return Nvml(_Library(path))
        except OSError:
            pass  # missing, or for another architecture
    raise NvmlError("nvmlInit", LIBRARY_NOT_FOUND, "NVML Shared Library Not Found")
