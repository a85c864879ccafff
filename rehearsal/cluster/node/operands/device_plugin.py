"""nvidia-device-plugin: the devices that it registers with the kubelet.

Source: NVIDIA/k8s-device-plugin v0.19.0, internal/rm/device_map.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from slicewright.rehearsal.cluster.node.operands.sharing import Sharing
from slicewright.rehearsal.cluster.silicon.node_silicon import GpuInstance, NodeSilicon

GPU: Final = "nvidia.com/gpu"


class Refused(Exception):
    """The plugin ends with this message instead of registering anything."""


def devices(node: NodeSilicon, strategy: str, sharing: Sharing) -> Mapping[str, tuple[str, ...]]:
    """Device ids by resource. Raises Refused.

    strategy: none, single or mixed, as MIG_STRATEGY has it.
    """
    if strategy == "single":
        _require_uniform(node)
    found: dict[str, list[str]] = {}
    for resource, device in _exclusive(node, strategy):
        shared = sharing.get(resource)
        if shared is None:
            found.setdefault(resource, []).append(device)
        else:
            copies = (f"{device}::{number}" for number in range(shared.replicas))
            found.setdefault(shared.advertised, []).extend(copies)
    return {resource: tuple(ids) for resource, ids in found.items()}


def _exclusive(node: NodeSilicon, strategy: str) -> Iterator[tuple[str, str]]:
    """(resource, device id) of every device without sharing."""
    for gpu in node.gpus:
        if strategy == "none" or not gpu.mig:
            yield GPU, gpu.uuid
            continue
        for instance in gpu.instances:
            for compute in instance.compute_instances:
                named = f"nvidia.com/mig-{_named(instance)}"
                yield (GPU if strategy == "single" else named), compute.uuid


def _named(instance: GpuInstance) -> str:
    """Without attributes such as `+me`, and for smaller compute instances, as 1c.3g.40gb, too: the
    plugin matches names by an unanchored pattern.
    """
    return instance.profile.partition("+")[0]


def _require_uniform(node: NodeSilicon) -> None:
    partitioned = [gpu for gpu in node.gpus if gpu.mig]
    for gpu in partitioned:
        if not gpu.profiles:
            raise Refused(f"device {gpu.index} has no MIG devices configured")
    if len({profile for gpu in partitioned for profile in gpu.profiles}) > 1:
        raise Refused("more than one MIG device type present on node")
    if 0 < len(partitioned) < len(node.gpus):
        raise Refused("all devices on the node must be configured with the same migEnabled value")
