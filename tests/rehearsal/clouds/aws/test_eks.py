"""The simulated EKS: clusters, node groups, what it refuses, and what it fails at later."""

from __future__ import annotations

import base64
import json
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText

import pytest

from slicewright.rehearsal.clouds.aws.account import EMPTY, PROMPT, write_account
from slicewright.rehearsal.clouds.core.errors import CloudError

P4D = {"instanceTypes": ["p4d.24xlarge"], "amiType": "AL2023_x86_64_NVIDIA"}


def user_data(config: str) -> str:
    message = MIMEMultipart()
    message.attach(MIMEText(config, "node.eks.aws"))
    message.get_payload()[0].replace_header("Content-Type", "application/node.eks.aws")
    return base64.b64encode(message.as_bytes()).decode()


NODE_CONFIG = """apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  kubelet:
    config:
      maxPods: 250
    flags: ["--register-with-taints=long.example/taint=true:NoSchedule", "--node-labels=a=b"]
"""


def test_a_cluster_becomes_active_with_an_endpoint(aws) -> None:
    cluster = aws.make_cluster()
    assert cluster["status"] == "ACTIVE"
    assert cluster["endpoint"] == "https://127.0.0.1:6443"
    assert base64.b64decode(cluster["certificateAuthority"]["data"])


def test_a_node_has_the_labels_and_taints_that_eks_sets(aws) -> None:
    aws.make_cluster()
    taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}
    group = aws.make_group(**P4D, labels={"team": "ml"}, taints=[taint])
    assert group["status"] == "ACTIVE"
    (node,) = aws.nodes()
    assert node["metadata"]["name"] == "ip-10-0-0-10.eu-west-1.compute.internal"
    expected = {
        "eks.amazonaws.com/nodegroup": "workers",
        "eks.amazonaws.com/capacityType": "ON_DEMAND",
        "node.kubernetes.io/instance-type": "p4d.24xlarge",
        "topology.kubernetes.io/zone": "eu-west-1a",
        "topology.k8s.aws/zone-id": "euw1-az2",
        "team": "ml",
    }
    assert expected.items() <= node["metadata"]["labels"].items()
    assert node["spec"]["taints"] == [
        {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    ]
    assert node["spec"]["providerID"].startswith("aws:///eu-west-1a/i-0")
    assert node["status"]["allocatable"]["cpu"] == "95690m"
    assert node["status"]["capacity"]["pods"] == "737"
    machine = json.loads(node["metadata"]["annotations"]["rehearsal.slicewright.io/machine"])
    assert machine == {
        "cloud": "eks",
        "gpu_model": "A100-40",
        "gpu_count": 8,
        "driver_version": "580.159.03",
    }


def test_s1_allocatable_memory_is_that_of_the_published_walkthrough(aws) -> None:
    """It shows allocatable cpu 95690m, memory 1167644256Ki, pods 250."""
    aws.make_cluster()
    template = aws.call(
        "ec2",
        "CreateLaunchTemplate",
        LaunchTemplateName="template",
        LaunchTemplateData={"UserData": user_data(NODE_CONFIG)},
    )
    identity = template["LaunchTemplate"]["LaunchTemplateId"]
    aws.make_group(**P4D, launchTemplate={"id": identity, "version": "1"})
    (node,) = aws.nodes()
    found = {k: node["status"]["allocatable"][k] for k in ("cpu", "memory", "pods")}
    assert found == {"cpu": "95690m", "memory": "1167644256Ki", "pods": "250"}


def test_the_node_config_of_the_template_reaches_the_node(aws) -> None:
    aws.make_cluster()
    template = aws.call(
        "ec2",
        "CreateLaunchTemplate",
        LaunchTemplateName="template",
        LaunchTemplateData={"UserData": user_data(NODE_CONFIG)},
    )
    aws.make_group(
        launchTemplate={"id": template["LaunchTemplate"]["LaunchTemplateId"], "version": "1"},
        instanceTypes=["m6i.large"],
    )
    (node,) = aws.nodes()
    assert node["spec"]["taints"] == [
        {"key": "long.example/taint", "value": "true", "effect": "NoSchedule"}
    ]
    assert node["metadata"]["labels"]["a"] == "b"
    assert node["metadata"]["labels"]["eks.amazonaws.com/sourceLaunchTemplateVersion"] == "1"


def test_an_image_without_nvidia_has_no_driver(aws) -> None:
    aws.make_cluster()
    aws.make_group(instanceTypes=["g4dn.xlarge"], amiType="AL2023_x86_64_STANDARD")
    machine = json.loads(
        aws.nodes()[0]["metadata"]["annotations"]["rehearsal.slicewright.io/machine"]
    )
    assert machine["gpu_model"] == "T4"
    assert machine["driver_version"] is None


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"instanceTypes": ["p9.huge"]}, "do not exist: [p9.huge]"),
        (
            {"instanceTypes": ["m6i.large"], "amiType": "AL2023_x86_64_NVIDIA"},
            "not a valid instance type",
        ),
        ({"amiType": "AL2023_ARM_64_NVIDIA"}, "not a valid instance type"),
        ({"amiType": "CUSTOM"}, "image id is required"),
        ({"labels": {"kubernetes.io/role": "x"}}, "reserved prefixes"),
        ({"labels": {"node-role.kubernetes.io/gpu": "x"}}, "reserved prefixes"),
        (
            {
                "taints": [
                    {"key": "a", "effect": "NO_SCHEDULE"},
                    {"key": "a", "value": "b", "effect": "NO_SCHEDULE"},
                ]
            },
            "Duplicate taint",
        ),
        (
            {"scalingConfig": {"minSize": 2, "desiredSize": 1, "maxSize": 3}},
            "can't be greater than desired size 1",
        ),
        (
            {"scalingConfig": {"minSize": 1, "desiredSize": 4, "maxSize": 3}},
            "can't be greater than max size 3",
        ),
        ({"subnets": ["subnet-0nothere"]}, "does not exist"),
        ({"nodeRole": "arn:aws:iam::123456789012:role/ghost"}, "cannot be found"),
        ({"nodeRole": "arn:aws:iam::123456789012:role/cluster"}, "trusted entity is not correct"),
        ({"launchTemplate": {"id": "lt-0nothere", "version": "1"}}, "does not exist"),
    ],
)
def test_an_impossible_node_group_is_refused(aws, fields: dict, words: str) -> None:
    aws.make_cluster()
    with pytest.raises(CloudError) as caught:
        aws.make_group(**fields)
    assert words in caught.value.message
    assert caught.value.reason == "InvalidParameterException"
    assert "eks.nodegroup" not in aws.cloud.inventory()


@pytest.mark.parametrize(
    ("data", "fields", "words"),
    [
        (
            {"EbsOptimized": True},
            {"diskSize": 50},
            "Disk size must be specified within the launch template",
        ),
        (
            {"InstanceType": "m6i.large"},
            {"instanceTypes": ["m6i.large"]},
            "in launch template and API request",
        ),
        (
            {"InstanceMarketOptions": {"MarketType": "spot"}},
            {},
            "Instance market options are not supported",
        ),
        ({"ImageId": "ami-1"}, {"amiType": "AL2023_x86_64_STANDARD"}, "cannot specify amiType"),
        ({"IamInstanceProfile": {"Name": "x"}}, {}, "should not specify IamInstanceProfile"),
        ({"UserData": base64.b64encode(b"#!/bin/sh").decode()}, {}, "MIME multipart"),
    ],
)
def test_fields_that_a_launch_template_excludes_are_refused(
    aws, data: dict, fields: dict, words: str
) -> None:
    aws.make_cluster()
    made = aws.call(
        "ec2", "CreateLaunchTemplate", LaunchTemplateName="template", LaunchTemplateData=data
    )
    template = {"id": made["LaunchTemplate"]["LaunchTemplateId"], "version": "1"}
    with pytest.raises(CloudError) as caught:
        aws.make_group(launchTemplate=template, **fields)
    assert words in caught.value.message


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("kubelet:", "kubelt:", r"spec\.kubelt"),
        ("kubelet:", "instance: {localStorage: {strategy: raid0}}\n  kubelet:", "'raid0', not one"),
        ("kubelet:", "instance: {localStorage: {raid: 0}}\n  kubelet:", r"localStorage\.raid"),
    ],
)
def test_user_data_that_nodeadm_does_not_know_is_refused(aws, old, new, said) -> None:
    aws.make_cluster()
    wrong = NODE_CONFIG.replace(old, new)
    made = aws.call(
        "ec2",
        "CreateLaunchTemplate",
        LaunchTemplateName="template",
        LaunchTemplateData={"UserData": user_data(wrong)},
    )
    with pytest.raises(CloudError, match=said):
        aws.make_group(
            launchTemplate={"id": made["LaunchTemplate"]["LaunchTemplateId"], "version": "1"}
        )


def test_nodes_without_the_worker_policy_never_join(aws) -> None:
    aws.make_cluster()
    aws.call(
        "aws-iam",
        "DetachRolePolicy",
        RoleName="node",
        PolicyArn="arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy",
    )
    group = aws.make_group()
    assert group["status"] == "CREATE_FAILED"
    assert group["health"]["issues"][0]["code"] == "NodeCreationFailure"
    assert aws.nodes() == []


def test_nodes_without_public_addresses_fail(aws) -> None:
    aws.make_cluster()
    aws.call(
        "ec2",
        "ModifySubnetAttribute",
        SubnetId=aws.subnets[0],
        MapPublicIpOnLaunch={"Value": False},
    )
    assert aws.make_group()["health"]["issues"][0]["code"] == "Ec2SubnetInvalidConfiguration"


def test_nodes_without_a_route_to_the_internet_never_join(aws) -> None:
    aws.make_cluster()
    table = aws.call("ec2", "DescribeRouteTables")["RouteTables"][0]["RouteTableId"]
    aws.call("ec2", "DeleteRoute", RouteTableId=table, DestinationCidrBlock="0.0.0.0/0")
    issue = aws.make_group()["health"]["issues"][0]
    assert issue["code"] == "NodeCreationFailure"
    assert "no route to the internet" in issue["message"]


def test_a_full_subnet_is_a_health_issue(aws) -> None:
    aws.network()
    small = aws.call(
        "ec2", "CreateSubnet", VpcId=aws.vpc, CidrBlock="10.0.9.0/28", AvailabilityZone="eu-west-1a"
    )["Subnet"]["SubnetId"]
    aws.call("ec2", "ModifySubnetAttribute", SubnetId=small, MapPublicIpOnLaunch={"Value": True})
    table = aws.call("ec2", "DescribeRouteTables")["RouteTables"][0]["RouteTableId"]
    aws.call("ec2", "AssociateRouteTable", RouteTableId=table, SubnetId=small)
    aws.network = lambda: None
    aws.make_cluster()
    group = aws.make_group(
        subnets=[small], scalingConfig={"minSize": 0, "desiredSize": 8, "maxSize": 8}
    )
    assert group["health"]["issues"][0]["code"] == "InsufficientFreeAddresses"


def update(aws, operation: str, **body) -> dict:
    started = aws.call("eks", operation, clusterName="p4d", nodegroupName="workers", **body)[
        "update"
    ]
    assert started["status"] == "InProgress"
    aws.settle("nodegroup")
    return aws.call(
        "eks", "DescribeUpdate", name="p4d", nodegroupName="workers", updateId=started["id"]
    )["update"]


def test_a_node_group_scales_up_and_to_zero(aws) -> None:
    aws.make_cluster()
    aws.make_group(
        scalingConfig={"minSize": 0, "desiredSize": 1, "maxSize": 5}, subnets=aws.subnets
    )
    done = update(
        aws, "UpdateNodegroupConfig", scalingConfig={"minSize": 0, "desiredSize": 3, "maxSize": 5}
    )
    assert done["status"] == "Successful"
    zones = sorted(n["metadata"]["labels"]["topology.kubernetes.io/zone"] for n in aws.nodes())
    assert zones == ["eu-west-1a", "eu-west-1a", "eu-west-1b"] or zones == [
        "eu-west-1a",
        "eu-west-1b",
        "eu-west-1b",
    ]
    update(
        aws, "UpdateNodegroupConfig", scalingConfig={"minSize": 0, "desiredSize": 0, "maxSize": 5}
    )
    assert aws.nodes() == []


def test_labels_and_taints_change_on_existing_nodes(aws) -> None:
    aws.make_cluster()
    aws.make_group(
        labels={"a": "1", "b": "1"}, taints=[{"key": "t", "value": "1", "effect": "NO_SCHEDULE"}]
    )
    before = aws.nodes()[0]["spec"]["providerID"]
    update(
        aws,
        "UpdateNodegroupConfig",
        labels={"addOrUpdateLabels": {"a": "2"}, "removeLabels": ["b"]},
        taints={
            "removeTaints": [{"key": "t", "effect": "NO_SCHEDULE"}],
            "addOrUpdateTaints": [{"key": "u", "effect": "NO_EXECUTE"}],
        },
    )
    (node,) = aws.nodes()
    assert node["spec"]["providerID"] == before
    assert node["metadata"]["labels"]["a"] == "2"
    assert "b" not in node["metadata"]["labels"]
    assert [t["key"] for t in node["spec"]["taints"]] == ["u"]


def test_a_new_template_version_replaces_the_nodes(aws) -> None:
    aws.make_cluster()
    made = aws.call(
        "ec2",
        "CreateLaunchTemplate",
        LaunchTemplateName="template",
        LaunchTemplateData={"InstanceType": "m6i.large"},
    )
    identity = made["LaunchTemplate"]["LaunchTemplateId"]
    aws.make_group(launchTemplate={"id": identity, "version": "1"})
    before = aws.nodes()[0]["spec"]["providerID"]
    aws.call(
        "ec2",
        "CreateLaunchTemplateVersion",
        LaunchTemplateId=identity,
        LaunchTemplateData={"InstanceType": "m6i.xlarge"},
    )
    assert (
        update(aws, "UpdateNodegroupVersion", launchTemplate={"id": identity, "version": "2"})[
            "status"
        ]
        == "Successful"
    )
    (node,) = aws.nodes()
    assert node["spec"]["providerID"] != before
    assert node["metadata"]["labels"]["node.kubernetes.io/instance-type"] == "m6i.xlarge"


def test_a_cluster_with_node_groups_cannot_be_deleted(aws) -> None:
    aws.make_cluster()
    aws.make_group()
    with pytest.raises(CloudError) as caught:
        aws.call("eks", "DeleteCluster", name="p4d")
    assert caught.value.reason == "ResourceInUseException"
    assert "nodegroups attached" in caught.value.message


@pytest.mark.parametrize("operation", ["DescribeCluster", "DeleteCluster"])
def test_a_missing_cluster_is_not_found(aws, operation: str) -> None:
    with pytest.raises(CloudError) as caught:
        aws.call("eks", operation, name="nothing")
    assert (caught.value.code, caught.value.reason) == (404, "ResourceNotFoundException")


def test_a_cluster_needs_subnets_in_two_zones(aws) -> None:
    aws.network()
    role = aws.role("cluster", "eks.amazonaws.com")
    with pytest.raises(CloudError, match="at least two different AZs"):
        aws.call(
            "eks",
            "CreateCluster",
            name="p4d",
            roleArn=role,
            resourcesVpcConfig={"subnetIds": aws.subnets[:1]},
        )


def test_a_cluster_needs_a_role_that_eks_may_assume(aws) -> None:
    aws.network()
    role = aws.role("node", "ec2.amazonaws.com")
    with pytest.raises(CloudError, match="trusted entity is not correct"):
        aws.call(
            "eks",
            "CreateCluster",
            name="p4d",
            roleArn=role,
            resourcesVpcConfig={"subnetIds": aws.subnets},
        )


def test_an_unsupported_version_is_refused(aws) -> None:
    aws.network()
    role = aws.role("cluster", "eks.amazonaws.com")
    with pytest.raises(CloudError, match=r"unsupported Kubernetes version 1\.20"):
        aws.call(
            "eks",
            "CreateCluster",
            name="p4d",
            roleArn=role,
            version="1.20",
            resourcesVpcConfig={"subnetIds": aws.subnets},
        )


def addon(aws, name: str) -> dict:
    return aws.call("eks", "DescribeAddon", clusterName="p4d", addonName=name)["addon"]


def test_deleting_a_cluster_deletes_its_addons(aws) -> None:
    aws.make_cluster()
    for name in ("vpc-cni", "kube-proxy"):
        made = aws.call("eks", "CreateAddon", clusterName="p4d", addonName=name)["addon"]
        assert made["status"] == "CREATING"
    assert aws.cloud.tasks.wait(120)
    assert addon(aws, "vpc-cni")["status"] == "ACTIVE"
    aws.call("eks", "DeleteCluster", name="p4d")
    assert aws.cloud.tasks.wait(120)
    assert "eks.addon" not in aws.cloud.inventory()


def test_coredns_is_degraded_until_there_is_a_node_for_it(aws) -> None:
    aws.make_cluster()
    aws.call("eks", "CreateAddon", clusterName="p4d", addonName="coredns")
    assert aws.cloud.tasks.wait(120)
    found = addon(aws, "coredns")
    assert found["status"] == "DEGRADED"
    assert found["health"]["issues"][0]["code"] == "InsufficientNumberOfReplicas"
    taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}
    aws.make_group(nodegroupName="gpu", taints=[taint])
    assert addon(aws, "coredns")["status"] == "DEGRADED"
    aws.make_group()
    assert addon(aws, "coredns")["status"] == "ACTIVE"


def hold(aws, *tasks: str) -> None:
    """These tasks do not end until `let_go`, as updates of EKS for a while."""
    path = aws.environment / "cloud" / "delays.json"
    path.write_text(json.dumps(dict.fromkeys(tasks, 3600.0)))


def let_go(aws) -> None:
    (aws.environment / "cloud" / "delays.json").unlink()


def test_a_cluster_takes_one_update_at_a_time(aws) -> None:
    aws.make_cluster()
    hold(aws, "eks.UpdateCluster")
    protect = {"name": "p4d", "deletionProtection": True}
    update = aws.call("eks", "UpdateClusterConfig", **protect)["update"]
    assert (update["type"], update["status"]) == ("DeletionProtectionUpdate", "InProgress")
    assert aws.call("eks", "DescribeCluster", name="p4d")["cluster"]["status"] == "UPDATING"
    refused = [
        (
            "UpdateClusterConfig",
            {"name": "p4d", "upgradePolicy": {"supportType": "STANDARD"}},
            f"Cannot UpgradePolicyUpdate because cluster p4d currently has update {update['id']}",
        ),
        ("DeleteCluster", {"name": "p4d"}, "in progress"),
    ]
    for operation, body, words in refused:
        with pytest.raises(CloudError) as caught:
            aws.call("eks", operation, **body)
        assert (caught.value.reason, caught.value.code) == ("ResourceInUseException", 409)
        assert words in caught.value.message
    with pytest.raises(CloudError, match="not in ACTIVE status") as caught:
        aws.make_group()
    assert caught.value.reason == "InvalidRequestException"
    let_go(aws)
    assert aws.settle("cluster")["deletionProtection"] is True
    done = aws.call("eks", "DescribeUpdate", name="p4d", updateId=update["id"])["update"]
    assert done["status"] == "Successful"


@pytest.mark.parametrize(
    ("change", "kind", "parameter"),
    [
        (
            {"accessConfig": {"authenticationMode": "API_AND_CONFIG_MAP"}},
            "AccessConfigUpdate",
            "AuthenticationMode",
        ),
        (
            {"resourcesVpcConfig": {"endpointPrivateAccess": True}},
            "EndpointAccessUpdate",
            "EndpointPrivateAccess",
        ),
        (
            {"logging": {"clusterLogging": [{"types": ["api"], "enabled": True}]}},
            "LoggingUpdate",
            "ClusterLogging",
        ),
        ({"upgradePolicy": {"supportType": "STANDARD"}}, "UpgradePolicyUpdate", "UpgradePolicy"),
        ({"zonalShiftConfig": {"enabled": True}}, "ZonalShiftConfigUpdate", "ZonalShiftConfig"),
    ],
)
def test_an_update_has_the_apis_type_and_parameters(aws, change, kind, parameter) -> None:
    aws.make_cluster()
    update = aws.call("eks", "UpdateClusterConfig", name="p4d", **change)["update"]
    assert update["type"] == kind
    assert parameter in [p["type"] for p in update["params"]]
    aws.settle("cluster")


def test_a_cluster_rises_by_one_version_and_its_node_groups_stay(aws) -> None:
    aws.network()
    aws.network = lambda: None
    role = aws.role("early", "eks.amazonaws.com", "AmazonEKSClusterPolicy")
    aws.call(
        "eks",
        "CreateCluster",
        name="p4d",
        roleArn=role,
        version="1.35",
        resourcesVpcConfig={"subnetIds": aws.subnets},
    )
    aws.settle("cluster")
    aws.node_role = aws.role(
        "node",
        "ec2.amazonaws.com",
        "AmazonEKSWorkerNodePolicy",
        "AmazonEC2ContainerRegistryPullOnly",
    )
    aws.make_group()
    with pytest.raises(CloudError, match=r"minor version update from 1\.35 to 1\.35"):
        aws.call("eks", "UpdateClusterVersion", name="p4d", version="1.35")
    aws.call("eks", "UpdateClusterVersion", name="p4d", version="1.36")
    assert aws.settle("cluster")["version"] == "1.36"
    assert aws.settle("nodegroup")["version"] == "1.35"
    with pytest.raises(CloudError, match=r"1\.36\.2-20260714 is not valid for kubernetes version"):
        aws.call(
            "eks",
            "UpdateNodegroupVersion",
            clusterName="p4d",
            nodegroupName="workers",
            releaseVersion="1.36.2-20260714",
        )
    update(aws, "UpdateNodegroupVersion", version="1.36")
    group = aws.settle("nodegroup")
    assert (group["version"], group["releaseVersion"]) == ("1.36", "1.36.2-20260714")


def test_subnets_of_the_clusters_own_zones_may_change(aws) -> None:
    aws.make_cluster()
    third = aws.call(
        "ec2",
        "CreateSubnet",
        VpcId=aws.vpc,
        CidrBlock="10.0.20.0/24",
        AvailabilityZone="eu-west-1b",
    )["Subnet"]["SubnetId"]
    wanted = [aws.subnets[0], third]
    aws.call("eks", "UpdateClusterConfig", name="p4d", resourcesVpcConfig={"subnetIds": wanted})
    assert aws.settle("cluster")["resourcesVpcConfig"]["subnetIds"] == wanted


def test_services_of_a_cluster_in_a_10_network_are_elsewhere(aws) -> None:
    network = aws.make_cluster()["kubernetesNetworkConfig"]
    assert network["serviceIpv4Cidr"] == "172.20.0.0/16"


def test_protection_counts_only_once_the_cluster_is_active(aws) -> None:
    aws.network()
    role = aws.role("early", "eks.amazonaws.com", "AmazonEKSClusterPolicy")
    hold(aws, "eks.CreateCluster")
    aws.call(
        "eks",
        "CreateCluster",
        name="p4d",
        roleArn=role,
        deletionProtection=True,
        resourcesVpcConfig={"subnetIds": aws.subnets},
    )
    assert aws.call("eks", "DeleteCluster", name="p4d")["cluster"]["status"] == "DELETING"
    let_go(aws)
    assert aws.cloud.tasks.wait(120)
    assert "eks.cluster" not in aws.cloud.inventory()


def test_a_zone_without_room_for_control_planes_is_refused(aws) -> None:
    zones = {"eu-west-1b": "use1-az3", "eu-west-1-lis-1a": "euw1-lis1-az1"}
    write_account(aws.environment, **PROMPT, zones=zones)
    aws.network()
    role = aws.role("early", "eks.amazonaws.com", "AmazonEKSClusterPolicy")
    with pytest.raises(CloudError, match="does not currently have sufficient capacity") as caught:
        aws.call(
            "eks",
            "CreateCluster",
            name="p4d",
            roleArn=role,
            resourcesVpcConfig={"subnetIds": aws.subnets},
        )
    assert caught.value.reason == "UnsupportedAvailabilityZoneException"


def test_eks_does_not_know_a_new_role_at_once(aws) -> None:
    aws.make_cluster()
    write_account(aws.environment, **{**PROMPT, "iam_spread_s": 3600.0})
    for operation, words in (
        (aws.make_group, "cannot be found"),
        (
            lambda: aws.call(
                "eks",
                "CreateCluster",
                name="other",
                version="1.36",
                roleArn="arn:aws:iam::123456789012:role/cluster",
                resourcesVpcConfig={"subnetIds": aws.subnets},
            ),
            "does not exist",
        ),
    ):
        with pytest.raises(CloudError, match=words) as caught:
            operation()
        assert caught.value.reason == "InvalidParameterException"


def test_a_node_role_is_held_by_the_profile_that_eks_made_of_it(aws) -> None:
    aws.make_cluster()
    aws.make_group()
    for policy in ("AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly"):
        aws.call(
            "aws-iam",
            "DetachRolePolicy",
            RoleName="node",
            PolicyArn=f"arn:aws:iam::aws:policy/{policy}",
        )
    with pytest.raises(CloudError, match="must remove roles from instance profile first"):
        aws.call("aws-iam", "DeleteRole", RoleName="node")
    aws.call("eks", "DeleteNodegroup", clusterName="p4d", nodegroupName="workers")
    assert aws.cloud.tasks.wait(120)
    aws.call("aws-iam", "DeleteRole", RoleName="node")


def scaled(size: int) -> dict:
    return {"minSize": 0, "desiredSize": size, "maxSize": 9}


def test_a_new_account_has_no_quota_for_gpus(aws) -> None:
    aws.make_cluster()
    write_account(aws.environment, **PROMPT, **EMPTY)
    group = aws.make_group(**P4D)
    assert group["status"] == "CREATE_FAILED"
    (issue,) = group["health"]["issues"]
    assert issue["code"] == "AsgInstanceLaunchFailures"
    assert "VcpuLimitExceeded" in issue["message"]
    assert "vCPU limit of 0" in issue["message"]
    assert aws.nodes() == []
    assert aws.make_group(nodegroupName="system")["status"] == "ACTIVE"


def test_a_quota_is_of_vcpus_of_all_groups_of_a_family(aws) -> None:
    aws.make_cluster()
    write_account(aws.environment, **PROMPT, vcpus={"L-417A185B": 300})
    assert aws.make_group(**P4D, scalingConfig=scaled(2))["status"] == "ACTIVE"
    second = aws.make_group(**P4D, nodegroupName="second", scalingConfig=scaled(2))
    assert second["status"] == "CREATE_FAILED"
    assert len(aws.nodes()) == 3


def test_a_zone_that_runs_out_gives_what_it_has(aws) -> None:
    aws.make_cluster()
    stock = {"p4d.24xlarge": {"euw1-az2": 2}}
    write_account(aws.environment, **PROMPT, stock=stock)
    group = aws.make_group(**P4D, scalingConfig=scaled(3))
    assert group["status"] == "CREATE_FAILED"
    assert "InsufficientInstanceCapacity" in group["health"]["issues"][0]["message"]
    assert "(eu-west-1a)" in group["health"]["issues"][0]["message"]
    assert len(aws.nodes()) == 2


def test_a_group_that_cannot_grow_is_degraded_until_it_can(aws) -> None:
    aws.make_cluster()
    aws.make_group(**P4D, scalingConfig=scaled(1))
    write_account(aws.environment, **PROMPT, stock={"p4d.24xlarge": {"euw1-az2": 1}})
    assert update(aws, "UpdateNodegroupConfig", scalingConfig=scaled(2))["status"] == "Failed"
    group = aws.settle("nodegroup")
    assert group["status"] == "DEGRADED"
    assert group["health"]["issues"][0]["code"] == "AsgInstanceLaunchFailures"
    aws.cloud.look_around()
    assert aws.cloud.tasks.wait(120)
    assert aws.settle("nodegroup")["status"] == "DEGRADED"
    assert len(aws.nodes()) == 1
    write_account(aws.environment, **PROMPT)
    assert update(aws, "UpdateNodegroupConfig", scalingConfig=scaled(3))["status"] == "Successful"
    assert aws.settle("nodegroup")["status"] == "ACTIVE"
    assert len(aws.nodes()) == 3


def test_other_zone_is_used_if_one_has_no_capacity(aws) -> None:
    aws.make_cluster()
    write_account(aws.environment, **PROMPT, stock={"g4dn.xlarge": {"euw1-az2": 0}})
    group = aws.make_group(
        instanceTypes=["g4dn.xlarge"], subnets=aws.subnets, scalingConfig=scaled(2)
    )
    assert group["status"] == "ACTIVE"
    zones = [n["metadata"]["labels"]["topology.kubernetes.io/zone"] for n in aws.nodes()]
    assert zones == ["eu-west-1b", "eu-west-1b"]


def test_a_fault_takes_the_third_node_or_the_quota_away(aws) -> None:
    aws.make_cluster()
    faults = aws.environment / "faults.json"
    faults.write_text('[{"fault": "stock-out", "pool": "workers", "node": 2}]')
    assert aws.make_group(**P4D, scalingConfig=scaled(3))["status"] == "CREATE_FAILED"
    assert len(aws.nodes()) == 2
    faults.write_text('[{"fault": "quota", "quota": "L-417A185B", "limit": 96}]')
    other = aws.make_group(**P4D, nodegroupName="other")
    assert "vCPU limit of 96" in other["health"]["issues"][0]["message"]


def test_the_surge_of_an_update_needs_stock_too(aws) -> None:
    aws.make_cluster()
    aws.make_group(**P4D, scalingConfig=scaled(1))
    write_account(aws.environment, **PROMPT, stock={"p4d.24xlarge": {"euw1-az2": 1}})
    done = update(aws, "UpdateNodegroupVersion", releaseVersion="1.36.1-20260601")
    assert done["status"] == "Failed"
    assert "InsufficientInstanceCapacity" in done["errors"][0]["errorMessage"]
    assert (aws.settle("nodegroup")["status"], len(aws.nodes())) == ("DEGRADED", 1)
    aws.cloud.look_around()
    assert aws.cloud.tasks.wait(120)
    assert (aws.settle("nodegroup")["status"], len(aws.nodes())) == ("ACTIVE", 1)


def test_a_degraded_group_recovers_by_itself(aws) -> None:
    aws.make_cluster()
    aws.make_group(**P4D, scalingConfig=scaled(1))
    write_account(aws.environment, **PROMPT, stock={"p4d.24xlarge": {"euw1-az2": 2}})
    assert update(aws, "UpdateNodegroupConfig", scalingConfig=scaled(4))["status"] == "Failed"
    assert (aws.settle("nodegroup")["status"], len(aws.nodes())) == ("DEGRADED", 2)
    for stock, status in ((3, "DEGRADED"), (4, "ACTIVE")):
        write_account(aws.environment, **PROMPT, stock={"p4d.24xlarge": {"euw1-az2": stock}})
        aws.cloud.look_around()
        assert aws.cloud.tasks.wait(120)
        group = aws.settle("nodegroup")
        assert (group["status"], len(aws.nodes())) == (status, stock)
        assert bool(group["health"]["issues"]) == (status == "DEGRADED")


def test_a_group_that_failed_at_its_creation_stays_failed(aws) -> None:
    aws.make_cluster()
    write_account(aws.environment, **PROMPT, stock={"p4d.24xlarge": {"euw1-az2": 1}})
    assert aws.make_group(**P4D, scalingConfig=scaled(2))["status"] == "CREATE_FAILED"
    write_account(aws.environment, **PROMPT)
    aws.cloud.look_around()
    assert aws.cloud.tasks.wait(120)
    assert (aws.settle("nodegroup")["status"], len(aws.nodes())) == ("CREATE_FAILED", 1)


def kinds(aws) -> list[str]:
    return sorted(n["metadata"]["labels"]["node.kubernetes.io/instance-type"] for n in aws.nodes())


def test_each_zone_uses_the_type_that_it_has_in_stock(aws) -> None:
    aws.make_cluster()
    stock = {"g4dn.xlarge": {"euw1-az2": 1}, "g4dn.2xlarge": {"euw1-az2": 2}}
    write_account(aws.environment, **PROMPT, stock=stock)
    asked = {"instanceTypes": ["g4dn.xlarge", "g4dn.2xlarge"], "amiType": "AL2023_x86_64_NVIDIA"}
    group = aws.make_group(**asked, capacityType="SPOT", scalingConfig=scaled(3))
    assert group["status"] == "ACTIVE"
    assert kinds(aws) == ["g4dn.2xlarge", "g4dn.2xlarge", "g4dn.xlarge"]
    done = update(aws, "UpdateNodegroupConfig", scalingConfig=scaled(4))
    assert done["status"] == "Failed"
    assert done["errors"][0]["errorMessage"].startswith(
        "Could not launch Spot Instances. UnfulfillableCapacity"
    )
    assert len(aws.nodes()) == 3


def test_the_vcpus_of_a_group_of_several_types_are_those_of_its_nodes(aws) -> None:
    aws.make_cluster()
    stock = {"g4dn.xlarge": {"euw1-az2": 1}}
    write_account(aws.environment, **PROMPT, stock=stock, vcpus={"L-DB2E81BA": 4 + 8 + 7})
    asked = {"instanceTypes": ["g4dn.xlarge", "g4dn.2xlarge"], "amiType": "AL2023_x86_64_NVIDIA"}
    group = aws.make_group(**asked, scalingConfig=scaled(3))
    assert kinds(aws) == ["g4dn.2xlarge", "g4dn.xlarge"]
    assert group["status"] == "CREATE_FAILED"
