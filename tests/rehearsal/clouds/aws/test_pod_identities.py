"""Roles of pods: inline policies, and EKS Pod Identity."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slicewright.rehearsal.clouds.aws.role_policies import allows
from slicewright.rehearsal.clouds.core.errors import CloudError

GROUPS = "arn:aws:autoscaling:eu-west-1:123456789012:autoScalingGroup:x:autoScalingGroupName/"
POLICY = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Action": ["ec2:Describe*"], "Resource": "*"},
        {
            "Effect": "Allow",
            "Action": "autoscaling:SetDesiredCapacity",
            "Resource": GROUPS.replace(":x:", ":*:") + "eks-*",
            "Condition": {"StringEquals": {"aws:ResourceTag/owner": "p4d"}},
        },
    ],
}
TRUST = {"Effect": "Allow", "Principal": {"Service": "pods.eks.amazonaws.com"}}


def make_role(aws, *actions: str) -> str:
    trust = {"Version": "2012-10-17", "Statement": [{**TRUST, "Action": list(actions)}]}
    made = aws.call(
        "aws-iam", "CreateRole", RoleName="pods", AssumeRolePolicyDocument=json.dumps(trust)
    )
    arn: str = made["Role"]["Arn"]
    return arn


def associate(aws, arn: str, **more: Any) -> dict[str, Any]:
    asked = {"clusterName": "p4d", "namespace": "kube-system", "serviceAccount": "scaler"}
    found: dict[str, Any] = aws.call(
        "eks", "CreatePodIdentityAssociation", roleArn=arn, **(asked | more)
    )["association"]
    return found


def refusal(aws, service: str, operation: str, **body: Any) -> str:
    with pytest.raises(CloudError) as caught:
        aws.call(service, operation, **body)
    return caught.value.reason


def test_a_role_is_deleted_after_its_inline_policies(aws) -> None:
    make_role(aws, "sts:AssumeRole")
    one = {"RoleName": "pods", "PolicyName": "scale"}
    aws.call("aws-iam", "PutRolePolicy", **one, PolicyDocument=json.dumps(POLICY))
    listed = aws.call("aws-iam", "ListRolePolicies", RoleName="pods")
    assert listed["PolicyNames"] == ["scale"]
    assert refusal(aws, "aws-iam", "DeleteRole", RoleName="pods") == "DeleteConflict"
    aws.call("aws-iam", "DeleteRolePolicy", **one)
    assert refusal(aws, "aws-iam", "GetRolePolicy", **one) == "NoSuchEntity"
    aws.call("aws-iam", "DeleteRole", RoleName="pods")


@pytest.mark.parametrize("document", ["{", "{}", '{"Statement": [{"Effect": "Allow"}]}'])
def test_a_malformed_policy_is_refused(aws, document: str) -> None:
    make_role(aws, "sts:AssumeRole")
    one = {"RoleName": "pods", "PolicyName": "scale", "PolicyDocument": document}
    assert refusal(aws, "aws-iam", "PutRolePolicy", **one) == "MalformedPolicyDocument"


@pytest.mark.parametrize(
    ("action", "resource", "tags", "allowed"),
    [
        ("ec2:DescribeImages", "*", {}, True),
        ("ec2:RunInstances", "*", {}, False),
        ("autoscaling:SetDesiredCapacity", f"{GROUPS}eks-a", {"owner": "p4d"}, True),
        ("autoscaling:SetDesiredCapacity", f"{GROUPS}eks-a", {"owner": "other"}, False),
        ("autoscaling:SetDesiredCapacity", f"{GROUPS}eks-a", {}, False),
        ("autoscaling:SetDesiredCapacity", f"{GROUPS}mine", {"owner": "p4d"}, False),
    ],
)
def test_a_policy_allows_what_it_says_where_it_says(
    action: str, resource: str, tags: dict[str, str], allowed: bool
) -> None:
    role = {"inline": {"scale": POLICY}}
    assert allows(role, action, resource=resource, tags=tags) is allowed
    assert not allows({}, action, resource=resource, tags=tags)


def test_a_condition_that_is_not_known_is_not_met() -> None:
    condition = {"StringLike": {"aws:ResourceTag/owner": "*"}}
    statement = {**POLICY["Statement"][0], "Condition": condition}
    assert not allows({"inline": {"p": {"Statement": [statement]}}}, "ec2:DescribeImages")


def test_a_service_account_gets_a_role_that_trusts_the_pods_of_eks(aws) -> None:
    aws.make_cluster()
    arn = make_role(aws, "sts:AssumeRole", "sts:TagSession")
    made = associate(aws, arn)
    where = {"clusterName": "p4d", "associationId": made["associationId"]}
    found = aws.call("eks", "DescribePodIdentityAssociation", **where)["association"]
    assert (found["serviceAccount"], found["roleArn"]) == ("scaler", arn)
    listed = aws.call("eks", "ListPodIdentityAssociations", clusterName="p4d")["associations"]
    assert [one["associationId"] for one in listed] == [made["associationId"]]
    aws.call("eks", "DeletePodIdentityAssociation", **where)
    gone = refusal(aws, "eks", "DescribePodIdentityAssociation", **where)
    assert gone == "ResourceNotFoundException"


def test_a_second_association_of_a_service_account_is_refused(aws) -> None:
    aws.make_cluster()
    arn = make_role(aws, "sts:AssumeRole", "sts:TagSession")
    associate(aws, arn)
    with pytest.raises(CloudError, match="Association already exists"):
        associate(aws, arn)
    associate(aws, arn, namespace="default")


@pytest.mark.parametrize("actions", [["sts:AssumeRole"], ["sts:TagSession"]])
def test_a_role_that_pods_may_not_have_is_refused(aws, actions: list[str]) -> None:
    """EKS user guide, "Create IAM role with trust policy required by EKS Pod Identity"."""
    aws.make_cluster()
    with pytest.raises(CloudError, match="Trust policy"):
        associate(aws, make_role(aws, *actions))
    with pytest.raises(CloudError, match="does not exist"):
        associate(aws, "arn:aws:iam::123456789012:role/nobody")
