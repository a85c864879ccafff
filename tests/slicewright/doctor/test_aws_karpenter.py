"""`slicewright doctor` for a stack with Karpenter, in an account that lacks what it needs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slicewright.doctor.checks.eks.karpenter import KarpenterAnswers, karpenter_findings
from slicewright.exit_codes import NOT_VERIFIED, VERIFIED
from slicewright.infra import plan, stack_file
from slicewright.rehearsal.clouds.aws.account import EMPTY, PROMPT, write_account
from tests.slicewright.doctor.conftest import Doctor

KARPENTER = (
    ("name: p4d-cluster", "name: p4d-cluster\n      autoscaler: {mode: karpenter, QUEUE}"),
    ("nodes: { count: 1 }", "nodes: {min: 0, max: 2}\n        capacity: spot"),
    ("ami_type: AL2023_x86_64_NVIDIA", "release_version: 1.36.2-20260714"),
)
ROLE = "role AWSServiceRoleForEC2Spot: does not exist, and Karpenter may not create it"


def changes(queue: str = "c-notices") -> tuple[tuple[str, str], ...]:
    (old, new), *others = KARPENTER
    return ((old, new.replace("QUEUE", f"interruption_queue: {queue}")), *others)


def test_an_account_that_has_all_of_it_passes(doctor: Doctor) -> None:
    write_account(doctor.environment, **{**PROMPT, "queues": ["c-notices"]})
    code, said = doctor("eks-a100", *changes())
    assert code == VERIFIED, said
    assert "role AWSServiceRoleForEC2Spot: exists" in said
    assert "quota L-7212CCBC (All P Spot Instance Requests) in eu-west-1: 1536 vCPU" in said


@pytest.mark.parametrize(
    ("account", "what", "remedy"),
    [
        ({"spot_role": False}, ROLE, "aws iam create-service-linked-role"),
        ({"queues": ["another"]}, "SQS queue c-notices in eu-west-1", "aws sqs create-queue"),
        (EMPTY, "0 vCPU; the stack's nodes need 192", "request-service-quota-increase"),
    ],
)
def test_missing_prerequisites_of_karpenter_are_named(
    doctor: Doctor, account: dict[str, Any], what: str, remedy: str
) -> None:
    write_account(doctor.environment, **{**PROMPT, **account})
    code, said = doctor("eks-a100", *changes())
    assert code == NOT_VERIFIED
    assert "1 would fail, 0 could not be checked" in said, said
    assert what in said
    assert remedy in said


def test_the_kubernetes_that_eks_chooses_is_one_that_karpenter_knows(doctor: Doctor) -> None:
    code, said = doctor("eks-a100", *changes())
    assert code == VERIFIED
    assert "with Kubernetes 1.36, which is EKS's default: supports Kubernetes up to" in said


def test_a_kubernetes_that_is_newer_than_karpenter_is_named() -> None:
    raw = {
        "cloud": "eks",
        "cluster": {"name": "c", "region": "us-west-2", "autoscaler": "karpenter"},
        "node_pools": [{"name": "a", "machine_type": "g6.xlarge", "nodes": {"count": 1}}],
    }
    fleet = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    assert isinstance(fleet, plan.EksFleetPlan)
    nothing = KarpenterAnswers(spot_role=None, queue=None)
    (found,) = karpenter_findings(fleet, "1.99", nothing)
    assert found.verdict == "fails"
    assert found.subject.endswith("with Kubernetes 1.99, which is EKS's default")
