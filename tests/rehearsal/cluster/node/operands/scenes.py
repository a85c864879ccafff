"""What is done to a node, in this order, while it is recorded; and what is kept of its states."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from slicewright.rehearsal.cluster.node.operands.mig_manager import CLIENTS, CONFIG, STATE
from slicewright.rehearsal.cluster.silicon.node_silicon import NodeSilicon, Process

LAYOUTS: Final = """\
version: v1
mig-configs:
  all-disabled:
    - {devices: all, mig-enabled: false}
  balanced:
    - {devices: all, mig-enabled: true, mig-devices: {1g.10gb: 2, 2g.20gb: 1, 3g.40gb: 1}}
  halves:
    - {devices: all, mig-enabled: true, mig-devices: {3g.40gb: 2}}
  one-of-two:
    - {devices: [0], mig-enabled: true, mig-devices: {1g.10gb: 7}}
    - {devices: [1], mig-enabled: true, mig-devices: {7g.80gb: 1}}
  too-much:
    - {devices: all, mig-enabled: true, mig-devices: {4g.40gb: 2}}
  of-another-gpu:
    - {devices: all, mig-enabled: true, mig-devices: {1g.5gb: 7}}
  all-1g.5gb:
    - {devices: all, mig-enabled: true, mig-devices: {1g.5gb: 7}}
"""
MIG_STRATEGY: Final = "mixed"


@dataclass(frozen=True, kw_only=True)
class Act:
    """One change of a node's label, in the state that the act before has left."""

    title: str
    layout: str
    in_use: int | None = None
    """The GPU of which a program holds the last partition, or all of it, until the act is over."""


@dataclass(frozen=True, kw_only=True)
class Scene:
    """One node from its first moment on, with the operator's default layout `all-disabled`."""

    machine: Mapping[str, Any]
    acts: tuple[Act, ...]


def _machine(model: str, count: int) -> Mapping[str, Any]:
    return {"cloud": "eks", "gpu_model": model, "gpu_count": count, "driver_version": "580.95.05"}


SCENES: Final[Mapping[str, Scene]] = {
    "h100": Scene(
        machine=_machine("H100-80", 2),
        acts=(
            Act(title="first cut", layout="balanced"),
            Act(title="change of layout", layout="halves"),
            Act(title="GPU in use", layout="balanced", in_use=1),
            Act(title="the next layout after a failure", layout="one-of-two"),
            Act(title="too much for a GPU", layout="too-much"),
            Act(title="profiles of another GPU", layout="of-another-gpu"),
            Act(title="un-partition", layout="all-disabled"),
            Act(title="unknown layout", layout="nonsense"),
        ),
    ),
    "a100": Scene(
        machine=_machine("A100-40", 2),
        acts=(
            Act(title="first cut, by a reboot", layout="all-1g.5gb"),
            Act(title="un-partition, by a reboot", layout="all-disabled"),
        ),
    ),
    # After the reboot that its mode seems to need, Hopper has no MIG mode either.
    "h100-in-use": Scene(
        machine=_machine("H100-80", 1),
        acts=(Act(title="first cut of a GPU in use", layout="halves", in_use=0),),
    ),
    "unknown-first": Scene(
        machine=_machine("H100-80", 1),
        acts=(Act(title="unknown layout, before any change", layout="nonsense"),),
    ),
}


@dataclass(frozen=True, kw_only=True)
class Case:
    """A node with two GPUs, on which device plugin and feature discovery start."""

    model: str = "H100-80"
    strategy: str
    cut: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    """Partitions of each GPU; None for MIG off. A GPU with () is in MIG mode and empty."""
    off: bool = False
    """The first GPU is not in MIG mode, whatever `cut` has for it."""
    replicas: Mapping[str, int] = field(default_factory=dict)
    """By resource, without its prefix."""
    rename: bool = False


_SEVEN = ("1g.10gb",) * 7
_BALANCED = ("3g.40gb", "2g.20gb", "1g.10gb", "1g.10gb")
_MEDIA = ("1g.10gb+me", "3g.40gb")
CASES: Final[Mapping[str, Case]] = {
    "T4": Case(model="T4", strategy="mixed"),
    "T4, shared": Case(model="T4", strategy="none", replicas={"gpu": 14}),
    "L4": Case(model="L4", strategy="single"),
    "A30, halves": Case(model="A30", strategy="mixed", cut=(("2g.12gb",) * 2,) * 2),
    "B200, sevenths": Case(model="B200", strategy="mixed", cut=(("1g.23gb",) * 7,) * 2),
    "none, MIG off": Case(strategy="none"),
    "none, MIG on": Case(strategy="none", cut=(_SEVEN, _SEVEN)),
    "none, MIG on, shared": Case(strategy="none", cut=(_SEVEN, _SEVEN), replicas={"gpu": 4}),
    "single, MIG off": Case(strategy="single"),
    "single, sevenths": Case(strategy="single", cut=(_SEVEN, _SEVEN)),
    "single, shared": Case(strategy="single", cut=(_SEVEN, _SEVEN), replicas={"gpu": 4}),
    "single, renamed": Case(
        strategy="single", cut=(_SEVEN, _SEVEN), replicas={"gpu": 4}, rename=True
    ),
    "single, two sizes": Case(strategy="single", cut=(_SEVEN, ("3g.40gb",) * 2)),
    "single, empty": Case(strategy="single", cut=((), ())),
    "single, one GPU off": Case(strategy="single", cut=((), _SEVEN), off=True),
    "mixed, MIG off, shared": Case(strategy="mixed", replicas={"gpu": 3}),
    "mixed, balanced": Case(strategy="mixed", cut=(_BALANCED, _BALANCED)),
    "mixed, media engines": Case(strategy="mixed", cut=(_MEDIA, _MEDIA)),
    "mixed, empty": Case(strategy="mixed", cut=((), ())),
    "mixed, one GPU off, renamed": Case(
        strategy="mixed",
        cut=((), ("1g.20gb", "1g.20gb", "1g.10gb")),
        off=True,
        replicas={"gpu": 4, "mig-1g.10gb": 2},
        rename=True,
    ),
    "mixed, smaller compute instances": Case(
        strategy="mixed", cut=(("1c.3g.40gb",) * 3, ("3g.40gb",))
    ),
}


def cut_of(case: Case) -> Mapping[int, tuple[str, ...]]:
    """Partitions by the index of the GPU that is in MIG mode."""
    cut = dict(enumerate(case.cut or ()))
    return {gpu: profiles for gpu, profiles in cut.items() if gpu or not case.off}


def config_of(case: Case) -> str:
    """The device plugin's config file."""
    resources = [{"name": f"nvidia.com/{n}", "replicas": c} for n, c in case.replicas.items()]
    sliced = {"renameByDefault": case.rename, "resources": resources}
    return json.dumps(
        {"version": "v1", **({"sharing": {"timeSlicing": sliced}} if resources else {})}
    )


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One state of a node."""

    labels: Mapping[str, str]
    allocatable: Mapping[str, str]
    silicon: NodeSilicon


def trace(states: Iterable[Seen]) -> dict[str, Any]:
    """What the acts of real and simulated programs must have in common.

    mig-manager writes its node alone, so its states come in one order; kubelet and feature
    discovery write beside it, so each resource has an order of its own, and of the labels of
    feature discovery only the last is kept.
    """
    seen = list(states)
    manager: list[Any] = []
    resources: dict[str, list[int]] = {}
    for one in seen:
        # At a reboot the GPUs may have been reset before they are looked at.
        is_stable = one.labels.get(STATE) != "rebooting"
        row = {
            "labels": {key: one.labels.get(key) for key in (CONFIG, STATE, *CLIENTS)},
            "geometry": geometry(one.silicon) if is_stable else None,
        }
        if STATE in one.labels and (not manager or manager[-1]["labels"] != row["labels"]):
            manager.append(row)
        known = {key for key in one.allocatable if key.startswith("nvidia.com/")}
        for resource in known | resources.keys():
            counts = resources.setdefault(resource, [0])
            if counts[-1] != (now := int(one.allocatable.get(resource, "0"))):
                counts.append(now)
    return {
        "mig-manager": manager,
        "allocatable": {key: counts for key, counts in sorted(resources.items()) if any(counts)},
        "geometry": geometry(seen[-1].silicon),
        "features": features(seen[-1].labels),
    }


def holder(silicon: NodeSilicon, gpu: int) -> Process:
    """A program that uses the last partition of a GPU, or the GPU where it has none."""
    if not silicon.gpus[gpu].instances:
        return Process(gpu=gpu, pid=77)
    instance = silicon.gpus[gpu].instances[-1]
    return Process(gpu=gpu, gi=instance.id, ci=instance.compute_instances[-1].id, pid=77)


def geometry(silicon: NodeSilicon) -> list[Any]:
    """MIG mode, pending mode and partitions of each GPU."""
    return [
        [gpu.mig, gpu.mig_pending, dict(sorted(Counter(gpu.profiles).items()))]
        for gpu in silicon.gpus
    ]


def features(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels of feature discovery, but for its time."""
    prefixes = ("nvidia.com/gpu.", "nvidia.com/mig-", "nvidia.com/cuda.", "nvidia.com/vgpu.")
    others = ("nvidia.com/gpu.deploy.", "nvidia.com/gpu.present")
    alone = {f"nvidia.com/{name}" for name in ("mig.capable", "mig.strategy", "mps.capable")}
    return {
        key: value
        for key, value in sorted(labels.items())
        if key in alone or (key.startswith(prefixes) and not key.startswith(others))
    }
