"""The rights that are listed for a stack: for what it creates, and for nothing else."""

from __future__ import annotations

import dataclasses
import fnmatch
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from slicewright.infra import catalog, manifests, plan, stack_file
from slicewright.infra.catalog import Operation
from slicewright.rehearsal.clouds.aws import models as aws_models
from slicewright.rehearsal.clouds.core.call_log import LoggedCall
from slicewright.rehearsal.clouds.gcp import models as google_models
from tests.rights_used import differences

ROOT = Path(__file__).resolve().parents[3]
Record = Callable[..., list[Any]]
SERVICES = {"iam": "aws-iam"}
"""As the simulated clouds name them, where that differs."""
ROLE = "arn:aws:iam::111122223333:role"
TEMPLATED: Mapping[str, Any] = {"instance_metadata": {"hop_limit": 1}}
"""What gives a pool a launch template."""
BOUNDARY = "arn:aws:iam::111122223333:policy/boundary"
PARTS = ("control-plane", "nodes")
NO_OPERATIONS = ("iam:PassRole",)
"""Actions that no call has as its name."""


def stack(name: str) -> Any:
    return plan.read_file(ROOT / "stacks" / f"Pulumi.{name}.yaml")


def eks(
    region: str = "us-west-2",
    cluster: str = "c",
    pool: Mapping[str, Any] = MappingProxyType({}),
    network: Any = "public",
    more: Mapping[str, Any] = MappingProxyType({}),
    **nodes: Any,
) -> plan.EksFleetPlan:
    raw = {
        "cloud": "eks",
        "cluster": {
            "name": cluster,
            "region": region,
            "zones": [f"{region}a", f"{region}b"],
            "network": network,
            **more,
        },
        "node_pools": [
            {"name": "p", "machine_type": "g6.xlarge", "nodes": nodes or {"count": 1}, **pool},
        ],
    }
    found = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    assert isinstance(found, plan.EksFleetPlan)
    return found


def actions(policy: dict[str, Any]) -> set[str]:
    return {action for one in policy["Statement"] for action in one["Action"]}


def statement(policy: dict[str, Any], action: str) -> dict[str, Any]:
    (found,) = (one for one in policy["Statement"] if action in one["Action"])
    return dict(found)


@pytest.mark.parametrize(("name", "prefix"), [("gke-h100", "gcp:"), ("eks-a100", "aws:")])
def test_every_resource_type_of_the_program_has_rights_and_no_other_has(
    record: Record, name: str, prefix: str
) -> None:
    made = {m.type for m in record(name) if m.type.startswith(prefix)}
    assert made == {need.type for need in manifests.rights(stack(name))}


def test_an_autoscaled_pool_needs_the_rights_of_its_eks_calls() -> None:
    asked = {"eks:ListClusters", "eks:ListNodegroups"}
    assert not asked & actions(manifests.aws_policy(eks()))
    assert asked <= actions(manifests.aws_policy(eks(min=0, max=2)))


def test_node_groups_with_tags_need_an_additional_right() -> None:
    assert "eks:TagResource" not in actions(manifests.aws_policy(eks()))
    autoscaled = eks(min=0, max=2)
    assert autoscaled.pools[0].settings.tags
    assert "eks:TagResource" in actions(manifests.aws_policy(autoscaled))


def test_cluster_tags_need_rights_that_nothing_else_needs() -> None:
    plain, policy = (
        manifests.aws_policy(eks()),
        manifests.aws_policy(eks(more={"tags": {"owner": "ml"}})),
    )
    assert actions(policy) - actions(plain) == {"eks:TagResource", "iam:TagRole"}
    tag = statement(policy, "eks:TagResource")["Resource"]
    assert all(":eks:us-west-2:*:" in one and "/c" in one for one in tag), "of this cluster only"
    tagging = statement(policy, "iam:TagRole")
    assert tagging["Resource"] == "arn:aws:iam::*:role/slicewright.us-west-2.c.*"
    assert tagging["Condition"] == {
        "ForAllValues:StringEquals": {"aws:TagKeys": ["owner"]},
        "StringEqualsIfExists": {"aws:RequestTag/owner": "ml"},
    }, "and no tag but those of the file"
    # What is created with tags needs them, as what is changed.
    needs = {(n.right, n.operation) for n in manifests.rights(eks(more={"tags": {"owner": "ml"}}))}
    for right in ("eks:TagResource", "iam:TagRole"):
        assert {(right, "create"), (right, "update")} <= needs


def test_a_launch_template_needs_rights_limited_to_launch_templates() -> None:
    plain, policy = manifests.aws_policy(eks()), manifests.aws_policy(eks(pool=TEMPLATED))
    more = actions(policy) - actions(plain)
    assert more == {
        "ec2:CreateLaunchTemplate",
        "ec2:CreateLaunchTemplateVersion",
        "ec2:DeleteLaunchTemplate",
        "ec2:DescribeLaunchTemplateVersions",
        "ec2:DescribeLaunchTemplates",
        "ec2:RunInstances",
    }
    assert "launch-template" not in json.dumps(plain)
    assert "LaunchTemplate" not in json.dumps(plain)
    run = statement(policy, "ec2:RunInstances")
    assert run["Condition"]["ArnLike"] == {
        "ec2:LaunchTemplate": "arn:aws:ec2:us-west-2:*:launch-template/*"
    }
    new = statement(policy, "ec2:CreateLaunchTemplate")
    assert new["Condition"]["StringLike"] == {"aws:RequestTag/Name": ["c", "c-us-west-2?"]}


def test_only_access_policies_of_the_file_can_be_associated() -> None:
    named = {"principal": "arn:aws:iam::111122223333:role/ml"}
    view = {**named, "policies": [{"name": "AmazonEKSViewPolicy"}]}
    grouped = manifests.aws_policy(eks(more={"access": {"entries": [{**named, "groups": ["ml"]}]}}))
    assert "eks:CreateAccessEntry" in actions(grouped)
    assert "eks:AssociateAccessPolicy" not in actions(grouped)
    policy = manifests.aws_policy(eks(more={"access": {"entries": [view]}}))
    associate = statement(policy, "eks:AssociateAccessPolicy")
    assert associate["Action"] == ["eks:AssociateAccessPolicy"]
    assert associate["Condition"] == {
        "ArnEquals": {
            "eks:policyArn": ["arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy"]
        }
    }
    assert "Access" not in json.dumps(manifests.aws_policy(eks()))


def test_roles_of_pods_can_be_passed_and_not_changed() -> None:
    trainer = {"namespace": "a", "service_account": "b", "role": f"{ROLE}/trainer"}
    policy = manifests.aws_policy(eks(more={"pod_identities": [trainer]}))
    naming = [one for one in policy["Statement"] if f"{ROLE}/trainer" in one["Resource"]]
    assert {action for one in naming for action in one["Action"]} == {"iam:GetRole", "iam:PassRole"}
    passing = statement(policy, "iam:PassRole")
    assert passing["Condition"]["StringEquals"]["iam:PassedToService"] == [
        "eks.amazonaws.com",
        "pods.eks.amazonaws.com",
    ]


def test_the_policy_names_the_roles_and_policies_of_the_program(record: Record) -> None:
    made = record("eks-a100")
    policy = manifests.aws_policy(stack("eks-a100"))
    roles = {m.inputs["name"] for m in made if m.type == "aws:iam/role:Role"}
    assert roles == {f"slicewright.eu-west-1.p4d-cluster.{part}" for part in PARTS}
    pattern = statement(policy, "iam:PassRole")["Resource"].rpartition("/")[2]
    assert all(fnmatch.fnmatchcase(role, pattern) for role in roles)
    attached = statement(policy, "iam:AttachRolePolicy")["Condition"]["ArnEquals"]
    assert {m.inputs["policyArn"] for m in made if "rolePolicyAttachment" in m.type} == set(
        attached["iam:PolicyARN"]
    )


@pytest.mark.parametrize("zones", [["us-west-2a", "us-west-2b"], ["usw2-az1", "usw2-az2"]])
@pytest.mark.parametrize(("network", "of_zone"), [("public", 1), ("private", 2)])
def test_every_tagged_resource_has_a_name_that_the_policy_allows(
    record: Record, zones: list[str], network: str, of_zone: int
) -> None:
    raw = {
        "cloud": "eks",
        "cluster": {"name": "c", "region": "us-west-2", "zones": zones, "network": network},
        "node_pools": [
            {"name": "p", "machine_type": "g6.xlarge", "nodes": {"count": 1}, **TEMPLATED}
        ],
    }
    fleet = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    assert isinstance(fleet, plan.EksFleetPlan)
    tagged = [m for m in record("test", fleet=json.dumps(raw)) if m.type.startswith("aws:ec2/")]
    names = {m.inputs["tags"]["Name"] for m in tagged if "Association" not in m.type}
    assert len(names) == 1 + of_zone * len(zones)
    condition = statement(manifests.aws_policy(fleet), "ec2:CreateVpc")["Condition"]["StringLike"]
    for name in names:
        assert [p for p in condition["aws:RequestTag/Name"] if fnmatch.fnmatchcase(name, p)]


def test_the_condition_of_the_google_role_allows_the_one_role_that_the_program_grants(
    record: Record,
) -> None:
    (member,) = (m for m in record("gke-h100") if "iAMMember" in m.type)
    assert manifests.google_condition().endswith(f".hasOnly(['{member.inputs['role']}'])")


@pytest.mark.parametrize(
    ("region", "partition"),
    [("us-west-2", "aws"), ("us-gov-west-1", "aws-us-gov"), ("cn-north-1", "aws-cn")],
)
def test_every_arn_has_the_partition_of_the_region(region: str, partition: str) -> None:
    text = json.dumps(manifests.aws_policy(eks(region)))
    assert text.count("arn:") == text.count(f"arn:{partition}:") > 0


def test_only_actions_without_resource_level_permissions_are_allowed_on_all_resources() -> None:
    policy = manifests.aws_policy(eks(min=0, max=2))
    unlimited = [one for one in policy["Statement"] if one["Resource"] == "*"]
    assert {a for one in unlimited for a in one["Action"]} == {
        "ec2:DescribeInternetGateways",
        "ec2:DescribeNetworkAcls",
        "ec2:DescribeNetworkInterfaces",
        "ec2:DescribeRouteTables",
        "ec2:DescribeSecurityGroups",
        "ec2:DescribeSubnets",
        "ec2:DescribeVpcs",
        "eks:CreateCluster",
        "eks:ListClusters",
    }
    assert all(
        one["Condition"] == {"StringEquals": {"aws:RequestedRegion": "us-west-2"}}
        for one in unlimited
    )


def test_only_resources_with_the_stacks_name_can_be_changed() -> None:
    """A new resource by the name it is given, an old one by the name it has."""
    for one in manifests.aws_policy(eks())["Statement"]:
        if not {"ec2:DeleteVpc", "ec2:CreateSubnet"} & {*one["Action"]}:
            continue
        (condition,) = one["Condition"].items()
        assert condition[0] == "StringLike"
        assert [*condition[1].values()] == [["c", "c-us-west-2?"]]


def test_the_policy_of_a_stack_with_the_longest_name_is_within_the_quota() -> None:
    """6,144 characters without white space, of a managed policy; with an autoscaler, and so with a
    boundary in its conditions, 10,240, of a role's inline policies (IAM quotas).
    """
    longest = eks("us-gov-west-1", "c" * 63, TEMPLATED, min=0, max=2)
    ordinary = with_autoscaler(eks("us-gov-west-1", "c" * 24, TEMPLATED, min=0, max=2))
    for fleet, most in ((longest, 6144), (ordinary, 6144), (with_autoscaler(longest), 10_240)):
        assert len(json.dumps(manifests.aws_policy(fleet), separators=(",", ":"))) <= most


def test_roles_are_passed_to_pods_only_if_the_stack_has_such_roles() -> None:
    fleet = eks(min=0, max=2)
    for one, services in (
        (fleet, "eks.amazonaws.com"),
        (with_autoscaler(fleet), ["eks.amazonaws.com", "pods.eks.amazonaws.com"]),
    ):
        policy = manifests.aws_policy(one)
        condition = statement(policy, "iam:PassRole")["Condition"]
        assert condition == {"StringEquals": {"iam:PassedToService": services}}
        assert (".autoscaler" in json.dumps(policy)) == (one is not fleet)


def with_autoscaler(fleet: plan.EksFleetPlan) -> plan.EksFleetPlan:
    autoscaler = plan.EksAutoscalerPlan(
        repository="https://kubernetes.github.io/autoscaler",
        chart_version="9.59.0",
        image="registry.k8s.io/autoscaling/cluster-autoscaler",
        tag="v1.35.1",
        expander="random",
        scale_down=stack_file.ScaleDown(),
        unready_minutes=20,
    )
    cluster = dataclasses.replace(
        fleet.cluster, autoscaler=autoscaler, permissions_boundary=BOUNDARY
    )
    return dataclasses.replace(fleet, cluster=cluster)


def test_a_preview_may_change_nothing() -> None:
    for action in actions(manifests.aws_policy(eks(min=0, max=2), manifests.READING)):
        assert action.partition(":")[2].startswith(("Describe", "Get", "List")), action
    role = manifests.google_role(stack("gke-h100"), manifests.READING)
    for right in role["includedPermissions"]:
        assert right.rpartition(".")[2] in ("get", "list", "getIamPolicy"), right


def test_every_right_has_a_source_and_every_right_behind_a_call_a_reason() -> None:
    for known in (catalog.aws_rights(), catalog.google_rights()):
        for resource in known.resources.values():
            assert resource.source
            assert all(behind.source and behind.why for behind in resource.behind)


def test_every_action_of_aws_is_an_operation_of_its_api() -> None:
    view = [{"name": "AmazonEKSViewPolicy"}]
    entry = {"principal": "arn:aws:iam::111122223333:role/ml", "policies": view}
    access: dict[str, Any] = {"access": {"entries": [entry]}, "addons": {"aws-ebs-csi-driver": {}}}
    trainer = {"namespace": "a", "service_account": "b", "role": f"{ROLE}/trainer"}
    access |= {"pod_identities": [trainer], "tags": {"owner": "ml"}}
    pool = {**TEMPLATED, "placement": "cluster"}
    most = eks(pool=pool, network="private", more=access, min=0, max=2)
    key = "arn:aws:kms:us-west-2:111122223333:key/a"
    everything = with_autoscaler(
        dataclasses.replace(most, cluster=dataclasses.replace(most.cluster, secrets_key=key))
    )
    assert not {"kms:CreateGrant", "eks:AssociateEncryptionConfig"} & actions(
        manifests.aws_policy(most)
    )
    listed = actions(manifests.aws_policy(everything))
    listed -= {*NO_OPERATIONS}
    assert {*catalog.aws_rights().scopes} - listed <= {*NO_OPERATIONS}
    for action in listed:
        service, _, operation = action.partition(":")
        of = aws_models.SERVICES.get(SERVICES.get(service, service), service)
        assert operation in aws_models.loader().load_service_model(of, "service-2")["operations"]


def test_every_google_method_is_in_its_api() -> None:
    for call in catalog.google_rights().methods:
        service, _, method = call.partition(" ")
        assert google_models.find_method(service, method)


CREATE = LoggedCall(
    at="2026-11-22T00:00:00Z",
    seconds=0.1,
    service="eks",
    operation="CreateCluster",
    parameters={"region": "us-west-2", "name": "c"},
    code=200,
    error=None,
)


def changed(**parts: Any) -> LoggedCall:
    return LoggedCall(**{**vars(CREATE), **parts})


@pytest.mark.parametrize(
    ("call", "found"),
    [
        (changed(operation="CreateFargateProfile"), "eks:CreateFargateProfile, which is not"),
        (
            changed(operation="DeleteCluster", parameters={"region": "us-west-2", "name": "d"}),
            "does not allow eks:DeleteCluster on arn:aws:eks:us-west-2:000000000000:cluster/d",
        ),
        (
            changed(parameters={"region": "eu-west-2", "name": "c"}),
            "does not allow eks:CreateCluster on anything",
        ),
        (
            changed(
                service="aws-iam",
                operation="AttachRolePolicy",
                parameters={
                    "region": "us-west-2",
                    "RoleName": "eks-nodes-0123abc",
                    "PolicyArn": "arn:aws:iam::aws:policy/AdministratorAccess",
                },
            ),
            "AdministratorAccess",
        ),
        (
            changed(
                service="ec2",
                operation="CreateSubnet",
                parameters={
                    "region": "us-west-2",
                    "TagSpecifications": [
                        {"ResourceType": "subnet", "Tags": [{"Key": "Name", "Value": "other"}]}
                    ],
                },
            ),
            "does not allow ec2:CreateSubnet on arn:aws:ec2:us-west-2:000000000000:subnet/",
        ),
    ],
)
def test_the_comparison_finds_a_call_that_is_not_allowed(call: LoggedCall, found: str) -> None:
    assert [text for text in differences(eks(), [call]) if found in text]
    assert not [text for text in differences(eks(), [CREATE]) if found in text]


def test_the_comparison_finds_a_right_that_nothing_used() -> None:
    assert [t for t in differences(eks(), [CREATE]) if t.startswith("eks:DeleteCluster is listed")]
    assert not [t for t in differences(eks(), [CREATE]) if t.startswith("eks:CreateCluster is")]


def test_operations_are_the_operations_of_a_pulumi_provider() -> None:
    operations: Sequence[Operation] = catalog.OPERATIONS
    assert tuple(operations) == ("create", "read", "update", "delete")
