"""Checks whether an existing EKS cluster has everything that a plan's pools need. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from infra import values
from infra.plan import NODE_MONITORING, EksFleetPlan
from slicewright.doctor.findings import (
    Answer,
    Finding,
    NotAnswered,
    Taken,
    fails,
    not_asked,
    ok,
)
from slicewright.doctor.reach import Reach


@dataclass(frozen=True, kw_only=True)
class ExistingEksCluster:
    status: str
    version: str
    """The version of Kubernetes, such as 1.35."""
    public: bool
    """True if the internet can reach its endpoint."""
    public_cidrs: tuple[str, ...]
    """The addresses that may reach its endpoint from the internet."""
    reach: Answer[Reach]
    """The result of a connection from here to its endpoint."""
    monitored: Answer[bool]
    """True if it has EKS's node monitoring agent as an add-on."""
    groups: Answer[frozenset[str]]
    """Names of its node groups."""
    mode: str
    """The source of its users: API, API_AND_CONFIG_MAP or CONFIG_MAP."""
    principals: Answer[frozenset[str]] = frozenset()
    """ARNs that have an access entry. Asked for only if the plan creates access entries."""
    associations: Answer[Mapping[tuple[str, str], str]] = field(default_factory=dict)
    """Namespace and service account -> ID of its pod identity. Asked for only if the plan has any.
    """


def existing_cluster(
    fleet: EksFleetPlan, answer: Answer[ExistingEksCluster | None]
) -> Iterator[Finding]:
    """Yields nothing if the cluster does not exist."""
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
    yield from _mode(fleet, answer.mode, asked)
    for what, listed in (
        ("node groups", answer.groups),
        ("access entries", answer.principals),
        ("pod identities", answer.associations),
    ):
        if isinstance(listed, NotAnswered):
            yield not_asked(f"{what} of {asked}", listed)


def taken(fleet: EksFleetPlan, answer: Answer[ExistingEksCluster | None]) -> Iterator[Taken]:
    """Yields the resources that the plan would create in the cluster and that already exist.

    This stack or another one may have created them.
    """
    if answer is None or isinstance(answer, NotAnswered):
        return
    cluster, region = fleet.cluster.name, fleet.cluster.region
    of_cluster = f"existing cluster {cluster}"
    where = f"--cluster-name {cluster}"
    if not isinstance(answer.groups, NotAnswered):
        for name in (fleet.system.name, *(pool.name for pool in fleet.node_groups)):
            if name in answer.groups:
                other = "" if name == fleet.system.name else "write another name for the pool, or "
                yield Taken(
                    type="aws:eks/nodeGroup:NodeGroup",
                    id=f"{cluster}:{name}",
                    asked=f"node group {name} of {of_cluster}",
                    remedy=f"{other}delete that one: aws eks delete-nodegroup {where} "
                    f"--nodegroup-name {name} --region {region}",
                )
    if not isinstance(answer.principals, NotAnswered):
        for entry in fleet.cluster.access:
            if entry.principal in answer.principals:
                yield Taken(
                    type="aws:eks/accessEntry:AccessEntry",
                    id=f"{cluster}:{entry.principal}",
                    asked=f"access entry of {entry.principal} in {of_cluster}",
                    remedy="leave it out of cluster.access.entries, or delete that one: aws eks "
                    f"delete-access-entry {where} --principal-arn {entry.principal} "
                    f"--region {region}",
                )
    if not isinstance(answer.associations, NotAnswered):
        for account in service_accounts(fleet):
            if (found := answer.associations.get(account)) is not None:
                yield Taken(
                    type="aws:eks/podIdentityAssociation:PodIdentityAssociation",
                    id=found,
                    asked=f"pod identity of service account {'/'.join(account)} in {of_cluster}",
                    remedy="leave it out of cluster.pod_identities, or delete that one: aws eks "
                    f"delete-pod-identity-association {where} --association-id {found} "
                    f"--region {region}",
                )


def service_accounts(fleet: EksFleetPlan) -> tuple[tuple[str, str], ...]:
    """Namespace and name of the service accounts that get an IAM role from the stack."""
    return tuple((one.namespace, one.service_account) for one in fleet.cluster.pod_identities)


def _mode(fleet: EksFleetPlan, mode: str, asked: str) -> Iterator[Finding]:
    """Repeats the check of infra/components/existing_eks_cluster.py, which fails a preview."""
    if not fleet.cluster.access or mode != "CONFIG_MAP":
        return
    yield fails(
        f"authentication mode of {asked}",
        f"is {mode}, in which EKS refuses access entries",
        "leave cluster.access out, or let both be used, which cannot be taken back: aws eks "
        f"update-cluster-config --name {fleet.cluster.name} --region {fleet.cluster.region} "
        "--access-config authenticationMode=API_AND_CONFIG_MAP",
    )


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
        if pool.settings.release_version is not None
        and not pool.settings.release_version.startswith(f"{version}.")
    ]
    for pool in wrong:
        yield fails(
            f"Kubernetes of {asked}",
            f"{version}, and the machine image {pool.settings.release_version} of pool {pool.name} "
            "is not for it",
            f"write a release of {version} as release_version, or leave it out",
        )
    if not wrong:
        yield ok(f"Kubernetes of {asked}", version)


def _reach(fleet: EksFleetPlan, found: ExistingEksCluster) -> Finding:
    """Checks that the endpoint is reachable from here, since the program connects to it."""
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
    """Checks for the agent that sets the GPU conditions of the repair rules.

    Without rules EKS still repairs nodes that are not Ready. Source: EKS user guide, enable node
    auto repair.
    """
    pools = [
        p.name
        for p in fleet.pools
        if p.settings.repair and p.settings.repair.enabled and p.settings.repair.rules
    ]
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
