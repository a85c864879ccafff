"""Reads every GPU through `pynvml`, from loading the driver's library to unloading it.

Only calls that change nothing. What an unprivileged process may ask is enough for a verdict;
privileged facts (placements, GPU instances without a compute instance) are added where the driver
gives them. Source: nvml.h, "Multi Instance GPU Management".
"""

from __future__ import annotations

import _ctypes
import ctypes
import os
from collections.abc import Callable, Container, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any

import pynvml

from node_agent.nvml import utilization, vitals
from node_agent.nvml.observed import (
    Engines,
    Failure,
    GpuInstance,
    MigDevice,
    MigMode,
    Observation,
    ObservedGpu,
    OfferedProfile,
)
from node_agent.nvml.stripping import strip

_LIBRARY = "libnvidia-ml.so.1"
# By the number under which the driver lists a GPU instance profile (nvml.h,
# NVML_GPU_INSTANCE_PROFILE_*).
_SUFFIXES = {
    7: "+me",
    8: "+me",
    10: "+gfx",
    11: "+gfx",
    12: "+gfx",
    13: "-me",
    14: "-me",
    15: "+me.all",
    16: "+me.all",
    17: "+gfx",
}
# Newer drivers may list more profiles than this nvidia-ml-py names; the loop ends at the first
# number that the driver refuses.
_MOST_PROFILES = 32
_TEXT_BYTES = 96  # NVML_DEVICE_NAME_V2_BUFFER_SIZE, the longer one
_HOLE = (pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_ERROR_INVALID_ARGUMENT)


def probe(*, thorough: bool = False, with_utilization: bool = False) -> Observation:
    """Reads every GPU once.

    thorough: with all of health, memory in use and processes, which a verdict does not need. Never
    raises for what the driver answers, but hangs as long as the driver does: call it in a child
    process.
    """
    library = _load()
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as e:
        return Observation(failure=_failure("nvmlInit", e))
    try:
        return _read(thorough, with_utilization)
    except _CallFailed as e:
        return Observation(failure=e.failure)
    finally:
        try:
            pynvml.nvmlShutdown()
            if library:
                _unload(library)
        except pynvml.NVMLError:
            pass  # the library stays loaded, so this process is replaced; what was read stays true


def _load() -> ctypes.CDLL | None:
    """Loads the driver's library; None where it was loaded before, or is not found.

    Directories of LD_LIBRARY_PATH are searched here, because the dynamic loader remembers which of
    them did not exist when the process (or the one it was forked from) started, and never looks
    there again: on GKE the directory comes with the driver, minutes after the agent.
    """
    if pynvml.nvmlLib is not None:
        return None
    directories = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    for path in (*(f"{directory}/{_LIBRARY}" for directory in directories if directory), _LIBRARY):
        try:
            library = pynvml.nvmlLib = ctypes.CDLL(path)
            return library
        except OSError:
            pass  # not there, or for another architecture; without any, nvmlInit says so
    return None


def _unload(library: ctypes.CDLL) -> None:
    """Unloads it, so that the next probe loads the library that is installed by then."""
    pynvml.nvmlLib = None
    pynvml._nvmlGetFunctionPointer_cache.clear()
    _ctypes.dlclose(library._handle)


def strip_pynvml() -> None:
    """Removes what a probe does not use from `pynvml`: 370 C structures, 11 MB.

    For a process that only probes.
    """
    strip(pynvml, probe, vitals.read, utilization.measure, keep=("NVMLError", "NVML_SUCCESS"))


_Offers = dict[Any, tuple[OfferedProfile, ...]]


class _CallFailed(Exception):
    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.text)
        self.failure = failure


def _read(thorough: bool, with_utilization: bool) -> Observation:
    driver = _required(pynvml.nvmlSystemGetDriverVersion)
    count = _required(pynvml.nvmlDeviceGetCount)
    offers: _Offers = {}
    cuda = _optional(pynvml.nvmlSystemGetCudaDriverVersion)
    gpus = tuple(_read_gpu(index, offers, thorough) for index in range(count))
    return Observation(
        driver=text(driver),
        cuda=f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else None,
        gpus=utilization.measure(gpus) if with_utilization else gpus,
    )


def _read_gpu(index: int, offers: _Offers, thorough: bool) -> ObservedGpu:
    found: dict[str, Any] = {"index": index}
    try:
        device = _required(pynvml.nvmlDeviceGetHandleByIndex, index)
        found["uuid"] = text(_required(pynvml.nvmlDeviceGetUUID, device))
        found["model"] = text(_required(pynvml.nvmlDeviceGetName, device))
        pci = _optional(lambda: pynvml.nvmlDeviceGetPciInfo(device))
        found["pci_bus_id"] = text(pci.busId) if pci is not None else None
        memory = _optional(lambda: pynvml.nvmlDeviceGetMemoryInfo(device).total)
        found["memory_mib"] = int(memory) // 2**20 if memory else None
        found["mig"], found["mig_pending"] = mig_mode(device)
        if found["mig"] != "unsupported":
            # Equal boards in equal mode offer equal profiles: of eight GPUs one is asked.
            board = (
                (pci.pciDeviceId, pci.pciSubSystemId, found["mig"]) if pci is not None else index
            )
            if board not in offers:
                offers[board] = tuple(offered_profiles(device))
            found["offered"] = offers[board]
        if found["mig"] == "enabled":
            found["devices"] = tuple(_mig_devices(device, thorough))
            found["gpu_instances"] = _gpu_instances(device, found["offered"])
            if found["gpu_instances"] is not None:
                found["memory_slices"] = _optional(lambda: _memory_slices(device, found["offered"]))
        if thorough:
            found["processes"] = vitals.processes(device)
            health = found["vitals"] = vitals.read(device, mig=found["mig"] == "enabled")
        else:
            health = vitals.read_repairs(device)
        found["repairs"] = vitals.repairs(health)
    except _CallFailed as e:
        found["failure"] = e.failure
    return ObservedGpu(**found)


def mig_mode(device: Any) -> tuple[MigMode, MigMode]:
    try:
        current, pending = pynvml.nvmlDeviceGetMigMode(device)
    except pynvml.NVMLError as e:
        # FUNCTION_NOT_FOUND: a driver older than MIG. NOT_SUPPORTED: a GPU without MIG.
        if e.value in (pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND):
            return "unsupported", "unsupported"
        raise _CallFailed(_failure("nvmlDeviceGetMigMode", e)) from e
    return "enabled" if current else "disabled", "enabled" if pending else "disabled"


def _mig_devices(device: Any, thorough: bool) -> Iterator[MigDevice]:
    call, mig = _Call(), pynvml.c_nvmlDevice_t()
    mig_at, text_at = ctypes.byref(mig), ctypes.create_string_buffer(_TEXT_BYTES)
    attributes, number = pynvml.c_nvmlDeviceAttributes(), ctypes.c_uint()
    attributes_at, number_at = ctypes.byref(attributes), ctypes.byref(number)
    for index in range(_required(pynvml.nvmlDeviceGetMaxMigDeviceCount, device)):
        if call.returns("nvmlDeviceGetMigDeviceHandleByIndex", _HOLE, device, index, mig_at):
            continue
        call.returns("nvmlDeviceGetAttributes_v2", (), mig, attributes_at)
        call.returns("nvmlDeviceGetGpuInstanceId", (), mig, number_at)
        gpu_instance = number.value
        call.returns("nvmlDeviceGetComputeInstanceId", (), mig, number_at)
        compute_instance = number.value
        call.returns("nvmlDeviceGetUUID", (), mig, text_at, _TEXT_BYTES)
        uuid = text_at.value
        unnamed = call.returns("nvmlDeviceGetName", _ANY, mig, text_at, _TEXT_BYTES)
        name = b"" if unnamed else text_at.value
        found = _mig_device(uuid, gpu_instance, compute_instance, bytes(attributes), name)
        yield (
            replace(
                found,
                memory_used_mib=vitals.memory_used_mib(mig),
                processes=vitals.processes(mig),
            )
            if thorough
            else found
        )


# Remembered: the same bytes are the same value, and 56 of them cost a quarter of a probe.
@lru_cache(maxsize=256)
def _mig_device(
    uuid: bytes, gpu_instance: int, compute_instance: int, raw_attributes: bytes, name: bytes
) -> MigDevice:
    attributes = pynvml.c_nvmlDeviceAttributes.from_buffer_copy(raw_attributes)
    return MigDevice(
        uuid=text(uuid),
        gpu_instance=gpu_instance,
        compute_instance=compute_instance,
        gpu_slices=attributes.gpuInstanceSliceCount,
        compute_slices=attributes.computeInstanceSliceCount,
        memory_mib=attributes.memorySizeMB,
        multiprocessors=attributes.multiprocessorCount,
        engines=Engines(
            decoders=attributes.sharedDecoderCount,
            encoders=attributes.sharedEncoderCount,
            jpeg=attributes.sharedJpegCount,
            ofa=attributes.sharedOfaCount,
        ),
        name=text(name),
    )


def offered_profiles(device: Any) -> Iterator[OfferedProfile]:
    for number in range(_MOST_PROFILES):
        try:
            info = _profile_info(device, number)
        except pynvml.NVMLError as e:
            if e.value == pynvml.NVML_ERROR_NOT_SUPPORTED:
                continue
            # INVALID_ARGUMENT ends the list. After any other error it stays incomplete (old drivers
            # list profiles in MIG mode only): names then come from the attributes, or the profile
            # stays unknown.
            return
        name = text(info.name).removeprefix("MIG ") if hasattr(info, "name") else ""
        yield OfferedProfile(
            id=info.id,
            name=name or None,
            suffix=_SUFFIXES.get(number, ""),
            slices=info.sliceCount,
            memory_mib=info.memorySizeMB,
            multiprocessors=info.multiprocessorCount,
            most=info.instanceCount,
            engines=Engines(
                decoders=info.decoderCount,
                encoders=info.encoderCount,
                jpeg=info.jpegCount,
                ofa=info.ofaCount,
            ),
        )


def _profile_info(device: Any, number: int) -> Any:
    try:
        return pynvml.nvmlDeviceGetGpuInstanceProfileInfo(device, number)
    except pynvml.NVMLError as e:
        if e.value not in (
            pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
            pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
        ):
            raise
    return pynvml.nvmlDeviceGetGpuInstanceProfileInfo(device, number, version=1)


def _gpu_instances(
    device: Any, offered: tuple[OfferedProfile, ...]
) -> tuple[GpuInstance, ...] | None:
    found = []
    call, info, count = _Call(), pynvml.c_nvmlGpuInstanceInfo_t(), ctypes.c_uint()
    info_at, count_at = ctypes.byref(info), ctypes.byref(count)
    # The driver writes as many entries as the profile allows: at most eight on today's GPUs.
    handles = (pynvml.c_nvmlGpuInstance_t * 16)()
    for profile in offered:
        code = call.returns(
            "nvmlDeviceGetGpuInstances", _ANY, device, profile.id, handles, count_at
        )
        if code == pynvml.NVML_ERROR_NOT_SUPPORTED:
            continue
        if code:
            return None
        for handle in handles[: count.value]:
            if call.returns("nvmlGpuInstanceGetInfo", _ANY, handle, info_at):
                return None
            place = info.placement
            found.append(_gpu_instance(info.id, info.profileId, place.start, place.size))
    return tuple(sorted(found, key=lambda i: (i.start, i.id)))


@lru_cache(maxsize=256)
def _gpu_instance(id_: int, profile: int, start: int, size: int) -> GpuInstance:
    return GpuInstance(id=id_, profile=profile, start=start, size=size)


def _memory_slices(device: Any, offered: tuple[OfferedProfile, ...]) -> int | None:
    """The end of the largest profile's last placement."""
    if not offered:
        return None
    largest = max(offered, key=lambda p: (p.slices, p.memory_mib))
    places, count = (pynvml.c_nvmlGpuInstancePlacement_t * 16)(), ctypes.c_uint(16)
    pynvml.nvmlDeviceGetGpuInstancePossiblePlacements(
        device, largest.id, places, ctypes.byref(count)
    )
    return max((place.start + place.size for place in places[: count.value]), default=None)


_ANY = range(1, 1000)
"""Every error."""


class _Call:
    """Calls without pynvml's functions, which make buffers and exceptions anew at every call: half
    of a probe of 56 MIG devices.
    """

    def __init__(self) -> None:
        self._function = pynvml._nvmlGetFunctionPointer

    def returns(self, symbol: str, expected: Container[int], *arguments: Any) -> int:
        """0, or an expected NVML error. Raises _CallFailed for another one."""
        try:
            code = int(self._function(symbol)(*arguments))
        except pynvml.NVMLError as e:
            code = int(e.value)  # this driver does not have the function
        if code and code not in expected:
            name = symbol.removesuffix("_v2")
            raise _CallFailed(_failure(name, pynvml.NVMLError(code)))
        return code


def _required(call: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return call(*arguments)
    except pynvml.NVMLError as e:
        raise _CallFailed(_failure(getattr(call, "__name__", "nvml"), e)) from e


def _optional(call: Callable[[], Any]) -> Any | None:
    """None where the driver does not answer: for facts that a verdict can do without."""
    try:
        return call()
    except pynvml.NVMLError:
        return None


def _failure(call: str, error: Any) -> Failure:
    return Failure(call=call, code=int(error.value), text=str(error))


def text(raw: str | bytes) -> str:
    return raw.decode(errors="replace") if isinstance(raw, bytes) else raw
