"""Checks whether the reservations and keys that a GKE plan names exist and fit. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, assert_never

from slicewright.doctor.checks.keys import Remedies
from slicewright.doctor.findings import (
    Answer,
    Finding,
    NotAnswered,
    Owned,
    checks,
    fails,
    not_asked,
    ok,
)
from slicewright.infra.plan import GkeFleetPlan, GkePoolPlan
from slicewright.infra.stack_file import Reservation

_NAME: Final = re.compile(r"(?:projects/([^/]+)/reservations/)?([^/]+)")


@dataclass(frozen=True, kw_only=True, order=True)
class ReservationPath:
    """Compute Engine's identity of a reservation, which belongs to one zone."""

    project: str
    zone: str
    name: str


@dataclass(frozen=True, kw_only=True)
class Reserved:
    machine_type: str
    gpus: tuple[str, int] | None
    """Accelerator type, and the number attached to a machine. None: no accelerators, or only those
    that belong to the machine type.
    """
    count: int
    in_use: int
    specific: bool
    """True if machines must name it."""
    ready: bool
    shared_with: frozenset[str] | None
    """Other projects that may use it. None: all projects of the organization."""


Reservations = Mapping[ReservationPath, Answer[Reserved | None]]
"""A value of None means that there is no such reservation."""


def reservations_needed(
    fleet: GkeFleetPlan, project: str
) -> Mapping[ReservationPath, tuple[GkePoolPlan, ...]]:
    """The reservations that pools name, each with its pools. project: the cluster's project."""
    needed: dict[ReservationPath, tuple[GkePoolPlan, ...]] = {}
    for pool in fleet.pools:
        if (
            not isinstance(pool.settings.capacity, Reservation)
            or pool.settings.capacity.reservation is None
        ):
            continue
        name = _NAME.match(pool.settings.capacity.reservation)
        assert name is not None
        for zone in pool.settings.zones:
            path = ReservationPath(project=name[1] or project, zone=zone, name=name[2])
            needed[path] = (*needed.get(path, ()), pool)
    return dict(sorted(needed.items()))


def keys_needed(fleet: GkeFleetPlan) -> Mapping[str, str]:
    """Path -> the first user of the key."""
    cluster = fleet.cluster
    used = {cluster.secrets_key: "cluster.secrets_key", cluster.kms_key: "cluster.kms_key"}
    return {path: user for path, user in used.items() if path is not None}


@checks("gke-reservation")
def reservation_findings(
    fleet: GkeFleetPlan, answers: Reservations, owned: Owned, *, project: str
) -> Iterator[Finding]:
    """owned: whether this stack created the cluster. If so, its nodes use some of the capacity."""
    for path, pools in reservations_needed(fleet, project).items():
        subject = f"reservation {path.name} in {path.zone} of project {path.project}"
        match answers[path]:
            case NotAnswered() as refusal:
                yield not_asked(subject, refusal)
            case None:
                yield fails(
                    subject,
                    "does not exist",
                    f"gcloud compute reservations list --project={path.project} lists the "
                    f"existing ones; correct zones and reservation of pool {pools[0].name}",
                )
            case Reserved() as reservation:
                yield from _fit(path, reservation, pools, subject, owned, project)
            case other:
                assert_never(other)


@checks("gke-reservation-fit")
def _fit(
    path: ReservationPath,
    reservation: Reserved,
    pools: tuple[GkePoolPlan, ...],
    subject: str,
    owned: Owned,
    project: str,
) -> Iterator[Finding]:
    problems = [problem for pool in pools for problem in _of_pool(pool, reservation)]
    for detail, remedy in problems:
        yield fails(subject, detail, remedy)
    shared = reservation.shared_with is None or project in reservation.shared_with
    if path.project != project and not shared:
        yield fails(
            subject,
            f"is not shared with project {project}",
            f"gcloud compute reservations update {path.name} --zone={path.zone} "
            f"--project={path.project} --add-share-with={project}",
        )
        return
    if problems:
        return
    needed = sum(-(-pool.nodes.max // len(pool.settings.zones)) for pool in pools)
    # Machines of this stack are both part of those in use and part of those needed.
    free = reservation.count - (0 if owned == "yes" else reservation.in_use)
    detail = (
        f"{reservation.count} machines, {reservation.in_use} in use; the stack needs {needed} there"
    )
    if needed <= free:
        yield ok(subject, detail)
        return
    yield fails(
        subject,
        detail,
        f"gcloud compute reservations update {path.name} --zone={path.zone} "
        f"--project={path.project} --vm-count={reservation.count + needed - free}",
    )


def _of_pool(pool: GkePoolPlan, reservation: Reserved) -> Iterator[tuple[str, str]]:
    """Yields the reasons why the pool cannot use the reservation, each with its remedy."""
    if reservation.machine_type != pool.settings.machine.name:
        yield (
            f"reserves {reservation.machine_type}, but the nodes of pool {pool.name} are "
            f"{pool.settings.machine.name}",
            "name a reservation for that machine type, or change machine_type",
        )
    elif reservation.gpus is not None and reservation.gpus != (
        pool.settings.accelerator,
        pool.gpu_count,
    ):
        kind, count = reservation.gpus
        yield (
            f"reserves machines with {count} {kind}, but the nodes of pool {pool.name} have "
            f"{pool.gpu_count} {pool.settings.accelerator}",
            "name a reservation of machines with the same GPUs",
        )
    if not reservation.specific:
        yield (
            "does not allow machines to name it: specificReservationRequired is off",
            "remove its name from capacity, or create one with --require-specific-reservation",
        )
    if not reservation.ready:
        yield "is not ready", "wait until its status is READY"


def key_remedies(path: str, state: str | None) -> Remedies:
    """Remedies for keys of Cloud KMS."""
    _, project, _, location, _, ring, _, key = path.split("/")
    where = f"--keyring={ring} --location={location} --project={project}"
    versions = "gcloud kms keys versions"
    match state:
        case "DISABLED":
            enable = f"{versions} enable VERSION --key={key} {where}"
        case "DESTROY_SCHEDULED":
            enable = f"{versions} restore VERSION --key={key} {where}"
        case _:
            enable = f"{versions} create --key={key} --primary {where}"
    return Remedies(
        not_enabled=f"its primary version is {state}" if state else "has no primary version",
        list_all=f"gcloud kms keys list {where}",
        make=f"gcloud kms keys create NAME --purpose=encryption {where}",
        enable=enable,
    )
