"""What is asked of IAM's policy simulator is the policy of `slicewright rights`, and no more."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from slicewright.doctor.checks.eks.rights import (
    CallerRights,
    Refused,
    Requests,
    findings,
    is_user,
    requests,
    role_of,
)
from slicewright.doctor.findings import Finding, NotAnswered
from slicewright.infra import manifests, plan, stack_file
from slicewright.infra.plan import EksFleetPlan
from slicewright.rehearsal.clouds.aws.policy_evaluation import evaluate

STACKS = Path(__file__).resolve().parents[3] / "stacks"
ACCOUNT = "123456789012"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/ci/deploy"


def fleet_of(name: str) -> EksFleetPlan:
    found = plan.read_file(STACKS / f"Pulumi.{name}.yaml")
    assert isinstance(found, EksFleetPlan)
    return found


def fleet_with(
    cluster: Mapping[str, Any], *, allow_unlisted: bool = False, **pool: Any
) -> EksFleetPlan:
    raw = {
        "cloud": "eks",
        "allow_unlisted": allow_unlisted,
        "cluster": {"name": "c", "region": "eu-west-1", **cluster},
        "node_pools": [
            {"name": "a", "machine_type": "p4d.24xlarge", "nodes": {"count": 1}, **pool}
        ],
    }
    found = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    assert isinstance(found, EksFleetPlan)
    return found


KEY = f"arn:aws:kms:eu-west-1:{ACCOUNT}:key/11111111-2222-3333-4444-555555555555"
ZONES = ["euw1-az2", "euw1-az3"]
SUBNETS = ["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"]
FLEETS: Mapping[str, EksFleetPlan] = {
    "eks-a100": fleet_of("eks-a100"),
    "everything made": fleet_with(
        {"zones": ZONES, "network": "private", "secrets_key": KEY},
        nodes={"min": 0, "max": 2},
        instance_tags={"team": "a"},
    ),
    "autoscaler": fleet_with(
        {
            "autoscaler": "cluster-autoscaler",
            "version": "1.36",
            "permissions_boundary": f"arn:aws:iam::{ACCOUNT}:policy/boundary",
            "tags": {"owner": "ml", "team": "vision"},
        },
        nodes={"min": 0, "max": 2},
    ),
    "existing subnets": fleet_with({"network": {"mode": "existing", "subnets": SUBNETS}}),
    "existing cluster": fleet_with({"existing": True}, zones=["eu-west-1a"], efa=True),
}


def refused(policy: Mapping[str, Any], every: tuple[Requests, ...]) -> set[str]:
    return {
        action
        for group in every
        for action in group.actions
        for arn in group.resources
        if evaluate(
            [policy], action, arn, {key.lower(): [v] for key, v in group.context.items()}
        ).decision
        != "allowed"
    }


@pytest.mark.parametrize("name", FLEETS)
def test_the_printed_policy_allows_every_simulated_action(name: str) -> None:
    fleet = FLEETS[name]
    assert refused(manifests.aws_policy(fleet), requests(fleet, ACCOUNT)) == set()


@pytest.mark.parametrize("name", FLEETS)
def test_each_single_missing_right_is_reported(name: str) -> None:
    fleet = FLEETS[name]
    every = requests(fleet, ACCOUNT)
    policy = manifests.aws_policy(fleet)
    for action in {one for s in policy["Statement"] for one in s["Action"]}:
        less = copy.deepcopy(policy)
        for statement in less["Statement"]:
            statement["Action"] = [one for one in statement["Action"] if one != action]
        assert refused(less, every) == {action}


def test_each_kind_of_resource_that_a_policy_omits_is_reported() -> None:
    """A route is made in a route table, and a subnet in a VPC: no right on one is one on all."""
    fleet = fleet_of("eks-a100")
    policy = copy.deepcopy(manifests.aws_policy(fleet))
    for statement in policy["Statement"]:
        kept = [arn for arn in statement["Resource"] if "subnet/" not in arn]
        if isinstance(statement["Resource"], list):
            statement["Resource"] = kept
    assert refused(policy, requests(fleet, ACCOUNT)) == {
        "ec2:AssociateRouteTable",
        "ec2:CreateSubnet",
        "ec2:CreateTags",
        "ec2:DeleteSubnet",
        "ec2:DeleteTags",
        "ec2:DisassociateRouteTable",
        "ec2:ModifySubnetAttribute",
        "ec2:ReplaceRouteTableAssociation",
    }


def test_every_request_names_this_account_and_no_pattern() -> None:
    for group in requests(fleet_of("eks-a100"), ACCOUNT):
        for arn in group.resources:
            assert arn == "*" or "*" not in arn
            assert arn == "*" or arn.split(":")[4] in (ACCOUNT, "")
        assert not any("*" in value for value in group.context.values())


def test_each_action_is_simulated_only_on_its_kinds_of_resources() -> None:
    """A policy for pods' roles need not allow the nodes' ones, and none of a pod's on a cluster."""
    every = {
        (action, arn)
        for group in requests(FLEETS["autoscaler"], ACCOUNT)
        for action in group.actions
        for arn in group.resources
    }
    asked = {action: {arn for a, arn in every if a == action} for action, _ in every}
    role = f"arn:aws:iam::{ACCOUNT}:role"
    assert asked["iam:PutRolePolicy"] == {f"{role}/slicewright.eu-west-1.c.autoscaler"}
    assert asked["iam:AttachRolePolicy"] == {f"{role}/slicewright.eu-west-1.c.slicewright"}
    assert asked["eks:DeletePodIdentityAssociation"] == {
        f"arn:aws:eks:eu-west-1:{ACCOUNT}:podidentityassociation/c/slicewright"
    }


def test_an_earlier_stack_is_checked_with_the_names_of_its_roles() -> None:
    names = {"nodes": "eks-nodes-0123abc", "autoscaler": "eks-autoscaler-0123abc"}
    fleet = FLEETS["autoscaler"]
    every = requests(fleet, ACCOUNT, names)
    role = f"arn:aws:iam::{ACCOUNT}:role"
    asked = {arn for group in every for arn in group.resources if arn.startswith(f"{role}/eks-")}
    assert asked == {f"{role}/{name}" for name in names.values()}
    assert refused(manifests.aws_policy(fleet, role_names=names), every) == set()


def test_rights_of_an_autoscaler_without_a_boundary_are_checked() -> None:
    fleet = fleet_with(
        {"autoscaler": "cluster-autoscaler", "version": "1.36"}, nodes={"min": 0, "max": 2}
    )
    assert refused(manifests.aws_policy(fleet), requests(fleet, ACCOUNT)) == {"iam:PutRolePolicy"}


def test_rights_in_a_region_missing_from_the_catalog_are_checked() -> None:
    fleet = fleet_with({"region": "us-gov-north-9"}, allow_unlisted=True)
    every = requests(fleet, ACCOUNT)
    assert refused(manifests.aws_policy(fleet), every) == set()
    assert {arn.split(":")[1] for one in every for arn in one.resources if arn != "*"} == {
        "aws-us-gov"
    }


def test_iam_is_called_in_the_region_of_the_aws_partition() -> None:
    asked = {
        (action.partition(":")[0], group.context["aws:RequestedRegion"])
        for group in requests(fleet_of("eks-a100"), ACCOUNT)
        for action in group.actions
    }
    assert asked == {("ec2", "eu-west-1"), ("eks", "eu-west-1"), ("iam", "us-east-1")}


@pytest.mark.parametrize(
    ("arn", "user", "role"),
    [
        (f"arn:aws:iam::{ACCOUNT}:user/team/me", True, None),
        (f"arn:aws:sts::{ACCOUNT}:assumed-role/deploy/ci-run-7", False, "deploy"),
        (f"arn:aws:sts::{ACCOUNT}:federated-user/me", False, None),
        (f"arn:aws:iam::{ACCOUNT}:root", False, None),
    ],
)
def test_the_checked_principal_follows_from_the_answer_of_sts(
    arn: str, user: bool, role: str | None
) -> None:
    assert (is_user(arn), role_of(arn)) == (user, role)


def of(*refusals: Refused) -> list[Finding]:
    answer = CallerRights(principal=ROLE, refused=refusals, simulated=57)
    return list(findings(answer, account=ACCOUNT, rights="slicewright rights -s eks-a100"))


def test_a_right_without_a_policy_comes_with_the_commands_that_give_it() -> None:
    (found,) = of(Refused(right="ec2:CreateVpc", resource="*", why="policies"))
    assert (found.verdict, found.subject) == ("fails", f"rights of {ROLE}")
    assert found.detail == "no policy of this identity allows: ec2:CreateVpc"
    assert found.remedy == (
        "slicewright rights -s eks-a100 > policy.json; aws iam create-policy --policy-name "
        "slicewright "
        "--policy-document file://policy.json; aws iam attach-role-policy --role-name deploy "
        f"--policy-arn arn:aws:iam::{ACCOUNT}:policy/slicewright"
    )


def test_a_right_with_an_unknown_condition_key_is_undecided() -> None:
    (found,) = of(
        Refused(
            right="eks:CreateCluster",
            resource="*",
            why="policies",
            missing_keys=("aws:MultiFactorAuthPresent",),
        )
    )
    assert found.verdict == "not asked"
    assert "eks:CreateCluster is allowed depends on aws:MultiFactorAuthPresent" in found.detail


def test_a_right_on_a_key_may_come_from_the_keys_own_policy() -> None:
    key = f"arn:aws:kms:eu-west-1:{ACCOUNT}:key/1"
    (found,) = of(Refused(right="kms:CreateGrant", resource=key, why="policies"))
    assert found.verdict == "not asked"
    assert f"the policy of the key {key} may" in found.detail
    (found,) = of(Refused(right="kms:CreateGrant", resource=key, why="denied"))
    assert found.verdict == "fails"


def test_an_action_refused_on_one_resource_and_undecided_on_another_fails_once() -> None:
    unsure = Refused(right="ec2:CreateTags", resource="a", why="policies", missing_keys=("aws:x",))
    (found,) = of(unsure, Refused(right="ec2:CreateTags", resource="b", why="policies"))
    assert found.verdict == "fails"


def test_rights_that_could_not_be_checked_are_not_missing() -> None:
    silent = NotAnswered(why="the right iam:SimulatePrincipalPolicy is missing")
    for answer in (silent, CallerRights(principal=ROLE, refused=silent, simulated=57)):
        (found,) = findings(answer, account=ACCOUNT, rights="slicewright rights -s eks-a100")
        assert found.verdict == "not asked"
