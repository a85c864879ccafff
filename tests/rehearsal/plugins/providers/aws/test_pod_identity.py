"""Roles of pods through the aws provider."""

from __future__ import annotations

import json

TRUST = {
    "Effect": "Allow",
    "Principal": {"Service": "pods.eks.amazonaws.com"},
    "Action": ["sts:AssumeRole", "sts:TagSession"],
}
POLICY = {"Effect": "Allow", "Action": "ec2:DescribeImages", "Resource": "*"}
ASSOCIATION = "aws:eks/podIdentityAssociation:PodIdentityAssociation"


def document(statement: dict) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def make_role(engine, name: str):
    return engine.make("aws:iam/role:Role", name, assumeRolePolicy=document(TRUST))


def test_an_inline_policy_lives_as_long_as_it_is_asked_for(engine) -> None:
    role = make_role(engine, "r")
    asked = {"role": role.id, "name": "p", "policy": document(POLICY)}
    policy = engine.make("aws:iam/rolePolicy:RolePolicy", "p", **asked)
    assert not policy.refresh().changes
    policy.update({**asked, "policy": document({**POLICY, "Action": "ec2:DescribeVpcs"})})
    assert not policy.refresh().changes
    found = engine.call("aws-iam", "GetRolePolicy", RoleName=role.id, PolicyName="p")
    assert "DescribeVpcs" in found["PolicyDocument"]
    policy.delete()
    assert policy.refresh() is None
    role.delete()


def test_an_association_changes_its_role_in_place_and_its_account_by_replacement(engine) -> None:
    engine.base()
    first, second = make_role(engine, "first"), make_role(engine, "second")
    asked = {
        "clusterName": "p4d-cluster",
        "namespace": "kube-system",
        "serviceAccount": "scaler",
        "roleArn": first.outputs["arn"],
    }
    made = engine.make(ASSOCIATION, "a", **asked)
    assert not made.refresh().changes
    made.update({**asked, "roleArn": second.outputs["arn"], "tags": {"team": "ml"}})
    assert not made.refresh().changes
    assert made.outputs["roleArn"] == second.outputs["arn"]
    other = engine.checked(ASSOCIATION, "a", made.inputs, {**asked, "serviceAccount": "other"})
    kinds = engine.diff(ASSOCIATION, made.inputs, other).detailed
    assert kinds["serviceAccount"] == "update-replace"
    made.delete()
    assert engine.call("eks", "ListPodIdentityAssociations", clusterName="p4d-cluster") == {
        "associations": []
    }
