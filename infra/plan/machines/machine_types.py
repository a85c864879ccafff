"""A pool's machine type and its GPUs, by the catalog. A wrong name gets the nearest right ones."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from slicewright.infra import catalog, stack_file
from slicewright.infra.catalog import Cloud, Machine, UnlistedMachine
from slicewright.infra.plan.findings import (
    CATALOG,
    Checked,
    Finding,
    Stated,
    listed,
    refuse,
    rule,
)
from slicewright.infra.plan.model.nodes import GpuMachine
from slicewright.infra.stack_file import Path
from slicewright.infra.stack_file.nearest import nearest_names

_SUGGESTIONS = 3
_MISSPELLED = 0.75
"""Least similarity (0 to 1, difflib) at which a name counts as a misspelling of another."""
_ALL = "all are in infra/catalog/data/machines.toml"
_ALL_GENERAL: Mapping[Cloud, str] = {
    cloud: f"all are in infra/catalog/data/{cloud}_machines.tsv" for cloud in ("eks", "gke")
}


@rule("machine-gpus")
def machine_of(
    name: str, choice: stack_file.GpuChoice | None, cloud: Cloud, path: Path, stated: Stated
) -> Checked[GpuMachine | None]:
    """The GPU machine of a pool, with its own GPUs or with attached ones."""
    if not stated.has((*path, "machine_type")):
        return None
    machine = yield from named_machine(name, cloud, (*path, "machine_type"))
    if machine is None:
        return None
    if machine.gpu is None:
        return (yield from _with_attached_gpus(machine, choice, cloud, path))
    if choice is not None:
        yield refuse(
            (*path, "gpu"),
            f"{name} has fixed GPUs: {machine.gpu_count} x {machine.gpu.name}",
            "leave it out",
            machine.source,
        )
        return None
    return GpuMachine(
        machine=machine,
        gpu=machine.gpu,
        count=machine.gpu_count,
        accelerator=machine.accelerator or "",
    )


@rule("attached-gpus")
def _with_attached_gpus(
    machine: Machine, choice: stack_file.GpuChoice | None, cloud: Cloud, path: Path
) -> Checked[GpuMachine | None]:
    """A machine without GPUs of its own, with the GPUs that the stack file attaches."""
    if not machine.attachable:
        alike = _names_with_gpus(_by_size(machine, (m for m in _machines_of(cloud) if m.gpu)))
        yield refuse(
            (*path, "machine_type"),
            f"{machine.name} has no GPU",
            f"nearest in size with GPUs: {alike}; {_ALL}",
            machine.source,
        )
        return None
    by_model = {attachable.gpu.name: attachable for attachable in machine.attachable}
    if choice is None:
        yield refuse(
            (*path, "gpu"),
            f"is required: {machine.name} has no GPU of its own",
            f"write gpu: {{model: …, count: …}} with one of {listed(tuple(by_model))}",
            machine.source,
        )
        return None
    if choice.model not in by_model:
        yield _not_attachable(machine, choice.model, tuple(by_model), (*path, "gpu", "model"))
        return None
    attachable = by_model[choice.model]
    if choice.count not in attachable.counts:
        yield refuse(
            (*path, "gpu", "count"),
            f"{choice.count} x {choice.model} cannot be attached to {machine.name}",
            f"write one of {listed(attachable.counts)}",
            machine.source,
        )
        return None
    return GpuMachine(
        machine=machine, gpu=attachable.gpu, count=choice.count, accelerator=attachable.accelerator
    )


def _not_attachable(machine: Machine, model: str, models: Sequence[str], path: Path) -> Finding:
    meant = next((name for name in models if catalog.same_name(model, name)), None)
    instead = f"did you mean {meant}?" if meant else f"known: {listed(models)}"
    # V100 and P100 can be attached, but not partitioned, so the catalog does not have them.
    if model not in catalog.load().gpus:
        return refuse(path, f"{model} is not in the catalog", instead, CATALOG)
    return refuse(path, f"{model} cannot be attached to {machine.name}", instead, machine.source)


@rule("system-machine-type")
def system_machine(name: str, cloud: Cloud) -> Checked[Machine | UnlistedMachine | None]:
    """The system pool's machine type, which has no GPU."""
    at = ("system_pool", "machine_type")
    machine = _catalogued(name, cloud)
    if machine is None:
        known_error = _certain_error(name, cloud, at, gpus=False)
        yield known_error or _misspelled(name, cloud, at, gpus=False)
        return None if known_error else UnlistedMachine(name=name, cloud=cloud)
    if machine.gpu is not None:
        alike = _names_with_gpus(_by_size(machine, catalog.general_machines(cloud)))
        yield refuse(
            at,
            f"{name} has GPUs, which would be idle in the system pool",
            f"nearest in size without: {alike}; {_ALL_GENERAL[cloud]}",
            machine.source,
        )
        return None
    return machine


@rule("machine-type")
def named_machine(name: str, cloud: Cloud, path: Path) -> Checked[Machine | None]:
    """A machine type of the catalog, with GPUs or without."""
    machine = _catalogued(name, cloud)
    if machine is None:
        yield _certain_error(name, cloud, path, gpus=True) or _misspelled(
            name, cloud, path, gpus=True
        )
    return machine


def _catalogued(name: str, cloud: Cloud) -> Machine | None:
    return catalog.load().machines.get((cloud, name)) or catalog.general_machine(cloud, name)


def _certain_error(name: str, cloud: Cloud, path: Path, *, gpus: bool) -> Finding | None:
    """A finding for a machine type that is excluded, or is another cloud's."""
    if exclusion := catalog.load().why_excluded(name, cloud):
        instead = f"{listed(exclusion.instead)}, or another" if gpus else "one without GPUs"
        hint = f"choose {instead}; {_suggested_machines(cloud, gpus=gpus)}"
        return refuse(path, f"{name} {exclusion.reason}", hint, exclusion.source)
    other: Cloud = "gke" if cloud == "eks" else "eks"
    elsewhere = _catalogued(name, other)
    if elsewhere is None:
        return None
    reason = f"{name} is a machine type of {elsewhere.cloud}, but the fleet is on {cloud}"
    alike = _names_with_gpus(_by_size(elsewhere, _candidates(cloud, gpus=gpus)))
    hint = f"nearest on {cloud}: {alike}; {_suggested_machines(cloud, gpus=gpus)}"
    return refuse(path, reason, hint, elsewhere.source)


def _misspelled(name: str, cloud: Cloud, path: Path, *, gpus: bool) -> Finding:
    """A finding for a name that no cloud has. A new type without GPUs can be allowed: the plan
    needs no facts about it.
    """
    candidates = tuple(machine.name for machine in _candidates(cloud, gpus=gpus, attachable=True))
    misspelled = nearest_names(name, candidates, count=1, similarity=_MISSPELLED)
    if misspelled:
        hint = f"did you mean {misspelled[0]}?"
    else:
        family = _family(name)
        related = tuple(candidate for candidate in candidates if _family(candidate) == family)
        close = nearest_names(name, related or candidates, count=_SUGGESTIONS, similarity=0)
        hint = f"nearest by name: {listed(close or candidates[:_SUGGESTIONS])}"
    reason = f"{name} is not in the catalog"
    return refuse(
        path, reason, f"{hint}; {_suggested_machines(cloud, gpus=gpus)}", CATALOG, dated=not gpus
    )


def _family(name: str) -> str:
    return re.split(r"[-.]", name)[0]


def _candidates(cloud: Cloud, *, gpus: bool, attachable: bool = False) -> Iterable[Machine]:
    """The machine types with GPUs of their own, or all without.

    attachable: with those that GPUs can be attached to.
    """
    if not gpus:
        return catalog.general_machines(cloud)
    return (m for m in _machines_of(cloud) if m.gpu or (attachable and m.attachable))


def _suggested_machines(cloud: Cloud, *, gpus: bool) -> str:
    return _ALL if gpus else _ALL_GENERAL[cloud]


def _machines_of(cloud: Cloud) -> Iterable[Machine]:
    return (m for m in catalog.load().machines.values() if m.cloud == cloud)


def _by_size(machine: Machine, machines: Iterable[Machine]) -> list[Machine]:
    """The nearest: first by GPU model and count, then by vCPUs and memory."""

    def distance(other: Machine) -> tuple[bool, int, int, float]:
        return (
            other.gpu is not machine.gpu,
            abs(other.gpu_count - machine.gpu_count),
            abs(other.vcpus - machine.vcpus),
            abs(other.memory_gib - machine.memory_gib),
        )

    return sorted(machines, key=distance)[:_SUGGESTIONS]


def _names_with_gpus(machines: Iterable[Machine]) -> str:
    return listed(
        [f"{m.name} ({m.gpu_count} x {m.gpu.name})" if m.gpu else m.name for m in machines]
    )
