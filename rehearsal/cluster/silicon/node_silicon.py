"""The state file as frozen objects, parsed from its lines and written back to the same lines.

The C side is library/state.c.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType

from slicewright.rehearsal.cluster.silicon.models import LIBRARY, Model, Slice, UnknownModel, model

HEADER = "slicewright-silicon 1"
NO_INSTANCE = 0xFFFFFFFF


class BadState(Exception):
    """Not a state file of this version; the message names the line."""


@dataclass(frozen=True, kw_only=True)
class ComputeInstance:
    id: int
    profile_id: int
    start: int
    slices: int
    index: int
    """Index of the MIG device on its GPU; does not change while it exists."""
    serial: int
    uuid: str


@dataclass(frozen=True, kw_only=True)
class GpuInstance:
    id: int
    slice: Slice
    start: int
    serial: int
    compute_instances: tuple[ComputeInstance, ...]

    @property
    def profile(self) -> str:
        return self.slice.name


@dataclass(frozen=True, kw_only=True)
class Gpu:
    index: int
    model: Model
    uuid: str
    board: str
    """Serial number of the board."""
    pci: str
    """As in sysfs: `0000:1b:00.0`."""
    minor: int
    mig: bool
    mig_pending: bool
    lost: bool
    health: Mapping[str, int]
    """Only the values that differ from a healthy, idle GPU's."""
    instances: tuple[GpuInstance, ...]

    @property
    def profiles(self) -> tuple[str, ...]:
        """Names of all MIG devices, as `1g.10gb` or `1c.3g.40gb`, sorted."""
        names = []
        for gi in self.instances:
            for ci in gi.compute_instances:
                names.append(
                    gi.profile
                    if ci.slices == gi.slice.compute_slices
                    else f"{ci.slices}c.{gi.profile}"
                )
        return tuple(sorted(names))


@dataclass(frozen=True, kw_only=True)
class Process:
    gpu: int
    pid: int
    gi: int = NO_INSTANCE
    ci: int = NO_INSTANCE
    memory_mib: int = 512
    name: str = "python"


@dataclass(frozen=True, kw_only=True)
class Event:
    sequence: int
    gpu: int
    type: int
    data: int
    gi: int = NO_INSTANCE
    ci: int = NO_INSTANCE


@dataclass(frozen=True, kw_only=True)
class Load:
    """Utilization of a GPU instance or a whole GPU in percent, as GPM reports it (Hopper on)."""

    gpu: int
    gi: int = NO_INSTANCE
    graphics: int = 0
    sm: int = 0
    occupancy: int = 0
    dram: int = 0


@dataclass(frozen=True, kw_only=True)
class Injection:
    """A fault of one call of NVML or CUDA: the function's name without `_v2`, or `*` for all NVML
    calls on a GPU, or `pattern` for words that CUDA's `put` kernel writes wrong.
    """

    call: str
    gpu: int = -1
    """-1: every GPU."""
    code: int = 0
    """What the call returns; 0: its usual result, after the delay."""
    times: int = -1
    """How many more times; -1: always."""
    delay_ms: int = 0
    uuid: str = ""
    """CUDA only: the MIG device or GPU that has the fault. Empty: every device."""


@dataclass(frozen=True, kw_only=True)
class NodeSilicon:
    driver_version: str
    cuda: int
    """13000 = CUDA 13.0."""
    seed: str
    serial: int
    """The last serial given to an instance; never reused."""
    gpus: tuple[Gpu, ...]
    processes: tuple[Process, ...] = ()
    events: tuple[Event, ...] = ()
    loads: tuple[Load, ...] = ()
    injections: tuple[Injection, ...] = ()


@cache
def healthy() -> Mapping[str, int]:
    """Every health value that a state file may hold, as it is on a healthy, idle GPU."""
    text = (LIBRARY / "health.def").read_text(encoding="utf-8")
    return MappingProxyType(
        {
            name: int(value)
            for name, value in re.findall(r"^HEALTH\((\w+), (-?\d+)\)$", text, re.MULTILINE)
        }
    )


# --- writing ---


def dump(node: NodeSilicon) -> str:
    """The file's text."""
    lines = [
        HEADER,
        f"node driver={node.driver_version} cuda={node.cuda} seed={node.seed} serial={node.serial}",
    ]
    for gpu in node.gpus:
        lines += _gpu_lines(gpu)
    lines += [
        f"process gpu={p.gpu} pid={p.pid} gi={p.gi} ci={p.ci} memory_mib={p.memory_mib} "
        f"name={p.name.replace(' ', '_')}"
        for p in node.processes
    ]
    lines += [
        f"event sequence={e.sequence} gpu={e.gpu} type={e.type} data={e.data} gi={e.gi} ci={e.ci}"
        for e in node.events
    ]
    lines += [
        f"load gpu={x.gpu} gi={x.gi} graphics={x.graphics} sm={x.sm} "
        f"occupancy={x.occupancy} dram={x.dram}"
        for x in node.loads
    ]
    lines += [
        f"inject call={i.call} gpu={i.gpu} code={i.code} times={i.times} delay_ms={i.delay_ms}"
        + (f" uuid={i.uuid}" if i.uuid else "")
        for i in node.injections
    ]
    return "\n".join(lines) + "\n"


def _gpu_lines(gpu: Gpu) -> list[str]:
    pci = gpu.pci.removesuffix(".0")
    lines = [
        f"gpu index={gpu.index} model={gpu.model.key} uuid={gpu.uuid} board={gpu.board} "
        f"pci={pci} minor={gpu.minor} "
        f"mig={gpu.mig:d} pending={gpu.mig_pending:d} lost={gpu.lost:d}"
    ]
    lines += [f"health gpu={gpu.index} {key}={value}" for key, value in gpu.health.items()]
    for gi in gpu.instances:
        lines.append(
            f"gi gpu={gpu.index} id={gi.id} profile={gi.slice.profile} start={gi.start} "
            f"serial={gi.serial}"
        )
        lines += [
            f"ci gpu={gpu.index} gi={gi.id} id={ci.id} profile={ci.profile_id} "
            f"start={ci.start} size={ci.slices} "
            f"index={ci.index} serial={ci.serial} uuid={ci.uuid}"
            for ci in gi.compute_instances
        ]
    return lines


# --- reading ---


@dataclass
class _Draft:
    head: dict[str, str] = field(default_factory=dict)
    gpus: list[dict[str, str]] = field(default_factory=list)
    health: dict[int, dict[str, int]] = field(default_factory=dict)
    gis: dict[int, list[dict[str, str]]] = field(default_factory=dict)
    cis: dict[tuple[int, int], list[ComputeInstance]] = field(default_factory=dict)
    processes: list[Process] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    loads: list[Load] = field(default_factory=list)
    injections: list[Injection] = field(default_factory=list)


def _read_health(draft: _Draft, words: dict[str, str]) -> None:
    values = {key: int(value) for key, value in words.items() if key != "gpu"}
    if unknown := values.keys() - healthy().keys():
        raise ValueError(f"unknown health value {', '.join(sorted(unknown))}")
    draft.health.setdefault(int(words["gpu"]), {}).update(values)


def _read_ci(draft: _Draft, words: dict[str, str]) -> None:
    uuid = words.pop("uuid")
    n = {key: int(value) for key, value in words.items()}
    draft.cis.setdefault((n["gpu"], n["gi"]), []).append(
        ComputeInstance(
            id=n["id"],
            profile_id=n["profile"],
            start=n["start"],
            slices=n["size"],
            index=n["index"],
            serial=n["serial"],
            uuid=uuid,
        )
    )


def _read_process(draft: _Draft, words: dict[str, str]) -> None:
    name = words.pop("name")
    draft.processes.append(Process(name=name, **{key: int(value) for key, value in words.items()}))


def _read_event(draft: _Draft, words: dict[str, str]) -> None:
    draft.events.append(Event(**{key: int(value) for key, value in words.items()}))


def _read_load(draft: _Draft, words: dict[str, str]) -> None:
    draft.loads.append(Load(**{key: int(value) for key, value in words.items()}))


def _read_injection(draft: _Draft, words: dict[str, str]) -> None:
    call, uuid = words.pop("call"), words.pop("uuid", "")
    draft.injections.append(
        Injection(call=call, uuid=uuid, **{key: int(value) for key, value in words.items()})
    )


_READERS: Mapping[str, Callable[[_Draft, dict[str, str]], None]] = {
    "node": lambda draft, words: draft.head.update(words),
    "gpu": lambda draft, words: draft.gpus.append(words),
    "health": _read_health,
    "gi": lambda draft, words: draft.gis.setdefault(int(words["gpu"]), []).append(words),
    "ci": _read_ci,
    "process": _read_process,
    "event": _read_event,
    "load": _read_load,
    "inject": _read_injection,
}


def parse(text: str, *, source: str) -> NodeSilicon:
    """Raises BadState, naming `source` and the line."""
    first, *lines = text.splitlines() or [""]
    if first != HEADER:
        raise BadState(
            f"{source}: not a silicon state file of this version (its first line is "
            f"{first[:40]!r}, not {HEADER!r})"
        )
    draft = _Draft()
    for number, line in enumerate(lines, start=2):
        word, *rest = line.split(" ")
        try:
            _READERS[word](draft, dict(pair.split("=", 1) for pair in rest))
        except (KeyError, ValueError, TypeError) as e:
            raise BadState(f"{source}: line {number} is invalid ({e}): {line[:100]}") from e
    try:
        return NodeSilicon(
            driver_version=draft.head["driver"],
            cuda=int(draft.head["cuda"]),
            seed=draft.head["seed"],
            serial=int(draft.head["serial"]),
            gpus=tuple(_gpu(draft, words) for words in draft.gpus),
            processes=tuple(draft.processes),
            events=tuple(draft.events),
            loads=tuple(draft.loads),
            injections=tuple(draft.injections),
        )
    except (KeyError, ValueError, UnknownModel) as e:
        raise BadState(f"{source}: {e}") from e


def _gpu(draft: _Draft, words: dict[str, str]) -> Gpu:
    index = int(words["index"])
    kind = model(words["model"])
    return Gpu(
        index=index,
        model=kind,
        uuid=words["uuid"],
        board=words["board"],
        pci=words["pci"] + ".0",
        minor=int(words["minor"]),
        mig=words["mig"] == "1",
        mig_pending=words["pending"] == "1",
        lost=words["lost"] == "1",
        health=MappingProxyType(draft.health.get(index, {})),
        instances=tuple(
            GpuInstance(
                id=int(gi["id"]),
                slice=kind.slice_of(int(gi["profile"])),
                start=int(gi["start"]),
                serial=int(gi["serial"]),
                compute_instances=tuple(draft.cis.get((index, int(gi["id"])), ())),
            )
            for gi in draft.gis.get(index, ())
        ),
    )
