"""IAM roles of pods in an EKS plan: what the stack file may say, and what becomes of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from slicewright.infra import plan, stack_file
from tests.recorder import Made

Record = Callable[..., list[Made]]
ROLE = "arn:aws:iam::111122223333:role/trainer"
ONE = f"{{namespace: training, service_account: trainer, role: '{ROLE}'}}"
FLEET = """\
cloud: eks
cluster: {{name: c, region: us-west-2{cluster}, pod_identities: [{identities}]}}
node_pools:
- {{name: a, machine_type: g6.xlarge, nodes: {{count: 1}}}}
"""


def written(identities: str, cluster: str = "") -> str:
    return FLEET.format(identities=identities, cluster=cluster)


def notes(text: str) -> str:
    raw = yaml.safe_load(text)
    return "\n".join(plan.notes(plan.read(json.dumps(raw), stack_file.Source("test", raw))))


def found(record: Record, text: str) -> tuple[dict[str, Any], set[str]]:
    """Associations by the names of their resources, and the add-ons."""
    made = record("test", fleet=text)
    kind = "aws:eks/podIdentityAssociation:PodIdentityAssociation"
    return (
        {m.name: m.inputs for m in made if m.type == kind},
        {m.inputs["addonName"] for m in made if m.type == "aws:eks/addon:Addon"},
    )


def test_a_service_account_gets_its_role_and_the_cluster_the_agent(record: Record) -> None:
    associations, addons = found(record, written(ONE))
    association = associations["eks-pods-training.trainer"]
    assert (association["namespace"], association["serviceAccount"]) == ("training", "trainer")
    assert association["roleArn"] == ROLE
    assert "eks-pod-identity-agent" in addons
    assert "eks-pod-identity-agent is installed" in notes(written(ONE))
    assert found(record, written("")) == ({}, {"coredns", "kube-proxy", "vpc-cni"})


def test_an_existing_cluster_has_the_agent_or_gets_none(record: Record) -> None:
    text = written(ONE, ", existing: true")
    associations, addons = found(record, text)
    assert len(associations) == 1
    assert not addons
    assert "the add-on eks-pod-identity-agent, which the cluster must have" in notes(text)


@pytest.mark.parametrize(
    ("identities", "cluster", "said"),
    [
        (f"{ONE}, {ONE}", "", "training/trainer has a role already, by pod_identities[0]"),
        (
            f"{{namespace: kube-system, service_account: ebs-csi-controller-sa, role: '{ROLE}'}}",
            ", addons: {aws-ebs-csi-driver: {}}",
            "has a role already, by aws-ebs-csi-driver",
        ),
        (
            f"{ONE}, {{namespace: b, service_account: b, role: '{ROLE.replace('1111', '4444')}'}}",
            "",
            "is of account 444422223333, and the first role of 111122223333",
        ),
        (ONE.replace("aws:", "aws-us-gov:"), "", "is of partition aws-us-gov"),
        (ONE.replace("role/trainer", "user/trainer"), "", "is not the ARN of an IAM role"),
        (ONE.replace("role/trainer", "role/aws-service-role/x/y"), "", "is not the ARN of an IAM"),
        (ONE.replace(": trainer", ": Trainer"), "", "is not the name of a service account"),
    ],
)
def test_pod_identities_that_eks_refuses_are_refused(
    broken: Callable[[str], str], identities: str, cluster: str, said: str
) -> None:
    refused = " ".join(broken(written(identities, cluster)).split())
    assert said in refused
    assert " 1 problem," in refused
