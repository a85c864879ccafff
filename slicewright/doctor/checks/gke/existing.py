"""Checks whether an existing GKE cluster has everything that a plan's pools need. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

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
from slicewright.infra.plan import GkeFleetPlan


@dataclass(frozen=True, kw_only=True)
class ExistingGkeCluster:
    status: str
    version: str
    """The version of the control plane, such as 1.35.2-gke.100."""
    autopilot: bool
    workload_pool: str | None
    dataplane_v2: bool
    multi_networking: bool
    collectors: bool
    """True if Managed Service for Prometheus collects metrics."""
    private: bool
    """True if its address belongs to its VPC."""
    reach: Answer[Reach]
    """The result of a connection from here to its endpoint."""
    pools: frozenset[str]
    """Names of its node pools."""
    inside: OwnerAnswers | None = None
    """The owners of GPUs in it. None: it was not asked."""


@checks("gke-existing-cluster")
def existing_cluster(
    fleet: GkeFleetPlan, answer: Answer[ExistingGkeCluster | None], *, project: str
) -> Iterator[Finding]:
    """Yields nothing if the cluster does not exist. project: the cluster's project."""
    name, location = fleet.cluster.name, fleet.cluster.location
    subject = f"existing cluster {name} in {location}"
    if isinstance(answer, NotAnswered):
        yield not_asked(subject, answer)
        return
    if answer is None:
        return
    if answer.status not in ("RUNNING", "RECONCILING"):
        yield fails(
            subject,
            f"is {answer.status}",
            f"gcloud container clusters describe {name} --location={location} --project={project}",
        )
    report = manifests.unfit_gke_cluster(
        fleet.cluster,
        project=project,
        version=answer.version,
        autopilot=answer.autopilot,
        workload_pool=answer.workload_pool,
        gpu_networks=fleet.gpu_networks,
        dataplane_v2=answer.dataplane_v2,
        multi_networking=answer.multi_networking,
        managed_prometheus=fleet.monitoring is not None and fleet.monitoring.managed,
        collectors=answer.collectors,
    )
    reasons = [line.removeprefix("  - ") for line in report.splitlines()[1:]]
    for reason in reasons:
        problem, _, remedy = reason.partition(": ")
        yield fails(subject, problem, remedy)
    if not reasons:
        yield ok(subject, f"fit for the pools, at {answer.version}")
    yield _reach(fleet, answer, project)


def existing_pools(
    fleet: GkeFleetPlan, answer: Answer[ExistingGkeCluster | None], *, project: str
) -> tuple[ExistingResource, ...]:
    """The plan's node pools whose names the cluster already uses, for this stack or another."""
    if answer is None or isinstance(answer, NotAnswered):
        return ()
    cluster, location = fleet.cluster.name, fleet.cluster.location
    system = fleet.system.name if fleet.system else None
    planned = (*((system,) if system else ()), *(pool.name for pool in fleet.pools))
    at = f"projects/{project}/locations/{location}/clusters/{cluster}"
    return tuple(
        ExistingResource(
            type="gcp:container/nodePool:NodePool",
            id=f"{at}/nodePools/{name}",
            subject=f"node pool {name} of existing cluster {cluster}",
            remedy=("" if name == system else "write another name for the pool, or ")
            + f"delete the existing one: gcloud container node-pools delete {name} "
            f"--cluster={cluster} "
            f"--location={location} --project={project}",
        )
        for name in planned
        if name in answer.pools
    )


@check("gke-reach")
def _reach(fleet: GkeFleetPlan, cluster: ExistingGkeCluster, project: str) -> Finding:
    """Checks that the endpoint is reachable from here, since the program connects to it."""
    name, location = fleet.cluster.name, fleet.cluster.location
    subject = f"endpoint of existing cluster {name}"
    if isinstance(cluster.reach, NotAnswered):
        return not_asked(subject, cluster.reach)
    if cluster.reach.why_not is None:
        return ok(subject, f"{cluster.reach.server} accepts connections from here")
    return fails(
        subject,
        f"no connection from here to {cluster.reach.server} ({cluster.reach.why_not})"
        + (": it is private" if cluster.private else ""),
        "run `pulumi up` in its VPC, or open the DNS endpoint: gcloud container clusters update "
        f"{name} --location={location} --project={project} --enable-dns-access"
        if cluster.private
        else f"gcloud container clusters update {name} --location={location} --project={project} "
        "--enable-master-authorized-networks --master-authorized-networks=YOUR_ADDRESS/32 and the "
        "addresses that are allowed now",
    )
