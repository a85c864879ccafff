"""The device nodes of NVIDIA's driver: which a machine has, by the state of its GPUs.

Names are relative to /dev. Source: NVIDIA MIG user guide, "Device nodes and capabilities"; the
numbering of minors is the driver's own and differs between machines, so programs read it from
/proc/driver/nvidia-caps/mig-minors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType

from slicewright.rehearsal.cluster.silicon.node_silicon import (
    ComputeInstance,
    Gpu,
    GpuInstance,
    NodeSilicon,
)

VARIABLE = "SLICEWRIGHT_FAKE_NVML_DEV"
"""Tells the library which directory is /dev to a process; unset, every node can be opened."""
UVM = frozenset({"nvidia-uvm", "nvidia-uvm-tools"})
"""CUDA's memory manager; NVML does without it."""
CONTROL = frozenset({"nvidiactl"}) | UVM
_CONFIG, _MONITOR = "config", "monitor"
_GPU_INSTANCE_IDS, _COMPUTE_INSTANCE_IDS = range(15), range(8)
"""Ids that the driver can give; it has a minor for each, whether the instance exists or not."""


def mig_minors(silicon: NodeSilicon) -> Mapping[str, int]:
    """Path in /proc/driver/nvidia/capabilities -> minor of its nvidia-cap node, in order."""
    return _minors(tuple(gpu.minor for gpu in silicon.gpus if gpu.model.mig != "none"))


@cache
def _minors(mig_capable: tuple[int, ...]) -> Mapping[str, int]:
    """Some thousand entries, asked for with every MIG device of every container that starts."""
    return MappingProxyType(
        {name: minor for minor, name in enumerate(_capabilities(mig_capable), start=1)}
    )


def _capabilities(mig_capable: tuple[int, ...]) -> Iterator[str]:
    yield from (_CONFIG, _MONITOR)
    for gpu in mig_capable:
        for gi in _GPU_INSTANCE_IDS:
            yield f"gpu{gpu}/gi{gi}/access"
            yield from (f"gpu{gpu}/gi{gi}/ci{ci}/access" for ci in _COMPUTE_INSTANCE_IDS)


def gpu_node(gpu: Gpu) -> str:
    return f"nvidia{gpu.minor}"


def config_node(silicon: NodeSilicon) -> str:
    return _capability(mig_minors(silicon)[_CONFIG])


def monitor_node(silicon: NodeSilicon) -> str:
    return _capability(mig_minors(silicon)[_MONITOR])


def mig_device_nodes(
    silicon: NodeSilicon, gpu: Gpu, gi: GpuInstance, ci: ComputeInstance
) -> frozenset[str]:
    """The two capabilities that a MIG device needs, beside the node of its GPU."""
    minors = mig_minors(silicon)
    owner = f"gpu{gpu.minor}/gi{gi.id}"
    return frozenset(
        _capability(minors[name]) for name in (f"{owner}/access", f"{owner}/ci{ci.id}/access")
    )


def existing(silicon: NodeSilicon) -> frozenset[str]:
    """Every node in the machine's own /dev now."""
    found = set(CONTROL)
    if any(gpu.model.mig != "none" for gpu in silicon.gpus):
        found |= {config_node(silicon), monitor_node(silicon)}
    for gpu in silicon.gpus:
        found.add(gpu_node(gpu))
        for gi in gpu.instances:
            found.add(_capability(mig_minors(silicon)[f"gpu{gpu.minor}/gi{gi.id}/access"]))
            for ci in gi.compute_instances:
                found |= mig_device_nodes(silicon, gpu, gi, ci)
    return frozenset(found)


def _capability(minor: int) -> str:
    return f"nvidia-caps/nvidia-cap{minor}"
