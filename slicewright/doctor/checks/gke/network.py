"""Checks whether an existing VPC and subnet meet the needs of a GKE plan. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from slicewright.doctor.findings import Answer, Finding, NotAnswered, checks, fails, not_asked, ok
from slicewright.infra.plan import GkeFleetPlan, GkeNetworkPlan, pod_addresses


@dataclass(frozen=True, kw_only=True)
class Subnet:
    vpc: str
    """projects/P/global/networks/N."""
    ranges: Mapping[str, str]
    """Secondary range -> its addresses in CIDR notation."""


@checks("gke-shared-vpc")
def shared_vpc(fleet: GkeFleetPlan, host: Answer[str | None], *, project: str) -> Iterator[Finding]:
    """Checks that the network's project shares it with the cluster's. Source: VPC docs,
    Shared VPC.
    """
    network = fleet.cluster.network
    if network is None or network.project in (None, project):
        return
    subject = f"Shared VPC of project {network.project}"
    match host:
        case NotAnswered() as refusal:
            yield not_asked(subject, refusal)
        case other if other != network.project:
            attachment = f"is attached to {other}" if other else "is attached to no host project"
            yield fails(
                subject,
                f"project {project} {attachment}",
                f"gcloud compute shared-vpc associated-projects add {project} "
                f"--host-project={network.project}",
            )
        case _:
            yield ok(subject, f"shared with project {project}")


@checks("gke-subnet")
def subnet_findings(
    fleet: GkeFleetPlan, answer: Answer[Subnet | None], *, project: str
) -> Iterator[Finding]:
    """Yields nothing if the stack creates its own network. project: the cluster's project."""
    network = fleet.cluster.network
    if network is None:
        return
    region, owner = fleet.cluster.region, network.project or project
    subject = f"subnet {network.subnet} in {region} of project {owner}"
    show = (
        f"gcloud compute networks subnets list --network={network.vpc} --regions={region} "
        f"--project={owner}"
    )
    match answer:
        case NotAnswered() as refusal:
            yield not_asked(subject, refusal)
        case None:
            yield fails(subject, "does not exist", show)
        case Subnet(vpc=vpc) if vpc != f"projects/{owner}/global/networks/{network.vpc}":
            yield fails(subject, f"belongs to VPC {vpc}, not to {network.vpc}", show)
        case Subnet():
            yield ok(subject, f"exists, in VPC {network.vpc}")
            yield from _ranges(fleet, network, answer, subject, owner)


@checks("gke-subnet-range")
def _ranges(
    fleet: GkeFleetPlan, network: GkeNetworkPlan, subnet: Subnet, where: str, owner: str
) -> Iterator[Finding]:
    for name in (network.pods_range, network.services_range):
        if name in subnet.ranges:
            continue
        yield fails(
            f"secondary range {name} of {where}",
            f"does not exist; existing ranges: {', '.join(sorted(subnet.ranges)) or 'none'}",
            f"gcloud compute networks subnets update {network.subnet} "
            f"--region={fleet.cluster.region} --project={owner} "
            f"--add-secondary-ranges={name}=<addresses in CIDR notation>",
        )
    if network.pods_range not in subnet.ranges:
        return
    addresses = subnet.ranges[network.pods_range]
    available = ipaddress.ip_network(addresses).num_addresses
    needed = pod_addresses(fleet.system, fleet.pools)
    subject = f"addresses for pods in range {network.pods_range} ({addresses})"
    detail = f"{available}; the stack's nodes need {needed}"
    if needed <= available:
        yield ok(subject, detail)
    else:
        yield fails(
            subject,
            detail,
            "name a larger range as cluster.network.pods_range, or lower max_pods_per_node",
        )


def gpu_subnets_needed(fleet: GkeFleetPlan) -> tuple[str, ...]:
    """Names of the existing subnets, in the project of the cluster."""
    return tuple(
        network.subnet for network in fleet.cluster.gpu_networks if network.subnet is not None
    )


@checks("gke-gpu-subnet")
def gpu_subnet_findings(
    fleet: GkeFleetPlan, answers: Mapping[str, Answer[Subnet | None]], *, project: str
) -> Iterator[Finding]:
    region = fleet.cluster.region
    for network in fleet.cluster.gpu_networks:
        if network.subnet is None:
            continue
        subject = f"subnet {network.subnet} in {region} (cluster.gpu_networks)"
        show = f"gcloud compute networks subnets list --regions={region} --project={project}"
        match answers[network.subnet]:
            case NotAnswered() as refusal:
                yield not_asked(subject, refusal)
            case None:
                yield fails(subject, "does not exist", show)
            case Subnet(vpc=vpc) if vpc != f"projects/{project}/global/networks/{network.vpc}":
                yield fails(subject, f"belongs to VPC {vpc}, not to {network.vpc}", show)
            case Subnet():
                yield ok(subject, f"exists, in VPC {network.vpc}")
