"""Machine types and zones that suit the answers so far, from the catalog."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Final

from slicewright.infra import catalog
from slicewright.infra.catalog import Gpu, Machine
from slicewright.infra.plan.machines.boot_disks import required_boot_disk
from slicewright.init.answers import Answers

_REGIONS: Final = {"gke": "us-central1", "eks": "us-east-1"}
_ANY_MACHINE: Final = {"gke": "a2-highgpu-1g", "eks": "p4d.24xlarge"}
"""Stands for a machine type in a region that the record of the clouds lacks."""
_GPU: Final = "H100-80"
_CONTEXT: Final = "context-of-"


def region(answers: Answers) -> str:
    return _REGIONS[answers.cloud]


def gpu() -> str:
    return _GPU


def machines(answers: Answers) -> Sequence[Machine]:
    """Machine types of the region that can be rented by the hour, with MIG first."""
    rented = [
        machine
        for machine in _machines(answers)
        if machine.gpu is not None
        and "on-demand" in (machine.capacity or ())
        and _zones(answers, machine)
    ]
    return sorted(rented, key=lambda machine: machine.gpu is None or machine.gpu.family is None)


def gpu_of(answers: Answers) -> Gpu | None:
    """The GPU model of the answers. None if the catalog lacks it."""
    record = catalog.load()
    if answers.cloud == "existing":
        return record.gpus.get(answers.gpu)
    machine = record.machines.get((answers.cloud, answers.machine_type))
    return None if machine is None else machine.gpu


def complete(answers: Answers) -> Answers:
    """The answers with suggestions for the open questions, which can be checked."""
    contexts = answers.contexts or tuple(f"{_CONTEXT}{name}" for name in answers.environments)
    if answers.cloud == "existing":
        return dataclasses.replace(answers, contexts=contexts, gpu=answers.gpu or _GPU)
    answers = dataclasses.replace(answers, region=answers.region or region(answers))
    if answers.machine_type:
        return answers
    suggested = next(iter(machines(answers)), None)
    name = _ANY_MACHINE[answers.cloud] if suggested is None else suggested.name
    return dataclasses.replace(answers, machine_type=name)


def is_recorded(answers: Answers) -> bool:
    """True if the record of the cloud has the region."""
    regions = catalog.gcp().zones if answers.cloud == "gke" else catalog.aws().regions
    return answers.region in regions


def region_of_zone(text: str) -> str | None:
    """The Google Cloud region that has a zone of this name. None: it is no known zone."""
    return next((region for region, zones in catalog.gcp().zones.items() if text in zones), None)


def gke_zone(answers: Answers) -> str:
    """A zone of the region, with the machine type if it is offered there."""
    machine = catalog.load().machines.get(("gke", answers.machine_type))
    zones = () if machine is None else _zones(answers, machine)
    return next(iter(zones or catalog.gcp().zones.get(answers.region, ())), f"{answers.region}-a")


def gke_boot_disk(answers: Answers) -> str | None:
    """The type of boot disk for a machine type that cannot boot from the default one."""
    machine = catalog.load().machines.get(("gke", answers.machine_type))
    return None if machine is None else required_boot_disk(machine)


def eks_zones(answers: Answers) -> tuple[str, ...]:
    """Ids of two zones with room for a control plane, the first one with the machine type. Empty
    if they are not known.
    """
    record = catalog.aws()
    zones = catalog.aws_region(answers.region).zones
    usable = [zone for zone in zones if zone not in record.no_control_plane]
    offered = catalog.offerings().get(answers.machine_type, {}).get(answers.region, ())
    usable.sort(key=lambda zone: zone not in offered)
    return tuple(usable[:2]) if len(usable) > 1 else ()


def _machines(answers: Answers) -> Iterator[Machine]:
    for (cloud, _), machine in catalog.load().machines.items():
        if cloud == answers.cloud:
            yield machine


def _zones(answers: Answers, machine: Machine) -> tuple[str, ...]:
    """The zones of the region that are known to have the machine type."""
    if machine.cloud == "eks":
        return catalog.offerings().get(machine.name, {}).get(answers.region, ())
    zones = catalog.gcp().zones.get(answers.region, ())
    return tuple(zone for zone in zones if zone in (machine.zones or ()))
