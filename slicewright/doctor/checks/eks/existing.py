"""Checks whether an existing EKS cluster has everything that a plan's pools need. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from slicewright.doctor.checks.gpu_owners import OwnerAnswers
from slicewright.doctor.checks.reach import Reach
from slicewright.doctor.findings import (
    Answer,
    ExistingResource,
    Finding,
    NotAnswered,
    check,
    checks,
    fails,
    not_asked,
    ok,
)
from slicewright.infra import manifests
from slicewright.infra.plan import NODE_MONITORING, EksFleetPlan

_CNI_DIRECTORIES: Final = ("/etc/cni", "/opt/cni")
"""The directories of a node that every CNI plugin writes. Source: containerd docs, CNI."""


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
    auto_mode: bool = False
    """True if EKS Auto Mode creates nodes in it."""
    inside: OwnerAnswers | None = None
    """The owners of GPUs in it. None: it was not asked."""


@checks("eks-existing-cluster")
def existing_cluster(
    fleet: EksFleetPlan, answer: Answer[ExistingEksCluster | None]
) -> Iterator[Finding]:
    """Yields nothing if the cluster does not exist."""
    name, region = fleet.cluster.name, fleet.cluster.region
    subject = f"existing cluster {name} in {region}"
    if isinstance(answer, NotAnswered):
        yield not_asked(subject, answer)
        return
    if answer is None:
        return
    if answer.status != "ACTIVE":
        yield fails(
            subject,
            f"is {answer.status}, but EKS adds nodes only to an ACTIVE cluster",
            f"aws eks wait cluster-active --name {name} --region {region}",
        )
    yield from _version(fleet, answer.version, subject)
    yield _reach(fleet, answer)
    yield from _monitored(fleet, answer.monitored)
    yield from _mode(fleet, answer.mode, subject)
    if answer.auto_mode:
        yield from _auto_mode(fleet, answer.inside, subject)
    for kind, listed in (
        ("node groups", answer.groups),
        ("access entries", answer.principals),
        ("pod identities", answer.associations),
    ):
        if isinstance(listed, NotAnswered):
            yield not_asked(f"{kind} of {subject}", listed)


def existing_resources(
    fleet: EksFleetPlan, answer: Answer[ExistingEksCluster | None]
) -> Iterator[ExistingResource]:
    """Yields the resources that the plan would create in the cluster and that already exist.

    This stack or another one may have created them.
    """
    if answer is None or isinstance(answer, NotAnswered):
        return
    if not isinstance(answer.groups, NotAnswered):
        yield from _existing_groups(fleet, answer.groups)
    if not isinstance(answer.principals, NotAnswered):
        yield from _existing_entries(fleet, answer.principals)
    if not isinstance(answer.associations, NotAnswered):
        yield from _existing_associations(fleet, answer.associations)


def _existing_groups(fleet: EksFleetPlan, groups: frozenset[str]) -> Iterator[ExistingResource]:
    cluster, region = fleet.cluster.name, fleet.cluster.region
    for name in (fleet.system.name, *(pool.name for pool in fleet.node_groups)):
        if name not in groups:
            continue
        rename = "" if name == fleet.system.name else "write another name for the pool, or "
        yield ExistingResource(
            type="aws:eks/nodeGroup:NodeGroup",
            id=f"{cluster}:{name}",
            subject=f"node group {name} of existing cluster {cluster}",
            remedy=f"{rename}delete the existing one: aws eks delete-nodegroup --cluster-name "
            f"{cluster} --nodegroup-name {name} --region {region}",
        )


def _existing_entries(
    fleet: EksFleetPlan, principals: frozenset[str]
) -> Iterator[ExistingResource]:
    cluster, region = fleet.cluster.name, fleet.cluster.region
    for entry in fleet.cluster.access:
        if entry.principal in principals:
            yield ExistingResource(
                type="aws:eks/accessEntry:AccessEntry",
                id=f"{cluster}:{entry.principal}",
                subject=f"access entry of {entry.principal} in existing cluster {cluster}",
                remedy="leave it out of cluster.access.entries, or delete the existing one: aws "
                f"eks delete-access-entry --cluster-name {cluster} --principal-arn "
                f"{entry.principal} --region {region}",
            )


def _existing_associations(
    fleet: EksFleetPlan, associations: Mapping[tuple[str, str], str]
) -> Iterator[ExistingResource]:
    cluster, region = fleet.cluster.name, fleet.cluster.region
    for account in service_accounts(fleet):
        if (association := associations.get(account)) is not None:
            yield ExistingResource(
                type="aws:eks/podIdentityAssociation:PodIdentityAssociation",
                id=association,
                subject=f"pod identity of service account {'/'.join(account)} in existing cluster "
                f"{cluster}",
                remedy="leave it out of cluster.pod_identities, or delete the existing one: aws "
                f"eks delete-pod-identity-association --cluster-name {cluster} --association-id "
                f"{association} --region {region}",
            )


def service_accounts(fleet: EksFleetPlan) -> tuple[tuple[str, str], ...]:
    """Namespace and name of the service accounts that get an IAM role from the stack."""
    return tuple(
        (identity.namespace, identity.service_account) for identity in fleet.cluster.pod_identities
    )


@checks("eks-authentication-mode")
def _mode(fleet: EksFleetPlan, mode: str, subject: str) -> Iterator[Finding]:
    """Repeats the check of infra/components/eks/existing_cluster.py, which fails a preview."""
    if not fleet.cluster.access or mode != "CONFIG_MAP":
        return
    yield fails(
        f"authentication mode of {subject}",
        f"is {mode}, and EKS refuses access entries in this mode",
        "remove cluster.access, or allow both modes, which cannot be reverted: aws eks "
        f"update-cluster-config --name {fleet.cluster.name} --region {fleet.cluster.region} "
        "--access-config authenticationMode=API_AND_CONFIG_MAP",
    )


@checks("eks-auto-mode")
def _auto_mode(fleet: EksFleetPlan, inside: OwnerAnswers | None, subject: str) -> Iterator[Finding]:
    """Checks that nodes of node groups get a network: Auto Mode has one for its own nodes only.

    Source: terraform-aws-modules/terraform-aws-eks #3256.
    """
    auto_mode = f"EKS Auto Mode of {subject}"
    if inside is None:
        yield not_asked(auto_mode, NotAnswered(why="the cluster's endpoint was not asked"))
        return
    if isinstance(inside.daemonsets, NotAnswered):
        yield not_asked(auto_mode, inside.daemonsets)
        return
    paths = [path for daemonset in inside.daemonsets for path in daemonset.host_paths]
    if any(path.startswith(_CNI_DIRECTORIES) for path in paths):
        yield ok(
            auto_mode,
            "is on: its own nodes cannot be partitioned; the pools are node groups beside them",
        )
        return
    add = (
        f"aws eks create-addon --cluster-name {fleet.cluster.name} --region "
        f"{fleet.cluster.region} --addon-name"
    )
    yield fails(
        auto_mode,
        "is on, and the cluster has no DaemonSet of a CNI plugin: Auto Mode has a network for its "
        "own nodes only, so the pools' nodes would stay NotReady",
        f"{add} vpc-cni; {add} kube-proxy",
    )


@checks("eks-existing-version")
def _version(fleet: EksFleetPlan, version: str, subject: str) -> Iterator[Finding]:
    name, region = fleet.cluster.name, fleet.cluster.region
    oldest = manifests.OLDEST_KUBERNETES
    if tuple(map(int, version.split(".")[:2])) < oldest:
        needed = ".".join(map(str, oldest))
        yield fails(
            f"Kubernetes of {subject}",
            f"{version}, but the admission policies that guard the nodes need {needed}",
            f"upgrade it one minor version at a time: aws eks update-cluster-version --name {name} "
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
            f"Kubernetes of {subject}",
            f"{version}, but the machine image {pool.settings.release_version} of pool "
            f"{pool.name} is for another version",
            f"write a release for {version} as release_version, or remove it",
        )
    if not wrong:
        yield ok(f"Kubernetes of {subject}", version)


@check("eks-reach")
def _reach(fleet: EksFleetPlan, cluster: ExistingEksCluster) -> Finding:
    """Checks that the endpoint is reachable from here, since the program connects to it."""
    name, region = fleet.cluster.name, fleet.cluster.region
    subject = f"endpoint of existing cluster {name}"
    if isinstance(cluster.reach, NotAnswered):
        return not_asked(subject, cluster.reach)
    if cluster.reach.why_not is None:
        return ok(subject, f"{cluster.reach.server} accepts connections from here")
    if not cluster.public:
        return fails(
            subject,
            f"no connection from here ({cluster.reach.why_not}): it is private",
            "run `pulumi up` in its VPC or in a network that is connected to it",
        )
    return fails(
        subject,
        f"no connection from here ({cluster.reach.why_not}); it allows "
        f"{', '.join(cluster.public_cidrs) or 'all addresses'}",
        f"aws eks update-cluster-config --name {name} --region {region} --resources-vpc-config "
        f"publicAccessCidrs={','.join((*cluster.public_cidrs, 'YOUR_ADDRESS/32'))}",
    )


@checks("eks-node-monitoring")
def _monitored(fleet: EksFleetPlan, monitored: Answer[bool]) -> Iterator[Finding]:
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
    subject = f"add-on {NODE_MONITORING} of existing cluster {name}"
    match monitored:
        case NotAnswered() as refusal:
            yield not_asked(subject, refusal)
        case True:
            yield ok(subject, "exists")
        case _:
            yield fails(
                subject,
                f"is not installed, but the repair rules of pool {', '.join(pools)} need the "
                "conditions that it sets",
                f"aws eks create-addon --cluster-name {name} --addon-name {NODE_MONITORING} "
                f"--region {region}",
            )
