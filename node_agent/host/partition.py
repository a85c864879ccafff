"""The NVML calls that read and change the MIG state of GPUs, for `apply` and `clear`. Needs root.

Not used in a cluster, where mig-manager or the cloud partitions GPUs. Source: nvml.h, "Multi
Instance GPU Management".
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pynvml

from node_agent.host import gpu_processes
from node_agent.host.mig_state import (
    ComputeInstance,
    ComputeProfile,
    Gpu,
    GpuInstance,
    Process,
    Profile,
)
from node_agent.host.transaction import NvmlCallFailed
from node_agent.nvml.observed import OfferedProfile
from node_agent.nvml.probe import offered_profiles, text
from node_agent.nvml.profiles import name_of_profile

_NOWHERE = 0xFFFFFFFF
"""NVML's instance id of a process in no GPU instance, or in one that it does not reveal."""
_MOST_INSTANCES = 16
_COMPUTE_PROFILES = 16
_ABSENT = (pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
# The plain names raise something other than NVMLError where the driver lacks their version.
_PROCESS_CALLS = tuple(
    (f"nvmlDeviceGet{kind}RunningProcesses_v3", f"nvmlDeviceGet{kind}RunningProcesses_v2")
    for kind in ("Compute", "Graphics", "MPSCompute")
)


@contextmanager
def opened() -> Iterator[NvmlPartitioner]:
    """Opens NVML. Raises NvmlCallFailed where the driver cannot be reached."""
    _call("nvmlInit")
    try:
        yield NvmlPartitioner()
    finally:
        try:
            pynvml.nvmlShutdown()
        except pynvml.NVMLError:
            pass  # the process ends anyway


class NvmlPartitioner:
    """`transaction.GpuPartitioner` through NVML.

    Instance handles are looked up for every call: any change makes them stale.
    """

    def read(self) -> tuple[Gpu, ...]:
        return tuple(self._gpu(index) for index in range(_call("nvmlDeviceGetCount")))

    def set_mig_mode(self, gpu: int, *, on: bool) -> str | None:
        activation = _call("nvmlDeviceSetMigMode", _device(gpu), int(on))
        if activation == pynvml.NVML_SUCCESS:
            return None
        why = str(pynvml.NVMLError(activation))
        if activation == pynvml.NVML_ERROR_RESET_REQUIRED:
            return why
        # Not left pending: a later reset would then change the mode unexpectedly.
        raise NvmlCallFailed(
            "nvmlDeviceSetMigMode", activation, f"GPU {gpu}: {why}{self._holders(gpu)}"
        )

    def create_gpu_instance(self, gpu: int, instance: GpuInstance) -> int:
        place = pynvml.c_nvmlGpuInstancePlacement_t(instance.start, instance.size)
        made = _call(
            "nvmlDeviceCreateGpuInstanceWithPlacement",
            _device(gpu),
            instance.profile,
            ctypes.byref(place),
        )
        return int(_call("nvmlGpuInstanceGetInfo", made).id)

    def compute_profiles(self, gpu: int, instance: int) -> tuple[ComputeProfile, ...]:
        return _compute_profiles(_instance(gpu, instance))

    def create_compute_instance(
        self, gpu: int, instance: int, profile: int, compute: ComputeInstance
    ) -> None:
        handle = _instance(gpu, instance)
        if compute.start is not None:
            place = pynvml.c_nvmlComputeInstancePlacement_t(compute.start, compute.slices)
            try:
                _call(
                    "nvmlGpuInstanceCreateComputeInstanceWithPlacement",
                    handle,
                    profile,
                    ctypes.byref(place),
                )
                return
            except NvmlCallFailed as e:
                if e.code != pynvml.NVML_ERROR_FUNCTION_NOT_FOUND:
                    raise
        _call("nvmlGpuInstanceCreateComputeInstance", handle, profile)

    def destroy_compute_instance(self, gpu: int, instance: int, compute: int) -> None:
        handle = _call("nvmlGpuInstanceGetComputeInstanceById", _instance(gpu, instance), compute)
        _call("nvmlComputeInstanceDestroy", handle)

    def destroy_gpu_instance(self, gpu: int, instance: int) -> None:
        _call("nvmlGpuInstanceDestroy", _instance(gpu, instance))

    def _gpu(self, index: int) -> Gpu:
        found: dict[str, Any] = {
            "index": index,
            "uuid": "",
            "model": "?",
            "minor": None,
            "mig": None,
            "pending": False,
        }
        try:
            device = _device(index)
            found["uuid"] = text(_call("nvmlDeviceGetUUID", device))
            found["model"] = text(_call("nvmlDeviceGetName", device))
            found["minor"] = _if_supported("nvmlDeviceGetMinorNumber", device)
            found["persistent"] = _if_supported("nvmlDeviceGetPersistenceMode", device) != 0
            mode = _if_supported("nvmlDeviceGetMigMode", device)
            if mode is not None:
                found["mig"], found["pending"] = map(bool, mode)
                found["offered"] = _profiles(device)
                found["instances"] = _instances(device, found["offered"]) if found["mig"] else ()
            found["processes"] = _processes(device)
        except NvmlCallFailed as e:
            found["failure"], found["code"] = str(e), e.code
        return Gpu(**{"offered": (), "instances": (), "processes": (), **found})

    def _holders(self, gpu: int) -> str:
        try:
            minor = _if_supported("nvmlDeviceGetMinorNumber", _device(gpu))
        except NvmlCallFailed:
            return ""
        holders = [] if minor is None else gpu_processes.of_file(f"/dev/nvidia{minor}")
        return f", held by {', '.join(map(gpu_processes.shown, holders))}" if holders else ""


def _device(index: int) -> Any:
    return _call("nvmlDeviceGetHandleByIndex", index)


def _instance(gpu: int, instance: int) -> Any:
    return _call("nvmlDeviceGetGpuInstanceById", _device(gpu), instance)


def _profiles(device: Any) -> tuple[Profile, ...]:
    memory = _if_supported("nvmlDeviceGetMemoryInfo", device)
    total = memory.total // 2**20 if memory else None
    return tuple(_profile(device, offered, total) for offered in offered_profiles(device))


def _profile(device: Any, offered: OfferedProfile, total_mib: int | None) -> Profile:
    count = ctypes.c_uint(0)
    try:
        _call(
            "nvmlDeviceGetGpuInstancePossiblePlacements",
            device,
            offered.id,
            None,
            ctypes.byref(count),
        )
    except NvmlCallFailed as e:
        if e.code != pynvml.NVML_ERROR_FUNCTION_NOT_FOUND:
            raise
        why = "this driver does not report placements; partitioning needs R470 or newer"
        raise NvmlCallFailed(e.call, e.code, why) from None
    places = (pynvml.c_nvmlGpuInstancePlacement_t * max(count.value, 1))()
    _call(
        "nvmlDeviceGetGpuInstancePossiblePlacements",
        device,
        offered.id,
        places,
        ctypes.byref(count),
    )
    found = list(places[: count.value])
    return Profile(
        id=offered.id,
        name=name_of_profile(offered, total_mib) or f"profile {offered.id}",
        slices=offered.slices,
        size=found[0].size if found else 0,
        starts=tuple(sorted(place.start for place in found)),
        most=offered.most,
        engines=offered.engines,
    )


def _instances(device: Any, profiles: tuple[Profile, ...]) -> tuple[GpuInstance, ...]:
    found = []
    for profile in profiles:
        handles = (pynvml.c_nvmlGpuInstance_t * max(profile.most, _MOST_INSTANCES))()
        count = ctypes.c_uint()
        _call("nvmlDeviceGetGpuInstances", device, profile.id, handles, ctypes.byref(count))
        for handle in handles[: count.value]:
            info = _call("nvmlGpuInstanceGetInfo", handle)
            offered = _compute_profiles(handle)
            found.append(
                GpuInstance(
                    id=info.id,
                    profile=info.profileId,
                    start=info.placement.start,
                    size=info.placement.size,
                    compute_instances=_computes(handle, offered),
                    offered=offered,
                )
            )
    return tuple(sorted(found, key=lambda i: (i.start, i.profile)))


def _compute_profiles(instance: Any) -> tuple[ComputeProfile, ...]:
    found: dict[int, ComputeProfile] = {}
    for number in range(_COMPUTE_PROFILES):
        try:
            info = _compute_profile_info(instance, number)
        except NvmlCallFailed as e:
            if e.code == pynvml.NVML_ERROR_NOT_SUPPORTED:
                continue
            if e.code == pynvml.NVML_ERROR_INVALID_ARGUMENT:
                break
            raise
        # Of two profiles of the same size the first is the one without media extensions.
        found.setdefault(
            info.sliceCount,
            ComputeProfile(
                id=info.id, slices=info.sliceCount, starts=_compute_starts(instance, info.id)
            ),
        )
    return tuple(found.values())


def _compute_profile_info(instance: Any, number: int) -> Any:
    try:
        return _call("nvmlGpuInstanceGetComputeInstanceProfileInfo", instance, number, 0)
    except NvmlCallFailed as e:
        if e.code not in (
            pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
            pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
        ):
            raise
    return _call("nvmlGpuInstanceGetComputeInstanceProfileInfo", instance, number, 0, 1)


def _compute_starts(instance: Any, profile: int) -> tuple[int, ...] | None:
    count = ctypes.c_uint(0)
    call = "nvmlGpuInstanceGetComputeInstancePossiblePlacements"
    try:
        _call(call, instance, profile, None, ctypes.byref(count))
        places = (pynvml.c_nvmlComputeInstancePlacement_t * max(count.value, 1))()
        _call(call, instance, profile, places, ctypes.byref(count))
    except NvmlCallFailed as e:
        if e.code in _ABSENT:
            return None
        raise
    return tuple(sorted(place.start for place in places[: count.value]))


def _computes(instance: Any, offered: tuple[ComputeProfile, ...]) -> tuple[ComputeInstance, ...]:
    found = []
    for profile in offered:
        handles = (pynvml.c_nvmlComputeInstance_t * _MOST_INSTANCES)()
        count = ctypes.c_uint()
        _call(
            "nvmlGpuInstanceGetComputeInstances", instance, profile.id, handles, ctypes.byref(count)
        )
        infos = [_call("nvmlComputeInstanceGetInfo", handle) for handle in handles[: count.value]]
        found += [
            ComputeInstance(id=info.id, slices=profile.slices, start=info.placement.start)
            for info in infos
        ]
    return tuple(sorted(found, key=lambda c: (c.start or 0, c.id or 0)))


def _processes(device: Any) -> tuple[Process, ...]:
    found = {}
    for newest, before in _PROCESS_CALLS:
        listed = _if_supported(newest, device)
        for process in (_if_supported(before, device) if listed is None else listed) or ():
            instance = getattr(process, "gpuInstanceId", _NOWHERE)
            compute = getattr(process, "computeInstanceId", _NOWHERE)
            found[process.pid, instance, compute] = Process(
                pid=process.pid,
                name=_name_of(process.pid),
                gpu_instance=None if instance in (None, _NOWHERE) else instance,
                compute_instance=None if compute in (None, _NOWHERE) else compute,
            )
    return tuple(found[key] for key in sorted(found))


def _name_of(pid: int) -> str:
    try:
        return text(pynvml.nvmlSystemGetProcessName(pid)) or gpu_processes.name_of(pid)
    except pynvml.NVMLError:
        return gpu_processes.name_of(pid)


def _call(call: str, *arguments: Any) -> Any:
    function: Callable[..., Any] = getattr(pynvml, call)
    try:
        return function(*arguments)
    except pynvml.NVMLError as e:
        raise NvmlCallFailed(call, int(e.value), str(e)) from e


def _if_supported(call: str, *arguments: Any) -> Any | None:
    """None where the driver lacks the call or the GPU the feature; raises other errors."""
    try:
        return _call(call, *arguments)
    except NvmlCallFailed as e:
        if e.code in _ABSENT:
            return None
        raise
