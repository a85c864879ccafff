"""Which changes replace a node group, which are made in place, and drift."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from slicewright.rehearsal.clouds.aws.account import PROMPT, write_account
from slicewright.rehearsal.plugins.engine.plugin import ProviderError
from slicewright.rehearsal.plugins.engine.properties import UNKNOWN

GROUP = "aws:eks/nodeGroup:NodeGroup"
TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
CLUSTER = "aws:eks/cluster:Cluster"


def changed(inputs: dict, path: str, value: Any) -> dict:
    """A copy with the value at `a.b`; None removes it."""
    found = copy.deepcopy(inputs)
    place: Any = found
    *parents, last = path.split(".")
    for parent in parents:
        place = place.setdefault(parent, {})
    if value is None:
        del place[last]
    else:
        place[last] = value
    return found


ASKED = {
    "clusterName": "c",
    "nodeGroupName": "workers",
    "nodeRoleArn": "role",
    "subnetIds": ["a", "b"],
    "amiType": "AL2023_x86_64_NVIDIA",
    "capacityType": "ON_DEMAND",
    "diskSize": 200,
    "instanceTypes": ["p4d.24xlarge"],
    "launchTemplate": {"id": "lt-1", "version": "1"},
    "scalingConfig": {"minSize": 0, "desiredSize": 1, "maxSize": 2},
    "labels": {"a": "1"},
    "taints": [
        {"key": "a", "value": "1", "effect": "NO_SCHEDULE"},
        {"key": "b", "value": "1", "effect": "NO_SCHEDULE"},
    ],
    "updateConfig": {"maxUnavailable": 1},
    "version": "1.35",
    "releaseVersion": "1.35.5-20260714",
    "tags": {"a": "1"},
}
REPLACES = [
    ("amiType", "BOTTLEROCKET_x86_64_NVIDIA"),
    ("capacityType", "SPOT"),
    ("clusterName", "other"),
    ("diskSize", 100),
    ("instanceTypes", ["p4de.24xlarge"]),
    ("launchTemplate.id", "lt-2"),
    ("nodeGroupName", "other"),
    ("nodeRoleArn", "other"),
    ("subnetIds", ["a"]),
]
IN_PLACE = [
    ("labels", {"a": "2"}),
    ("labels", None),
    ("taints", []),
    ("taints", [{"key": "a", "value": "2", "effect": "NO_SCHEDULE"}]),
    ("scalingConfig.desiredSize", 2),
    ("scalingConfig.maxSize", 9),
    ("updateConfig.maxUnavailable", 2),
    ("updateConfig.updateStrategy", "MINIMAL"),
    ("nodeRepairConfig", {"enabled": True}),
    ("forceUpdateVersion", True),
    ("launchTemplate.version", "2"),
    ("version", "1.36"),
    ("releaseVersion", "1.35.6-20260801"),
    ("tags", {"b": "2"}),
]


@pytest.fixture
def diff(engine):
    def compare(new: dict):
        old = engine.checked(GROUP, "g", {}, ASKED)
        return engine.diff(GROUP, old, engine.checked(GROUP, "g", old, new))

    return compare


@pytest.mark.parametrize(("path", "value"), REPLACES)
def test_it_replaces_the_group(diff, path, value) -> None:
    kinds = diff(changed(ASKED, path, value)).detailed
    assert kinds
    assert all(k.endswith("-replace") for k in kinds.values()), kinds
    assert all(p.startswith(path.split(".")[0]) for p in kinds)


@pytest.mark.parametrize(("path", "value"), IN_PLACE)
def test_it_changes_the_group_in_place(diff, path, value) -> None:
    kinds = diff(changed(ASKED, path, value)).detailed
    assert kinds
    assert not any(k.endswith("-replace") for k in kinds.values()), kinds


def test_adding_a_launch_template_replaces_the_group(engine) -> None:
    without = {k: v for k, v in ASKED.items() if k != "launchTemplate"}
    old = engine.checked(GROUP, "g", {}, without)
    found = engine.diff(GROUP, old, engine.checked(GROUP, "g", old, ASKED))
    assert found.detailed == {"launchTemplate": "add-replace"}


@pytest.mark.parametrize("field", ["subnetIds", "taints"])
def test_the_order_of_a_set_is_no_change(diff, field) -> None:
    assert not diff({**ASKED, field: ASKED[field][::-1]}).changes


@pytest.mark.parametrize(
    "field",
    [
        "amiType",
        "diskSize",
        "instanceTypes",
        "version",
        "releaseVersion",
        "updateConfig",
        "capacityType",
    ],
)
def test_removing_an_optional_property_keeps_its_value(diff, field) -> None:
    assert not diff(changed(ASKED, field, None)).changes


def test_omitted_repair_config_keeps_its_old_value(engine) -> None:
    """hashicorp/terraform-provider-aws: node_repair_config is optional and computed."""
    asked = {**ASKED, "nodeRepairConfig": {"enabled": True, "maxParallelNodesRepairedCount": 1}}
    old = engine.checked(GROUP, "g", {}, asked)
    assert not engine.diff(GROUP, old, engine.checked(GROUP, "g", old, ASKED)).changes


def test_a_value_not_known_yet_replaces_where_a_change_would(diff) -> None:
    assert diff(changed(ASKED, "nodeRoleArn", UNKNOWN)).detailed == {
        "nodeRoleArn": "update-replace"
    }
    assert diff(changed(ASKED, "launchTemplate.version", UNKNOWN)).detailed == {
        "launchTemplate.version": "update"
    }


def test_a_resource_with_a_fixed_name_is_deleted_before_its_replacement(diff, engine) -> None:
    assert diff(changed(ASKED, "diskSize", 100)).delete_before_replace is True
    unnamed = {k: v for k, v in ASKED.items() if k != "nodeGroupName"}
    old = engine.checked(GROUP, "g", {}, unnamed)
    new = engine.checked(GROUP, "g", old, {**unnamed, "diskSize": 100})
    assert engine.diff(GROUP, old, new).delete_before_replace is False


def test_a_changed_template_previews_an_unknown_version(engine) -> None:
    template = engine.make(TEMPLATE, "t", instanceType="m6i.large")
    new = engine.checked(TEMPLATE, "t", template.inputs, {"instanceType": "m6i.xlarge"})
    preview = template.update_request(new, preview=True)
    assert engine.provider.update(preview)["latestVersion"] is UNKNOWN
    assert engine.provider.update(template.update_request(new))["latestVersion"] == 2


def test_updates_reach_the_nodes(engine) -> None:
    engine.base()
    group = engine.make(GROUP, "g", **engine.group())
    before = engine.nodes()[0]["spec"]["providerID"]
    new = engine.group()
    new["labels"] = {"slicewright.io/pool": "demo", "more": "yes"}
    new["taints"] = new["taints"][:1]
    new["scalingConfig"] = {"minSize": 0, "desiredSize": 2, "maxSize": 3}
    new["tags"] = {"other": "tag"}
    group.update(new)
    first, second = engine.nodes()
    assert before in (first["spec"]["providerID"], second["spec"]["providerID"])
    for node in (first, second):
        assert node["metadata"]["labels"]["more"] == "yes"
        assert [t["key"] for t in node["spec"]["taints"]] == ["nvidia.com/gpu"]
    assert not group.refresh().changes
    assert group.outputs["tags"] == {"other": "tag"}


def test_a_new_version_of_the_template_replaces_the_nodes(engine) -> None:
    engine.base()
    template = engine.make(TEMPLATE, "t", instanceType="m6i.large")
    asked = {
        k: v for k, v in engine.group().items() if k not in ("diskSize", "instanceTypes", "amiType")
    }
    asked["launchTemplate"] = {"id": template.id, "version": "1"}
    group = engine.make(GROUP, "g", **asked)
    before = engine.nodes()[0]["spec"]["providerID"]
    template.update({"instanceType": "m6i.xlarge"})
    asked["launchTemplate"] = {"id": template.id, "version": str(template.outputs["latestVersion"])}
    group.update(asked)
    (node,) = engine.nodes()
    assert node["spec"]["providerID"] != before
    assert node["metadata"]["labels"]["node.kubernetes.io/instance-type"] == "m6i.xlarge"
    assert not group.refresh().changes


DRIFTS = [
    (
        {"scalingConfig": {"minSize": 0, "desiredSize": 3, "maxSize": 3}},
        {"scalingConfig.desiredSize": "update"},
    ),
    ({"labels": {"addOrUpdateLabels": {"x": "y"}}}, {"labels.x": "add"}),
    (
        {"labels": {"removeLabels": ["slicewright.io/pool"]}},
        {'labels["slicewright.io/pool"]': "delete"},
    ),
    (
        {"taints": {"removeTaints": [{"key": "startup", "effect": "NO_SCHEDULE"}]}},
        {"taints[1]": "delete"},
    ),
    (
        {"taints": {"addOrUpdateTaints": [{"key": "new", "effect": "NO_EXECUTE"}]}},
        {"taints[2]": "add"},
    ),
    (
        {"updateConfig": {"maxUnavailable": 2}},
        {"updateConfig.maxUnavailable": "update", "updateConfig.updateStrategy": "delete"},
    ),
]


@pytest.mark.parametrize(("change", "expected"), DRIFTS)
def test_a_change_made_in_the_cloud_is_drift(engine, change, expected) -> None:
    engine.base()
    group = engine.make(GROUP, "g", **engine.group())
    engine.call(
        "eks",
        "UpdateNodegroupConfig",
        clusterName="p4d-cluster",
        nodegroupName="demo-gpu-workers",
        **change,
    )
    assert engine.cloud.tasks.wait(120)
    found = group.refresh().detailed or {}
    # Leaving out what the cloud may choose is no difference to the engine's Diff: the drift of
    # those shows in outputs.
    assert found == {k: v for k, v in expected.items() if k != "updateConfig.updateStrategy"}


def test_a_clean_refresh_shows_nothing_after_every_update(engine) -> None:
    engine.base()
    group = engine.make(GROUP, "g", **engine.group())
    for path, value in IN_PLACE:
        if (
            path in ("version", "releaseVersion", "launchTemplate.version", "nodeRepairConfig")
            or value is None
        ):
            continue
        asked = changed(engine.group(), path, value)
        group.update(asked)
        assert not group.refresh().changes, path
        assert not group.plan(asked).changes, path


@pytest.mark.parametrize("path", ["name", "roleArn", "region"])
def test_a_cluster_is_replaced(engine, path) -> None:
    asked = {
        "name": "a",
        "roleArn": "a",
        "vpcConfig": {"subnetIds": ["a", "b"]},
        "region": "eu-west-1",
    }
    old = engine.checked(CLUSTER, "c", {}, asked)
    new = engine.checked(CLUSTER, "c", old, {**asked, path: "b"})
    assert engine.diff(CLUSTER, old, new).detailed == {path: "update-replace"}


def test_a_cluster_changes_its_protection_and_access_in_place(engine) -> None:
    cluster = engine.base()
    asked = {k: v for k, v in cluster.inputs.items() if k != "__defaults"}
    cluster.update(
        {
            **asked,
            "deletionProtection": True,
            "vpcConfig": {**asked["vpcConfig"], "endpointPrivateAccess": True},
            "tags": {"a": "b"},
        }
    )
    assert not cluster.refresh().changes
    assert cluster.outputs["vpcConfig"]["endpointPrivateAccess"] is True
    assert cluster.outputs["tags"] == {"a": "b"}


CLUSTER_ASKED = {
    "name": "a",
    "roleArn": "a",
    "vpcConfig": {"subnetIds": ["a", "b"], "endpointPublicAccess": True},
    "accessConfig": {
        "authenticationMode": "API",
        "bootstrapClusterCreatorAdminPermissions": True,
    },
    "kubernetesNetworkConfig": {"serviceIpv4Cidr": "172.20.0.0/16", "ipFamily": "ipv4"},
    "encryptionConfig": {"provider": {"keyArn": "key"}, "resources": ["secrets"]},
    "version": "1.35",
    "bootstrapSelfManagedAddons": True,
}


@pytest.mark.parametrize(
    ("path", "value", "replaces"),
    [
        ("version", "1.36", False),
        ("vpcConfig.subnetIds", ["a", "c"], False),
        ("vpcConfig.endpointPrivateAccess", True, False),
        ("accessConfig.authenticationMode", "API_AND_CONFIG_MAP", False),
        ("accessConfig.bootstrapClusterCreatorAdminPermissions", False, True),
        ("kubernetesNetworkConfig.serviceIpv4Cidr", "172.21.0.0/16", True),
        ("kubernetesNetworkConfig.ipFamily", "ipv6", True),
        ("encryptionConfig", None, True),
        ("bootstrapSelfManagedAddons", False, True),
        ("upgradePolicy", {"supportType": "STANDARD"}, False),
        ("zonalShiftConfig", {"enabled": True}, False),
        ("deletionProtection", True, False),
        ("enabledClusterLogTypes", ["api"], False),
        ("tags", {"a": "b"}, False),
    ],
)
def test_a_change_of_a_cluster_is_as_the_official_schema_says(
    engine, path, value, replaces
) -> None:
    old = engine.checked(CLUSTER, "c", {}, CLUSTER_ASKED)
    new = engine.checked(CLUSTER, "c", old, changed(CLUSTER_ASKED, path, value))
    kinds = engine.diff(CLUSTER, old, new).detailed
    assert kinds
    assert {k.endswith("-replace") for k in kinds.values()} == {replaces}, kinds


def test_encryption_is_added_to_a_cluster_in_place(engine) -> None:
    asked = {k: v for k, v in CLUSTER_ASKED.items() if k != "encryptionConfig"}
    old = engine.checked(CLUSTER, "c", {}, asked)
    new = engine.checked(CLUSTER, "c", old, CLUSTER_ASKED)
    assert engine.diff(CLUSTER, old, new).detailed == {"encryptionConfig": "add"}


def test_a_policys_attachment_is_deleted_before_it_is_replaced(engine) -> None:
    kind = "aws:iam/rolePolicyAttachment:RolePolicyAttachment"
    old = engine.checked(kind, "a", {}, {"role": "r", "policyArn": "a"})
    new = engine.checked(kind, "a", old, {"role": "r", "policyArn": "b"})
    assert engine.diff(kind, old, new).delete_before_replace is True


def test_every_change_of_a_cluster_is_an_update_of_its_own_that_is_waited_for(engine) -> None:
    """The changes of one `up`, with updates that take a while: EKS refuses a second one."""
    cluster = engine.base()
    (engine.environment / "cloud" / "delays.json").write_text('{"eks.UpdateCluster": 0.05}')
    asked = {k: v for k, v in cluster.inputs.items() if k != "__defaults"}
    key = "arn:aws:kms:eu-west-1:123456789012:key/a"
    cluster.update(
        {
            **asked,
            "accessConfig": {"authenticationMode": "API_AND_CONFIG_MAP"},
            "encryptionConfig": {"provider": {"keyArn": key}, "resources": ["secrets"]},
            "enabledClusterLogTypes": ["api", "audit"],
            "upgradePolicy": {"supportType": "STANDARD"},
            "deletionProtection": True,
            "vpcConfig": {
                "subnetIds": asked["vpcConfig"]["subnetIds"],
                "endpointPrivateAccess": True,
                "publicAccessCidrs": ["1.2.3.4/32"],
            },
        }
    )
    seen = engine.call("eks", "DescribeCluster", name="p4d-cluster")["cluster"]
    assert seen["status"] == "ACTIVE"
    assert seen["accessConfig"] == {"authenticationMode": "API_AND_CONFIG_MAP"}
    assert seen["encryptionConfig"][0]["provider"] == {"keyArn": key}
    assert seen["resourcesVpcConfig"]["publicAccessCidrs"] == ["1.2.3.4/32"]
    assert not cluster.refresh().changes


def test_a_clusters_version_rises_in_place(engine) -> None:
    engine.network()
    engine.network = lambda: None
    role = engine.role("c", "eks.amazonaws.com", "AmazonEKSClusterPolicy")
    asked = {
        "name": "old",
        "roleArn": role.outputs["arn"],
        "version": "1.35",
        "vpcConfig": {"subnetIds": engine.subnets},
    }
    cluster = engine.make(CLUSTER, "old", **asked)
    cluster.update({**asked, "version": "1.36"})
    assert cluster.outputs["version"] == "1.36"


def test_stating_what_the_cloud_has_filled_in_is_no_change(engine) -> None:
    """Bridged providers compare a program with the state, not with the last program."""
    engine.base()
    group = engine.make(GROUP, "group", **engine.group())
    version = group.outputs["version"]
    assert not group.plan({**engine.group(), "version": version}).changes
    assert group.plan({**engine.group(), "version": "1.35"}).detailed == {"version": "add"}


def test_the_zones_of_a_cluster_are_planned_in_place_and_refused_by_eks(engine) -> None:
    cluster = engine.base()
    asked = {k: v for k, v in cluster.inputs.items() if k != "__defaults"}
    vpc = cluster.outputs["vpcConfig"]["vpcId"]
    where = {"vpcId": vpc, "cidrBlock": "10.0.9.0/24", "availabilityZone": "eu-west-1c"}
    third = engine.make("aws:ec2/subnet:Subnet", "third", **where)
    with pytest.raises(ProviderError, match="should belong to the exact set of AZs"):
        cluster.update({**asked, "vpcConfig": {"subnetIds": [engine.subnets[0], third.id]}})


def test_a_cluster_is_created_once_its_role_has_spread(engine) -> None:
    write_account(engine.environment, **{**PROMPT, "iam_spread_s": 0.3})
    assert engine.base().outputs["status"] == "ACTIVE"


def test_a_node_group_of_a_role_that_has_not_spread_fails(engine) -> None:
    engine.base()
    write_account(engine.environment, **{**PROMPT, "iam_spread_s": 3600.0})
    with pytest.raises(ProviderError, match="cannot be found"):
        engine.make(GROUP, "g", **engine.group())


def test_a_subnet_gets_another_route_table_in_place(engine) -> None:
    """The association's id changes, which Pulumi does not store: pulumi/pulumi-aws #3911."""
    engine.network()
    association = next(r for r in engine.made if "Association" in r.kind)
    vpc = next(r for r in engine.made if r.kind == "aws:ec2/vpc:Vpc").id
    table = engine.make("aws:ec2/routeTable:RouteTable", "second", vpcId=vpc)
    association.update({**association.inputs, "routeTableId": table.id})
    assert association.outputs["routeTableId"] == table.id
    assert not association.refresh().changes
    association.delete()
    assert association.refresh() is None
