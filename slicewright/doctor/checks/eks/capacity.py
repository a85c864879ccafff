"""Checks whether the capacity that an EKS plan's pools name, and its keys, exist and fit. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

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
from slicewright.infra import catalog
from slicewright.infra.plan import EksFleetPlan, EksPoolPlan
from slicewright.infra.stack_file import CapacityBlock


@dataclass(frozen=True, kw_only=True)
class CapacityReservation:
    """A capacity reservation, with the values that EC2 describes."""

    id: str
    instance_type: str
    zone: str
    zone_id: str
    state: str
    """EC2's state: active, scheduled, expired, cancelled and others."""
    block: bool
    """True if it belongs to a capacity block."""
    total: int
    """The number of instances."""
    available: int
    start: str | None
    end: str | None
    """Both times are in UTC."""


Reservations = Mapping[str, Answer[tuple[CapacityReservation, ...] | None]]
"""The plan's ID, or ARN of a resource group -> the reservations. None: the name does not exist."""


def reservations_needed(fleet: EksFleetPlan) -> Mapping[str, tuple[EksPoolPlan, ...]]:
    """ID, or ARN of a resource group -> the pools whose launch template targets it."""
    needed: dict[str, tuple[EksPoolPlan, ...]] = {}
    for pool in fleet.pools:
        reserved = pool.settings.template.reserved if pool.settings.template else None
        if reserved is not None and (name := reserved.reservation or reserved.group):
            needed[name] = (*needed.get(name, ()), pool)
    return needed


def keys_needed(fleet: EksFleetPlan) -> Mapping[str, str]:
    """ARN -> the first user of the key."""
    users: dict[str, str] = {}
    if fleet.cluster.secrets_key is not None:
        users[fleet.cluster.secrets_key] = "cluster.secrets_key"
    for pool in fleet.pools:
        if pool.settings.template is not None and pool.settings.template.kms_key is not None:
            users.setdefault(pool.settings.template.kms_key, f"disk.kms_key of pool {pool.name}")
    return users


@checks("eks-reservation")
def reservation_findings(
    fleet: EksFleetPlan, answers: Reservations, owned: Owned
) -> Iterator[Finding]:
    """owned: whether this stack created the cluster. If so, its nodes use some of the capacity."""
    region = fleet.cluster.region
    for name, pools in reservations_needed(fleet).items():
        is_group = name.startswith("arn:")
        subject = f"{'resource group' if is_group else 'capacity reservation'} {name}"
        match answers[name]:
            case NotAnswered() as refusal:
                yield not_asked(subject, refusal)
            case None:
                yield fails(
                    subject,
                    f"does not exist in {region} of this account",
                    _list_command(name, region),
                )
            case reservations:
                problems = [
                    _misfit(pool, reservations, f"{subject} for pool {pool.name}", region)
                    for pool in pools
                ]
                yield from (problem for problem in problems if problem is not None)
                if not any(problems):
                    yield _size(pools, reservations, subject, region, owned)


def _misfit(
    pool: EksPoolPlan, reservations: Sequence[CapacityReservation], subject: str, region: str
) -> Finding | None:
    """Explains why the pool cannot use the reservation, or any reservation of a group."""
    same_type = [r for r in reservations if r.instance_type in pool.settings.machine_types]
    if not same_type:
        types = ", ".join(sorted({r.instance_type for r in reservations})) or "no machines"
        return fails(
            subject,
            f"reserves {types}, but the pool's nodes are {', '.join(pool.settings.machine_types)}",
            "name a reservation for that machine type, or change machine_type",
        )
    wants_block = isinstance(pool.settings.capacity, CapacityBlock)
    same_kind = [r for r in same_type if r.block is wants_block]
    if not same_kind:
        return fails(
            subject,
            "is not a capacity block" if wants_block else "is a capacity block",
            f"write mode: {'reservation' if wants_block else 'capacity-block'} as capacity",
        )
    active = [r for r in same_kind if r.state == "active"]
    if not active:
        return _inactive(same_kind[0], pool, subject, region)
    return _missing_zones(pool, active, subject)


def _inactive(
    reservation: CapacityReservation, pool: EksPoolPlan, subject: str, region: str
) -> Finding:
    if reservation.state == "scheduled":
        return fails(
            subject,
            f"is scheduled; it starts at {reservation.start}",
            "run `pulumi up` once it is active, or leave the pool out until then",
        )
    return fails(
        subject,
        f"is {reservation.state}",
        f"name an active one: {_list_active(region, pool)}",
    )


def _missing_zones(
    pool: EksPoolPlan, reservations: Sequence[CapacityReservation], subject: str
) -> Finding | None:
    reserved = {zone for r in reservations for zone in (r.zone, r.zone_id)}
    missing = [zone for zone in pool.settings.zones if zone not in reserved]
    if not missing:
        return None
    by_id = catalog.is_zone_id(pool.settings.zones[0])
    usable = ", ".join(sorted({r.zone_id if by_id else r.zone for r in reservations}))
    places = ", ".join(sorted({f"{r.zone} ({r.zone_id})" for r in reservations}))
    return fails(
        subject,
        f"is in {places}, but the pool is also in {', '.join(missing)}",
        f"write zones: [{usable}] for the pool",
    )


def _size(
    pools: Sequence[EksPoolPlan],
    reservations: Sequence[CapacityReservation],
    subject: str,
    region: str,
    owned: Owned,
) -> Finding:
    machine_types = {machine for pool in pools for machine in pool.settings.machine_types}
    usable = [r for r in reservations if r.state == "active" and r.instance_type in machine_types]
    needed = sum(pool.nodes.max for pool in pools)
    total, available = sum(r.total for r in usable), sum(r.available for r in usable)
    detail = f"{total} instances, {available} free; the stack needs {needed}"
    ends = sorted(r.end for r in usable if r.end is not None)
    if ends:
        detail += f"; it ends at {ends[0]}"
    # Instances of this stack are both part of the taken ones and part of the needed ones.
    free = total if owned == "yes" else available
    if needed <= free:
        return ok(subject, detail)
    (first, *_) = usable
    if first.block:
        return fails(subject, detail, f"lower nodes to {free}")
    return fails(
        subject,
        detail,
        f"aws ec2 modify-capacity-reservation --capacity-reservation-id {first.id} "
        f"--instance-count {first.total + needed - free} --region {region}",
    )


def key_remedies(region: str) -> Callable[[str, str | None], Remedies]:
    """Remedies for keys of AWS KMS."""

    def of(arn: str, state: str | None) -> Remedies:
        where = f"--key-id {arn} --region {region}"
        match state:
            case "Disabled":
                enable = f"aws kms enable-key {where}"
            case "PendingDeletion":
                enable = f"aws kms cancel-key-deletion {where}; aws kms enable-key {where}"
            case _:
                enable = f"aws kms describe-key {where}"
        return Remedies(
            not_enabled=f"is {state}",
            list_all=f"aws kms list-keys --region {region}",
            make=f"aws kms create-key --region {region} creates one",
            enable=enable,
        )

    return of


def _list_command(name: str, region: str) -> str:
    if name.startswith("arn:"):
        return f"aws resource-groups list-groups --region {region}"
    return f"aws ec2 describe-capacity-reservations --region {region}"


def _list_active(region: str, pool: EksPoolPlan) -> str:
    return (
        "aws ec2 describe-capacity-reservations --filters Name=state,Values=active "
        f"Name=instance-type,Values={','.join(pool.settings.machine_types)} --region {region}"
    )
