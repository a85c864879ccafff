"""Whether Karpenter finds what it needs in the account, and may not make itself; pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from infra import catalog
from infra.plan import EksFleetPlan, KarpenterPlan
from slicewright.doctor.findings import Answer, Finding, existence, fails, ok

SPOT_ROLE: Final = "AWSServiceRoleForEC2Spot"
"""EC2 Fleet refuses spot instances without it, and Karpenter's role may not make it. Source:
karpenter.sh docs, getting started, "Create the service-linked role".
"""


@dataclass(frozen=True, kw_only=True)
class KarpenterAnswers:
    spot_role: Answer[bool] | None
    """Whether the account has SPOT_ROLE. None: no pool of Karpenter's is of spot capacity."""
    queue: Answer[bool] | None
    """Whether the queue of interruptions is there. None: the plan names none."""


def needs_spot_role(fleet: EksFleetPlan) -> bool:
    return any(pool.spot for pool in fleet.karpenter_pools)


def queue_needed(fleet: EksFleetPlan) -> str | None:
    """Its name."""
    karpenter = fleet.cluster.autoscaler
    return karpenter.interruption_queue if isinstance(karpenter, KarpenterPlan) else None


def karpenter_findings(
    fleet: EksFleetPlan, version: str | None, answers: KarpenterAnswers
) -> Iterator[Finding]:
    """version: of Kubernetes, once the cluster is made; None: not known."""
    region = fleet.cluster.region
    yield from _of_version(fleet, version)
    if answers.spot_role is not None:
        yield existence(
            f"role {SPOT_ROLE}",
            answers.spot_role,
            "does not exist, and Karpenter may not make it: no spot instance would start",
            "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com",
        )
    queue = queue_needed(fleet)
    if queue is not None and answers.queue is not None:
        yield existence(
            f"SQS queue {queue} in {region} (cluster.autoscaler.interruption_queue)",
            answers.queue,
            "does not exist: Karpenter ends at its start",
            f"aws sqs create-queue --queue-name {queue} --region {region}, and the rules of "
            "EventBridge that fill it (karpenter.sh docs, reference, CloudFormation)",
        )


def _of_version(fleet: EksFleetPlan, version: str | None) -> Iterator[Finding]:
    """Of a plan that states no version: EKS chooses it, and may have one that is too new."""
    karpenter, known = fleet.cluster.autoscaler, catalog.karpenter_release()
    if (
        version is None
        or fleet.cluster.version is not None
        or not isinstance(karpenter, KarpenterPlan)
        or karpenter.chart_version != known.chart
    ):
        return
    asked = f"Karpenter {known.chart} with Kubernetes {version}, which EKS gives by default"
    if _order(version) <= _order(known.newest_kubernetes):
        yield ok(asked, f"it knows Kubernetes up to {known.newest_kubernetes}")
    else:
        yield fails(
            asked,
            f"it knows Kubernetes up to {known.newest_kubernetes}",
            f'write version: "{known.newest_kubernetes}" under cluster, or a later '
            "cluster.autoscaler.chart_version",
        )


def _order(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
