"""Reads every GPU, from loading the driver's library to unloading it.

It uses only read calls. The facts that an unprivileged process may read are enough for a verdict.
Privileged facts (placements, GPU instances without a compute instance) are added if the driver
provides them. Source: nvml.h, "Multi Instance GPU Management".

A call costs microseconds, and a machine with 16 GPUs of seven partitions needs a thousand calls for
everything. So a later look reads only facts that can change while driver, GPU and MIG device stay
the same. `Cache` stores the other facts.
"""

from __future__ import annotations

import ctypes
from ctypes import byref
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from node_agent.nvml import binding, utilization, vitals
from node_agent.nvml.binding import Handle, Nvml, NvmlError, plain
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
from node_agent.nvml.profiles import needs_device_names

# Keyed by the number under which the driver lists a GPU instance profile (nvml.h,
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
# Newer drivers may list more profiles than are named here. The loop ends at the first number that
# the driver refuses.
_MOST_PROFILES = 32
# The driver writes as many GPU instances as a profile allows: at most eight on today's GPUs.
_MOST_INSTANCES = 16
_HOLE = (binding.NOT_FOUND, binding.INVALID_ARGUMENT)


@dataclass(frozen=True)
class _Board:
    """Common facts of equal boards in equal mode: only one of eight GPUs is queried."""

    offered: tuple[OfferedProfile, ...]
    asks_names: bool
    """True if only the names of MIG devices distinguish some profiles."""
    most_devices: int
    """Number of MIG devices that it can have."""
    memory_slices: int | None
    slices: int | None
    """Compute slices of the whole GPU, None if the driver did not list every profile."""


@dataclass(frozen=True)
class _Fixed:
    """Facts of a GPU that are fixed for its UUID and the same driver."""

    model: str
    pci_bus_id: str | None
    board: tuple[int, int] | None
    """Device and subsystem."""


_MigFacts = tuple[bytes, bytes, int, int, bytes]
"""UUID, attributes, ids of GPU instance and compute instance, name."""


_MigDevices = tuple[tuple[_MigFacts, ...], tuple[MigDevice, ...]]
"""The facts of all MIG devices of a GPU, and the devices of a quick look."""


@dataclass
class Cache:
    """Facts from earlier looks of this process that later looks need not read again.

    It has plain values, no driver resources. It is cleared for another driver version, and ends
    with the process (after `worker.LOOKS` looks).
    """

    driver: str | None = None
    gpus: dict[str, _Fixed] = field(default_factory=dict)
    """UUID -> fixed facts."""
    memory_mib: dict[tuple[str, MigMode], int] = field(default_factory=dict)
    boards: dict[Any, _Board] = field(default_factory=dict)
    devices: dict[bytes, _MigDevices] = field(default_factory=dict)
    """UUIDs, attributes and, if they matter, names of all devices of a GPU -> devices. Each look
    reads these keys. A UUID is new with each instance, or consists of the ids of GPU and instances:
    in both cases equal UUIDs have equal ids.
    """
    instances: dict[bytes, tuple[GpuInstance, ...]] = field(default_factory=dict)
    """The driver's data about all GPU instances of a GPU, read by each look -> GPU instances."""
    profiles: dict[str, tuple[OfferedProfile, ...]] = field(default_factory=dict)
    """UUID of a GPU -> offered profiles, beginning with profiles in use at the last look."""
    observed: dict[int, tuple[dict[str, Any], ObservedGpu]] = field(default_factory=dict)
    """Index -> facts of the last look, and the GPU with these facts."""

    def forget(self) -> None:
        for facts in (
            self.gpus,
            self.memory_mib,
            self.boards,
            self.devices,
            self.instances,
            self.profiles,
            self.observed,
        ):
            facts.clear()


def probe(
    *, thorough: bool = False, with_utilization: bool = False, cache: Cache | None = None
) -> Observation:
    """Reads every GPU once.

    thorough: reads all of health, memory in use and processes, which a verdict does not need.
    cache: None reads everything. Never raises for any answer of the driver, but hangs as long as
    the driver: call it in a child process.
    """
    try:
        with binding.opened() as nvml:
            gpus = _Gpus(nvml, cache or Cache(), thorough=thorough)
            return gpus.read(with_utilization=with_utilization)
    except NvmlError as e:
        return Observation(failure=_failure(e))


class _MigBuffers:
    """Buffers for the driver's data about each MIG device of a GPU, reused for every GPU."""

    def __init__(self, most: int) -> None:
        """most: maximum number of MIG devices of a GPU."""
        self._attributes = (binding.DeviceAttributes * most)()
        self._uuids = ((ctypes.c_char * binding.TEXT_BYTES) * most)()
        self._names = ((ctypes.c_char * binding.TEXT_BYTES) * most)()
        self.handles = [Handle() for _ in range(most)]
        self.slots = list(
            zip(
                self.handles,
                map(byref, self.handles),
                map(byref, self._attributes),
                self._uuids,
                self._names,
                strict=True,
            )
        )
        """Per device: its handle, and the buffers for handle, attributes, UUID and name."""

    def written(self, count: int, *, with_names: bool) -> bytes:
        """All data written for `count` devices. Equal facts give equal bytes."""
        texts = count * binding.TEXT_BYTES
        attributes = bytes(self._attributes)[: count * ctypes.sizeof(binding.DeviceAttributes)]
        names = bytes(self._names)[:texts] if with_names else b""
        return attributes + bytes(self._uuids)[:texts] + names

    def device(self, index: int) -> tuple[bytes, bytes]:
        """UUID and attributes of a device."""
        return self._uuids[index].value, bytes(self._attributes[index])


class _InstanceBuffers:
    """Buffers for the driver's data about the GPU instances of a profile."""

    def __init__(self) -> None:
        self.handles = (Handle * _MOST_INSTANCES)()
        self._infos = (binding.GpuInstanceInfo * _MOST_INSTANCES)()
        # Items of an array of handles would be numbers.
        self.slots = [
            (Handle.from_buffer(self.handles, i * ctypes.sizeof(Handle)), byref(self._infos[i]))
            for i in range(_MOST_INSTANCES)
        ]
        """Per instance: its handle, and the buffer for its data."""

    def written(self, count: int) -> bytes:
        """All data written for `count` instances. Equal facts give equal bytes."""
        return bytes(self._infos)[: count * ctypes.sizeof(binding.GpuInstanceInfo)]


# Memory of this process that each look overwrites. It is reused, as its creation takes time.
_mig_buffers = lru_cache(maxsize=4)(_MigBuffers)
_instance_buffers = lru_cache(maxsize=1)(_InstanceBuffers)


class _Gpus:
    """A look. It stores the functions and buffers of calls for every MIG device."""

    def __init__(self, nvml: Nvml, cache: Cache, *, thorough: bool) -> None:
        self._nvml, self._cache, self._thorough = nvml, cache, thorough
        self._buffers = _mig_buffers(0)
        self._instances = _instance_buffers()
        self._text = ctypes.create_string_buffer(binding.TEXT_BYTES)
        self._device = nvml.function("nvmlDeviceGetHandleByIndex_v2")
        self._mig_handle = nvml.function("nvmlDeviceGetMigDeviceHandleByIndex")
        self._mig_attributes = nvml.function("nvmlDeviceGetAttributes_v2")
        self._uuid = nvml.function("nvmlDeviceGetUUID")
        self._name = nvml.function("nvmlDeviceGetName")
        self._instances_of = nvml.function("nvmlDeviceGetGpuInstances")
        self._instance_info = nvml.function("nvmlGpuInstanceGetInfo")
        self._count = ctypes.c_uint()
        self._count_at = byref(self._count)

    def read(self, *, with_utilization: bool) -> Observation:
        nvml, cache = self._nvml, self._cache
        driver = nvml.text("nvmlSystemGetDriverVersion")
        if driver != cache.driver:
            cache.forget()
            cache.driver = driver
        count = nvml.number("nvmlDeviceGetCount_v2")
        cuda = _optional(nvml, "nvmlSystemGetCudaDriverVersion", ctypes.c_int)
        gpus = tuple(self._gpu(index) for index in range(count))
        return Observation(
            driver=driver,
            cuda=f"{cuda.value // 1000}.{cuda.value % 1000 // 10}" if cuda and cuda.value else None,
            gpus=utilization.measure(nvml, gpus) if with_utilization else gpus,
        )

    def _gpu(self, index: int) -> ObservedGpu:
        facts: dict[str, Any] = {"index": index}
        try:
            device = Handle()
            if code := self._device(index, byref(device)):
                raise self._nvml.error("nvmlDeviceGetHandleByIndex_v2", code)
            if code := self._uuid(device, self._text, binding.TEXT_BYTES):
                raise self._nvml.error("nvmlDeviceGetUUID", code)
            uuid = facts["uuid"] = plain(self._text.value)
            fixed = self._cache.gpus.get(uuid) or self._fixed(uuid, device)
            facts["model"], facts["pci_bus_id"] = fixed.model, fixed.pci_bus_id
            mig, facts["mig_pending"] = mig_mode(self._nvml, device)
            facts["mig"] = mig
            facts["memory_mib"] = self._memory_mib(uuid, mig, device)
            if mig != "unsupported":
                board = self._board(fixed.board or uuid, mig, device)
                facts["offered"] = board.offered
                if mig == "enabled":
                    facts["devices"] = self._mig_devices(device, board)
                    facts["gpu_instances"] = self._gpu_instances(uuid, device, board)
                    if facts["gpu_instances"] is not None:
                        facts["memory_slices"] = board.memory_slices
            if self._thorough:
                facts["processes"] = vitals.processes(self._nvml, device)
                health = facts["vitals"] = vitals.read(self._nvml, device, mig=mig == "enabled")
                facts["repairs"] = vitals.repairs(health)
            else:
                facts["repairs"] = vitals.read_repairs(self._nvml, device)
        except NvmlError as e:
            facts["failure"] = _failure(e)
        last = self._cache.observed.get(index)
        if last is None or last[0] != facts:
            last = self._cache.observed[index] = facts, ObservedGpu(**facts)
        return last[1]

    def _fixed(self, uuid: str, device: Handle) -> _Fixed:
        model = self._nvml.text("nvmlDeviceGetName", device)
        pci = _optional(self._nvml, "nvmlDeviceGetPciInfo_v3", binding.PciInfo, device)
        if pci is None:
            return _Fixed(model, None, None)
        fixed = _Fixed(model, plain(pci.busId), (pci.pciDeviceId, pci.pciSubSystemId))
        self._cache.gpus[uuid] = fixed
        return fixed

    def _memory_mib(self, uuid: str, mig: MigMode, device: Handle) -> int | None:
        cached = self._cache.memory_mib.get((uuid, mig))
        if cached is not None:
            return cached
        memory = _optional(self._nvml, "nvmlDeviceGetMemoryInfo", binding.Memory, device)
        if memory is None or not memory.total:
            return None
        mib = self._cache.memory_mib[uuid, mig] = int(memory.total) // 2**20
        return mib

    def _board(self, kind: object, mig: MigMode, device: Handle) -> _Board:
        cached = self._cache.boards.get((kind, mig))
        if cached is not None:
            return cached
        offered, complete = _listed_profiles(self._nvml, device)
        enabled = mig == "enabled"
        board = _Board(
            offered=offered,
            asks_names=needs_device_names(offered),
            most_devices=self._nvml.number("nvmlDeviceGetMaxMigDeviceCount", device)
            if enabled
            else 0,
            memory_slices=_memory_slices(self._nvml, device, offered) if enabled else None,
            slices=max((p.slices for p in offered), default=None) if complete else None,
        )
        if complete:
            self._cache.boards[kind, mig] = board
        return board

    def _mig_devices(self, device: Handle, board: _Board) -> tuple[MigDevice, ...]:
        if len(self._buffers.slots) < board.most_devices:
            self._buffers = _mig_buffers(board.most_devices)
        buffers, count = self._buffers, 0
        for index in range(board.most_devices):
            mig, mig_at, attributes_at, uuid, name = buffers.slots[count]
            if code := self._mig_handle(device, index, mig_at):
                if code in _HOLE:
                    continue
                raise self._nvml.error("nvmlDeviceGetMigDeviceHandleByIndex", code)
            if code := self._mig_attributes(mig, attributes_at):
                raise self._nvml.error("nvmlDeviceGetAttributes_v2", code)
            if code := self._uuid(mig, uuid, binding.TEXT_BYTES):
                raise self._nvml.error("nvmlDeviceGetUUID", code)
            if board.asks_names:
                self._read_name(mig, name)
            count += 1
        key = buffers.written(count, with_names=board.asks_names)
        cached = self._cache.devices.get(key)
        if cached is None:
            facts = tuple(self._mig_facts(index, board) for index in range(count))
            cached = self._cache.devices[key] = (
                facts,
                tuple(_mig_device(*device_facts) for device_facts in facts),
            )
        if not self._thorough:
            return cached[1]
        return tuple(
            _mig_device(
                *facts,
                vitals.memory_used_mib(self._nvml, mig),
                vitals.processes(self._nvml, mig),
            )
            for facts, mig in zip(cached[0], buffers.handles, strict=False)
        )

    def _mig_facts(self, index: int, board: _Board) -> _MigFacts:
        mig, _, _, _, name = self._buffers.slots[index]
        if not board.asks_names:
            self._read_name(mig, name)
        return (
            *self._buffers.device(index),
            self._nvml.number("nvmlDeviceGetGpuInstanceId", mig),
            self._nvml.number("nvmlDeviceGetComputeInstanceId", mig),
            name.value,
        )

    def _read_name(self, mig: Handle, name: ctypes.Array[ctypes.c_char]) -> None:
        """Reads a name, empty if the driver does not provide it."""
        if self._name(mig, name, binding.TEXT_BYTES):
            name.value = b""

    def _gpu_instances(
        self, uuid: str, device: Handle, board: _Board
    ) -> tuple[GpuInstance, ...] | None:
        """The GPU instances, None without privileges."""
        cache = self._cache
        order = cache.profiles.get(uuid, board.offered)
        used: list[OfferedProfile] = []
        slices, written = 0, b""
        for profile in order:
            code = self._instances_of(device, profile.id, self._instances.handles, self._count_at)
            if code == binding.NOT_SUPPORTED:
                continue
            if code:
                return None
            count = self._count.value
            for handle, info_at in self._instances.slots[:count]:
                if self._instance_info(handle, info_at):
                    return None
            if count:
                written += self._instances.written(count)
                used.append(profile)
                slices += count * profile.slices
                # Slices are exclusive to an instance, so there are no instances of other profiles.
                if slices == board.slices:
                    break
        if board.slices is not None and order[: len(used)] != tuple(used):
            cache.profiles[uuid] = (*used, *(p for p in board.offered if p not in used))
        instances = cache.instances.get(written)
        if instances is None:
            instances = cache.instances[written] = _gpu_instances_of(written)
        return instances


# Cached: equal facts give the same object, and creating 112 of them takes a third of a look.
@lru_cache(maxsize=512)
def _mig_device(
    uuid: bytes,
    raw_attributes: bytes,
    gpu_instance: int,
    compute_instance: int,
    name: bytes,
    memory_used_mib: int | None = None,
    processes: tuple[int, ...] | None = None,
) -> MigDevice:
    attributes = binding.DeviceAttributes.from_buffer_copy(raw_attributes)
    return MigDevice(
        uuid=plain(uuid),
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
        name=plain(name),
        memory_used_mib=memory_used_mib,
        processes=processes,
    )


def _place(instance: GpuInstance) -> tuple[int, int]:
    return instance.start, instance.id


def _gpu_instances_of(written: bytes) -> tuple[GpuInstance, ...]:
    count = len(written) // ctypes.sizeof(binding.GpuInstanceInfo)
    infos = (binding.GpuInstanceInfo * count).from_buffer_copy(written)
    instances = [
        GpuInstance(
            id=info.id,
            profile=info.profileId,
            start=info.placement.start,
            size=info.placement.size,
        )
        for info in infos
    ]
    return tuple(sorted(instances, key=_place))


def mig_mode(nvml: Nvml, device: Handle) -> tuple[MigMode, MigMode]:
    """Current and pending MIG mode. Raises NvmlError."""
    current, pending = ctypes.c_uint(), ctypes.c_uint()
    code = nvml.function("nvmlDeviceGetMigMode")(device, byref(current), byref(pending))
    if code in binding.ABSENT:  # a GPU without MIG, or a driver older than MIG
        return "unsupported", "unsupported"
    if code:
        raise nvml.error("nvmlDeviceGetMigMode", code)
    return (
        "enabled" if current.value else "disabled",
        "enabled" if pending.value else "disabled",
    )


def offered_profiles(nvml: Nvml, device: Handle) -> tuple[OfferedProfile, ...]:
    return _listed_profiles(nvml, device)[0]


def _listed_profiles(nvml: Nvml, device: Handle) -> tuple[tuple[OfferedProfile, ...], bool]:
    """The profiles, and whether the list is complete."""
    profiles: list[OfferedProfile] = []
    for number in range(_MOST_PROFILES):
        info, code = _profile_info(nvml, device, number)
        if code == binding.NOT_SUPPORTED:
            continue
        if code:
            # INVALID_ARGUMENT ends the list. After any other error it stays incomplete (old drivers
            # list profiles in MIG mode only): names then come from the attributes, or the profile
            # stays unknown.
            return tuple(profiles), code == binding.INVALID_ARGUMENT
        name = plain(info.name).removeprefix("MIG ") if hasattr(info, "name") else ""
        profiles.append(
            OfferedProfile(
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
        )
    return tuple(profiles), True


def _profile_info(nvml: Nvml, device: Handle, number: int) -> tuple[Any, int]:
    """The profile and the code of the call."""
    info = binding.GpuInstanceProfileInfoV2()
    code = nvml.function("nvmlDeviceGetGpuInstanceProfileInfoV")(device, number, byref(info))
    if code in (binding.FUNCTION_NOT_FOUND, binding.ARGUMENT_VERSION_MISMATCH):
        info = binding.GpuInstanceProfileInfo()
        code = nvml.function("nvmlDeviceGetGpuInstanceProfileInfo")(device, number, byref(info))
    return info, code


def _memory_slices(nvml: Nvml, device: Handle, offered: tuple[OfferedProfile, ...]) -> int | None:
    """The end of the largest profile's last placement, None without privileges."""
    if not offered:
        return None
    largest = max(offered, key=lambda p: (p.slices, p.memory_mib))
    placements = (binding.Placement * _MOST_INSTANCES)()
    count = ctypes.c_uint(_MOST_INSTANCES)
    possible = nvml.function("nvmlDeviceGetGpuInstancePossiblePlacements_v2")
    if possible(device, largest.id, placements, byref(count)):
        return None
    return max((place.start + place.size for place in placements[: count.value]), default=None)


def _optional(nvml: Nvml, symbol: str, kind: type[Any], *arguments: Any) -> Any | None:
    """The value, None without an answer. Only for facts that a verdict does not need."""
    value = kind()
    return None if nvml.function(symbol)(*arguments, byref(value)) else value


def _failure(error: NvmlError) -> Failure:
    return Failure(call=error.call, code=error.code, text=str(error))
