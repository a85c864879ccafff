"""Checks whether an EKS plan stays within the quotas of an AWS account. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from slicewright.doctor.findings import (
    Answer,
    Finding,
    NotAnswered,
    Owned,
    check,
    checks,
    fails,
    not_asked,
    ok,
)
from slicewright.infra.catalog import Machine
from slicewright.infra.plan import EksFleetPlan, EksPoolPlan
from slicewright.infra.stack_file import CapacityBlock, Spot

QUOTAS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "L-417A185B": "Running On-Demand P instances",
        "L-7212CCBC": "All P Spot Instance Requests",
        "L-DB2E81BA": "Running On-Demand G and VT instances",
        "L-3819A6DF": "All G and VT Spot Instance Requests",
        "L-1216C47A": "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances",
    }
)
"""Code -> name. The unit is vCPU. Source: EC2 user guide, "Amazon EC2 instance type quotas"."""
_STANDARD = "acdhimrtz"
VPC_QUOTA: Final = "L-F678F1CE"
NAT_QUOTA: Final = "L-FE5A380F"
"""NAT gateways per zone. Source for both codes: VPC user guide, "Amazon VPC quotas"."""
ADDRESS_QUOTA: Final = "L-0263D0A3"
"""EC2-VPC Elastic IPs, per region. Source: VPC user guide, "Amazon VPC quotas"."""
GROUPS_QUOTA: Final = "L-6D54EA21"
NODES_QUOTA: Final = "L-BD136A63"
"""Node groups per cluster, and nodes per node group. Source: EKS user guide, "Amazon EKS service
quotas"; the codes: awsdocs/amazon-eks-user-guide #291.
"""


@dataclass(frozen=True, kw_only=True)
class Running:
    """The vCPU of instances that run, or are about to."""

    vcpus: Mapping[str, int] = field(default_factory=dict)
    """Quota code -> vCPU."""
    of_cluster: Mapping[str, int] = field(default_factory=dict)
    """Quota code -> vCPU of the instances that are nodes of the plan's cluster."""


@dataclass(frozen=True, kw_only=True)
class NatAnswers:
    """The quota of NAT gateways, and its usage."""

    limit: Answer[float]
    usage: Answer[Mapping[str, int]]
    """Zone, by name and by ID -> existing gateways."""


@dataclass(frozen=True, kw_only=True)
class AddressAnswers:
    """Elastic IP addresses, which NAT gateways need."""

    limit: Answer[float]
    usage: Answer[int]


@dataclass(frozen=True, kw_only=True)
class QuotaAnswers:
    """The quotas of an account in a region, and their usage."""

    limits: Mapping[str, Answer[float]]
    """Quota code -> limit."""
    running: Answer[Running]
    vpcs: Answer[int]
    """The number of existing VPCs."""
    addresses: AddressAnswers | None = None
    """None: the stack creates no NAT gateway."""
    gateways: NatAnswers | None = None
    """None: the stack creates no NAT gateway."""


def quota_of(machine: str, *, spot: bool) -> str | None:
    """Returns None for a family whose quota is unknown here."""
    match machine[:1], spot:
        case "p", _:
            return "L-7212CCBC" if spot else "L-417A185B"
        case "g", _:
            return "L-3819A6DF" if spot else "L-DB2E81BA"
        case family, False if family in _STANDARD:
            return "L-1216C47A"
        case _:
            return None


def vcpus_needed(fleet: EksFleetPlan) -> Mapping[str, int]:
    """Quota code -> vCPU of all pools at their maximum size.

    Instances of a Capacity Block do not count against the on-demand quotas. Source: EC2 user guide,
    "Capacity Blocks for ML".
    """
    needed: Counter[str] = Counter()
    used = [
        (system.machine, system.nodes.max, False)
        for system in [fleet.system]
        if isinstance(system.machine, Machine)
    ]
    used += [
        (_largest(pool), pool.nodes.max, isinstance(pool.settings.capacity, Spot))
        for pool in fleet.pools
        if not isinstance(pool.settings.capacity, CapacityBlock)
    ]
    for machine, nodes, spot in used:
        code = quota_of(machine.name, spot=spot)
        if code is not None and nodes:
            needed[code] += machine.vcpus * nodes
    return needed


def codes_needed(fleet: EksFleetPlan) -> Mapping[str, str]:
    """Quota code -> the service that defines it."""
    codes = dict.fromkeys(vcpus_needed(fleet), "ec2") | {GROUPS_QUOTA: "eks", NODES_QUOTA: "eks"}
    if fleet.cluster.own_vpc:
        codes[VPC_QUOTA] = "vpc"
    return codes


def quota_findings(
    fleet: EksFleetPlan, answers: QuotaAnswers, exists: Answer[bool], owned: Owned
) -> Iterator[Finding]:
    """exists: whether the cluster exists. owned: whether this stack created it."""
    created = exists is True and owned == "yes"
    yield from _vcpus(fleet, answers, created=created)
    if fleet.cluster.own_vpc and not created:
        yield from _vpcs(fleet, answers)
    # If the cluster exists, its gateways are already counted.
    if exists is not True:
        if answers.addresses is not None:
            yield from _addresses(fleet, answers.addresses)
        if answers.gateways is not None:
            yield from _gateways(fleet, answers.gateways)
    yield from _nodes(fleet, answers)


@check("quota-node-groups")
def groups_finding(
    fleet: EksFleetPlan, limit: Answer[float], existing: Answer[frozenset[str]]
) -> Finding:
    """existing: names of the cluster's node groups. A new cluster has none."""
    region = fleet.cluster.region
    subject = f"quota {GROUPS_QUOTA} (Managed node groups per cluster) in {region}"
    for answer in (limit, existing):
        if isinstance(answer, NotAnswered):
            return not_asked(subject, answer)
    assert not isinstance(limit, NotAnswered)
    assert not isinstance(existing, NotAnswered)
    planned = {fleet.system.name, *(pool.name for pool in fleet.node_groups)}
    foreign = len(existing - planned)
    total = foreign + len(planned)
    detail = f"{limit:.0f}; the stack has {len(planned)} node groups"
    if foreign:
        detail += f", and the cluster {foreign} others"
    if total <= limit:
        return ok(subject, detail)
    return fails(subject, detail, _more(GROUPS_QUOTA, "eks", total, region))


def _largest(pool: EksPoolPlan) -> Machine:
    """The machine type that gives the pool's nodes the most vCPU."""
    return max(
        (pool.settings.machine, *pool.settings.other_machines), key=lambda machine: machine.vcpus
    )


@checks("quota-vcpus")
def _vcpus(fleet: EksFleetPlan, answers: QuotaAnswers, *, created: bool) -> Iterator[Finding]:
    region = fleet.cluster.region
    for code, needed in sorted(vcpus_needed(fleet).items()):
        subject = f"quota {code} ({QUOTAS[code]}) in {region}"
        limit, running = answers.limits[code], answers.running
        if isinstance(limit, NotAnswered):
            yield not_asked(subject, limit)
            continue
        if isinstance(running, NotAnswered):
            # The stack's need alone may already exceed the limit.
            if limit < needed:
                yield _short(code, subject, limit, 0, needed, region)
            else:
                yield not_asked(subject, running)
            continue
        used = running.vcpus.get(code, 0)
        if created:
            # Instances of this stack are already part of its need.
            used -= running.of_cluster.get(code, 0)
        if limit < used + needed:
            yield _short(code, subject, limit, used, needed, region)
        else:
            yield ok(subject, _vcpu_text(limit, used, needed))


def _short(code: str, subject: str, limit: float, used: int, needed: int, region: str) -> Finding:
    return fails(
        subject, _vcpu_text(limit, used, needed), _more(code, "ec2", used + needed, region)
    )


def _vcpu_text(limit: float, used: int, needed: int) -> str:
    usage = f", {used} used by others" if used else ""
    return f"{limit:.0f} vCPU{usage}; the stack's nodes need {needed}"


@checks("quota-vpcs")
def _vpcs(fleet: EksFleetPlan, answers: QuotaAnswers) -> Iterator[Finding]:
    """The program creates one VPC. An account has five per region unless it asks for more."""
    region = fleet.cluster.region
    subject = f"quota {VPC_QUOTA} (VPCs per Region) in {region}"
    limit, existing = answers.limits[VPC_QUOTA], answers.vpcs
    if isinstance(limit, NotAnswered):
        yield not_asked(subject, limit)
    elif isinstance(existing, NotAnswered):
        yield not_asked(subject, existing)
    elif existing + 1 > limit:
        yield fails(
            subject,
            f"{limit:.0f}, {existing} in use; the stack creates 1",
            _more(VPC_QUOTA, "vpc", existing + 1, region),
        )
    else:
        yield ok(subject, f"{limit:.0f}, {existing} in use")


@checks("quota-addresses")
def _addresses(fleet: EksFleetPlan, answers: AddressAnswers) -> Iterator[Finding]:
    region, needed = fleet.cluster.region, len(fleet.cluster.nat_zones)
    subject = f"quota {ADDRESS_QUOTA} (EC2-VPC Elastic IPs) in {region}"
    limit, usage = answers.limit, answers.usage
    if isinstance(limit, NotAnswered):
        yield not_asked(subject, limit)
    elif isinstance(usage, NotAnswered):
        yield not_asked(subject, usage)
    elif usage + needed > limit:
        yield fails(
            subject,
            f"{limit:.0f}, {usage} in use; the stack's NAT gateways need {needed}",
            _more(ADDRESS_QUOTA, "ec2", usage + needed, region),
        )
    else:
        yield ok(subject, f"{limit:.0f}, {usage} in use")


@checks("quota-nat-gateways")
def _gateways(fleet: EksFleetPlan, answers: NatAnswers) -> Iterator[Finding]:
    """Checks each zone that gets a NAT gateway."""
    region = fleet.cluster.region
    subject = f"quota {NAT_QUOTA} (NAT gateways per Availability Zone) in {region}"
    limit, usage = answers.limit, answers.usage
    if isinstance(limit, NotAnswered):
        yield not_asked(subject, limit)
        return
    if isinstance(usage, NotAnswered):
        yield not_asked(subject, usage)
        return
    full = {zone: n for zone in fleet.cluster.nat_zones if (n := usage.get(zone, 0)) + 1 > limit}
    if full:
        occupied = ", ".join(f"{n} are in {zone}" for zone, n in full.items())
        yield fails(
            subject,
            f"{limit:.0f}; {occupied}; the stack creates one in each of its zones that need one",
            _more(NAT_QUOTA, "vpc", max(full.values()) + 1, region),
        )
    else:
        yield ok(
            subject, f"{limit:.0f}; the stack creates one in {', '.join(fleet.cluster.nat_zones)}"
        )


@checks("quota-nodes")
def _nodes(fleet: EksFleetPlan, answers: QuotaAnswers) -> Iterator[Finding]:
    """The largest size of each node group counts."""
    region = fleet.cluster.region
    subject = f"quota {NODES_QUOTA} (Nodes per managed node group) in {region}"
    limit = answers.limits[NODES_QUOTA]
    sizes = {fleet.system.name: fleet.system.nodes.max}
    sizes |= {pool.name: pool.nodes.max for pool in fleet.node_groups}
    name, most = max(sizes.items(), key=lambda size: size[1])
    detail = f"the largest node group of the stack, {name}, may have {most}"
    if isinstance(limit, NotAnswered):
        yield not_asked(subject, limit)
    elif most > limit:
        yield fails(subject, f"{limit:.0f}; {detail}", _more(NODES_QUOTA, "eks", most, region))
    else:
        yield ok(subject, f"{limit:.0f}; {detail}")


def _more(code: str, service: str, value: int, region: str) -> str:
    return (
        f"aws service-quotas request-service-quota-increase --service-code {service} "
        f"--quota-code {code} --desired-value {value} --region {region}"
    )
