"""The fault "wrong-device" as a Node's machine annotation orders it: its device plugin hands out
another device than the kubelet has asked it for.

Form: the annotation's `fault` {"kind": "wrong-device"}. In place of a partition a container gets
one of another profile, if the node has one, else the whole GPU of the partition, whose programs
find no device while it is in MIG mode. Instead of a whole GPU it gets the next one of the node.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.cluster.kubelet.deviceplugin.plugins import Allocation
from slicewright.rehearsal.cluster.node.machine import ANNOTATION
from slicewright.rehearsal.cluster.silicon import device_nodes
from slicewright.rehearsal.cluster.silicon.node_silicon import Gpu, NodeSilicon


def is_ordered(node: JsonObject) -> bool:
    """True if the node's machine annotation orders the fault."""
    text = (node["metadata"].get("annotations") or {}).get(ANNOTATION)
    try:
        return bool(text and json.loads(text)["fault"]["kind"] == "wrong-device")
    except (ValueError, TypeError, KeyError):
        return False  # an unreadable annotation is reported where the node is built


def mistake(allocation: Allocation, silicon: NodeSilicon) -> Allocation:
    """The allocation of another device, in the form that the plugin answers."""
    swaps = _swaps(silicon)

    def swapped(text: str) -> str:
        for uuid, other in swaps.items():
            if uuid in text:
                return text.replace(uuid, other)
        return text

    return replace(
        allocation,
        env={name: swapped(value) for name, value in allocation.env.items()},
        mounts=tuple(
            (swapped(target), source, read_only) for target, source, read_only in allocation.mounts
        ),
        cdi_devices=frozenset(map(swapped, allocation.cdi_devices)),
        device_files=_swapped_files(allocation.device_files, silicon, swaps),
    )


def _swaps(silicon: NodeSilicon) -> Mapping[str, str]:
    """UUID of a device -> UUID of the wrong one."""
    swaps = {
        gpu.uuid: silicon.gpus[(gpu.index + 1) % len(silicon.gpus)].uuid for gpu in silicon.gpus
    }
    partitions = [(gpu, profile, uuid) for gpu in silicon.gpus for profile, uuid in _of(gpu)]
    for gpu, profile, uuid in partitions:
        others = (other for _, name, other in partitions if name != profile)
        swaps[uuid] = next(others, gpu.uuid)
    return swaps


def _of(gpu: Gpu) -> Iterator[tuple[str, str]]:
    """Profile and UUID of each partition."""
    for gi in gpu.instances:
        for ci in gi.compute_instances:
            yield gi.profile, ci.uuid


def _swapped_files(
    files: frozenset[str], silicon: NodeSilicon, swaps: Mapping[str, str]
) -> frozenset[str]:
    nodes = _nodes(silicon)
    for uuid, own in nodes.items():
        if own <= files and (other := swaps[uuid]) in nodes:
            return (files - own) | nodes[other]
    return files


def _nodes(silicon: NodeSilicon) -> Mapping[str, frozenset[str]]:
    """UUID -> paths of the device's nodes; those of partitions first, which have their GPU's."""
    partitions = {
        ci.uuid: device_nodes.mig_device_nodes(silicon, gpu, gi, ci) | {device_nodes.gpu_node(gpu)}
        for gpu in silicon.gpus
        for gi in gpu.instances
        for ci in gi.compute_instances
    }
    whole = {gpu.uuid: frozenset({device_nodes.gpu_node(gpu)}) for gpu in silicon.gpus}
    return {
        uuid: frozenset(f"/dev/{name}" for name in names)
        for uuid, names in {**partitions, **whole}.items()
    }
