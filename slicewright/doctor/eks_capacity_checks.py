"""Checks whether the capacity that an EKS plan's pools name, and its keys, exist and fit. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from infra import catalog
from infra.plan import EksFleetPlan, EksPoolPlan
from infra.spec import CapacityBlock
from slicewright.doctor.findings import Answer, Finding, NotAnswered, Owned, fails, not_asked, ok
from slicewright.doctor.key_checks import Remedies


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
    found: dict[str, tuple[EksPoolPlan, ...]] = {}
    for pool in fleet.pools:
        reserved = pool.settings.template.reserved if pool.settings.template else None
        if reserved is not None and (name := reserved.reservation or reserved.group):
            found[name] = (*found.get(name, ()), pool)
    return found


def keys_needed(fleet: EksFleetPlan) -> Mapping[str, str]:
    """ARN -> the first user of the key."""
    found: dict[str, str] = {}
    if fleet.cluster.secrets_key is not None:
        found[fleet.cluster.secrets_key] = "cluster.secrets_key"
    for pool in fleet.pools:
        if pool.settings.template is not None and pool.settings.template.kms_key is not None:
            found.setdefault(pool.settings.template.kms_key, f"disk.kms_key of pool {pool.name}")
    return found


def reservation_findings(
    fleet: EksFleetPlan, answers: Reservations, owned: Owned
) -> Iterator[Finding]:
    """owned: whether this stack created the cluster. If so, its nodes use some of the capacity."""
    region = fleet.cluster.region
    for name, pools in reservations_needed(fleet).items():
        is_group = name.startswith("arn:")
        asked = f"{'resource group' if is_group else 'capacity reservation'} {name}"
        show = _show(name, region)
        match answers[name]:
            case NotAnswered() as refusal:
                yield not_asked(asked, refusal)
            case None:
                yield fails(asked, f"the account has none of that name in {region}", show)
            case there:
                problems = [f for pool in pools for f in _of_pool(pool, there, asked, region)]
                yield from problems
                if not problems:
                    yield from _counted(pools, there, asked, region, owned)


def _of_pool(
    pool: EksPoolPlan,
    there: tuple[CapacityReservation, ...],
    asked: str,
    region: str,
) -> Iterator[Finding]:
    """Explains why the pool cannot use the reservation, or any reservation of a group."""
    wants_block = isinstance(pool.settings.capacity, CapacityBlock)
    what = f"{asked} for pool {pool.name}"
    same_type = [one for one in there if one.instance_type in pool.settings.machine_types]
    if not same_type:
        types = ", ".join(sorted({one.instance_type for one in there})) or "nothing"
        yield fails(
            what,
            f"is of {types}, and the pool's nodes are {', '.join(pool.settings.machine_types)}",
            "name a reservation of that type, or change machine_type",
        )
        return
    of_kind = [one for one in same_type if one.block is wants_block]
    if not of_kind:
        yield fails(
            what,
            "is not a capacity block" if wants_block else "is a capacity block's",
            f"write mode: {'reservation' if wants_block else 'capacity-block'} as capacity",
        )
        return
    active = [one for one in of_kind if one.state == "active"]
    if not active:
        (first, *_) = of_kind
        since = f"; it starts at {first.start}" if first.state == "scheduled" else ""
        yield fails(
            what,
            f"is {first.state}{since}",
            "run `pulumi up` once it is active, or leave the pool out until then"
            if first.state == "scheduled"
            else f"name another one: {_list_active(region, pool)}",
        )
        return
    having = {zone for one in active for zone in (one.zone, one.zone_id)}
    lacking = [zone for zone in pool.settings.zones if zone not in having]
    if lacking:
        by_id = catalog.is_zone_id(pool.settings.zones[0])
        there_in = ", ".join(sorted({one.zone_id if by_id else one.zone for one in active}))
        yield fails(
            what,
            f"is in {', '.join(sorted({f'{one.zone} ({one.zone_id})' for one in active}))}, and "
            f"the pool also in {', '.join(lacking)}",
            f"write zones: [{there_in}] for the pool",
        )


def _counted(
    pools: tuple[EksPoolPlan, ...],
    there: tuple[CapacityReservation, ...],
    asked: str,
    region: str,
    owned: Owned,
) -> Iterator[Finding]:
    usable = [
        one
        for one in there
        if one.state == "active"
        and any(one.instance_type in p.settings.machine_types for p in pools)
    ]
    needed = sum(pool.nodes.max for pool in pools)
    total, available = sum(o.total for o in usable), sum(o.available for o in usable)
    said = f"{total} instances, of which {available} are free; the stack's nodes are {needed}"
    until = sorted(one.end for one in usable if one.end is not None)
    if until:
        said += f"; it ends at {until[0]}"
    # Instances of this stack are both part of the taken ones and part of the needed ones.
    free = total if owned == "yes" else available
    if needed <= free:
        yield ok(asked, said)
        return
    (first, *_) = usable
    yield fails(
        asked,
        said,
        f"lower nodes to {free}"
        if first.block
        else f"aws ec2 modify-capacity-reservation --capacity-reservation-id {first.id} "
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
            make=f"aws kms create-key --region {region} makes one",
            enable=enable,
        )

    return of


def _show(name: str, region: str) -> str:
    if name.startswith("arn:"):
        return f"aws resource-groups list-groups --region {region}"
    return f"aws ec2 describe-capacity-reservations --region {region}"


def _list_active(region: str, pool: EksPoolPlan) -> str:
    return (
        "aws ec2 describe-capacity-reservations --filters Name=state,Values=active "
        f"Name=instance-type,Values={','.join(pool.settings.machine_types)} --region {region}"
    )
