"""eks-a100's node group created and deleted with the engine's sequence of calls."""

from __future__ import annotations

import json

import pytest

from slicewright.rehearsal.clouds.aws.account import PROMPT, write_account
from slicewright.rehearsal.plugins.engine.plugin import InitFailed, ProviderError
from slicewright.rehearsal.plugins.engine.properties import UNKNOWN
from slicewright.rehearsal.plugins.engine.requests import ConfigureRequest, InvokeRequest

VPC = "aws:ec2/vpc:Vpc"
SUBNET = "aws:ec2/subnet:Subnet"
TABLE = "aws:ec2/routeTable:RouteTable"
ASSOCIATION = "aws:ec2/routeTableAssociation:RouteTableAssociation"
TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
ROLE = "aws:iam/role:Role"
CLUSTER = "aws:eks/cluster:Cluster"
GROUP = "aws:eks/nodeGroup:NodeGroup"
ADDON = "aws:eks/addon:Addon"


def test_s1_is_created_shows_no_drift_and_is_deleted_completely(engine) -> None:
    engine.base()
    system = {k: v for k, v in engine.group().items() if k not in ("taints", "diskSize", "amiType")}
    engine.make(
        GROUP, "system", **{**system, "nodeGroupName": "system", "instanceTypes": ["m6i.large"]}
    )
    for addon in ("vpc-cni", "kube-proxy", "coredns"):
        engine.make(
            ADDON,
            addon,
            clusterName="p4d-cluster",
            addonName=addon,
            resolveConflictsOnCreate="OVERWRITE",
        )
    template = engine.make(
        TEMPLATE,
        "template",
        metadataOptions={"httpTokens": "required", "httpPutResponseHopLimit": 2},
    )
    group = engine.group()
    del group["diskSize"]
    group["launchTemplate"] = {"id": template.id, "version": str(template.outputs["latestVersion"])}
    made = engine.make(GROUP, "group", **group)
    node = next(n for n in engine.nodes() if n["spec"]["taints"])
    assert {t["key"] for t in node["spec"]["taints"]} == {"nvidia.com/gpu", "startup"}
    assert not made.plan(group).changes
    for resource in engine.made:
        assert not resource.refresh().changes, (resource.kind, resource.refresh().detailed)
    for resource in reversed(engine.made):
        resource.delete()
        assert resource.refresh() is None, resource.kind
    assert engine.client.inventory() == {}


def test_the_cluster_has_every_output_that_a_program_reads(engine) -> None:
    outputs = engine.base().outputs
    assert outputs["endpoint"] == "https://127.0.0.1:6443"
    assert outputs["certificateAuthority"]["data"]
    assert outputs["name"] == "p4d-cluster"
    assert outputs["arn"] == "arn:aws:eks:eu-west-1:123456789012:cluster/p4d-cluster"
    assert outputs["status"] == "ACTIVE"
    assert outputs["version"] == "1.36"
    assert outputs["vpcConfig"]["vpcId"].startswith("vpc-")
    assert outputs["vpcConfig"]["clusterSecurityGroupId"].startswith("sg-")
    assert outputs["identities"][0]["oidcs"][0]["issuer"].startswith("https://oidc.eks.")


def test_every_output_of_the_schema_is_present(engine) -> None:
    engine.base()
    engine.make(GROUP, "group", **engine.group())
    for resource in engine.made:
        assert set(engine.provider.schema.outputs(resource.kind)) <= set(resource.outputs), (
            resource.kind
        )


def test_a_preview_creates_nothing(engine) -> None:
    inputs = engine.checked(
        CLUSTER, "c", {}, {"roleArn": UNKNOWN, "vpcConfig": {"subnetIds": [UNKNOWN, UNKNOWN]}}
    )
    made = engine.preview(CLUSTER, "c", inputs)
    assert made.outputs["endpoint"] is UNKNOWN
    assert made.outputs["certificateAuthority"] is UNKNOWN
    assert made.outputs["name"] == inputs["name"]
    assert engine.client.inventory() == {}


@pytest.mark.parametrize(
    ("kind", "property_", "asked"),
    [
        (ROLE, "name", {"assumeRolePolicy": "{}"}),
        (CLUSTER, "name", {"roleArn": "r", "vpcConfig": {"subnetIds": []}}),
        (TEMPLATE, "name", {}),
        (
            GROUP,
            "nodeGroupName",
            {
                "clusterName": "c",
                "nodeRoleArn": "r",
                "subnetIds": [],
                "scalingConfig": {"minSize": 0, "maxSize": 1, "desiredSize": 0},
            },
        ),
    ],
)
def test_automatic_names_end_in_seven_hex_digits(engine, kind, property_, asked) -> None:
    inputs = engine.checked(kind, "Thing", {}, asked)
    stem, _, suffix = inputs[property_].rpartition("-")
    assert stem == "Thing"
    assert len(suffix) == 7
    assert int(suffix, 16) >= 0
    assert property_ in inputs["__defaults"]


@pytest.mark.parametrize(
    ("kind", "asked", "path", "words"),
    [
        (
            GROUP,
            {"scalingConfig": {"maxSize": 1}},
            "scalingConfig.minSize",
            "missing required property",
        ),
        (
            GROUP,
            {"scalingConfig": {"minSize": 0, "desiredSize": 0, "maxSize": 0}},
            "scalingConfig.maxSize",
            "at least 1",
        ),
        (GROUP, {"amiTyp": "x"}, "amiTyp", "did you mean amiType?"),
        (
            GROUP,
            {"taints": [{"key": "a", "effect": "NoSchedule"}]},
            "taints[0].effect",
            "expected one of NO_SCHEDULE",
        ),
        (
            GROUP,
            {"launchTemplate": {"version": "1"}},
            "launchTemplate",
            "exactly one of id and name",
        ),
        (
            GROUP,
            {"launchTemplate": {"id": "lt-1", "version": "$Latest"}},
            "launchTemplate.version",
            "never show a change",
        ),
        (
            GROUP,
            {"updateConfig": {"maxUnavailable": 1, "maxUnavailablePercentage": 10}},
            "updateConfig",
            "only one of",
        ),
        (GROUP, {"remoteAccess": {"ec2SshKey": "k"}}, "remoteAccess", "does not simulate"),
        (CLUSTER, {"vpcConfig": {"subnetIds": ["a"]}}, "roleArn", "missing required property"),
        (VPC, {}, "cidrBlock", "must be set: the rehearsal does not simulate IPAM pools"),
        (
            VPC,
            {"cidrBlock": "10.0.0.0/16", "enableDnsHostname": True},
            "enableDnsHostname",
            "did you mean enableDnsHostnames?",
        ),
        (ROLE, {"assumeRolePolicy": "{"}, "assumeRolePolicy", "invalid JSON"),
        (
            TABLE,
            {"vpcId": "v", "routes": [{"cidrBlock": "0.0.0.0/0", "coreNetworkArn": "n"}]},
            "routes[0].coreNetworkArn",
            "it simulates cidrBlock, gatewayId, natGatewayId",
        ),
        (
            ADDON,
            {"clusterName": "c", "addonName": "a", "configurationValues": "a: b"},
            "configurationValues",
            "not JSON",
        ),
    ],
)
def test_wrong_inputs_are_refused_with_their_path(engine, kind, asked, path, words) -> None:
    if kind == GROUP:
        scaling = {"minSize": 0, "desiredSize": 0, "maxSize": 1}
        asked = {
            "clusterName": "c",
            "nodeRoleArn": "r",
            "subnetIds": [],
            "scalingConfig": scaling,
            **asked,
        }
    failures = engine.failures(kind, asked)
    assert words in failures[path]


def test_an_unknown_value_passes_every_check(engine) -> None:
    asked = {
        "clusterName": UNKNOWN,
        "nodeRoleArn": UNKNOWN,
        "subnetIds": UNKNOWN,
        "scalingConfig": UNKNOWN,
        "taints": UNKNOWN,
    }
    assert (
        engine.failures(GROUP, {**asked, "launchTemplate": {"id": UNKNOWN, "version": UNKNOWN}})
        == {}
    )


def test_an_unknown_type_names_the_known_ones(engine) -> None:
    with pytest.raises(
        ProviderError,
        match=r"does not simulate aws:s3/bucket:Bucket; it simulates "
        r"aws:ec2/eip:Eip, aws:ec2/internetGateway:InternetGateway",
    ):
        engine.check("aws:s3/bucket:Bucket", "b", {}, {})


def test_a_region_is_needed(engine) -> None:
    engine.provider.configure(ConfigureRequest())
    with pytest.raises(ProviderError, match="Missing region configuration"):
        engine.make(VPC, "vpc", cidrBlock="10.0.0.0/16")


def test_the_region_may_come_from_the_stacks_configuration(engine) -> None:
    variables = {"aws:config:region": "us-east-1"}
    engine.provider.configure(ConfigureRequest(variables=variables))
    vpc = engine.make(VPC, "vpc", cidrBlock="10.0.0.0/16")
    assert vpc.outputs["arn"].startswith("arn:aws:ec2:us-east-1:")


def test_a_group_whose_nodes_cannot_join_is_kept_and_fails_the_next_update(engine) -> None:
    engine.base()
    engine.call(
        "aws-iam",
        "DetachRolePolicy",
        RoleName=engine.node_role.rpartition("/")[2],
        PolicyArn="arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy",
    )
    group = engine.make(GROUP, "group", **engine.group())
    assert "unexpected state 'CREATE_FAILED', wanted target 'ACTIVE'" in group.reasons[0]
    assert "NodeCreationFailure" in group.reasons[0]
    with pytest.raises(InitFailed, match="CREATE_FAILED"):
        group.update(engine.group())
    group.delete()
    assert group.refresh() is None


def test_the_clouds_error_message_reaches_the_user(engine) -> None:
    engine.base()
    with pytest.raises(
        ProviderError,
        match=r"ValidationException \(400\): .*'taints\.1\.member\.key' failed to satisfy "
        r"constraint: .* 63",
    ):
        engine.make(
            GROUP,
            "group",
            **{**engine.group(), "taints": [{"key": "k" * 64, "effect": "NO_SCHEDULE"}]},
        )


def test_a_cluster_that_still_has_groups_is_not_deleted(engine) -> None:
    cluster = engine.base()
    engine.make(GROUP, "group", **engine.group())
    with pytest.raises(ProviderError, match="ResourceInUseException"):
        cluster.delete()


def test_the_form_of_a_trust_policy_is_no_change(engine) -> None:
    trust = {
        "Version": "2012-10-17",
        "Statement": {
            "Effect": "Allow",
            "Principal": {"Service": ["ec2.amazonaws.com"]},
            "Action": ["sts:AssumeRole"],
        },
    }
    role = engine.make(ROLE, "r", assumeRolePolicy=json.dumps(trust, indent=4))
    assert not role.refresh().changes


def test_a_launch_template_accepts_strings_for_booleans(engine) -> None:
    mapping = {
        "deviceName": "/dev/xvda",
        "ebs": {
            "volumeSize": 200,
            "volumeType": "gp3",
            "encrypted": "true",
            "deleteOnTermination": "true",
        },
    }
    template = engine.make(
        TEMPLATE,
        "t",
        blockDeviceMappings=[mapping],
        tagSpecifications=[{"resourceType": "instance", "tags": {"a": "b"}}],
    )
    versions = engine.call("ec2", "DescribeLaunchTemplateVersions", LaunchTemplateId=template.id)[
        "LaunchTemplateVersions"
    ]
    assert versions[0]["LaunchTemplateData"]["BlockDeviceMappings"][0]["Ebs"]["Encrypted"] is True
    assert not template.refresh().changes


def test_deleting_a_deleted_resource_succeeds(engine) -> None:
    engine.base()
    for resource in reversed(engine.made):
        resource.delete()
        resource.delete()


def test_a_resource_that_ec2_does_not_show_at_once_is_waited_for(engine, tmp_path) -> None:
    write_account(tmp_path, unseen_reads=3)
    vpc = engine.make(VPC, "vpc", cidrBlock="10.0.0.0/16")
    assert vpc.outputs["cidrBlock"] == "10.0.0.0/16"


def test_destroy_waits_for_what_the_nodes_leave_behind(engine, tmp_path) -> None:
    engine.base()
    engine.make(GROUP, "group", **engine.group())
    write_account(tmp_path, **{**PROMPT, "leftovers_s": 0.5})
    for resource in reversed(engine.made):
        resource.delete()
    assert engine.client.inventory() == {}


def test_functions_tell_what_is_there(engine) -> None:
    """What a program asks before it declares anything: names first, so that nothing is an error."""

    def ask(name: str, **args: str) -> dict:
        token = f"aws:eks/get{name}:get{name}"
        return dict(engine.provider.invoke(InvokeRequest(token=token, args=args)))

    assert ask("Clusters")["names"] == []
    engine.base()
    assert ask("Clusters")["names"] == ["p4d-cluster"]
    assert ask("NodeGroups", clusterName="p4d-cluster")["names"] == []
    engine.make(GROUP, "group", **engine.group())
    assert ask("NodeGroups", clusterName="p4d-cluster")["names"] == ["demo-gpu-workers"]
    group = ask("NodeGroup", clusterName="p4d-cluster", nodeGroupName="demo-gpu-workers")
    assert group["scalingConfigs"] == [{"minSize": 0, "desiredSize": 1, "maxSize": 3}]
    with pytest.raises(ProviderError, match="ResourceNotFoundException"):
        ask("NodeGroup", clusterName="p4d-cluster", nodeGroupName="nobody")
    with pytest.raises(ProviderError, match="does not simulate aws:eks/getToken:getToken"):
        ask("Token")
