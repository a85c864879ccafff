"""One node's GPUs as a file: created, read, and changed as hardware, faults and reboots would.

Every change takes the lock that the C library takes (`<file>.lock`) and replaces the file
atomically. Programs that have the library loaded see the new state at their next call.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType

from slicewright.rehearsal.cluster.silicon import node_silicon, placement
from slicewright.rehearsal.cluster.silicon.models import Model, model
from slicewright.rehearsal.cluster.silicon.node_silicon import (
    BadState,
    ComputeInstance,
    Event,
    Gpu,
    GpuInstance,
    Injection,
    Load,
    NodeSilicon,
    Process,
    healthy,
)

__all__ = [
    "BadState",
    "ComputeInstance",
    "Event",
    "Gpu",
    "GpuInstance",
    "Injection",
    "Load",
    "NodeSilicon",
    "Process",
    "change",
    "create",
    "end_processes",
    "heal",
    "inject",
    "load",
    "lose",
    "new",
    "partitioned",
    "reboot",
    "reboot_pending",
    "rebooted",
    "record_event",
    "record_xid",
    "repartition",
    "run_process",
    "set_driver",
    "set_health",
    "set_load",
    "set_mig_mode",
    "with_gpu",
]

VARIABLE = "SLICEWRIGHT_FAKE_NVML_STATE"
"""The environment variable with the path of the state file, for the library."""

_EVENTS_KEPT = 64
_XID = 8
"""nvmlEventTypeXidCriticalError"""
_MAX_GPUS = 16
# The newest CUDA version of each driver branch, as NVML encodes it.
_CUDA = {
    450: 11000, 470: 11040, 510: 11060, 515: 11070, 520: 11080, 525: 12000,
    530: 12010, 535: 12020, 545: 12030, 550: 12040,
    555: 12050, 560: 12060, 565: 12070, 570: 12080, 575: 12090, 580: 13000, 590: 13010,
}  # fmt: skip
_CURED_BY_RESET = frozenset(
    {
        "remap_pending",
        "retired_pending",
        "recovery_action",
        "throttle_reasons",
        "compute_mode",
        "fabric_state",
        "fabric_status",
    }
)
_FABRIC_NOT_STARTED = 1
# PCI buses of the eight GPUs of a DGX H100.
_BUSES = (0x1B, 0x43, 0x52, 0x61, 0x9D, 0xC3, 0xD1, 0xDF)
_COMPUTE_STARTS = {1: range(7), 2: range(0, 7, 2), 3: range(0, 7, 4)}
_COMPUTE_IDS = {1: 0, 2: 1, 3: 2, 4: 3, 7: 4}


def create(path: Path, model_key: str, count: int, driver_version: str, seed: str) -> NodeSilicon:
    """A new state file with `new`'s GPUs. Raises UnknownModel, ValueError."""
    node = new(model_key, count, driver_version, seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked(path):
        _write(path, node)
    # Readable to all: only the owner of the directory could make it.
    clients = Path(f"{path}.clients")
    clients.touch()
    clients.chmod(0o644)
    return node


def new(model_key: str, count: int, driver_version: str, seed: str) -> NodeSilicon:
    """`count` GPUs of one model, healthy, idle, MIG disabled.

    UUIDs are derived from `seed`, a word without spaces. Raises UnknownModel, ValueError.
    """
    kind = model(model_key)
    if not 1 <= count <= _MAX_GPUS:
        raise ValueError(f"the number of GPUs must be 1 to {_MAX_GPUS}, not {count}")
    if not seed or any(c.isspace() for c in seed):
        raise ValueError(f"the seed must be a word without spaces, not {seed!r}")
    return NodeSilicon(
        driver_version=driver_version,
        cuda=_cuda_of(driver_version),
        seed=seed,
        serial=0,
        gpus=tuple(_new_gpu(kind, index, count, seed) for index in range(count)),
    )


def _cuda_of(driver_version: str) -> int:
    branch = int(driver_version.split(".")[0])
    return _CUDA[max((known for known in _CUDA if known <= branch), default=450)]


def load(path: Path) -> NodeSilicon:
    """Raises BadState, FileNotFoundError."""
    return node_silicon.parse(path.read_text(encoding="utf-8"), source=str(path))


def change(path: Path, edit: Callable[[NodeSilicon], NodeSilicon]) -> NodeSilicon:
    """Replaces the state with `edit(state)` under the lock, and returns it."""
    with _locked(path):
        node = edit(load(path))
        _write(path, node)
    return node


def repartition(path: Path, gpu_index: int, profiles: Sequence[str]) -> NodeSilicon:
    """Enables MIG on one GPU and replaces its partitions: one MIG device per name, with new UUIDs.

    profiles: as `1g.10gb` or `1c.3g.40gb`. Raises KeyError for a profile that the GPU does not
    have, placement.NoRoom where they do not fit together.
    """

    return change(path, lambda node: partitioned(node, gpu_index, profiles))


def partitioned(node: NodeSilicon, gpu_index: int, profiles: Sequence[str]) -> NodeSilicon:
    """What `repartition` makes of the state of a node."""
    instances, serial = _partitioned(node, node.gpus[gpu_index].model, profiles)
    gpu = replace(node.gpus[gpu_index], mig=True, mig_pending=True, instances=instances)
    return replace(with_gpu(node, gpu), serial=serial)


def set_mig_mode(path: Path, gpu_index: int, enabled: bool) -> NodeSilicon:
    """Sets MIG mode as if it had been so since boot; the GPU then has no instances."""
    return change(
        path,
        lambda node: with_gpu(
            node, replace(node.gpus[gpu_index], mig=enabled, mig_pending=enabled, instances=())
        ),
    )


def reboot(path: Path) -> NodeSilicon:
    """What a restart of the node leaves: `rebooted`."""
    return change(path, rebooted)


def rebooted(node: NodeSilicon) -> NodeSilicon:
    """The node restarts: no instances and no processes are left.

    Ampere's pending MIG mode becomes current; on later GPUs MIG is disabled. Fabric Manager, if it
    runs, sets up the fabric again.
    """

    def started(gpu: Gpu) -> Gpu:
        mode = gpu.mig_pending if gpu.model.mig == "after reset" else False
        kept = {
            key: value
            for key, value in gpu.health.items()
            if not key.endswith("_volatile") and key not in _CURED_BY_RESET
        }
        if kept.get("fabric_manager") == 0:
            kept["fabric_state"] = _FABRIC_NOT_STARTED
        return replace(
            gpu, mig=mode, mig_pending=mode, lost=False, instances=(), health=MappingProxyType(kept)
        )

    return replace(
        node, gpus=tuple(started(g) for g in node.gpus), processes=(), events=(), loads=()
    )


def set_driver(path: Path, version: str) -> NodeSilicon:
    """Another driver is loaded."""
    return change(path, lambda n: replace(n, driver_version=version, cuda=_cuda_of(version)))


def reboot_pending(path: Path) -> bool:
    """Whether a change of MIG mode is pending until the node restarts."""
    return any(gpu.mig != gpu.mig_pending for gpu in load(path).gpus)


def inject(path: Path, *faults: Injection) -> NodeSilicon:
    """Adds faults of NVML calls; the first that matches a call applies."""
    return change(path, lambda node: replace(node, injections=(*node.injections, *faults)))


def heal(path: Path) -> NodeSilicon:
    """Removes injections and losses, and resets every health value to a healthy GPU's."""
    return change(
        path,
        lambda node: replace(
            node,
            injections=(),
            gpus=tuple(replace(gpu, lost=False, health=MappingProxyType({})) for gpu in node.gpus),
        ),
    )


def lose(path: Path, gpu_index: int) -> NodeSilicon:
    """The GPU falls off the bus: every call on it returns NVML_ERROR_GPU_IS_LOST."""
    return change(path, lambda node: with_gpu(node, replace(node.gpus[gpu_index], lost=True)))


def set_health(path: Path, gpu_index: int, **values: int) -> NodeSilicon:
    """Sets health values by the names of library/health.def. Raises ValueError for another name."""
    if unknown := values.keys() - healthy().keys():
        raise ValueError(
            f"unknown health value {', '.join(sorted(unknown))}; known values: "
            f"{', '.join(healthy())}"
        )

    def edit(node: NodeSilicon) -> NodeSilicon:
        gpu = node.gpus[gpu_index]
        merged = {
            key: value for key, value in {**gpu.health, **values}.items() if value != healthy()[key]
        }
        return with_gpu(node, replace(gpu, health=MappingProxyType(merged)))

    return change(path, edit)


def set_load(path: Path, load: Load) -> NodeSilicon:
    """Sets the utilization of a GPU instance or a whole GPU."""

    def edit(node: NodeSilicon) -> NodeSilicon:
        others = tuple(old for old in node.loads if (old.gpu, old.gi) != (load.gpu, load.gi))
        return replace(node, loads=(*others, load))

    return change(path, edit)


def run_process(path: Path, process: Process) -> NodeSilicon:
    """Adds a process that uses a GPU or one of its MIG devices."""
    return change(path, lambda node: replace(node, processes=(*node.processes, process)))


def end_processes(path: Path) -> NodeSilicon:
    return change(path, lambda node: replace(node, processes=()))


def record_event(path: Path, event: Event) -> NodeSilicon:
    """Existing event sets deliver it once; its sequence number is assigned here."""

    def edit(node: NodeSilicon) -> NodeSilicon:
        sequence = max((e.sequence for e in node.events), default=0) + 1
        return replace(
            node, events=(*node.events, replace(event, sequence=sequence))[-_EVENTS_KEPT:]
        )

    return change(path, edit)


def record_xid(
    path: Path,
    gpu_index: int,
    xid: int,
    *,
    gi: int = node_silicon.NO_INSTANCE,
    ci: int = node_silicon.NO_INSTANCE,
) -> NodeSilicon:
    """The driver reports XID `xid` for a GPU, or for one of its MIG devices."""
    return record_event(path, Event(sequence=0, gpu=gpu_index, type=_XID, data=xid, gi=gi, ci=ci))


def with_gpu(node: NodeSilicon, gpu: Gpu) -> NodeSilicon:
    """The state of a node with `gpu` in place of the GPU of its index."""
    return replace(node, gpus=tuple(gpu if g.index == gpu.index else g for g in node.gpus))


def _new_gpu(kind: Model, index: int, count: int, seed: str) -> Gpu:
    bus = _BUSES[index] if count <= len(_BUSES) else 0x10 + 8 * index
    return Gpu(
        index=index,
        model=kind,
        uuid=_uuid("GPU", seed, f"gpu {index}"),
        board=str(
            1650000000000
            + int.from_bytes(blake2b(f"{seed} {index}".encode(), digest_size=4).digest(), "big")
        ),
        pci=f"0000:{bus:02x}:00.0",
        minor=index,
        mig=False,
        mig_pending=False,
        lost=False,
        health=MappingProxyType({}),
        instances=(),
    )


def _partitioned(
    node: NodeSilicon, kind: Model, profiles: Sequence[str]
) -> tuple[tuple[GpuInstance, ...], int]:
    """GPU instances for the MIG devices `profiles`, and the last serial used.

    MIG devices smaller than their GPU instance (`1c.3g.40gb`) share one.
    """
    wanted: list[tuple[str, list[int]]] = []
    for name, count in Counter(profiles).items():
        part, dot, rest = name.partition(".")
        smaller = part.removesuffix("c")
        if dot and part != smaller and smaller.isdigit():
            size = int(smaller)
            most = len(_compute_starts(kind.slice(rest).compute_slices, size))
            wanted += [(rest, [size] * min(most, count - done)) for done in range(0, count, most)]
        else:
            wanted += [(name, [kind.slice(name).compute_slices])] * count
    placed = placement.place(kind, [kind.slice(name) for name, _ in wanted])
    serial, index = node.serial, 0
    instances = []
    parts = {name: [sizes for other, sizes in wanted if other == name] for name, _ in wanted}
    for slice_, start in placed:
        serial += 1
        own, computes = serial, []
        for id_, size in enumerate(parts[slice_.name].pop()):
            serial += 1
            computes.append(
                ComputeInstance(
                    id=id_,
                    profile_id=_COMPUTE_IDS[size],
                    start=_compute_starts(slice_.compute_slices, size)[id_],
                    slices=size,
                    index=index,
                    serial=serial,
                    uuid=_uuid("MIG", node.seed, f"repartition {serial}"),
                )
            )
            index += 1
        instances.append(
            GpuInstance(
                id=placement.tree_id(kind, slice_, start),
                slice=slice_,
                start=start,
                serial=own,
                compute_instances=tuple(computes),
            )
        )
    return tuple(instances), serial


def _compute_starts(slices: int, size: int) -> list[int]:
    starts = [start for start in _COMPUTE_STARTS.get(size, range(1)) if start + size <= slices]
    if not starts or size not in _COMPUTE_IDS:
        raise KeyError(f"no compute instance of {size} slices in a GPU instance of {slices}")
    return starts


def _uuid(prefix: str, *of: str) -> str:
    digest = blake2b("\0".join(of).encode(), digest_size=16).hexdigest()
    return f"{prefix}-{digest[:8]}-{digest[8:12]}-5{digest[13:16]}-8{digest[17:20]}-{digest[20:]}"


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    descriptor = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _write(path: Path, node: NodeSilicon) -> None:
    new = Path(f"{path}.{threading.get_native_id()}.new")
    new.write_text(node_silicon.dump(node), encoding="utf-8")
    new.chmod(0o644)
    new.replace(path)
