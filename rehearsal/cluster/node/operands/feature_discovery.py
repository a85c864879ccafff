"""gpu-feature-discovery: the labels that it derives, but for its timestamp.

Source: NVIDIA/k8s-device-plugin v0.19.0, internal/lm.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from slicewright.rehearsal.cluster.node.operands.sharing import Sharing
from slicewright.rehearsal.cluster.silicon.models import Model
from slicewright.rehearsal.cluster.silicon.node_silicon import (
    ComputeInstance,
    GpuInstance,
    NodeSilicon,
)

_GPU: Final = "nvidia.com/gpu"
_FAMILIES: Final[Mapping[int, str]] = {7: "turing", 8: "ampere", 9: "hopper", 10: "blackwell"}
_LATER: Final[Mapping[tuple[int, int], str]] = {(8, 9): "ada-lovelace", (7, 0): "volta"}


def labels(
    node: NodeSilicon, strategy: str, sharing: Sharing, *, machine: str
) -> Mapping[str, str]:
    """strategy: none, single or mixed. machine: the product name in the machine's firmware."""
    found = {
        f"{_GPU}.machine": _sanitised(machine),
        "nvidia.com/mig.capable": _said(any(gpu.model.mig != "none" for gpu in node.gpus)),
        "nvidia.com/mps.capable": "false",
        "nvidia.com/vgpu.present": "false",
        f"{_GPU}.mode": "compute",
        **_versions(node),
        **_whole(node, sharing),
    }
    match strategy:
        case "none":
            return found
        case "single":
            found |= _single(node, sharing)
        case _:
            found |= _mixed(node, sharing)
    return {**found, "nvidia.com/mig.strategy": strategy}


def _versions(node: NodeSilicon) -> dict[str, str]:
    """Each twice: the older names are still written."""
    major, minor, *rest = node.driver_version.split(".")
    revision = rest[0] if rest else ""
    cuda_major, cuda_minor = str(node.cuda // 1000), str(node.cuda % 1000 // 10)
    found = {
        "driver-version.major": major,
        "driver-version.minor": minor,
        "driver-version.revision": revision,
        "driver-version.full": node.driver_version,
        "driver.major": major,
        "driver.minor": minor,
        "driver.rev": revision,
        "runtime-version.major": cuda_major,
        "runtime-version.minor": cuda_minor,
        "runtime-version.full": f"{cuda_major}.{cuda_minor}",
        "runtime.major": cuda_major,
        "runtime.minor": cuda_minor,
    }
    return {f"nvidia.com/cuda.{name}": value for name, value in found.items()}


def _whole(node: NodeSilicon, sharing: Sharing) -> dict[str, str]:
    """Of the GPUs as such. Where all are in MIG mode they have no sharing, and 0 replicas."""
    model = node.gpus[0].model
    all_partitioned = all(gpu.mig for gpu in node.gpus)
    major, minor = model.compute_capability
    base = (
        _resource(_GPU, len(node.gpus), (model.name,), {}, replicas=0)
        if all_partitioned
        else _resource(_GPU, len(node.gpus), (model.name,), sharing)
    )
    return {
        **base,
        f"{_GPU}.memory": str(model.memory_mib),
        f"{_GPU}.family": _LATER.get((major, minor)) or _FAMILIES.get(major, "blackwell"),
        f"{_GPU}.compute.major": str(major),
        f"{_GPU}.compute.minor": str(minor),
    }


def _single(node: NodeSilicon, sharing: Sharing) -> dict[str, str]:
    partitioned = [gpu for gpu in node.gpus if gpu.mig]
    if not partitioned:
        return {}
    kinds = Counter(profile for gpu in node.gpus for profile in gpu.profiles)
    is_uniform = len(kinds) == 1 and len(partitioned) == len(node.gpus)
    if not is_uniform or not all(gpu.profiles for gpu in partitioned):
        return {
            f"{_GPU}.product": f"{_sanitised(partitioned[0].model.name)}-MIG-INVALID",
            f"{_GPU}.count": "0",
            f"{_GPU}.replicas": "0",
            f"{_GPU}.sharing-strategy": "",
            f"{_GPU}.memory": "0",
        }
    model, instance, compute = next(_devices(node))
    return _mig(_GPU, kinds.total(), model, instance, compute, sharing)


def _mixed(node: NodeSilicon, sharing: Sharing) -> dict[str, str]:
    counts = Counter(_name(instance, compute) for _, instance, compute in _devices(node))
    found: dict[str, str] = {}
    for model, instance, compute in _devices(node):
        name = _name(instance, compute)
        resource = f"nvidia.com/mig-{name}"
        if f"{resource}.count" not in found:
            found |= _mig(resource, counts[name], model, instance, compute, sharing)
    return found


def _mig(
    resource: str,
    count: int,
    model: Model,
    instance: GpuInstance,
    compute: ComputeInstance,
    sharing: Sharing,
) -> dict[str, str]:
    slice_ = instance.slice
    attributes = {
        "memory": slice_.memory_mib,
        "multiprocessors": _multiprocessors(model, instance, compute),
        "slices.gi": slice_.compute_slices,
        "slices.ci": compute.slices,
        "engines.copy": slice_.copy_engines,
        "engines.decoder": slice_.decoders,
        "engines.encoder": slice_.encoders,
        "engines.jpeg": slice_.jpegs,
        "engines.ofa": slice_.ofas,
    }
    product = (model.name, "MIG", _name(instance, compute))
    return {
        **_resource(resource, count, product, sharing),
        **{f"{resource}.{suffix}": str(value) for suffix, value in attributes.items()},
    }


def _multiprocessors(model: Model, instance: GpuInstance, compute: ComputeInstance) -> int:
    """As the fake driver has it (compute_sms in silicon/library/compute_instance.c)."""
    if compute.slices == instance.slice.compute_slices:
        return instance.slice.sms
    alone = [s.sms for s in model.slices if s.compute_slices == compute.slices]
    return (
        alone[0] if alone else instance.slice.sms * compute.slices // instance.slice.compute_slices
    )


def _resource(
    resource: str,
    count: int,
    product: tuple[str, ...],
    sharing: Sharing,
    *,
    replicas: int = 1,
) -> dict[str, str]:
    """replicas: what it says where the resource is not shared."""
    shared = sharing.get(resource)
    is_shared = shared is not None and shared.replicas > 1
    words = [*map(_sanitised, product)]
    if shared is not None and is_shared and not shared.is_renamed:
        words.append("SHARED")
    said = shared.replicas if shared is not None else replicas
    return {
        f"{resource}.product": "-".join(words),
        f"{resource}.count": str(count),
        f"{resource}.replicas": str(said),
        f"{resource}.sharing-strategy": "time-slicing" if is_shared else "none",
    }


def _devices(node: NodeSilicon) -> Iterator[tuple[Model, GpuInstance, ComputeInstance]]:
    for gpu in node.gpus:
        for instance in gpu.instances if gpu.mig else ():
            for compute in instance.compute_instances:
                yield gpu.model, instance, compute


def _name(instance: GpuInstance, compute: ComputeInstance) -> str:
    """As a label may have it: `1g.10gb.me` for `1g.10gb+me`."""
    whole = compute.slices == instance.slice.compute_slices
    name = instance.profile if whole else f"{compute.slices}c.{instance.profile}"
    return name.replace("+", ".")


def _sanitised(text: str) -> str:
    return "-".join(re.sub("[^A-Za-z0-9-_. ]", "", text).split())


def _said(value: bool) -> str:
    return "true" if value else "false"
