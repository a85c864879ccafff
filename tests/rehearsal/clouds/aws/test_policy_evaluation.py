"""What IAM policies allow, by the rules of the IAM user guide."""

from __future__ import annotations

from typing import Any

import pytest

from slicewright.rehearsal.clouds.aws.policy_evaluation import evaluate
from slicewright.rehearsal.clouds.core.errors import CloudError

VPC = "arn:aws:ec2:eu-west-1:123456789012:vpc/a"
REGION = {"aws:requestedregion": ["eu-west-1"]}


def decided(*statements: dict[str, Any], context: Any = None) -> str:
    every = [{"Effect": "Allow", "Action": "ec2:*", "Resource": "*", **one} for one in statements]
    return evaluate([{"Statement": every}], "ec2:DeleteVpc", VPC, context or REGION).decision


@pytest.mark.parametrize(
    ("statement", "decision"),
    [
        ({}, "allowed"),
        ({"Action": "EC2:deletevpc"}, "allowed"),
        ({"Action": ["eks:*"]}, "implicitDeny"),
        ({"Resource": "arn:aws:ec2:*:*:vpc/*"}, "allowed"),
        ({"Resource": ["arn:aws:ec2:*:*:subnet/*"]}, "implicitDeny"),
        ({"Condition": {"StringEquals": {"aws:RequestedRegion": "eu-west-1"}}}, "allowed"),
        ({"Condition": {"StringEquals": {"aws:RequestedRegion": ["a"]}}}, "implicitDeny"),
        ({"Condition": {"StringNotLike": {"aws:RequestedRegion": "eu-*"}}}, "implicitDeny"),
        ({"Condition": {"StringLike": {"aws:ResourceTag/Name": "*"}}}, "implicitDeny"),
        ({"Condition": {"StringLikeIfExists": {"aws:ResourceTag/Name": "a"}}}, "allowed"),
        ({"Condition": {"StringNotEquals": {"aws:PrincipalTag/a": "b"}}}, "allowed"),
        ({"Condition": {"ForAnyValue:StringEquals": {"aws:TagKeys": "Name"}}}, "implicitDeny"),
        ({"Condition": {"ForAllValues:StringEquals": {"aws:TagKeys": "Name"}}}, "allowed"),
    ],
)
def test_a_statement_allows_what_it_names_under_its_conditions(
    statement: dict[str, Any], decision: str
) -> None:
    assert decided(statement) == decision


def test_a_denial_outweighs_whatever_allows() -> None:
    assert decided({}, {"Effect": "Deny", "Action": "ec2:Delete*"}) == "explicitDeny"


def test_keys_that_a_request_does_not_have_are_reported() -> None:
    statement = {"Effect": "Allow", "Action": "*", "Resource": "*"}
    condition = {"Bool": {"aws:MultiFactorAuthPresent": "true"}}
    found = evaluate([{"Statement": {**statement, "Condition": condition}}], "a:B", "*", REGION)
    assert (found.decision, found.missing) == ("implicitDeny", {"aws:MultiFactorAuthPresent"})


def test_unsupported_policy_elements_are_refused() -> None:
    with pytest.raises(CloudError, match="does not know the condition DateLessThan"):
        decided({"Condition": {"DateLessThan": {"aws:RequestedRegion": "2030"}}})
    with pytest.raises(CloudError, match="does not know Principal"):
        decided({"Principal": "*"})
