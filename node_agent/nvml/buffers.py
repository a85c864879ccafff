"""Memory that the driver writes its data about MIG devices and GPU instances to.

Each look overwrites it. It is reused, as its creation takes time.
"""

from __future__ import annotations

import ctypes
from ctypes import byref
from functools import lru_cache

from slicewright.node_agent.nvml import binding
from slicewright.node_agent.nvml.binding import Handle

# The driver writes as many GPU instances as a profile allows: at most eight on today's GPUs.
MOST_INSTANCES = 16


class MigBuffers:
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


class InstanceBuffers:
    """Buffers for the driver's data about the GPU instances of a profile."""

    def __init__(self) -> None:
        self.handles = (Handle * MOST_INSTANCES)()
        self._infos = (binding.GpuInstanceInfo * MOST_INSTANCES)()
        # Items of an array of handles would be numbers.
        self.slots = [
            (Handle.from_buffer(self.handles, i * ctypes.sizeof(Handle)), byref(self._infos[i]))
            for i in range(MOST_INSTANCES)
        ]
        """Per instance: its handle, and the buffer for its data."""

    def written(self, count: int) -> bytes:
        """All data written for `count` instances. Equal facts give equal bytes."""
        return bytes(self._infos)[: count * ctypes.sizeof(binding.GpuInstanceInfo)]


mig_buffers = lru_cache(maxsize=4)(MigBuffers)


instance_buffers = lru_cache(maxsize=1)(InstanceBuffers)
