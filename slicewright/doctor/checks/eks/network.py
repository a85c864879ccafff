"""Checks which parts of an EKS plan's network an AWS account would refuse. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

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
from slicewright.infra.plan import (
    EksClusterPlan,
    EksFleetPlan,
    ExistingSubnet,
    misfits,
    node_subnet_ids,
    nodes_by_zone,
)
from slicewright.infra.stack_file import ExistingNetwork

_FEWEST_FREE = 6
"""Free addresses that each subnet of a control plane needs. Source: EKS user guide, "Amazon EKS
networking requirements for VPC and subnets".
"""


@dataclass(frozen=True, kw_only=True)
class Vpc:
    """The VPC of subnets that exist."""

    id: str
    dns_support: bool
    dns_hostnames: bool


@dataclass(frozen=True, kw_only=True)
class ExistingNetworkAnswers:
    subnets: Answer[tuple[ExistingSubnet, ...]]
    vpcs: Answer[tuple[Vpc, ...]]
    """The VPCs of those subnets."""


@checks("eks-network")
def existing_network(cluster: EksClusterPlan, answers: ExistingNetworkAnswers) -> Iterator[Finding]:
    subject = "subnets of cluster.network"
    if isinstance(answers.subnets, NotAnswered):
        yield not_asked(subject, answers.subnets)
        return
    existing = {subnet.id for subnet in answers.subnets}
    named = cluster.network.subnets if isinstance(cluster.network, ExistingNetwork) else ()
    for identity in named:
        if identity not in existing:
            yield fails(
                f"{subject}: {identity}",
                f"the account has no such subnet in {cluster.region}",
                f"aws ec2 describe-subnets --region {cluster.region}",
            )
    wrong = misfits(cluster, answers.subnets)
    for misfit in wrong:
        reason, _, remedy = misfit.partition("; ")
        yield fails(subject, reason, remedy or "name subnets of one VPC")
    for subnet in answers.subnets:
        if subnet.free_addresses < _FEWEST_FREE:
            yield fails(
                f"{subject}: {subnet.id}",
                f"{subnet.free_addresses} addresses are free, but EKS needs {_FEWEST_FREE}",
                "name a larger subnet of the same zone",
            )
    if not wrong and existing >= {*named}:
        yield ok(subject, ", ".join(f"{s.id} in {s.zone}" for s in answers.subnets))
    yield from _vpcs(answers.vpcs)


@checks("eks-network-room")
def room_for_nodes(
    fleet: EksFleetPlan, answers: ExistingNetworkAnswers, owned: Owned
) -> Iterator[Finding]:
    """Checks for an address for each node at the pools' maximum size. Their pods need more.

    owned: whether this stack created the cluster, whose nodes then have addresses already.
    """
    if isinstance(answers.subnets, NotAnswered) or owned == "yes":
        return
    free = {subnet.id: subnet.free_addresses for subnet in answers.subnets}
    nodes = nodes_by_zone(fleet.system, fleet.pools)
    for zone, subnets in node_subnet_ids(fleet.cluster, answers.subnets).items():
        needed = nodes.get(zone, 0)
        available = sum(free[subnet] for subnet in subnets)
        # A zone without a subnet is a separate finding.
        if subnets and needed > available:
            yield fails(
                f"addresses for nodes in {zone}",
                f"{available} are free in {', '.join(subnets)}, but the stack's nodes there need "
                f"{needed}",
                "add another subnet of the zone, or lower nodes",
            )


@checks("eks-vpc-dns")
def _vpcs(answer: Answer[tuple[Vpc, ...]]) -> Iterator[Finding]:
    """Nodes find the control plane by its private name. Source: the same EKS user guide page."""
    subject = "DNS of the VPC of cluster.network"
    if isinstance(answer, NotAnswered):
        yield not_asked(subject, answer)
        return
    for vpc in answer:
        off = [
            name
            for name, on in (
                ("enable-dns-support", vpc.dns_support),
                ("enable-dns-hostnames", vpc.dns_hostnames),
            )
            if not on
        ]
        if not off:
            yield ok(subject, f"{vpc.id}: DNS resolution and DNS hostnames are on")
        for name in off:
            yield fails(
                subject,
                f"{name} of {vpc.id} is off, so nodes would not find the control plane",
                f"aws ec2 modify-vpc-attribute --vpc-id {vpc.id} --{name}",
            )
