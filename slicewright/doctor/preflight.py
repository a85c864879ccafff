"""Asks a stack's account, judges the answers, and returns the findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from slicewright.doctor import state
from slicewright.doctor.ask import cluster, registry
from slicewright.doctor.ask.aws import account as aws
from slicewright.doctor.ask.aws import identity as aws_identity
from slicewright.doctor.ask.google import identity as google_identity
from slicewright.doctor.ask.google import project as google
from slicewright.doctor.checks import cluster as cluster_checks
from slicewright.doctor.checks.credentials import credential_findings
from slicewright.doctor.checks.driver_images import driver_image, driver_image_findings
from slicewright.doctor.checks.eks import cluster as eks_checks
from slicewright.doctor.checks.eks import rights as eks_rights
from slicewright.doctor.checks.eks.existing import ExistingEksCluster, existing_resources
from slicewright.doctor.checks.gke import cluster as gke_checks
from slicewright.doctor.checks.gke import rights as gke_rights
from slicewright.doctor.checks.gke.existing import ExistingGkeCluster, existing_pools
from slicewright.doctor.checks.gpu_operators import PlannedOperator, inside_findings
from slicewright.doctor.checks.gpu_owners import gpu_pool
from slicewright.doctor.checks.images import (
    chart_registries,
    image_findings,
    registry_finding,
    wanted_images,
)
from slicewright.doctor.findings import (
    Answer,
    ExistingResource,
    Finding,
    NotAnswered,
    check,
    checks,
    fails,
    name_taken,
    refused_by_the_program,
)
from slicewright.infra.plan import EksFleetPlan, ExistingFleetPlan, FleetPlan, GkeFleetPlan
from slicewright.stack_config import setting


def check_eks(fleet: EksFleetPlan, file: Path, stack: str | None) -> list[Finding]:
    """Returns the findings for an EKS plan.

    stack: the name for Pulumi's state. None: unknown. Raises CannotAsk.
    """
    answers = aws.ask(fleet, setting(file, "aws:profile"), _role_names(stack))
    name = fleet.cluster.name
    mine = state.owned(stack, _EKS, name) if answers.cluster is True else "no"
    findings = [*refused_by_the_program(fleet), *eks_checks.findings(fleet, answers, mine)]
    profile = setting(file, "aws:profile")
    caller = answers.identity.arn
    findings += credential_findings(aws_identity.ask_credentials(fleet, profile, caller))
    findings += _name_findings(existing_resources(fleet, answers.existing), stack)
    findings += _inside(fleet, answers.existing, stack)
    findings += _images(fleet)
    if answers.rights is not None:
        account, rights = answers.identity.account, _rights(file, stack)
        findings += eks_rights.findings(answers.rights, account=account, rights=rights)
    return findings


def _role_names(stack: str | None) -> Mapping[str, str]:
    try:
        return state.role_names(stack) if stack is not None else {}
    except state.UnknownState:
        return {}


def check_gke(fleet: GkeFleetPlan, file: Path, stack: str | None) -> list[Finding]:
    """Returns the findings for a GKE plan, like `check_eks`."""
    project = setting(file, "gcp:project")
    if project is None:
        return [_no_project(stack)]
    answers = google.ask(fleet, project)
    location, name = fleet.cluster.location, fleet.cluster.name
    cluster = f"projects/{project}/locations/{location}/clusters/{name}"
    account = f"projects/{project}/serviceAccounts/{gke_checks.account_email(fleet, project)}"
    findings = gke_checks.findings(
        fleet,
        answers,
        cluster_owned=state.owned(stack, _GKE, cluster) if answers.cluster is True else "no",
        account_owned=state.owned(stack, _ACCOUNT, account) if answers.account is True else "no",
    )
    credentials = credential_findings(google_identity.ask_credentials())
    existing = _name_findings(existing_pools(fleet, answers.existing, project=project), stack)
    rights = gke_rights.findings(answers.lacking, project=project, rights=_rights(file, stack))
    images = [*_driver(fleet), *_images(fleet)]
    return [
        *refused_by_the_program(fleet),
        *findings,
        *credentials,
        *images,
        *_inside(fleet, answers.existing, stack),
        *existing,
        *rights,
    ]


@check("gcp-project")
def _no_project(stack: str | None) -> Finding:
    of_stack = f" --stack {stack}" if stack else ""
    return fails(
        "gcp:project",
        "is not set in the stack's configuration, but `pulumi up` requires it",
        f"pulumi config set gcp:project PROJECT{of_stack}",
    )


def check_cluster(fleet: ExistingFleetPlan, stack: str | None) -> list[Finding]:
    """Returns the findings for an existing cluster, like `check_eks`."""
    answers = cluster.ask(fleet)
    existing = answers.namespaces if isinstance(answers.namespaces, frozenset) else frozenset()
    owned = {name: state.owned(stack, _NAMESPACE, name) for name in sorted(existing)}
    return [
        *refused_by_the_program(fleet),
        *cluster_checks.findings(fleet, answers, owned),
        *_driver(fleet),
        *_images(fleet),
    ]


def _driver(fleet: GkeFleetPlan | ExistingFleetPlan) -> Iterable[Finding]:
    """EKS plans need no check: EKS's machine images contain the driver."""
    image = driver_image(fleet)
    if image is None:
        return ()
    return driver_image_findings(image, registry.tags(image.registry, image.repository))


def _images(fleet: FleetPlan) -> list[Finding]:
    images = [
        finding
        for image in wanted_images(fleet)
        for finding in image_findings(image, registry.architectures(image.of.image))
    ]
    registries = [
        registry_finding(charts, registry.is_open(charts.registry))
        for charts in chart_registries(fleet)
    ]
    return [*images, *registries]


def _inside(
    fleet: EksFleetPlan | GkeFleetPlan,
    cluster: Answer[ExistingEksCluster | ExistingGkeCluster | None],
    stack: str | None,
) -> Iterable[Finding]:
    """The findings on the owners of GPUs in an existing cluster."""
    if cluster is None or isinstance(cluster, NotAnswered) or cluster.inside is None:
        return ()
    planned = None
    if fleet.operator is not None:
        namespace = fleet.operator.namespace
        owned = state.owned(stack, _NAMESPACE, namespace)
        planned = PlannedOperator(namespace=namespace, adoptable=False, owned=owned)
    return inside_findings(cluster.inside, planned, tuple(map(gpu_pool, fleet.pools)))


@checks("resource-name")
def _name_findings(resources: Iterable[ExistingResource], stack: str | None) -> Iterator[Finding]:
    for resource in resources:
        owned = state.owned(stack, resource.type, resource.id)
        yield name_taken(resource.subject, owned, resource.remedy)


def _rights(file: Path, stack: str | None) -> str:
    """The command that prints the rights that the stack needs."""
    return f"slicewright rights {f'-s {stack}' if stack else file}"


_NAMESPACE = "kubernetes:core/v1:Namespace"
_EKS = "aws:eks/cluster:Cluster"
_GKE = "gcp:container/cluster:Cluster"
_ACCOUNT = "gcp:serviceaccount/account:Account"
