"""The one door to `pynvml`: one look at every GPU, from init to shutdown, nothing held afterwards.

Only calls that change nothing. What an unprivileged process may ask is enough for a verdict;
privileged facts (placements, GPU instances without a compute instance) are added where the driver
gives them. Semantics: nvidia.md 8.2, 8.3, 8.6.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
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
# Newer drivers may list more than this nvidia-ml-py knows; the loop ends at the first number that
# the driver refuses.
_MOST_PROFILES = 32
_HOLE = (pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_ERROR_INVALID_ARGUMENT)


def probe(*, thorough: bool = False, busy: bool = False) -> Observation:
    """Looks once. thorough: with health, memory in use and processes, which a verdict does not
    need. busy: with utilization.

    Never raises for what the driver answers; may hang as long as the driver does, so call it in a
    child.
    """
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as e:
        return Observation(failure=_failure("nvmlInit", e))
    try:
        return _look(thorough, busy)
    except _Refused as e:
        return Observation(failure=e.failure)
    finally:
        try:
            pynvml.nvmlShutdown()
        except pynvml.NVMLError:
            pass  # the process ends anyway, and what was read stays true


def forget_unused() -> None:
    """Drops what a probe does not use from the `pynvml` module: some 370 C structures, 11 MB of a
    small agent's memory.

    For a process that does nothing else; afterwards `pynvml` has only the names that the probe's
    functions reach.
    """
    module: ModuleType = pynvml
    doors = (probe, vitals.read, utilization.measured)
    own = [code for door in doors for code in _module_code(door, door.__module__)]
    keep = _reached(module, _names_of_code(own) | {"NVMLError", "NVML_SUCCESS"})
    for name in list(vars(module)):
        if name not in keep and not name.startswith("__"):
            delattr(module, name)
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except AttributeError:
        pass  # a C library without it (musl): the memory is reused instead of given back


_Offers = dict[Any, tuple[OfferedProfile, ...]]


class _Refused(Exception):
    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.text)
        self.failure = failure


def _look(thorough: bool, busy: bool) -> Observation:
    driver = _ask(pynvml.nvmlSystemGetDriverVersion)
    count = _ask(pynvml.nvmlDeviceGetCount)
    offers: _Offers = {}
    cuda = _if_told(pynvml.nvmlSystemGetCudaDriverVersion)
    gpus = tuple(_look_at(index, offers, thorough) for index in range(count))
    return Observation(
        driver=text(driver),
        cuda=f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else None,
        gpus=utilization.measured(gpus) if busy else gpus,
    )


def _look_at(index: int, offers: _Offers, thorough: bool) -> ObservedGpu:
    found: dict[str, Any] = {"index": index}
    try:
        device = _ask(pynvml.nvmlDeviceGetHandleByIndex, index)
        found["uuid"] = text(_ask(pynvml.nvmlDeviceGetUUID, device))
        found["model"] = text(_ask(pynvml.nvmlDeviceGetName, device))
        pci = _if_told(lambda: pynvml.nvmlDeviceGetPciInfo(device))
        found["pci_bus_id"] = text(pci.busId) if pci is not None else None
        memory = _if_told(lambda: pynvml.nvmlDeviceGetMemoryInfo(device).total)
        found["memory_mib"] = int(memory) // 2**20 if memory else None
        found["mig"], found["mig_pending"] = mig_mode(device)
        if found["mig"] != "unsupported":
            # The same board in the same mode offers the same: of eight GPUs one is asked.
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
                found["memory_slices"] = _if_told(lambda: _memory_slices(device, found["offered"]))
        if thorough:
            found["processes"] = vitals.processes(device)
            found["vitals"] = vitals.read(device, mig=found["mig"] == "enabled")
    except _Refused as e:
        found["failure"] = e.failure
    return ObservedGpu(**found)


def mig_mode(device: Any) -> tuple[MigMode, MigMode]:
    try:
        current, pending = pynvml.nvmlDeviceGetMigMode(device)
    except pynvml.NVMLError as e:
        # A driver too old to know MIG has no such function; a GPU without MIG says that it is not
        # supported.
        if e.value in (pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND):
            return "unsupported", "unsupported"
        raise _Refused(_failure("nvmlDeviceGetMigMode", e)) from e
    return "enabled" if current else "disabled", "enabled" if pending else "disabled"


def _mig_devices(device: Any, thorough: bool) -> Iterator[MigDevice]:
    for index in range(_ask(pynvml.nvmlDeviceGetMaxMigDeviceCount, device)):
        try:
            mig = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(device, index)
        except pynvml.NVMLError as e:
            if e.value in _HOLE:
                continue
            raise _Refused(_failure("nvmlDeviceGetMigDeviceHandleByIndex", e)) from e
        attributes = _ask(pynvml.nvmlDeviceGetAttributes, mig)
        name = _if_told(lambda mig=mig: pynvml.nvmlDeviceGetName(mig))  # type: ignore[misc]
        yield MigDevice(
            uuid=text(_ask(pynvml.nvmlDeviceGetUUID, mig)),
            gpu_instance=int(_ask(pynvml.nvmlDeviceGetGpuInstanceId, mig)),
            compute_instance=int(_ask(pynvml.nvmlDeviceGetComputeInstanceId, mig)),
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
            name=text(name) if name is not None else "",
            memory_used_mib=vitals.memory_used_mib(mig) if thorough else None,
            processes=vitals.processes(mig) if thorough else None,
        )


def offered_profiles(device: Any) -> Iterator[OfferedProfile]:
    for number in range(_MOST_PROFILES):
        try:
            info = _profile_info(device, number)
        except pynvml.NVMLError as e:
            if e.value == pynvml.NVML_ERROR_NOT_SUPPORTED:
                continue
            # INVALID_ARGUMENT ends the list. Anything else (old drivers tell profiles only in MIG
            # mode) leaves it short: names then come from the attributes, or the profile stays
            # unknown.
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
    for profile in offered:
        # The driver writes as many entries as the profile can have; eight covers every GPU, sixteen
        # those to come.
        handles = (pynvml.c_nvmlGpuInstance_t * 16)()
        count = ctypes.c_uint()
        try:
            pynvml.nvmlDeviceGetGpuInstances(device, profile.id, handles, ctypes.byref(count))
            infos = [pynvml.nvmlGpuInstanceGetInfo(handle) for handle in handles[: count.value]]
        except pynvml.NVMLError as e:
            if e.value == pynvml.NVML_ERROR_NOT_SUPPORTED:
                continue
            return None
        found += [
            GpuInstance(
                id=i.id, profile=i.profileId, start=i.placement.start, size=i.placement.size
            )
            for i in infos
        ]
    return tuple(sorted(found, key=lambda i: (i.start, i.id)))


def _memory_slices(device: Any, offered: tuple[OfferedProfile, ...]) -> int | None:
    """As many as the largest instance has."""
    if not offered:
        return None
    largest = max(offered, key=lambda p: (p.slices, p.memory_mib))
    places, count = (pynvml.c_nvmlGpuInstancePlacement_t * 16)(), ctypes.c_uint(16)
    pynvml.nvmlDeviceGetGpuInstancePossiblePlacements(
        device, largest.id, places, ctypes.byref(count)
    )
    return max((place.start + place.size for place in places[: count.value]), default=None)


def _ask(call: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return call(*arguments)
    except pynvml.NVMLError as e:
        raise _Refused(_failure(getattr(call, "__name__", "nvml"), e)) from e


def _if_told(call: Callable[[], Any]) -> Any | None:
    """For facts that a verdict can do without."""
    try:
        return call()
    except pynvml.NVMLError:
        return None


def _failure(call: str, error: Any) -> Failure:
    return Failure(call=call, code=int(error.value), text=str(error))


def text(raw: str | bytes) -> str:
    return raw.decode(errors="replace") if isinstance(raw, bytes) else raw


def _module_code(function: FunctionType | Callable[..., Any], module: str) -> list[CodeType]:
    namespace = function.__globals__ if isinstance(function, FunctionType) else {}
    own = [v for v in namespace.values() if isinstance(v, FunctionType) and v.__module__ == module]
    return [f.__code__ for f in own]


def _names_of_code(codes: list[CodeType]) -> set[str]:
    names: set[str] = set()
    for code in codes:
        names.update(code.co_names)
        names |= _names_of_code([c for c in code.co_consts if isinstance(c, CodeType)])
    return names


def _reached(module: ModuleType, wanted: set[str]) -> set[str]:
    """The names of `module` that the wanted ones need to work: what their code, and the code of
    their classes, mentions.
    """
    space = vars(module)
    reached: set[str] = set()
    waiting = [name for name in wanted if name in space]
    while waiting:
        name = waiting.pop()
        if name in reached:
            continue
        reached.add(name)
        waiting += [n for n in _names_of_code(_code_of(space[name])) if n in space]
    return reached


def _code_of(value: Any) -> list[CodeType]:
    if isinstance(value, type):
        methods = [m for base in value.__mro__ for m in vars(base).values()]
        return [m.__code__ for m in methods if isinstance(m, FunctionType)]
    codes = []
    while isinstance(value, FunctionType):
        codes.append(value.__code__)
        value = getattr(value, "__wrapped__", None)
    return codes
