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
from typing import Any

from slicewright.node_agent.nvml import binding, usability, utilization, vitals
from slicewright.node_agent.nvml.binding import Handle, Nvml, NvmlError, plain
from slicewright.node_agent.nvml.buffers import instance_buffers, mig_buffers
from slicewright.node_agent.nvml.cache import Board, Cache, FixedFacts, MigFacts
from slicewright.node_agent.nvml.mig.queries import list_profiles, read_memory_slices, read_mig_mode
from slicewright.node_agent.nvml.mig.structures import gpu_instances_of, mig_device
from slicewright.node_agent.nvml.observed import (
    Failure,
    GpuInstance,
    MigDevice,
    MigMode,
    Observation,
    ObservedGpu,
    OfferedProfile,
)
from slicewright.node_agent.nvml.profiles import needs_device_names

_HOLE = (binding.NOT_FOUND, binding.INVALID_ARGUMENT)


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
            look = _Look(nvml, cache or Cache(), thorough=thorough)
            return look.read(with_utilization=with_utilization)
    except NvmlError as e:
        return Observation(failure=_failure(e))


class _Look:
    """One reading of all GPUs. It keeps the functions and buffers of calls for MIG devices."""

    def __init__(self, nvml: Nvml, cache: Cache, *, thorough: bool) -> None:
        self._nvml, self._cache, self._thorough = nvml, cache, thorough
        self._buffers = mig_buffers(0)
        self._instances = instance_buffers()
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
        cuda = nvml.read_or_none("nvmlSystemGetCudaDriverVersion", ctypes.c_int)
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
            mig, facts["mig_pending"] = read_mig_mode(self._nvml, device)
            facts["mig"] = mig
            facts["memory_mib"] = self._memory_mib(uuid, mig, device)
            if mig != "unsupported":
                board = self._board(fixed.board or uuid, mig, device)
                facts["offered"] = board.offered
                if mig == "enabled":
                    self._read_partitions(facts, uuid, device, board)
            facts["compute_mode"] = usability.read_compute_mode(self._nvml, device, mig)
            facts["fabric"] = usability.read_fabric(self._nvml, device)
            self._read_health(facts, device, mig)
        except NvmlError as e:
            facts["failure"] = _failure(e)
        last = self._cache.observed.get(index)
        if last is None or last[0] != facts:
            last = self._cache.observed[index] = facts, ObservedGpu(**facts)
        return last[1]

    def _read_partitions(
        self, facts: dict[str, Any], uuid: str, device: Handle, board: Board
    ) -> None:
        facts["devices"] = self._mig_devices(device, board)
        instances = facts["gpu_instances"] = self._gpu_instances(uuid, device, board)
        if instances is not None:
            facts["memory_slices"] = board.memory_slices

    def _read_health(self, facts: dict[str, Any], device: Handle, mig: MigMode) -> None:
        if self._thorough:
            facts["processes"] = vitals.processes(self._nvml, device)
            health = facts["vitals"] = vitals.read(self._nvml, device, mig=mig == "enabled")
            facts["repairs"] = vitals.repairs(health)
        else:
            facts["repairs"] = vitals.read_repairs(self._nvml, device)

    def _fixed(self, uuid: str, device: Handle) -> FixedFacts:
        model = self._nvml.text("nvmlDeviceGetName", device)
        pci = self._nvml.read_or_none("nvmlDeviceGetPciInfo_v3", binding.PciInfo, device)
        if pci is None:
            return FixedFacts(model, None, None)
        fixed = FixedFacts(model, plain(pci.busId), (pci.pciDeviceId, pci.pciSubSystemId))
        self._cache.gpus[uuid] = fixed
        return fixed

    def _memory_mib(self, uuid: str, mig: MigMode, device: Handle) -> int | None:
        cached = self._cache.memory_mib.get((uuid, mig))
        if cached is not None:
            return cached
        memory = self._nvml.read_or_none("nvmlDeviceGetMemoryInfo", binding.Memory, device)
        if memory is None or not memory.total:
            return None
        mib = self._cache.memory_mib[uuid, mig] = int(memory.total) // 2**20
        return mib

    def _board(self, kind: object, mig: MigMode, device: Handle) -> Board:
        cached = self._cache.boards.get((kind, mig))
        if cached is not None:
            return cached
        offered, complete = list_profiles(self._nvml, device)
        enabled = mig == "enabled"
        board = Board(
            offered=offered,
            needs_names=needs_device_names(offered),
            most_devices=self._nvml.number("nvmlDeviceGetMaxMigDeviceCount", device)
            if enabled
            else 0,
            memory_slices=read_memory_slices(self._nvml, device, offered) if enabled else None,
            slices=max((p.slices for p in offered), default=None) if complete else None,
        )
        if complete:
            self._cache.boards[kind, mig] = board
        return board

    def _mig_devices(self, device: Handle, board: Board) -> tuple[MigDevice, ...]:
        count = self._fill_buffers(device, board)
        key = self._buffers.written(count, with_names=board.needs_names)
        cached = self._cache.devices.get(key)
        if cached is None:
            facts = tuple(self._mig_facts(index, board) for index in range(count))
            cached = self._cache.devices[key] = (
                facts,
                tuple(mig_device(*device_facts) for device_facts in facts),
            )
        if not self._thorough:
            return cached[1]
        return tuple(
            mig_device(
                *facts,
                vitals.memory_used_mib(self._nvml, mig),
                vitals.processes(self._nvml, mig),
            )
            for facts, mig in zip(cached[0], self._buffers.handles, strict=False)
        )

    def _fill_buffers(self, device: Handle, board: Board) -> int:
        """Reads the facts of all MIG devices that identify them, and returns their number."""
        if len(self._buffers.slots) < board.most_devices:
            self._buffers = mig_buffers(board.most_devices)
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
            if board.needs_names:
                self._read_name(mig, name)
            count += 1
        return count

    def _mig_facts(self, index: int, board: Board) -> MigFacts:
        mig, _, _, _, name = self._buffers.slots[index]
        if not board.needs_names:
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
        self, uuid: str, device: Handle, board: Board
    ) -> tuple[GpuInstance, ...] | None:
        """The GPU instances, None without privileges."""
        order = self._cache.profiles.get(uuid, board.offered)
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
            self._cache.profiles[uuid] = (*used, *(p for p in board.offered if p not in used))
        return self._instances_in(written)

    def _instances_in(self, written: bytes) -> tuple[GpuInstance, ...]:
        instances = self._cache.instances.get(written)
        if instances is None:
            instances = self._cache.instances[written] = gpu_instances_of(written)
        return instances


def _failure(error: NvmlError) -> Failure:
    return Failure(call=error.call, code=error.code, text=str(error))
