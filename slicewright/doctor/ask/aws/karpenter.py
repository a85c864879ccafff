"""Asks AWS about the resources that Karpenter needs and cannot create. Every call only reads."""

from __future__ import annotations

from slicewright.doctor.ask.aws.session import AwsSession, code_of
from slicewright.doctor.checks.eks.karpenter import (
    SPOT_ROLE,
    KarpenterAnswers,
    needs_spot_role,
    queue_needed,
)
from slicewright.infra.plan import EksFleetPlan

_NO_QUEUE = frozenset({"QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue"})


def ask_karpenter(session: AwsSession, fleet: EksFleetPlan) -> KarpenterAnswers:
    queue = queue_needed(fleet)
    return KarpenterAnswers(
        spot_role=session.answer("iam:GetRole", lambda: _has_role(session, SPOT_ROLE))
        if needs_spot_role(fleet)
        else None,
        queue=session.answer("sqs:GetQueueUrl", lambda: _has_queue(session, queue))
        if queue is not None
        else None,
    )


def _has_role(session: AwsSession, name: str) -> bool:
    try:
        session.client("iam", session.home).get_role(RoleName=name)
    except session.errors.ClientError as e:
        if code_of(e) != "NoSuchEntity":
            raise
        return False
    return True


def _has_queue(session: AwsSession, name: str) -> bool:
    try:
        session.client("sqs").get_queue_url(QueueName=name)
    except session.errors.ClientError as e:
        if code_of(e) not in _NO_QUEUE:
            raise
        return False
    return True
