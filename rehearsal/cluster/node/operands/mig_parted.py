"""nvidia-mig-parted: layouts by name, asserted of a node's GPUs and applied to them.

Source: NVIDIA/mig-parted v0.13.1: cmd/nvidia-mig-parted/{assert,apply}, pkg/mig/config and
api/spec/v1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import yaml

from slicewright.rehearsal.cluster.silicon.node_silicon import Gpu, GpuInstance, NodeSilicon
from slicewright.rehearsal.cluster.silicon.placement import NoRoom
from slicewright.rehearsal.cluster.silicon.state import partitioned, with_gpu

_VENDOR = 0x10DE


class NotApplied(Exception):
    """It ended with an error; `left` is what it had changed until then."""

    def __init__(self, why: str, left: NodeSilicon) -> None:
        super().__init__(why)
        self.left = left


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One element of a layout: what the GPUs that it selects shall be."""

    devices: frozenset[int] | None
    """Indices; None for `all`."""
    device_filter: frozenset[int]
    """PCI ids as the file has them, device before vendor; empty for every model."""
    mig_enabled: bool
    mig_devices: Mapping[str, int]

    def selects(self, gpu: Gpu) -> bool:
        if self.device_filter and (gpu.model.pci_id << 16 | _VENDOR) not in self.device_filter:
            return False
        return self.devices is None or gpu.index in self.devices


Layout = tuple[Entry, ...]


def parse(text: str) -> Mapping[str, Layout]:
    """The layouts of a config file by name. Raises ValueError for a file that is none."""
    try:
        named = yaml.safe_load(text)["mig-configs"]
        return {str(name): tuple(map(_entry, entries)) for name, entries in named.items()}
    except (yaml.YAMLError, TypeError, KeyError, AttributeError) as e:
        raise ValueError(f"not a config file of mig-parted: {e}") from e


def has_mode(node: NodeSilicon, layout: Layout) -> bool:
    """`assert --mode-only`."""
    return all(
        gpu.mig == entry.mig_enabled
        if gpu.model.mig != "none"
        # It cannot be partitioned: right as it is, where nothing else is asked of it.
        else not entry.mig_enabled
        for entry, gpu in _walk(node, layout)
    )


def is_applied(node: NodeSilicon, layout: Layout) -> bool:
    """`assert`: every GPU is selected, and is as its last entry wants it."""
    if not has_mode(node, layout):
        return False
    matched = dict.fromkeys((gpu.index for gpu in node.gpus), False)
    for entry, gpu in _walk(node, layout):
        matched[gpu.index] = not gpu.mig if not entry.mig_enabled else _has(gpu, entry)
    return all(matched.values())


def apply(node: NodeSilicon, layout: Layout, *, mode_only: bool = False) -> NodeSilicon:
    """`apply`. Raises NotApplied.

    A mode change that needs a reset stays pending: in clouds a guest cannot reset its GPUs.
    """
    if not has_mode(node, layout):
        node = _apply_mode(node, layout)
    if mode_only or is_applied(node, layout):
        return node
    for entry, gpu in _walk(node, layout):
        node = _apply_config(node, node.gpus[gpu.index], entry)
    return node


def _apply_mode(node: NodeSilicon, layout: Layout) -> NodeSilicon:
    pending = False
    for entry, seen in _walk(node, layout):
        gpu = node.gpus[seen.index]
        if gpu.model.mig == "none":
            if entry.mig_enabled and entry.devices is not None:
                raise NotApplied("cannot set MIG mode on non MIG-capable GPU", node)
            continue
        if gpu.mig:
            node = _cleared(node, gpu)
            gpu = node.gpus[gpu.index]
        node = _with_mode(node, gpu, enabled=entry.mig_enabled)
        pending |= node.gpus[gpu.index].mig != entry.mig_enabled
    if pending:
        raise NotApplied("error resetting all GPUs", node)
    return node


def _with_mode(node: NodeSilicon, gpu: Gpu, *, enabled: bool) -> NodeSilicon:
    """nvmlDeviceSetMigMode: from Hopper on at once, unless the GPU is in use."""
    if enabled == gpu.mig or gpu.model.mig == "after reset" or _is_used(node, gpu):
        return with_gpu(node, replace(gpu, mig_pending=enabled))
    return with_gpu(node, replace(gpu, mig=enabled, mig_pending=enabled, instances=()))


def _apply_config(node: NodeSilicon, gpu: Gpu, entry: Entry) -> NodeSilicon:
    if gpu.model.mig == "none":
        if entry.mig_enabled and entry.devices is not None:
            raise NotApplied("cannot set MIG config on non MIG-capable GPU", node)
        return node
    if entry.mig_enabled != gpu.mig:
        raise NotApplied("the MIG mode is not the one that the config needs", node)
    if not entry.mig_enabled or _has(gpu, entry):
        return node
    cleared = _cleared(node, gpu)
    wanted = [name for name, count in entry.mig_devices.items() for _ in range(count)]
    try:
        return partitioned(cleared, gpu.index, wanted)
    except NoRoom as e:
        raise NotApplied(f"error attempting multiple config orderings: {e}", cleared) from e
    except KeyError:
        # A profile that the GPU lacks: it is emptied, and that is a success (Flatten in
        # pkg/types/mig_config.go returns nothing for a name that it cannot parse).
        return cleared


def _cleared(node: NodeSilicon, gpu: Gpu) -> NodeSilicon:
    """Without the GPU's instances, destroyed in the order of their profiles. Raises NotApplied at
    the first that is in use; those before it are gone.
    """
    kept = list(gpu.instances)
    for instance in sorted(gpu.instances, key=lambda one: one.slice.profile):
        free, stuck = _without_computes(node, gpu, instance)
        if stuck:
            kept[kept.index(instance)] = free
            left = with_gpu(node, replace(gpu, instances=tuple(kept)))
            raise NotApplied("error clearing MigConfig: In use by another client", left)
        kept.remove(instance)
    return with_gpu(node, replace(gpu, instances=()))


def _without_computes(
    node: NodeSilicon, gpu: Gpu, instance: GpuInstance
) -> tuple[GpuInstance, bool]:
    """The instance without the compute instances that go before one in use, if one is."""
    used = {p.ci for p in node.processes if (p.gpu, p.gi) == (gpu.index, instance.id)}
    left = list(instance.compute_instances)
    for compute in sorted(instance.compute_instances, key=lambda one: one.profile_id):
        if compute.id in used:
            return replace(instance, compute_instances=tuple(left)), True
        left.remove(compute)
    return replace(instance, compute_instances=()), False


def _is_used(node: NodeSilicon, gpu: Gpu) -> bool:
    return any(process.gpu == gpu.index for process in node.processes)


def _has(gpu: Gpu, entry: Entry) -> bool:
    return gpu.mig and dict(Counter(gpu.profiles)) == dict(entry.mig_devices)


def _walk(node: NodeSilicon, layout: Layout) -> Iterator[tuple[Entry, Gpu]]:
    for entry in layout:
        for gpu in node.gpus:
            if entry.selects(gpu):
                yield entry, gpu


def _entry(raw: Mapping[str, object]) -> Entry:
    devices, found = raw["devices"], raw.get("device-filter") or ()
    filters = [found] if isinstance(found, str) else found
    counts = raw.get("mig-devices") or {}
    if not isinstance(counts, dict) or not isinstance(filters, (list, tuple)):
        raise TypeError(f"an entry of another form: {raw}")
    if not isinstance(devices, (list, str)):
        raise TypeError(f"devices must be `all` or a list of indices, not {devices!r}")
    return Entry(
        devices=None if isinstance(devices, str) else frozenset(map(int, devices)),
        device_filter=frozenset(int(str(one), 16) for one in filters),
        mig_enabled=bool(raw.get("mig-enabled")),
        mig_devices={str(name): int(count) for name, count in counts.items()},
    )
