"""The NVML calls that read and change the MIG state of GPUs, for `apply` and `clear`. Needs root.

Clusters do not use it: mig-manager or the cloud partitions their GPUs. Source: nvml.h, "Multi
Instance GPU Management".
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import byref
from typing import Any

from slicewright.node_agent.host import gpu_processes
from slicewright.node_agent.host.mig_state import (
    ComputeInstance,
    ComputeProfile,
    Gpu,
    GpuInstance,
    Process,
    Profile,
)
from slicewright.node_agent.host.transaction import NvmlCallFailed
from slicewright.node_agent.nvml import binding, vitals
from slicewright.node_agent.nvml.binding import ABSENT, Handle, Nvml, NvmlError
from slicewright.node_agent.nvml.mig.queries import read_mig_mode, read_offered_profiles
from slicewright.node_agent.nvml.observed import OfferedProfile
from slicewright.node_agent.nvml.profiles import name_of_profile

_NOWHERE = 0xFFFFFFFF
"""NVML's instance id of a process in no GPU instance, or in a hidden GPU instance."""
_MOST_INSTANCES = 16
_COMPUTE_PROFILES = 16
_PROCESS_CALLS = tuple(
    (f"nvmlDeviceGet{kind}RunningProcesses_v3", f"nvmlDeviceGet{kind}RunningProcesses_v2")
    for kind in ("Compute", "Graphics", "MPSCompute")
)
_PROCESS_NAME_BYTES = 1024
_COUNT = "nvmlDeviceGetCount_v2"
_POSSIBLE_PLACEMENTS = "nvmlDeviceGetGpuInstancePossiblePlacements_v2"
_POSSIBLE_COMPUTE_PLACEMENTS = "nvmlGpuInstanceGetComputeInstancePossiblePlacements"
_SHARED_ENGINES = 0
"""NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED."""


@contextmanager
def opened() -> Iterator[NvmlPartitioner]:
    """Opens NVML. Raises NvmlCallFailed if the driver cannot be reached."""
    with _nvml_errors(), binding.opened() as nvml:
        yield NvmlPartitioner(nvml)


@contextmanager
def _nvml_errors() -> Iterator[None]:
    """Converts NvmlError into NvmlCallFailed."""
    try:
        yield
    except NvmlError as e:
        raise NvmlCallFailed(e.call, e.code, str(e)) from e


class NvmlPartitioner:
    """`transaction.GpuPartitioner` through NVML.

    Instance handles are looked up for every call: any change makes them stale.
    """

    def __init__(self, nvml: Nvml) -> None:
        self._nvml = nvml

    @_nvml_errors()
    def read(self) -> tuple[Gpu, ...]:
        return tuple(self._gpu(index) for index in range(self._nvml.number(_COUNT)))

    @_nvml_errors()
    def set_mig_mode(self, gpu: int, *, on: bool) -> str | None:
        device = self._nvml.device(gpu)
        activation = self._nvml.number("nvmlDeviceSetMigMode", device, int(on))
        if activation == binding.SUCCESS:
            return None
        why = self._nvml.text_of(activation)
        if activation == binding.RESET_REQUIRED:
            return why
        # A pending mode would be changed unexpectedly by a later reset.
        raise NvmlCallFailed(
            "nvmlDeviceSetMigMode", activation, f"GPU {gpu}: {why}{self._holders(gpu)}"
        )

    @_nvml_errors()
    def create_gpu_instance(self, gpu: int, instance: GpuInstance) -> int:
        placement = binding.Placement(instance.start, instance.size)
        handle = self._nvml.read(
            "nvmlDeviceCreateGpuInstanceWithPlacement",
            Handle,
            self._nvml.device(gpu),
            instance.profile,
            byref(placement),
        )
        return int(_instance_info(self._nvml, handle).id)

    @_nvml_errors()
    def compute_profiles(self, gpu: int, instance: int) -> tuple[ComputeProfile, ...]:
        return _compute_profiles(self._nvml, self._instance(gpu, instance))

    @_nvml_errors()
    def create_compute_instance(
        self, gpu: int, instance: int, profile: int, compute: ComputeInstance
    ) -> None:
        handle = self._instance(gpu, instance)
        if compute.start is not None:
            placement = binding.Placement(compute.start, compute.slices)
            placed = "nvmlGpuInstanceCreateComputeInstanceWithPlacement"
            try:
                self._nvml.read(placed, Handle, handle, profile, byref(placement))
                return
            except NvmlError as e:
                if e.code != binding.FUNCTION_NOT_FOUND:
                    raise
        self._nvml.read("nvmlGpuInstanceCreateComputeInstance", Handle, handle, profile)

    @_nvml_errors()
    def destroy_compute_instance(self, gpu: int, instance: int, compute: int) -> None:
        handle = self._nvml.read(
            "nvmlGpuInstanceGetComputeInstanceById", Handle, self._instance(gpu, instance), compute
        )
        self._nvml.call("nvmlComputeInstanceDestroy", handle)

    @_nvml_errors()
    def destroy_gpu_instance(self, gpu: int, instance: int) -> None:
        self._nvml.call("nvmlGpuInstanceDestroy", self._instance(gpu, instance))

    def _instance(self, gpu: int, instance: int) -> Handle:
        handle: Handle = self._nvml.read(
            "nvmlDeviceGetGpuInstanceById", Handle, self._nvml.device(gpu), instance
        )
        return handle

    def _gpu(self, index: int) -> Gpu:
        facts: dict[str, Any] = {
            "index": index,
            "uuid": "",
            "model": "?",
            "minor": None,
            "mig": None,
            "pending": False,
        }
        nvml = self._nvml
        try:
            device = nvml.device(index)
            facts["uuid"] = nvml.text("nvmlDeviceGetUUID", device)
            facts["model"] = nvml.text("nvmlDeviceGetName", device)
            facts["minor"] = _if_supported(nvml, "nvmlDeviceGetMinorNumber", device)
            persistence = _if_supported(nvml, "nvmlDeviceGetPersistenceMode", device)
            facts["persistent"] = persistence != 0
            mig, pending = read_mig_mode(nvml, device)
            if mig != "unsupported":
                facts["mig"], facts["pending"] = mig == "enabled", pending == "enabled"
                facts["offered"] = _profiles(nvml, device)
                facts["instances"] = (
                    _instances(nvml, device, facts["offered"]) if facts["mig"] else ()
                )
            facts["processes"] = _processes(nvml, device)
        except NvmlError as e:
            facts["failure"], facts["code"] = f"{e.call}: {e}", e.code
        return Gpu(**{"offered": (), "instances": (), "processes": (), **facts})

    def _holders(self, gpu: int) -> str:
        try:
            device = self._nvml.device(gpu)
            minor = _if_supported(self._nvml, "nvmlDeviceGetMinorNumber", device)
        except NvmlError:
            return ""
        holders = [] if minor is None else gpu_processes.file_holders(f"/dev/nvidia{minor}")
        return f", held by {', '.join(map(gpu_processes.describe, holders))}" if holders else ""


def _profiles(nvml: Nvml, device: Handle) -> tuple[Profile, ...]:
    try:
        memory = nvml.read("nvmlDeviceGetMemoryInfo", binding.Memory, device)
        total = memory.total // 2**20
    except NvmlError as e:
        if e.code not in ABSENT:
            raise
        total = None
    return tuple(
        _profile(nvml, device, offered, total) for offered in read_offered_profiles(nvml, device)
    )


def _profile(nvml: Nvml, device: Handle, offered: OfferedProfile, total_mib: int | None) -> Profile:
    try:
        placements = _placements(nvml, _POSSIBLE_PLACEMENTS, device, offered.id)
    except NvmlError as e:
        if e.code != binding.FUNCTION_NOT_FOUND:
            raise
        why = "this driver does not report placements; partitioning needs R470 or newer"
        raise NvmlError(e.call, e.code, why) from None
    return Profile(
        id=offered.id,
        name=name_of_profile(offered, total_mib) or f"profile {offered.id}",
        slices=offered.slices,
        size=placements[0].size if placements else 0,
        starts=tuple(sorted(placement.start for placement in placements)),
        most=offered.most,
        engines=offered.engines,
    )


def _placements(nvml: Nvml, symbol: str, parent: Handle, profile: int) -> list[binding.Placement]:
    """The possible placements of an instance of a profile. Raises NvmlError."""
    count = ctypes.c_uint(0)
    nvml.call(symbol, parent, profile, None, byref(count))
    placements = (binding.Placement * max(count.value, 1))()
    nvml.call(symbol, parent, profile, placements, byref(count))
    return list(placements[: count.value])


def _handles(nvml: Nvml, symbol: str, parent: Handle, profile: int, most: int) -> list[Handle]:
    """The instances of a profile. Raises NvmlError."""
    handles, count = (Handle * most)(), ctypes.c_uint()
    nvml.call(symbol, parent, profile, handles, byref(count))
    return [Handle(handle) for handle in handles[: count.value]]


def _instance_info(nvml: Nvml, instance: Handle) -> Any:
    return nvml.read("nvmlGpuInstanceGetInfo", binding.GpuInstanceInfo, instance)


def _instances(
    nvml: Nvml, device: Handle, profiles: tuple[Profile, ...]
) -> tuple[GpuInstance, ...]:
    instances = []
    for profile in profiles:
        most = max(profile.most, _MOST_INSTANCES)
        for handle in _handles(nvml, "nvmlDeviceGetGpuInstances", device, profile.id, most):
            info = _instance_info(nvml, handle)
            offered = _compute_profiles(nvml, handle)
            instances.append(
                GpuInstance(
                    id=info.id,
                    profile=info.profileId,
                    start=info.placement.start,
                    size=info.placement.size,
                    compute_instances=_computes(nvml, handle, offered),
                    offered=offered,
                )
            )
    return tuple(sorted(instances, key=lambda i: (i.start, i.profile)))


def _compute_profiles(nvml: Nvml, instance: Handle) -> tuple[ComputeProfile, ...]:
    by_slices: dict[int, ComputeProfile] = {}
    for number in range(_COMPUTE_PROFILES):
        try:
            info = _compute_profile_info(nvml, instance, number)
        except NvmlError as e:
            if e.code == binding.NOT_SUPPORTED:
                continue
            if e.code == binding.INVALID_ARGUMENT:
                break
            raise
        # The first of two profiles with the same size has no media extensions.
        by_slices.setdefault(
            info.sliceCount,
            ComputeProfile(
                id=info.id, slices=info.sliceCount, starts=_compute_starts(nvml, instance, info.id)
            ),
        )
    return tuple(by_slices.values())


def _compute_profile_info(nvml: Nvml, instance: Handle, number: int) -> Any:
    arguments = (instance, number, _SHARED_ENGINES)
    info = binding.ComputeInstanceProfileInfoV2()
    try:
        nvml.call("nvmlGpuInstanceGetComputeInstanceProfileInfoV", *arguments, byref(info))
        return info
    except NvmlError as e:
        if e.code not in (binding.FUNCTION_NOT_FOUND, binding.ARGUMENT_VERSION_MISMATCH):
            raise
    older = "nvmlGpuInstanceGetComputeInstanceProfileInfo"
    return nvml.read(older, binding.ComputeInstanceProfileInfo, *arguments)


def _compute_starts(nvml: Nvml, instance: Handle, profile: int) -> tuple[int, ...] | None:
    try:
        placements = _placements(nvml, _POSSIBLE_COMPUTE_PLACEMENTS, instance, profile)
    except NvmlError as e:
        if e.code in ABSENT:
            return None
        raise
    return tuple(sorted(placement.start for placement in placements))


def _computes(
    nvml: Nvml, instance: Handle, offered: tuple[ComputeProfile, ...]
) -> tuple[ComputeInstance, ...]:
    computes = []
    symbol = "nvmlGpuInstanceGetComputeInstances"
    for profile in offered:
        for handle in _handles(nvml, symbol, instance, profile.id, _MOST_INSTANCES):
            info = nvml.read("nvmlComputeInstanceGetInfo_v2", binding.ComputeInstanceInfo, handle)
            computes.append(
                ComputeInstance(id=info.id, slices=profile.slices, start=info.placement.start)
            )
    return tuple(sorted(computes, key=lambda c: (c.start or 0, c.id or 0)))


def _processes(nvml: Nvml, device: Handle) -> tuple[Process, ...]:
    processes = {}
    for newest, before in _PROCESS_CALLS:
        for process in _list_processes(nvml, newest, before, device):
            instance, compute = process.gpuInstanceId, process.computeInstanceId
            processes[process.pid, instance, compute] = Process(
                pid=process.pid,
                name=_name_of(nvml, process.pid),
                gpu_instance=None if instance == _NOWHERE else instance,
                compute_instance=None if compute == _NOWHERE else compute,
            )
    return tuple(processes[key] for key in sorted(processes))


def _list_processes(
    nvml: Nvml, newest: str, before: str, device: Handle
) -> list[binding.ProcessInfo]:
    for symbol in (newest, before):
        try:
            return vitals.list_processes(nvml, symbol, device)
        except NvmlError as e:
            if e.code not in ABSENT:
                raise
    return []


def _name_of(nvml: Nvml, pid: int) -> str:
    try:
        name = nvml.text("nvmlSystemGetProcessName", pid, size=_PROCESS_NAME_BYTES)
    except NvmlError:
        name = ""
    return name or gpu_processes.name_of(pid)


def _if_supported(nvml: Nvml, symbol: str, *arguments: Any) -> int | None:
    """The number, None if the driver lacks the call or the GPU the feature. Raises other errors."""
    try:
        return nvml.number(symbol, *arguments)
    except NvmlError as e:
        if e.code in ABSENT:
            return None
        raise
