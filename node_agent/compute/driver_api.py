"""CUDA's driver API through ctypes. Only for a child process that has not forked since cuInit.

The names with `_v2` are exported ones: cuda.h of CUDA 12 and 13 maps the plain names to them. Five
plain names are 32-bit calls of CUDA 3. Source: NVIDIA, CUDA Driver API reference manual.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from types import MappingProxyType
from typing import Any, Final

LIBRARY: Final = "libcuda.so.1"
MULTIPROCESSORS: Final = 16
_UUID_BYTES: Final = 16
_NAME_BYTES: Final = 256

_FUNCTIONS: Final[Mapping[str, tuple[Any, ...]]] = MappingProxyType(
    {
        "cuInit": (c_uint,),
        "cuDriverGetVersion": (POINTER(c_int),),
        "cuDeviceGetCount": (POINTER(c_int),),
        "cuDeviceGet": (POINTER(c_int), c_int),
        "cuDeviceGetUuid_v2": (c_char_p, c_int),
        "cuDeviceGetName": (c_char_p, c_int, c_int),
        "cuDeviceGetAttribute": (POINTER(c_int), c_int, c_int),
        "cuDevicePrimaryCtxRetain": (POINTER(c_void_p), c_int),
        "cuDevicePrimaryCtxRelease_v2": (c_int,),
        "cuCtxSetCurrent": (c_void_p,),
        "cuCtxSynchronize": (),
        "cuMemGetInfo_v2": (POINTER(c_size_t), POINTER(c_size_t)),
        "cuMemAlloc_v2": (POINTER(c_uint64), c_size_t),
        "cuMemFree_v2": (c_uint64,),
        "cuMemsetD32_v2": (c_uint64, c_uint, c_size_t),
        "cuMemcpyDtoH_v2": (c_void_p, c_uint64, c_size_t),
        "cuModuleLoadData": (POINTER(c_void_p), c_char_p),
        "cuModuleUnload": (c_void_p,),
        "cuModuleGetFunction": (POINTER(c_void_p), c_void_p, c_char_p),
        "cuEventCreate": (POINTER(c_void_p), c_uint),
        "cuEventRecord": (c_void_p, c_void_p),
        "cuEventSynchronize": (c_void_p,),
        "cuEventElapsedTime": (POINTER(c_float), c_void_p, c_void_p),
        "cuEventDestroy_v2": (c_void_p,),
        "cuLaunchKernel": (
            c_void_p,
            *(c_uint,) * 7,
            c_void_p,
            POINTER(c_void_p),
            POINTER(c_void_p),
        ),
    }
)


class CudaError(Exception):
    """A call of CUDA failed."""

    def __init__(self, call: str, code: int, name: str) -> None:
        super().__init__(f"{call}: {name} ({code})")
        self.call = call
        self.code = code
        self.name = name


class LibraryMissingError(Exception):
    """libcuda cannot be loaded, or lacks a function of this table."""


def _load() -> ctypes.CDLL:
    """Loads libcuda. Raises OSError.

    Directories of LD_LIBRARY_PATH are searched here, because the dynamic loader does not look again
    into those that did not exist when this process, or its parent, started.
    """
    directories = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    for path in (f"{directory}/{LIBRARY}" for directory in directories if directory):
        try:
            return ctypes.CDLL(path)
        except OSError:
            pass  # missing, or for another architecture
    return ctypes.CDLL(LIBRARY)


class Cuda:
    """The driver API of this process. Every method raises CudaError."""

    def __init__(self) -> None:
        """Raises LibraryMissingError."""
        try:
            self._library = _load()
            for name, argument_types in _FUNCTIONS.items():
                function = getattr(self._library, name)
                function.argtypes = argument_types
                function.restype = c_int
        except (OSError, AttributeError) as e:
            raise LibraryMissingError(str(e)) from e

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._library, name)(*arguments)
        if code:
            raise CudaError(name.partition("_v2")[0], code, self._name(code))

    def _name(self, code: int) -> str:
        name = c_char_p()
        if self._library.cuGetErrorName(c_int(code), byref(name)) == 0 and name.value:
            return name.value.decode(errors="replace")
        return "CUDA_ERROR"

    # --- devices ---

    def init(self) -> None:
        self._call("cuInit", 0)

    def version(self) -> int:
        """The newest CUDA version of the driver: 13000 = 13.0."""
        return self._int("cuDriverGetVersion")

    def devices(self) -> list[int]:
        """A handle per device that this process sees."""
        return [self._int("cuDeviceGet", i) for i in range(self._int("cuDeviceGetCount"))]

    def uuid(self, device: int) -> str:
        """The 32 hexadecimal digits of a device's UUID, of a MIG device its own."""
        raw = ctypes.create_string_buffer(_UUID_BYTES)
        self._call("cuDeviceGetUuid_v2", raw, device)
        return raw.raw.hex()

    def name(self, device: int) -> str:
        text = ctypes.create_string_buffer(_NAME_BYTES)
        self._call("cuDeviceGetName", text, _NAME_BYTES, device)
        return text.value.decode(errors="replace")

    def multiprocessors(self, device: int) -> int:
        return self._int("cuDeviceGetAttribute", MULTIPROCESSORS, device)

    def _int(self, name: str, *arguments: Any) -> int:
        answer = c_int()
        self._call(name, byref(answer), *arguments)
        return answer.value

    def _pointer(self, name: str, *arguments: Any) -> c_void_p:
        answer = c_void_p()
        self._call(name, byref(answer), *arguments)
        return answer

    # --- contexts and memory ---

    def enter_context(self, device: int) -> None:
        """Retains the device's primary context, and makes it current."""
        self._call("cuCtxSetCurrent", self._pointer("cuDevicePrimaryCtxRetain", device))

    def leave_context(self, device: int) -> None:
        self._call("cuDevicePrimaryCtxRelease_v2", device)

    def synchronize(self) -> None:
        """Waits for every launched kernel. Errors of kernels arrive here."""
        self._call("cuCtxSynchronize")

    def memory(self) -> tuple[int, int]:
        """Free and total bytes of the current device."""
        free, total = c_size_t(), c_size_t()
        self._call("cuMemGetInfo_v2", byref(free), byref(total))
        return free.value, total.value

    def allocate(self, size: int) -> int:
        address = c_uint64()
        self._call("cuMemAlloc_v2", byref(address), size)
        return address.value

    def free(self, address: int) -> None:
        self._call("cuMemFree_v2", address)

    def fill(self, address: int, value: int, words: int) -> None:
        self._call("cuMemsetD32_v2", address, value, words)

    def read_words(self, address: int, words: int) -> Sequence[int]:
        buffer = (c_uint * words)()
        self._call("cuMemcpyDtoH_v2", buffer, address, ctypes.sizeof(buffer))
        return list(buffer)

    # --- kernels and time ---

    def load_module(self, ptx: bytes) -> c_void_p:
        return self._pointer("cuModuleLoadData", ptx)

    def unload_module(self, module: c_void_p) -> None:
        self._call("cuModuleUnload", module)

    def function(self, module: c_void_p, name: bytes) -> c_void_p:
        return self._pointer("cuModuleGetFunction", module, name)

    def launch(self, function: c_void_p, blocks: int, threads: int, *arguments: Any) -> None:
        """Launches a kernel on the default stream. arguments: ctypes values, in order."""
        pointers = (c_void_p * len(arguments))(
            *(ctypes.cast(byref(argument), c_void_p) for argument in arguments)
        )
        self._call("cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, 0, None, pointers, None)

    def record_event(self) -> c_void_p:
        """A new event, recorded now on the default stream."""
        event = self._pointer("cuEventCreate", 0)
        self._call("cuEventRecord", event, None)
        return event

    def elapsed_ms(self, begin: c_void_p, end: c_void_p) -> float:
        self._call("cuEventSynchronize", end)
        elapsed = c_float()
        self._call("cuEventElapsedTime", byref(elapsed), begin, end)
        return elapsed.value

    def destroy_event(self, event: c_void_p) -> None:
        self._call("cuEventDestroy_v2", event)
