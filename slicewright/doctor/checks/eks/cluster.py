"""Checks which parts of an EKS plan an AWS account would refuse. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from slicewright.doctor.checks.eks.capacity import (
    Reservations,
    key_remedies,
    keys_needed,
    reservation_findings,
)
from slicewright.doctor.checks.eks.existing import ExistingEksCluster, existing_cluster
from slicewright.doctor.checks.eks.karpenter import KarpenterAnswers, karpenter_findings
from slicewright.doctor.checks.eks.network import (
    ExistingNetworkAnswers,
    existing_network,
    room_for_nodes,
)
from slicewright.doctor.checks.eks.quotas import (
    GROUPS_QUOTA,
    QuotaAnswers,
    groups_finding,
    quota_findings,
)
from slicewright.doctor.checks.eks.rights import CallerRights
from slicewright.doctor.checks.eks.versions import (
    AddonVersions,
    Image,
    Releases,
    Versions,
    addon_findings,
    cluster_version,
    image_findings,
    version_of,
)
from slicewright.doctor.checks.keys import Keys, key_findings
from slicewright.doctor.findings import (
    Answer,
    Finding,
    NotAnswered,
    Owned,
    checks,
    cluster_name,
    existence,
    fails,
    not_asked,
    ok,
)
from slicewright.infra import catalog
from slicewright.infra.plan import EksFleetPlan


@dataclass(frozen=True, kw_only=True)
class Identity:
    account: str
    arn: str


@dataclass(frozen=True, kw_only=True)
class Zone:
    name: str
    zone_id: str
    available: bool
    local: bool
    """True for a Local or Wavelength Zone. EKS puts no control plane there."""


@dataclass(frozen=True, kw_only=True)
class AwsAnswers:
    """The answers of one account, for one region."""

    identity: Identity
    zones: Answer[tuple[Zone, ...]]
    offered: Answer[Mapping[str, frozenset[str]]]
    """Instance type -> IDs of the zones that offer it."""
    quotas: QuotaAnswers
    versions: Answer[Versions]
    cluster: Answer[bool]
    """True if a cluster of the plan's name exists."""
    network: ExistingNetworkAnswers | None = None
    """None: the stack creates its network."""
    existing: Answer[ExistingEksCluster | None] = None
    """None: the plan creates its cluster, or the cluster does not exist."""
    addons: Mapping[str, Answer[AddonVersions]] = field(default_factory=dict)
    """Name of the add-on -> its versions."""
    images: Mapping[Image, Answer[Releases]] = field(default_factory=dict)
    reservations: Reservations = field(default_factory=dict)
    keys: Keys = field(default_factory=dict)
    karpenter: KarpenterAnswers | None = None
    """None: not asked."""
    boundary: Answer[bool] | None = None
    """True if the policy exists. None: the plan names no policy."""
    rights: Answer[CallerRights] | None = None
    """None: not asked."""
    region_off: str | None = None
    """AWS's message if the region appears not to be enabled. Nothing else was asked then."""


def not_enabled(identity: Identity, why: str) -> AwsAnswers:
    """Returns the answers of an account that has not enabled the region."""
    nothing = NotAnswered(why="the region is not enabled")
    return AwsAnswers(
        identity=identity,
        zones=nothing,
        offered=nothing,
        quotas=QuotaAnswers(limits={}, running=nothing, vpcs=nothing),
        versions=nothing,
        cluster=nothing,
        region_off=why,
    )


def machine_types(fleet: EksFleetPlan) -> tuple[str, ...]:
    """The plan's machine types, each once, sorted."""
    of_pools = (name for pool in fleet.pools for name in pool.settings.machine_types)
    return tuple(sorted({fleet.system.machine_type, *of_pools}))


@checks("aws-account")
def findings(fleet: EksFleetPlan, answers: AwsAnswers, owned: Owned) -> Iterator[Finding]:
    """owned: whether this stack created the cluster, if it exists."""
    identity, region = answers.identity, fleet.cluster.region
    yield ok("credentials", f"account {identity.account}, as {identity.arn}")
    if answers.region_off is not None:
        yield fails(
            f"region {region}",
            f"is not enabled in account {identity.account} ({answers.region_off})",
            f"aws account enable-region --region-name {region}",
        )
        return
    yield from _zones(fleet, answers.zones)
    yield from _offered(fleet, answers)
    yield from quota_findings(fleet, answers.quotas, answers.cluster, owned)
    limit = answers.quotas.limits[GROUPS_QUOTA]
    yield groups_finding(fleet, limit, _groups(answers.existing))
    if answers.network is not None:
        yield from existing_network(fleet.cluster, answers.network)
        yield from room_for_nodes(fleet, answers.network, owned)
    yield from cluster_version(fleet, answers.versions)
    yield from addon_findings(fleet, version_of(fleet, answers.versions), answers.addons)
    yield from image_findings(fleet, answers.images)
    yield from reservation_findings(fleet, answers.reservations, owned)
    yield from key_findings(keys_needed(fleet), answers.keys, key_remedies(region))
    if answers.karpenter is not None:
        version = version_of(fleet, answers.versions)
        yield from karpenter_findings(fleet, version, answers.karpenter)
    yield from _boundary(fleet, answers.boundary)
    subject = f"cluster {fleet.cluster.name} in {region}"
    yield cluster_name(
        subject,
        answers.cluster,
        owned,
        existing=fleet.cluster.existing,
        delete=f"aws eks delete-cluster --name {fleet.cluster.name} --region {region}",
        list_all=f"aws eks list-clusters --region {region}",
    )
    yield from existing_cluster(fleet, answers.existing)


@checks("eks-permissions-boundary")
def _boundary(fleet: EksFleetPlan, answer: Answer[bool] | None) -> Iterator[Finding]:
    arn = fleet.cluster.permissions_boundary
    if arn is None or answer is None:
        return
    name = arn.rpartition("/")[2]
    yield existence(
        f"policy {arn} (cluster.permissions_boundary)",
        answer,
        "does not exist, so IAM cannot create roles with it",
        "slicewright rights -s STACK --boundary > boundary.json; aws iam create-policy "
        f"--policy-name {name} --policy-document file://boundary.json",
    )


def _groups(answer: Answer[ExistingEksCluster | None]) -> Answer[frozenset[str]]:
    """Names of the node groups that the cluster has before the stack adds its own."""
    if isinstance(answer, NotAnswered):
        return answer
    return frozenset() if answer is None else answer.groups


@checks("aws-zone")
def _zones(fleet: EksFleetPlan, answer: Answer[tuple[Zone, ...]]) -> Iterator[Finding]:
    region = fleet.cluster.region
    subject = f"zones of {region}"
    if isinstance(answer, NotAnswered):
        yield not_asked(subject, answer)
        return
    zones_by_name = _by_either_name(answer)
    wrong = False
    for zone, user in _users(fleet).items():
        existing = zones_by_name.get(zone)
        if existing is None or not existing.available:
            wrong = True
            yield fails(
                f"{subject}: {zone} of {user}",
                "does not exist in this account" if existing is None else "is not available now",
                f"write one of {', '.join(z.name for z in answer if z.available)}",
            )
    able = [z.name for z in answer if z.available and _holds_control_planes(z)]
    for zone in fleet.cluster.zones:
        existing = zones_by_name.get(zone)
        if existing is not None and not _holds_control_planes(existing):
            wrong = True
            yield fails(
                f"{subject}: {zone} of cluster.zones",
                f"is {existing.zone_id} in this account, where EKS creates no control plane",
                f"write two of {', '.join(able)} under cluster.zones",
            )
    if not wrong:
        names = (
            f"{z} = {zones_by_name[z].zone_id}" if z != zones_by_name[z].zone_id else z
            for z in _users(fleet)
        )
        yield ok(subject, ", ".join(names))


@checks("aws-machine-offer")
def _offered(fleet: EksFleetPlan, answers: AwsAnswers) -> Iterator[Finding]:
    needs = [(fleet.system.machine_type, fleet.system.zones, "the system pool")]
    needs += [(p.settings.machine.name, p.settings.zones, f"pool {p.name}") for p in fleet.pools]
    for machine, zones, user in needs:
        subject = f"{machine} for {user}"
        if isinstance(answers.offered, NotAnswered):
            yield not_asked(subject, answers.offered)
            continue
        if isinstance(answers.zones, NotAnswered):
            yield not_asked(subject, NotAnswered(why="the zones of the region are unknown"))
            continue
        offering = answers.offered.get(machine, frozenset())
        zones_by_name = _by_either_name(answers.zones)
        lacking = [
            z for z in zones if z in zones_by_name and zones_by_name[z].zone_id not in offering
        ]
        if not lacking:
            yield ok(subject, f"offered in {', '.join(zones)}")
            continue
        by_id = catalog.is_zone_id(lacking[0])
        having = [z.zone_id if by_id else z.name for z in answers.zones if z.zone_id in offering]
        key = "system_pool.zones" if user == "the system pool" else "the pool's zones"
        yield fails(
            subject,
            f"not offered in {', '.join(lacking)}",
            f"write {' or '.join(having)} as {key}"
            if having
            else f"choose another region: {fleet.cluster.region} does not offer it to this account",
        )


def _holds_control_planes(zone: Zone) -> bool:
    return not zone.local and zone.zone_id not in catalog.aws().no_control_plane


def _by_either_name(zones: tuple[Zone, ...]) -> Mapping[str, Zone]:
    return {z.name: z for z in zones} | {z.zone_id: z for z in zones}


def _users(fleet: EksFleetPlan) -> Mapping[str, str]:
    """Zone, as the plan names it -> its first user."""
    users: dict[str, str] = {}
    for zone in fleet.cluster.zones:
        users.setdefault(zone, "cluster.zones")
    for zone in fleet.system.zones:
        users.setdefault(zone, "the system pool")
    for pool in fleet.pools:
        for zone in pool.settings.zones:
            users.setdefault(zone, f"pool {pool.name}")
    return users
