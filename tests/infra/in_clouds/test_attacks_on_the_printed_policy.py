"""Whoever has exactly the policy that `slicewright rights` prints for a stack becomes administrator
neither of the account nor of another stack: each way is tried on the simulated AWS, which refuses
what the policy does not allow.
"""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewright.infra import manifests, plan, stack_file
from slicewright.infra.plan import ROLE_NAME_MAX, role_name, role_pattern
from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws import state
from slicewright.rehearsal.clouds.aws.account import PROMPT, write_account
from slicewright.rehearsal.clouds.aws.policy_evaluation import evaluate
from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.clouds.core.fake_control_planes import FakeControlPlanes
from slicewright.rehearsal.clouds.service import Cloud

REGION = "us-west-2"
ACCOUNT = "123456789012"
IAM = f"arn:aws:iam::{ACCOUNT}"
ATTACKER = f"{IAM}:user/attacker"
BOUNDARY = f"{IAM}:policy/boundary"
EVERYTHING = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}],
}
ANYBODY = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Principal": {"AWS": ATTACKER}, "Action": "sts:AssumeRole"}
        ],
    }
)
ADMINISTRATOR = "arn:aws:iam::aws:policy/AdministratorAccess"
REFUSALS = {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation"}
PARTS = ("autoscaler", "control-plane", "ebs-csi", "nodes")
OTHERS = ("prod-2", "prod-us-west-2", "pro", "xprod", f"prod{'-long' * 10}")
"""Clusters of other stacks of the account, whose names are alike."""


def fleet(**cluster: Any) -> plan.EksFleetPlan:
    """The attacked stack's neighbour, `prod`."""
    raw = {
        "cloud": "eks",
        "cluster": {
            "name": "prod",
            "region": REGION,
            "zones": [f"{REGION}a", f"{REGION}b"],
            **cluster,
        },
        "node_pools": [
            {
                "name": "p",
                "machine_type": "g6.xlarge",
                "nodes": {"min": 0, "max": 1},
                "instance_metadata": {"hop_limit": 1},
                "release_version": "1.36.0-20260714",
            }
        ],
    }
    found = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    assert isinstance(found, plan.EksFleetPlan)
    return found


BOUNDED = {"permissions_boundary": BOUNDARY}
ACCESS = {
    "entries": [{"principal": f"{IAM}:role/ml", "policies": [{"name": "AmazonEKSViewPolicy"}]}]
}
FLEETS: Mapping[str, plan.EksFleetPlan] = {
    "plain": fleet(),
    "tags": fleet(tags={"owner": "ml"}),
    "private, with access and an add-on": fleet(
        network="private", access=ACCESS, addons={"aws-ebs-csi-driver": {}}
    ),
    "boundary": fleet(**BOUNDED),
    "cluster-autoscaler": fleet(version="1.36", autoscaler="cluster-autoscaler", **BOUNDED),
    "karpenter": fleet(version="1.36", autoscaler="karpenter", tags={"owner": "ml"}, **BOUNDED),
    "autoscaler without a boundary": fleet(version="1.36", autoscaler="cluster-autoscaler"),
}


@dataclass(frozen=True, kw_only=True)
class Attack:
    service: str
    operation: str
    body: Mapping[str, Any]

    def __str__(self) -> str:
        named = [v for k, v in self.body.items() if k.endswith(("Name", "Arn"))]
        return " ".join([self.operation, *map(str, named)])


def iam(operation: str, **body: Any) -> Attack:
    return Attack(service="aws-iam", operation=operation, body=body)


def eks(operation: str, **body: Any) -> Attack:
    return Attack(service="eks", operation=operation, body=body)


def ec2(operation: str, **body: Any) -> Attack:
    return Attack(service="ec2", operation=operation, body=body)


def name(cluster: str, part: str, region: str = REGION) -> str:
    return role_name(cluster=cluster, region=region, part=part)


def victims() -> Iterator[str]:
    """Roles that are not the stack's."""
    yield from ("admin", "eks-nodes-0123abc", "eks-control-plane-0123abc", "slicewright")
    yield name("prod", "nodes", region="eu-west-1")
    yield from (name(cluster, part) for cluster in OTHERS for part in PARTS)


def on_a_role(role: str) -> Iterator[Attack]:
    """What takes over a role, or gives it everything."""
    here = {"RoleName": role}
    inline = {**here, "PolicyName": "a", "PolicyDocument": json.dumps(EVERYTHING)}
    yield iam("PutRolePolicy", **inline)
    yield iam("UpdateAssumeRolePolicy", **here, PolicyDocument=ANYBODY)
    yield iam("AttachRolePolicy", **here, PolicyArn=ADMINISTRATOR)
    yield iam("AttachRolePolicy", **here, PolicyArn=f"{IAM}:policy/mine")
    yield iam("DeleteRolePermissionsBoundary", **here)
    yield iam("PutRolePermissionsBoundary", **here, PermissionsBoundary=ADMINISTRATOR)
    yield iam("AddRoleToInstanceProfile", **here, InstanceProfileName="mine")
    yield iam("TagRole", **here, Tags=[{"Key": "department", "Value": "admins"}])


def on_anothers_role(role: str) -> Iterator[Attack]:
    """What only the stack that has the role may do."""
    here = {"RoleName": role}
    yield from on_a_role(role)
    yield iam("CreateRole", **here, AssumeRolePolicyDocument=ANYBODY)
    yield iam("CreateRole", **here, AssumeRolePolicyDocument=ANYBODY, PermissionsBoundary=BOUNDARY)
    worker = "arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy"
    yield iam("AttachRolePolicy", **here, PolicyArn=worker)
    yield iam("DetachRolePolicy", **here, PolicyArn=worker)
    yield iam("PutRolePermissionsBoundary", **here, PermissionsBoundary=BOUNDARY)
    yield iam("DeleteRolePolicy", **here, PolicyName="a")
    yield iam("UpdateRole", **here, MaxSessionDuration=43200)
    yield iam("DeleteRole", **here)
    arn = f"{IAM}:role/{role}"
    pods = {"clusterName": "prod", "namespace": "a", "serviceAccount": "a", "roleArn": arn}
    yield eks("CreatePodIdentityAssociation", **pods)
    group = {"clusterName": "prod", "nodegroupName": "mine", "subnets": ["subnet-1"]}
    yield eks("CreateNodegroup", **group, nodeRole=arn)


def of_the_account() -> Iterator[Attack]:
    """What makes users, policies, identity providers and machines with other roles."""
    everything = json.dumps(EVERYTHING)
    me = {"UserName": "attacker"}
    yield iam("CreateUser", UserName="other")
    yield iam("CreateAccessKey", UserName="other")
    yield iam("AttachUserPolicy", **me, PolicyArn=ADMINISTRATOR)
    yield iam("PutUserPolicy", **me, PolicyName="a", PolicyDocument=everything)
    yield iam("AddUserToGroup", **me, GroupName="admins")
    yield iam("DeleteUserPermissionsBoundary", **me)
    yield iam("CreatePolicy", PolicyName="mine", PolicyDocument=everything)
    for arn in (BOUNDARY, f"{IAM}:policy/deploy"):
        version = {"PolicyArn": arn, "PolicyDocument": everything}
        yield iam("CreatePolicyVersion", **version, SetAsDefault=True)
        yield iam("SetDefaultPolicyVersion", PolicyArn=arn, VersionId="v1")
        yield iam("DeletePolicy", PolicyArn=arn)
    provider = f"{IAM}:oidc-provider/token.actions.githubusercontent.com"
    yield iam("CreateOpenIDConnectProvider", Url="https://attacker.example.com")
    yield iam(
        "AddClientIDToOpenIDConnectProvider", OpenIDConnectProviderArn=provider, ClientID="mine"
    )
    yield iam(
        "UpdateOpenIDConnectProviderThumbprint",
        OpenIDConnectProviderArn=provider,
        ThumbprintList=["0" * 40],
    )
    yield iam("CreateInstanceProfile", InstanceProfileName="mine")
    machine = {"ImageId": "ami-1", "MinCount": 1, "MaxCount": 1}
    yield ec2("RunInstances", **machine, IamInstanceProfile={"Name": "admin"})


def on_other_clusters() -> Iterator[Attack]:
    for cluster in OTHERS:
        here = {"clusterName": cluster, "principalArn": ATTACKER}
        yield eks("CreateAccessEntry", **here)
        yield eks("UpdateAccessEntry", **here, kubernetesGroups=["admins"])
        yield eks(
            "AssociateAccessPolicy",
            **here,
            policyArn="arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy",
            accessScope={"type": "cluster"},
        )
        yield eks("UpdateClusterConfig", name=cluster, accessConfig={"authenticationMode": "API"})
        yield eks("DeleteCluster", name=cluster)
        yield eks("DeleteNodegroup", clusterName=cluster, nodegroupName="system")
        arn = f"arn:aws:eks:{REGION}:{ACCOUNT}:cluster/{cluster}"
        yield eks("TagResource", resourceArn=arn, tags={"owner": "ml"})
        own = f"{IAM}:role/{name('prod', 'nodes')}"
        pods = {"clusterName": cluster, "namespace": "a", "serviceAccount": "a", "roleArn": own}
        yield eks("CreatePodIdentityAssociation", **pods)


def own_roles_without_limits(planned: plan.EksFleetPlan) -> Iterator[Attack]:
    """The stack's own roles, made such that they are no longer limited."""
    for role in planned.cluster.role_names.values():
        yield from on_a_role(role)
        tagged = [{"Key": "department", "Value": "admins"}]
        made = {"RoleName": role, "AssumeRolePolicyDocument": ANYBODY}
        bounded = {"PermissionsBoundary": planned.cluster.permissions_boundary}
        if planned.cluster.permissions_boundary is not None:
            yield iam("CreateRole", **made)
            yield iam("CreateRole", **made, PermissionsBoundary=ADMINISTRATOR)
            yield iam("CreateRole", **made, **bounded, Tags=tagged)
        else:
            yield iam("CreateRole", **made, Tags=tagged)


def attacks(planned: plan.EksFleetPlan) -> Iterator[Attack]:
    yield from of_the_account()
    yield from on_other_clusters()
    for role in victims():
        yield from on_anothers_role(role)
    yield from own_roles_without_limits(planned)


@dataclass
class World:
    """An account with other stacks' roles, and a caller with a policy."""

    directory: Path
    cloud: Cloud
    boundary: JsonObject = field(default_factory=lambda: EVERYTHING)

    def call_as(self, *policies: Mapping[str, Any], boundary: Any = None) -> None:
        caller = {"arn": ATTACKER, "policies": list(policies), "enforced": True}
        bounded = {"boundary": boundary} if boundary is not None else {}
        write_account(
            self.directory,
            **PROMPT,
            boundaries={BOUNDARY: self.boundary},
            caller={**caller, **bounded},
        )

    def refuses(self, attack: Attack) -> bool:
        """Whether the caller's policies do not allow it; another refusal is none of theirs."""
        try:
            self.cloud.call(attack.service, attack.operation, {"region": REGION}, dict(attack.body))
        except CloudError as e:
            return e.reason in REFUSALS
        return False


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    write_account(tmp_path, **PROMPT)
    cloud = Cloud(tmp_path, FakeControlPlanes(tmp_path), ready_timeout_s=0.2)
    for role in victims():
        cloud.call(
            "aws-iam",
            "CreateRole",
            {"region": REGION},
            {"RoleName": role, "AssumeRolePolicyDocument": ANYBODY},
        )
    yield World(tmp_path, cloud)
    assert cloud.tasks.wait(120)


@pytest.mark.parametrize("planned", FLEETS.values(), ids=FLEETS)
def test_no_way_to_become_administrator_or_to_touch_another_stack_is_allowed(
    world: World, planned: plan.EksFleetPlan
) -> None:
    world.call_as(manifests.aws_policy(planned))
    tried = list(attacks(planned))
    assert [str(one) for one in tried if not world.refuses(one)] == []


def test_each_attack_is_one(world: World) -> None:
    """Whoever may do everything is refused none of them by its policies."""
    world.call_as(EVERYTHING)
    assert [str(one) for one in attacks(FLEETS["karpenter"]) if world.refuses(one)] == []


@pytest.mark.parametrize("stack", ["cluster-autoscaler", "karpenter"])
def test_a_policy_of_ones_own_in_a_role_of_the_stack_makes_no_administrator(
    world: World, stack: str
) -> None:
    """What the policy must allow: a role with any trust, and an inline policy with any words."""
    planned = FLEETS[stack]
    world.boundary = manifests.boundary_policy(planned)
    world.call_as(manifests.aws_policy(planned))
    here = {"RoleName": planned.cluster.role_names["autoscaler"]}
    for operation, more in (
        ("CreateRole", {"AssumeRolePolicyDocument": ANYBODY, "PermissionsBoundary": BOUNDARY}),
        ("PutRolePolicy", {"PolicyName": "a", "PolicyDocument": json.dumps(EVERYTHING)}),
    ):
        world.cloud.call("aws-iam", operation, {"region": REGION}, {**here, **more})
    world.call_as(EVERYTHING, boundary=world.boundary)
    assert [str(one) for one in attacks(planned) if not world.refuses(one)] == []
    beyond = ("sts:AssumeRole", "s3:GetObject", "secretsmanager:GetSecretValue", "kms:Decrypt")
    assert not [action for action in beyond if allowed(world.boundary, action)]


@pytest.mark.parametrize("planned", FLEETS.values(), ids=FLEETS)
def test_no_right_that_gives_others_is_printed_without_a_condition(
    planned: plan.EksFleetPlan,
) -> None:
    """On whatever role: a name limits which role is taken, and not what it is made to allow."""
    for statement in manifests.aws_policy(planned)["Statement"]:
        named = set(statement["Action"])
        assert not named & {"iam:UpdateAssumeRolePolicy", "iam:DeleteRolePermissionsBoundary"}
        if named & {"iam:PutRolePolicy", "iam:PutRolePermissionsBoundary"}:
            assert statement["Condition"] == {"StringEquals": {"iam:PermissionsBoundary": BOUNDARY}}
        if named & {"iam:PassRole", "iam:AttachRolePolicy", "iam:TagRole"}:
            assert statement["Condition"]


DATA = {"UserData": "YQ=="}


@pytest.mark.parametrize("others", OTHERS)
def test_ec2_resources_of_another_stack_cannot_be_changed(world: World, others: str) -> None:
    made: dict[str, str] = {}
    for kind, operation, more in (
        ("vpc", "CreateVpc", {"CidrBlock": "10.0.0.0/16"}),
        ("internet-gateway", "CreateInternetGateway", {}),
        ("launch-template", "CreateLaunchTemplate", {"LaunchTemplateName": "theirs"}),
    ):
        tags = [{"ResourceType": kind, "Tags": [{"Key": "Name", "Value": others}]}]
        data = {"LaunchTemplateData": DATA} if kind == "launch-template" else {}
        body = {**more, **data, "TagSpecifications": tags}
        (answer,) = world.cloud.call("ec2", operation, {"region": REGION}, body).values()
        made[kind] = next(v for k, v in answer.items() if k.endswith("Id") and "-" in str(v))
    world.call_as(*(manifests.aws_policy(one) for one in FLEETS.values()))
    template = {"LaunchTemplateId": made["launch-template"]}
    own = [{"Key": "Name", "Value": "prod"}]
    tried = [
        ec2("CreateTags", Resources=list(made.values()), Tags=own),
        *(ec2("CreateTags", Resources=[one], Tags=own) for one in made.values()),
        ec2("DeleteTags", Resources=[made["vpc"]], Tags=[{"Key": "Name"}]),
        ec2("DeleteVpc", VpcId=made["vpc"]),
        ec2("DeleteInternetGateway", InternetGatewayId=made["internet-gateway"]),
        ec2("CreateLaunchTemplateVersion", **template, LaunchTemplateData=DATA),
        ec2("DeleteLaunchTemplate", **template),
        ec2("CreateSubnet", VpcId=made["vpc"], CidrBlock="10.0.0.0/20"),
    ]
    assert [str(one) for one in tried if not world.refuses(one)] == []


def allowed(policy: Mapping[str, Any], action: str) -> bool:
    return evaluate([policy], action, "*", {}).decision == "allowed"


LABELS = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)
REGIONS = st.sampled_from(["us-west-2", "us-west-1", "ap-southeast-1", "us-gov-west-1"])


STACKS = st.tuples(LABELS, REGIONS, st.sampled_from(PARTS))


@given(one=STACKS, other=STACKS)
def test_two_stacks_never_have_a_role_of_the_same_name(
    one: tuple[str, str, str], other: tuple[str, str, str]
) -> None:
    def named(cluster: str, region: str, part: str) -> str:
        return role_name(cluster=cluster, region=region, part=part)

    assert (named(*one) == named(*other)) == (one == other)
    assert len(named(*one)) <= ROLE_NAME_MAX


def alike(cluster: str) -> st.SearchStrategy[str]:
    """Names that are the beginning of the cluster's, or go on after it."""
    return st.one_of(
        st.integers(1, len(cluster)).map(lambda n: cluster[:n].rstrip("-") or "a"),
        LABELS.map(lambda more: f"{cluster}-{more}"[:63].rstrip("-")),
        LABELS,
    )


@given(data=st.data(), region=REGIONS, of=st.sampled_from(PARTS))
def test_the_pattern_of_a_stacks_roles_matches_no_other_stacks(
    data: st.DataObject, region: str, of: str
) -> None:
    cluster = data.draw(LABELS)
    pattern = role_pattern(cluster=cluster, region=region)
    assert fnmatch.fnmatchcase(role_name(cluster=cluster, region=region, part=of), pattern)
    other = data.draw(alike(cluster)), data.draw(REGIONS)
    theirs = role_name(cluster=other[0], region=other[1], part=of)
    assert fnmatch.fnmatchcase(theirs, pattern) == (other == (cluster, region))
    joined = role_name(cluster=cluster, region=region, part=of, existing=True)
    assert not fnmatch.fnmatchcase(joined, pattern), "two stacks share a cluster, and no role"
    assert len(joined) <= ROLE_NAME_MAX


def test_long_cluster_names_with_a_common_prefix_are_distinguished() -> None:
    long = "a" * 60
    names = {name(f"{long}{i}", part) for i in range(3) for part in PARTS}
    assert len(names) == 3 * len(PARTS)
    assert all(len(one) <= ROLE_NAME_MAX for one in names)


def test_the_roles_to_attack_exist(world: World) -> None:
    there = {role["RoleName"] for role in world.cloud._store.values(state.ROLES)}
    assert set(victims()) <= there
