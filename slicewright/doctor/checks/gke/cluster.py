"""Checks which parts of a GKE plan a Google Cloud project would refuse. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from slicewright.doctor.checks.gke.capacity import (
    Reservations,
    key_remedies,
    keys_needed,
    reservation_findings,
)
from slicewright.doctor.checks.gke.constraints import constraint_findings
from slicewright.doctor.checks.gke.existing import ExistingGkeCluster, existing_cluster
from slicewright.doctor.checks.gke.network import (
    Subnet,
    gpu_subnet_findings,
    shared_vpc,
    subnet_findings,
)
from slicewright.doctor.checks.gke.quotas import Quota, quota_findings
from slicewright.doctor.checks.keys import Keys, key_findings
from slicewright.doctor.findings import (
    Answer,
    Finding,
    NotAnswered,
    Owned,
    checks,
    cluster_name,
    fails,
    name_taken,
    not_asked,
    ok,
)
from slicewright.infra.plan import GkeFleetPlan

APIS: Final = ("compute", "container", "iam", "cloudresourcemanager")
"""The APIs that the program calls, besides Service Usage, which reports their state."""


@dataclass(frozen=True, kw_only=True)
class GoogleAnswers:
    """The answers of one project, for one region."""

    project: str
    apis: Answer[Mapping[str, bool]]
    """The API's short name -> whether the API is on."""
    quotas: Answer[Mapping[str, Quota]]
    """Metric -> quota of the region."""
    project_quotas: Answer[Mapping[str, Quota]]
    """Metric -> quota of all regions together."""
    machines: Mapping[tuple[str, str], Answer[bool]]
    """Zone and machine type -> whether the zone offers it."""
    versions: Answer[frozenset[str]]
    """Kubernetes versions of the plan's release channel."""
    cluster: Answer[bool]
    account: Answer[bool]
    """True if the nodes' service account exists."""
    subnet: Answer[Subnet | None] = None
    """The subnet that the plan names. None: the plan names none, or the subnet does not exist."""
    gpu_subnets: Mapping[str, Answer[Subnet | None]] = field(default_factory=dict)
    """Name -> a subnet that the plan names for the GPUs' interfaces."""
    existing: Answer[ExistingGkeCluster | None] = None
    """None: the plan creates its cluster, or the cluster does not exist."""
    reservations: Reservations = field(default_factory=dict)
    keys: Keys = field(default_factory=dict)
    lacking: Answer[tuple[str, ...]] | None = None
    """Permissions that the plan needs and the caller lacks. None: not asked."""
    constraints: Mapping[str, Answer[bool]] | None = None
    """The organisation's constraint -> whether it is enforced. None: not asked."""
    shared_by: Answer[str | None] = None
    """The project's Shared VPC host project, if the plan uses another project's network."""


def machines_needed(fleet: GkeFleetPlan) -> tuple[tuple[str, str], ...]:
    """The plan's pairs of zone and machine type, each once, sorted."""
    system = fleet.system
    pairs = {(zone, system.machine_type) for zone in system.zones} if system else set()
    pairs |= {
        (zone, pool.settings.machine.name) for pool in fleet.pools for zone in pool.settings.zones
    }
    return tuple(sorted(pairs))


def account_email(fleet: GkeFleetPlan, project: str) -> str:
    """The email address of the nodes' service account."""
    return f"{fleet.cluster.node_account_id}@{project}.iam.gserviceaccount.com"


def findings(
    fleet: GkeFleetPlan, answers: GoogleAnswers, *, cluster_owned: Owned, account_owned: Owned
) -> Iterator[Finding]:
    """cluster_owned, account_owned: whether this stack created the cluster and the nodes' service
    account, if they exist.
    """
    project, location = answers.project, fleet.cluster.location
    yield from _apis(answers)
    yield from _machines(fleet, answers)
    yield from quota_findings(
        fleet, answers.project_quotas, answers.quotas, cluster_owned, project=project
    )
    yield from _version(fleet, answers)
    subject = f"cluster {fleet.cluster.name} in {location}"
    yield cluster_name(
        subject,
        answers.cluster,
        cluster_owned,
        existing=fleet.cluster.existing,
        delete=f"gcloud container clusters delete {fleet.cluster.name} --location {location} "
        f"--project {project}",
        list_all=f"gcloud container clusters list --project {project}",
    )
    yield from existing_cluster(fleet, answers.existing, project=project)
    yield from _account(fleet, answers, account_owned)
    yield from reservation_findings(fleet, answers.reservations, cluster_owned, project=project)
    yield from key_findings(keys_needed(fleet), answers.keys, key_remedies)
    if answers.constraints is not None:
        yield from constraint_findings(fleet, answers.constraints, project=project)
    yield from shared_vpc(fleet, answers.shared_by, project=project)
    yield from subnet_findings(fleet, answers.subnet, project=project)
    yield from gpu_subnet_findings(fleet, answers.gpu_subnets, project=project)


@checks("gcp-api")
def _apis(answers: GoogleAnswers) -> Iterator[Finding]:
    project = answers.project
    if isinstance(answers.apis, NotAnswered):
        yield not_asked(f"APIs of project {project}", answers.apis)
        return
    for name in APIS:
        subject = f"API {name}.googleapis.com of project {project}"
        if answers.apis.get(name):
            yield ok(subject, "on")
        else:
            yield fails(
                subject,
                "off",
                f"gcloud services enable {name}.googleapis.com --project {project}",
            )


@checks("gcp-machine-offer")
def _machines(fleet: GkeFleetPlan, answers: GoogleAnswers) -> Iterator[Finding]:
    for zone, machine in machines_needed(fleet):
        subject = f"{machine} in {zone}"
        match answers.machines[zone, machine]:
            case NotAnswered() as refusal:
                yield not_asked(subject, refusal)
            case True:
                yield ok(subject, "offered")
            case False:
                yield fails(
                    subject,
                    "not offered",
                    f"gcloud compute machine-types list --filter=name={machine} --project "
                    f"{answers.project} lists the zones that offer it",
                )


@checks("gke-version")
def _version(fleet: GkeFleetPlan, answers: GoogleAnswers) -> Iterator[Finding]:
    version, channel = fleet.cluster.version, fleet.cluster.release_channel
    if version is None or fleet.cluster.existing:
        return
    subject = f"Kubernetes {version} of GKE's channel {channel} in {fleet.cluster.location}"
    offered = answers.versions
    if isinstance(offered, NotAnswered):
        yield not_asked(subject, offered)
    elif any(v == version or v.startswith((f"{version}.", f"{version}-")) for v in offered):
        yield ok(subject, "offered")
    else:
        yield fails(
            subject,
            "not offered",
            f"write one of {', '.join(sorted(offered))} as cluster.version, or remove it",
        )


@checks("gke-node-account")
def _account(fleet: GkeFleetPlan, answers: GoogleAnswers, owned: Owned) -> Iterator[Finding]:
    email = account_email(fleet, answers.project)
    subject = f"service account {email}"
    match answers.account:
        case NotAnswered() as refusal:
            yield not_asked(subject, refusal)
        case False:
            yield ok(subject, "the name is free")
        case True:
            yield name_taken(
                subject,
                owned,
                "write another cluster.name, or delete that account: gcloud iam service-accounts "
                f"delete {email} --project {answers.project}",
            )
