"""Checks whether the account has the resources that Karpenter needs and cannot create. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from slicewright.doctor.findings import Answer, Finding, checks, existence, fails, ok
from slicewright.infra import catalog
from slicewright.infra.plan import EksFleetPlan, KarpenterPlan

SPOT_ROLE: Final = "AWSServiceRoleForEC2Spot"
"""EC2 Fleet refuses spot instances without this role, and Karpenter's role cannot create it.
Source: karpenter.sh docs, getting started, "Create the service-linked role".
"""


@dataclass(frozen=True, kw_only=True)
class KarpenterAnswers:
    spot_role: Answer[bool] | None
    """True if the account has SPOT_ROLE. None: no Karpenter pool uses spot capacity."""
    queue: Answer[bool] | None
    """True if the interruption queue exists. None: the plan names no queue."""


def needs_spot_role(fleet: EksFleetPlan) -> bool:
    return any(pool.settings.spot for pool in fleet.karpenter_pools)


def queue_needed(fleet: EksFleetPlan) -> str | None:
    """The name of the interruption queue."""
    karpenter = fleet.cluster.autoscaler
    return karpenter.interruption_queue if isinstance(karpenter, KarpenterPlan) else None


@checks("karpenter-account")
def karpenter_findings(
    fleet: EksFleetPlan, version: str | None, answers: KarpenterAnswers
) -> Iterator[Finding]:
    """version: the version of Kubernetes once the cluster exists. None: unknown."""
    region = fleet.cluster.region
    yield from _of_version(fleet, version)
    if answers.spot_role is not None:
        yield existence(
            f"role {SPOT_ROLE}",
            answers.spot_role,
            "does not exist, and Karpenter may not create it, so no spot instance would start",
            "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com",
        )
    queue = queue_needed(fleet)
    if queue is not None and answers.queue is not None:
        yield existence(
            f"SQS queue {queue} in {region} (cluster.autoscaler.interruption_queue)",
            answers.queue,
            "does not exist, so Karpenter exits at startup",
            f"aws sqs create-queue --queue-name {queue} --region {region}, and create the "
            "EventBridge rules that fill it (karpenter.sh docs, reference, CloudFormation)",
        )


@checks("karpenter-version")
def _of_version(fleet: EksFleetPlan, version: str | None) -> Iterator[Finding]:
    """Checks a plan that states no version: EKS's choice may be too new for Karpenter."""
    karpenter, release = fleet.cluster.autoscaler, catalog.karpenter_release()
    if (
        version is None
        or fleet.cluster.version is not None
        or not isinstance(karpenter, KarpenterPlan)
        or karpenter.chart_version != release.chart
    ):
        return
    subject = f"Karpenter {release.chart} with Kubernetes {version}, which is EKS's default"
    if _order(version) <= _order(release.newest_kubernetes):
        yield ok(subject, f"supports Kubernetes up to {release.newest_kubernetes}")
    else:
        yield fails(
            subject,
            f"supports Kubernetes up to {release.newest_kubernetes}",
            f'write version: "{release.newest_kubernetes}" under cluster, or a later '
            "cluster.autoscaler.chart_version",
        )


def _order(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
