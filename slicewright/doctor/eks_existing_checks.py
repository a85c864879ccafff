"""What an EKS cluster that exists lacks for a plan's pools; pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from infra import values
from infra.plan import NODE_MONITORING, EksFleetPlan
from slicewright.doctor.findings import (
    Answer,
    Finding,
    NotAnswered,
    Owned,
    fails,
    name_taken,
    not_asked,
    ok,
)
from slicewright.doctor.reach import Reach


@dataclass(frozen=True, kw_only=True)
class ExistingEksCluster:
    status: str
    version: str
    """Of Kubernetes, as 1.35."""
    public: bool
    """Whether its endpoint is reached from the internet."""
    public_cidrs: tuple[str, ...]
    """From these addresses."""
    reach: Answer[Reach]
    """Of its endpoint, from here."""
    monitored: Answer[bool]
    """Whether it has EKS's node monitoring agent as an add-on."""
    groups: Answer[frozenset[str]]
    """Names of its node groups."""


def existing_cluster(
    fleet: EksFleetPlan, answer: Answer[ExistingEksCluster | None]
) -> Iterator[Finding]:
    """Nothing of one that is not there."""
    name, region = fleet.cluster.name, fleet.cluster.region
    asked = f"existing cluster {name} in {region}"
    if isinstance(answer, NotAnswered):
        yield not_asked(asked, answer)
        return
    if answer is None:
        return
    if answer.status != "ACTIVE":
        yield fails(
            asked,
            f"is {answer.status}, and EKS adds nodes to an ACTIVE one only",
            f"aws eks wait cluster-active --name {name} --region {region}",
        )
    yield from _version(fleet, answer.version, asked)
    yield _reach(fleet, answer)
    yield from _monitored(fleet, answer.monitored)
    if isinstance(answer.groups, NotAnswered):
        yield not_asked(f"node groups of {asked}", answer.groups)


def groups_taken(fleet: EksFleetPlan, answer: Answer[ExistingEksCluster | None]) -> tuple[str, ...]:
    """Names of the plan's node groups that the cluster has already: of this stack, or another's."""
    if answer is None or isinstance(answer, NotAnswered) or isinstance(answer.groups, NotAnswered):
        return ()
    wanted = (fleet.system.name, *(pool.name for pool in fleet.node_groups))
    return tuple(name for name in wanted if name in answer.groups)


def group_taken(fleet: EksFleetPlan, group: str, owned: Owned) -> Finding:
    """Of a name that is taken. owned: whether this stack made the node group."""
    cluster, region = fleet.cluster.name, fleet.cluster.region
    remedy = (
        f"delete that one: aws eks delete-nodegroup --cluster-name {cluster} --nodegroup-name "
        f"{group} --region {region}"
    )
    if group != fleet.system.name:
        remedy = f"write another name for the pool, or {remedy}"
    return name_taken(f"node group {group} of existing cluster {cluster}", owned, remedy)


def _version(fleet: EksFleetPlan, version: str, asked: str) -> Iterator[Finding]:
    name, region = fleet.cluster.name, fleet.cluster.region
    oldest = values.OLDEST_KUBERNETES
    if tuple(map(int, version.split(".")[:2])) < oldest:
        needed = ".".join(map(str, oldest))
        yield fails(
            f"Kubernetes of {asked}",
            f"{version}, and the admission policies that guard the nodes need {needed}",
            f"upgrade it, a minor version at a time: aws eks update-cluster-version --name {name} "
            f"--kubernetes-version VERSION --region {region}",
        )
        return
    wrong = [
        pool
        for pool in fleet.pools
        if pool.release_version is not None and not pool.release_version.startswith(f"{version}.")
    ]
    for pool in wrong:
        yield fails(
            f"Kubernetes of {asked}",
            f"{version}, and the machine image {pool.release_version} of pool {pool.name} is not "
            "for it",
            f"write a release of {version} as release_version, or leave it out",
        )
    if not wrong:
        yield ok(f"Kubernetes of {asked}", version)


def _reach(fleet: EksFleetPlan, found: ExistingEksCluster) -> Finding:
    """The program creates objects in the cluster, from where it runs."""
    name, region = fleet.cluster.name, fleet.cluster.region
    asked = f"endpoint of existing cluster {name}"
    if isinstance(found.reach, NotAnswered):
        return not_asked(asked, found.reach)
    if found.reach.why_not is None:
        return ok(asked, f"{found.reach.server} takes connections from here")
    if not found.public:
        return fails(
            asked,
            f"no connection from here ({found.reach.why_not}): it is private",
            "run `pulumi up` in its VPC or in a network that is connected to it",
        )
    return fails(
        asked,
        f"no connection from here ({found.reach.why_not}); it is open to "
        f"{', '.join(found.public_cidrs) or 'all addresses'}",
        f"aws eks update-cluster-config --name {name} --region {region} --resources-vpc-config "
        f"publicAccessCidrs={','.join((*found.public_cidrs, 'YOUR_ADDRESS/32'))}",
    )


def _monitored(fleet: EksFleetPlan, there: Answer[bool]) -> Iterator[Finding]:
    """For conditions of GPUs, on which rules are; without rules EKS repairs nodes that are not
    Ready all the same. Source: EKS user guide, enable node auto repair.
    """
    pools = [p.name for p in fleet.pools if p.repair and p.repair.enabled and p.repair.rules]
    if not pools:
        return
    name, region = fleet.cluster.name, fleet.cluster.region
    asked = f"add-on {NODE_MONITORING} of existing cluster {name}"
    match there:
        case NotAnswered() as refusal:
            yield not_asked(asked, refusal)
        case True:
            yield ok(asked, "is there")
        case _:
            yield fails(
                asked,
                f"is not there, and the repair rules of pool {', '.join(pools)} wait for "
                "conditions that it sets",
                f"aws eks create-addon --cluster-name {name} --addon-name {NODE_MONITORING} "
                f"--region {region}",
            )
