"""`slicewright doctor` where the caller in AWS lacks one right, and nothing else is wrong."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from slicewright.exit_codes import CANNOT_RUN, NOT_VERIFIED, VERIFIED
from slicewright.infra import manifests, plan
from slicewright.infra.plan import EksFleetPlan
from slicewright.rehearsal.clouds.aws.account import PROMPT, write_account
from tests.slicewright.doctor.conftest import STACKS, Doctor

ROLE = "arn:aws:iam::123456789012:role/teams/gpu/deploy"
SESSION = "arn:aws:sts::123456789012:assumed-role/deploy/ci"
ALL = {"Effect": "Allow", "Action": "*", "Resource": "*"}


def policy() -> dict[str, Any]:
    """What `slicewright rights -s eks-a100` prints."""
    fleet = plan.read_file(STACKS / "Pulumi.eks-a100.yaml")
    assert isinstance(fleet, EksFleetPlan)
    return copy.deepcopy(dict(manifests.aws_policy(fleet)))


def without(*actions: str) -> dict[str, Any]:
    found = policy()
    for statement in found["Statement"]:
        statement["Action"] = [one for one in statement["Action"] if one not in actions]
    found["Statement"] = [one for one in found["Statement"] if one["Action"]]
    return found


def call_as(doctor: Doctor, *policies: dict[str, Any], **changed: Any) -> None:
    caller = {"arn": SESSION, "role_path": "/teams/gpu/", "policies": policies, **changed}
    write_account(doctor.environment, **{**PROMPT, "caller": caller})


def test_a_role_with_exactly_the_rights_that_are_printed_has_all(doctor: Doctor) -> None:
    call_as(doctor, policy())
    code, said = doctor("eks-a100")
    assert code == VERIFIED, said
    assert f"rights of {ROLE}: all 57 rights that the stack needs" in said


@pytest.mark.parametrize("right", ["ec2:CreateVpc", "iam:PassRole", "eks:CreateNodegroup"])
def test_the_right_that_is_missing_is_named_with_the_commands_that_give_it(
    doctor: Doctor, right: str
) -> None:
    call_as(doctor, without(right))
    code, said = doctor("eks-a100")
    assert code == NOT_VERIFIED
    assert "1 would fail, 0 could not be checked" in said
    assert f"rights of {ROLE}: no policy of this identity allows: {right}\n" in said
    assert f"slicewright rights {doctor.environment / 'Pulumi.eks-a100.yaml'} > policy.json" in said
    assert "aws iam attach-role-policy --role-name deploy" in said


def test_a_role_that_can_only_read_lacks_all_that_creates(doctor: Doctor) -> None:
    reads = {"Effect": "Allow", "Action": ["*:Describe*", "*:Get*", "*:List*"], "Resource": "*"}
    call_as(doctor, {"Version": "2012-10-17", "Statement": [reads]})
    code, said = doctor("eks-a100")
    assert code == NOT_VERIFIED
    assert "1 would fail" in said
    assert (
        "no policy of this identity allows: ec2:AssociateRouteTable, ec2:AttachInternetGateway"
        in said
    )


def test_a_permissions_boundary_that_takes_a_right_away_is_named(doctor: Doctor) -> None:
    call_as(doctor, policy(), boundary=without("eks:CreateCluster"))
    code, said = doctor("eks-a100")
    assert code == NOT_VERIFIED
    assert "its permissions boundary does not allow: eks:CreateCluster\n" in said
    assert "aws iam get-role --role-name deploy names the boundary" in said


def test_a_service_control_policy_that_takes_a_right_away_is_named(doctor: Doctor) -> None:
    deny = {"Effect": "Deny", "Action": "ec2:CreateInternetGateway", "Resource": "*"}
    organization = {"Version": "2012-10-17", "Statement": [ALL, deny]}
    call_as(doctor, policy(), organization=organization)
    code, said = doctor("eks-a100")
    assert code == NOT_VERIFIED
    assert (
        "a service control policy of the organization does not allow: ec2:CreateInternetGateway\n"
        in said
    )
    assert "aws organizations list-policies-for-target --target-id 123456789012" in said


def test_a_policy_that_denies_differs_from_one_that_is_missing(doctor: Doctor) -> None:
    deny = {"Effect": "Deny", "Action": "iam:CreateRole", "Resource": "*"}
    call_as(doctor, policy(), {"Version": "2012-10-17", "Statement": [deny]})
    code, said = doctor("eks-a100")
    assert code == NOT_VERIFIED
    assert "a policy of this identity denies: iam:CreateRole\n" in said


def test_a_policy_that_asks_for_a_second_factor_is_not_judged(doctor: Doctor) -> None:
    """The simulator is told what is known of a request; whether it comes with one is not."""
    allowed = policy()
    factor = {"Bool": {"aws:MultiFactorAuthPresent": "true"}}
    for statement in allowed["Statement"]:
        if "eks:CreateCluster" in statement["Action"]:
            statement["Condition"] = {**statement["Condition"], **factor}
            statement["Action"] = ["eks:CreateCluster"]
    rest = without("eks:CreateCluster")
    call_as(doctor, {**rest, "Statement": [*rest["Statement"], *allowed["Statement"]]})
    code, said = doctor("eks-a100")
    assert code == CANNOT_RUN, said
    assert "whether eks:CreateCluster is allowed depends on aws:MultiFactorAuthPresent" in said


@pytest.mark.parametrize(
    ("method", "right"),
    [
        ("SimulatePrincipalPolicy", "iam:SimulatePrincipalPolicy"),
        ("GetRole", "iam:GetRole"),
    ],
)
def test_unreadable_rights_are_reported_and_none_counts_as_missing(
    doctor: Doctor, method: str, right: str
) -> None:
    call_as(doctor, policy())
    fault = {"fault": "api-error", "method": f"aws-iam.{method}", "code": 403}
    fault |= {"status": "AccessDenied"}
    (doctor.environment / "faults.json").write_text(json.dumps([fault]))
    code, said = doctor("eks-a100")
    assert code == CANNOT_RUN
    assert "0 would fail, 1 could not be checked" in said
    assert f"the right {right} is missing" in said


def test_rights_of_a_caller_that_is_no_user_or_role_are_unknown(doctor: Doctor) -> None:
    root = "arn:aws:iam::123456789012:root"
    write_account(doctor.environment, **{**PROMPT, "caller": {"arn": root}})
    code, said = doctor("eks-a100")
    assert code == CANNOT_RUN
    assert f"IAM's policy simulator accepts only users and roles, and {root} is neither" in said
