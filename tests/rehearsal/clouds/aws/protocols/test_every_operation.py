"""botocore drives every operation that is simulated, and reads each answer as it was meant."""

from __future__ import annotations

import base64
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore import xform_name

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.account import PROMPT, write_account
from slicewright.rehearsal.clouds.aws.iam import ACCOUNT
from slicewright.rehearsal.clouds.aws.models import SERVICES
from slicewright.rehearsal.clouds.core.fake_control_planes import FakeControlPlanes, fake_nodes
from slicewright.rehearsal.clouds.core.node_api import VOLUME_SNAPSHOTS
from slicewright.rehearsal.clouds.service import Cloud
from tests.rehearsal.clouds.aws.protocols.over_http import (
    OverHttp,
    as_parsed,
    operation_model,
    over_http,
    without_metadata,
)

TAGS = [{"Key": "a/b", "Value": "c"}]
GROUP = f"arn:aws:resource-groups:eu-west-1:{ACCOUNT}:group/gpus"
RESERVATION = {
    "instance_type": "p4d.24xlarge",
    "zone": "euw1-az2",
    "count": 2,
    "kind": "capacity-block",
    "groups": (GROUP,),
    "start": "2026-12-01T11:30:00Z",
    "end": "2026-12-02T11:30:00Z",
}


def _simulated() -> list[tuple[str, str]]:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        found = Cloud(root, FakeControlPlanes(root)).methods
    return [(service, name) for service in SERVICES for name in sorted(found[service])]


class Told:
    """A user's calls, and for each operation what botocore read beside what the cloud said."""

    def __init__(self, over: OverHttp) -> None:
        self._over = over
        self._clients: dict[str, Any] = {}
        self.answers: dict[tuple[str, str], list[tuple[JsonObject, JsonObject]]] = {}

    def __call__(self, service: str, operation: str, **parameters: Any) -> JsonObject:
        client = self._clients.get(service)
        if client is None:
            client = self._clients[service] = self._over.client(SERVICES[service])
        read = getattr(client, xform_name(operation))(**parameters)
        said = self._over.said[-1]
        assert (said.service, said.operation, said.answer is None) == (service, operation, False)
        assert said.answer is not None
        meant = as_parsed(operation_model(service, operation), said.answer)
        self.answers.setdefault((service, operation), []).append((without_metadata(read), meant))
        return dict(read)

    @property
    def environment(self) -> Path:
        return self._over.environment

    def interfaces_are_gone(self) -> None:
        """Waits for those of deleted load balancers."""

        def left() -> list[str]:
            found = self("ec2", "DescribeNetworkInterfaces")["NetworkInterfaces"]
            return [i["Description"] for i in found if i["Description"].startswith("ELB ")]

        self.until(lambda: not left())

    def until(self, settled: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 120
        while not settled():
            assert time.monotonic() < deadline
            time.sleep(0.01)


def network(tell: Told) -> tuple[str, str, str, list[str]]:
    """VPC, internet gateway, route table and subnets, each shown and changed."""
    tell("ec2", "DescribeAvailabilityZones", ZoneNames=["eu-west-1a"])
    tell("ec2", "DescribeCapacityReservations")
    offered = {"Filters": [{"Name": "instance-type", "Values": ["p4d.24xlarge"]}]}
    tell("ec2", "DescribeInstanceTypeOfferings", LocationType="availability-zone-id", **offered)
    vpc = tell("ec2", "CreateVpc", CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    tell("ec2", "ModifyVpcAttribute", VpcId=vpc, EnableDnsHostnames={"Value": True})
    tell("ec2", "DescribeVpcAttribute", VpcId=vpc, Attribute="enableDnsHostnames")
    tell("ec2", "CreateTags", Resources=[vpc], Tags=[{"Key": "Name", "Value": "a <b> & 'c'"}])
    tell("ec2", "DescribeVpcs", VpcIds=[vpc])
    tell("ec2", "DeleteTags", Resources=[vpc], Tags=[{"Key": "Name"}])
    gateway = tell(
        "ec2",
        "CreateInternetGateway",
        TagSpecifications=[
            {"ResourceType": "internet-gateway", "Tags": [{"Key": "k", "Value": ""}]}
        ],
    )["InternetGateway"]["InternetGatewayId"]
    tell("ec2", "AttachInternetGateway", InternetGatewayId=gateway, VpcId=vpc)
    tell("ec2", "DescribeInternetGateways", InternetGatewayIds=[gateway])
    table = tell("ec2", "CreateRouteTable", VpcId=vpc)["RouteTable"]["RouteTableId"]
    everywhere = "0.0.0.0/0"
    tell(
        "ec2",
        "CreateRoute",
        RouteTableId=table,
        DestinationCidrBlock=everywhere,
        GatewayId=gateway,
    )
    subnets = []
    for index, zone in enumerate("ab"):
        made = tell(
            "ec2",
            "CreateSubnet",
            VpcId=vpc,
            CidrBlock=f"10.0.{index}.0/24",
            AvailabilityZone=f"eu-west-1{zone}",
        )
        subnets.append(made["Subnet"]["SubnetId"])
        tell(
            "ec2",
            "ModifySubnetAttribute",
            SubnetId=subnets[-1],
            MapPublicIpOnLaunch={"Value": True},
        )
    tell("ec2", "DescribeSubnets", SubnetIds=subnets)
    for subnet in subnets:
        joined = tell("ec2", "AssociateRouteTable", RouteTableId=table, SubnetId=subnet)
    tell("ec2", "DisassociateRouteTable", AssociationId=joined["AssociationId"])
    tell("ec2", "AssociateRouteTable", RouteTableId=table, SubnetId=subnet)
    other = tell("ec2", "CreateRouteTable", VpcId=vpc)["RouteTable"]["RouteTableId"]
    joined = tell("ec2", "DescribeRouteTables", RouteTableIds=[table])["RouteTables"][0]
    for to in (other, table):
        association = joined["Associations"][0]["RouteTableAssociationId"]
        moved = {"AssociationId": association, "RouteTableId": to}
        tell("ec2", "ReplaceRouteTableAssociation", **moved)
        joined = tell("ec2", "DescribeRouteTables", RouteTableIds=[to])["RouteTables"][0]
    nat_gateway(tell, other, subnets[0])
    tell("ec2", "DeleteRouteTable", RouteTableId=other)
    return vpc, gateway, table, subnets


def nat_gateway(tell: Told, table: str, subnet: str) -> None:
    """Made, used by a route, and gone again with its address."""
    address = tell("ec2", "AllocateAddress", Domain="vpc")["AllocationId"]
    tell("ec2", "DescribeAddresses", AllocationIds=[address])
    made = tell("ec2", "CreateNatGateway", SubnetId=subnet, AllocationId=address)
    gateway = made["NatGateway"]["NatGatewayId"]

    def state() -> str:
        shown = tell("ec2", "DescribeNatGateways", NatGatewayIds=[gateway])["NatGateways"]
        return str(shown[0]["State"])

    tell.until(lambda: state() == "available")
    route = {"RouteTableId": table, "DestinationCidrBlock": "0.0.0.0/0", "NatGatewayId": gateway}
    tell("ec2", "CreateRoute", **route)
    tell("ec2", "ReplaceRoute", **route)
    tell("ec2", "DeleteNatGateway", NatGatewayId=gateway)
    tell.until(lambda: state() == "deleted")
    tell("ec2", "ReleaseAddress", AllocationId=address)


def placement_group(tell: Told) -> None:
    tags = [{"ResourceType": "placement-group", "Tags": [{"Key": "a/b", "Value": "c d"}]}]
    name = {"GroupName": "near"}
    tell("ec2", "CreatePlacementGroup", **name, Strategy="cluster", TagSpecifications=tags)
    tell("ec2", "DescribePlacementGroups", GroupNames=["near"])
    tell("ec2", "DeletePlacementGroup", **name)


def roles(tell: Told) -> None:
    for name, service, policies in (
        ("cluster", "eks", ["AmazonEKSClusterPolicy"]),
        ("node", "ec2", ["AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly"]),
    ):
        trust = json.dumps(
            {
                "Version": "2012-10-17",
                "Statement": [
                    {
                        "Effect": "Allow",
                        "Principal": {"Service": f"{service}.amazonaws.com"},
                        "Action": "sts:AssumeRole",
                    }
                ],
            }
        )
        tell("aws-iam", "CreateRole", RoleName=name, AssumeRolePolicyDocument=trust)
        tell("aws-iam", "UpdateAssumeRolePolicy", RoleName=name, PolicyDocument=trust)
        for policy in policies:
            arn = f"arn:aws:iam::aws:policy/{policy}"
            tell("aws-iam", "AttachRolePolicy", RoleName=name, PolicyArn=arn)
    tell("aws-iam", "UpdateRole", RoleName="node", Description="of nodes", MaxSessionDuration=7200)
    tell("aws-iam", "UpdateRoleDescription", RoleName="node", Description="of GPU nodes")
    tell("aws-iam", "TagRole", RoleName="node", Tags=[{"Key": "a", "Value": "b"}])
    boundary = "arn:aws:iam::123456789012:policy/boundary"
    tell("aws-iam", "PutRolePermissionsBoundary", RoleName="node", PermissionsBoundary=boundary)
    tell("aws-iam", "GetPolicy", PolicyArn=boundary)
    tell("aws-iam", "GetRole", RoleName="node")
    tell("aws-iam", "DeleteRolePermissionsBoundary", RoleName="node")
    tell("aws-iam", "UntagRole", RoleName="node", TagKeys=["a"])
    tell("aws-iam", "ListAttachedRolePolicies", RoleName="node")


def template(tell: Told) -> str:
    """A launch template of two versions."""
    data = {
        "UserData": base64.b64encode(
            b'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="//"\n\n'
            b"--//\nContent-Type: text/x-shellscript\n\n#!/bin/sh\ntrue\n--//--\n"
        ).decode(),
        "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 2},
    }
    made = tell("ec2", "CreateLaunchTemplate", LaunchTemplateName="gpu", LaunchTemplateData=data)[
        "LaunchTemplate"
    ]["LaunchTemplateId"]
    tell("ec2", "CreateLaunchTemplateVersion", LaunchTemplateId=made, LaunchTemplateData=data)
    tell("ec2", "ModifyLaunchTemplate", LaunchTemplateId=made, DefaultVersion="2")
    tell("ec2", "DescribeLaunchTemplates", LaunchTemplateIds=[made])
    tell("ec2", "DescribeLaunchTemplateVersions", LaunchTemplateId=made, Versions=["1", "2"])
    return str(made)


def cluster(tell: Told, subnets: list[str], launch_template: str) -> None:
    role = f"arn:aws:iam::{ACCOUNT}:role"
    made = tell(
        "eks",
        "CreateCluster",
        name="p4d",
        roleArn=f"{role}/cluster",
        resourcesVpcConfig={"subnetIds": subnets},
        version="1.35",
        logging={"clusterLogging": [{"types": ["api"], "enabled": True}]},
        tags={"team": "gpu"},
    )["cluster"]

    def is_active() -> bool:
        return bool(tell("eks", "DescribeCluster", name="p4d")["cluster"]["status"] == "ACTIVE")

    tell.until(is_active)
    tell("eks", "ListClusters")
    tell("eks", "TagResource", resourceArn=made["arn"], tags={"a/b": "c d"})
    tell("eks", "UntagResource", resourceArn=made["arn"], tagKeys=["a/b", "team"])
    for protected in (True, False):
        change = {"name": "p4d", "deletionProtection": protected}
        update = tell("eks", "UpdateClusterConfig", **change)["update"]
        tell("eks", "DescribeUpdate", name="p4d", updateId=update["id"])
        tell.until(is_active)
    tell("eks", "UpdateClusterVersion", name="p4d", version="1.36")
    tell.until(is_active)
    key = {"keyArn": f"arn:aws:kms:eu-west-1:{ACCOUNT}:key/a"}
    encryption = [{"resources": ["secrets"], "provider": key}]
    tell("eks", "AssociateEncryptionConfig", clusterName="p4d", encryptionConfig=encryption)
    tell.until(is_active)
    mode = {"authenticationMode": "API_AND_CONFIG_MAP"}
    tell("eks", "UpdateClusterConfig", name="p4d", accessConfig=mode)
    tell.until(is_active)
    access_entry(tell)
    tell("eks", "CreateAddon", clusterName="p4d", addonName="kube-proxy")
    addon = {"clusterName": "p4d", "addonName": "kube-proxy"}

    def addon_is_active() -> bool:
        return bool(tell("eks", "DescribeAddon", **addon)["addon"]["status"] == "ACTIVE")

    tell.until(addon_is_active)
    tell("eks", "ListAddons", clusterName="p4d")
    tell("eks", "UpdateAddon", **addon, configurationValues="{}")
    tell.until(addon_is_active)
    role_of_pods(tell, role)
    node_group(tell, f"{role}/node", subnets, launch_template)
    leave_behind(tell)
    tell("eks", "DeleteAddon", clusterName="p4d", addonName="kube-proxy", preserve=True)
    tell("eks", "DeleteCluster", name="p4d")
    tell.until(lambda: not tell("eks", "ListClusters")["clusters"])


def role_of_pods(tell: Told, arn: str) -> None:
    """With an inline policy, for a service account."""
    to_pods = {"Effect": "Allow", "Principal": {"Service": "pods.eks.amazonaws.com"}}
    statement = {**to_pods, "Action": ["sts:AssumeRole", "sts:TagSession"]}
    trust = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    tell("aws-iam", "CreateRole", RoleName="pods", AssumeRolePolicyDocument=trust)
    one = {"RoleName": "pods", "PolicyName": "a+b"}
    reads = {"Effect": "Allow", "Action": "ec2:DescribeImages", "Resource": "*"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [reads]})
    tell("aws-iam", "PutRolePolicy", **one, PolicyDocument=document)
    tell("aws-iam", "GetRolePolicy", **one)
    tell("aws-iam", "ListRolePolicies", RoleName="pods")
    account = {"clusterName": "p4d", "namespace": "kube-system", "serviceAccount": "a"}
    made = tell("eks", "CreatePodIdentityAssociation", **account, roleArn=f"{arn}/pods")
    where = {"clusterName": "p4d", "associationId": made["association"]["associationId"]}
    tell("eks", "DescribePodIdentityAssociation", **where)
    tell("eks", "UpdatePodIdentityAssociation", **where, roleArn=f"{arn}/pods")
    tell("eks", "ListPodIdentityAssociations", clusterName="p4d")
    tell("eks", "DeletePodIdentityAssociation", **where)
    tell("aws-iam", "DeleteRolePolicy", **one)
    tell("aws-iam", "DeleteRole", RoleName="pods")


def access_entry(tell: Told) -> None:
    """Of a principal whose ARN has slashes, in the path of each request."""
    names = {"clusterName": "p4d", "principalArn": "arn:aws:iam::111122223333:role/teams/ml"}
    policy = {"policyArn": "arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy"}
    scope = {"type": "namespace", "namespaces": ["a", "b-*"]}
    tell("eks", "CreateAccessEntry", **names, kubernetesGroups=["ml"], tags={"a/b": "c d"})
    tell("eks", "DescribeAccessEntry", **names)
    tell("eks", "ListAccessEntries", clusterName="p4d")
    tell("eks", "UpdateAccessEntry", **names, kubernetesGroups=[])
    tell("eks", "AssociateAccessPolicy", **names, **policy, accessScope=scope)
    tell("eks", "ListAssociatedAccessPolicies", **names)
    tell("eks", "DisassociateAccessPolicy", **names, **policy)
    tell("eks", "DeleteAccessEntry", **names)


def leave_behind(tell: Told) -> None:
    """A load balancer of either kind and a volume, which outlive the cluster."""
    write_account(tell.environment, **PROMPT)
    nodes = fake_nodes(tell.environment, "p4d")
    kind = {"service.beta.kubernetes.io/aws-load-balancer-type": "nlb"}
    for uid, asked in (("1", {}), ("2", kind)):
        meta = {"uid": uid, "annotations": asked}
        service = {"metadata": meta, "spec": {"type": "LoadBalancer"}}
        nodes.add_object("/api/v1/services", service)
    csi = {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-0123456789abcdef0"}
    nodes.add_object("/api/v1/persistentvolumes", {"spec": {"csi": csi}})
    snapshot = {
        "metadata": {"name": "snapcontent-1"},
        "spec": {"driver": csi["driver"], "source": {"volumeHandle": csi["volumeHandle"]}},
        "status": {"snapshotHandle": "snap-0123456789abcdef0"},
    }
    nodes.add_object(VOLUME_SNAPSHOTS, snapshot)


def node_group(tell: Told, role: str, subnets: list[str], launch_template: str) -> None:
    names = {"clusterName": "p4d", "nodegroupName": "workers"}
    tell(
        "eks",
        "CreateNodegroup",
        **names,
        nodeRole=role,
        subnets=subnets[:1],
        instanceTypes=["m6i.large"],
        scalingConfig={"minSize": 0, "desiredSize": 1, "maxSize": 2},
        launchTemplate={"id": launch_template, "version": "1"},
        labels={"slicewright.io/pool": "workers"},
    )

    def is_settled() -> bool:
        found = tell("eks", "DescribeNodegroup", **names)["nodegroup"]
        return found["status"] not in ("CREATING", "UPDATING")

    tell.until(is_settled)
    tell("eks", "ListNodegroups", clusterName="p4d")
    tell("eks", "UpdateNodegroupConfig", **names, scalingConfig={"maxSize": 3})
    tell.until(is_settled)
    (profile,) = tell("aws-iam", "ListInstanceProfilesForRole", RoleName="node")["InstanceProfiles"]
    held = {"InstanceProfileName": profile["InstanceProfileName"], "RoleName": "node"}
    tell("aws-iam", "RemoveRoleFromInstanceProfile", **held)
    version = {"id": launch_template, "version": "2"}
    tell("eks", "UpdateNodegroupVersion", **names, launchTemplate=version)
    tell.until(is_settled)
    tell("eks", "DeleteNodegroup", **names)
    tell.until(lambda: not tell("eks", "ListNodegroups", clusterName="p4d")["nodegroups"])


def machine(tell: Told, subnet: str, launch_template: str) -> None:
    """As Karpenter makes one, and ends it."""
    profile = {"InstanceProfileName": "p4d_1"}
    tell("aws-iam", "CreateInstanceProfile", **profile, Path="/karpenter/", Tags=TAGS)
    tell("aws-iam", "AddRoleToInstanceProfile", **profile, RoleName="node")
    tell("aws-iam", "GetInstanceProfile", **profile)
    tell("aws-iam", "ListInstanceProfiles", PathPrefix="/karpenter/")
    tell("aws-iam", "ListInstanceProfileTags", **profile)
    named = {"LaunchTemplateId": launch_template, "Version": "1"}
    override = {"InstanceType": "g6.xlarge", "SubnetId": subnet}
    made = tell(
        "ec2",
        "CreateFleet",
        Type="instant",
        LaunchTemplateConfigs=[{"LaunchTemplateSpecification": named, "Overrides": [override]}],
        TargetCapacitySpecification={"TotalTargetCapacity": 1},
        TagSpecifications=[{"ResourceType": "instance", "Tags": TAGS}],
    )
    (identity,) = made["Instances"][0]["InstanceIds"]
    tell("ec2", "DescribeInstances", Filters=[{"Name": "tag-key", "Values": ["a/b"]}])
    tell("ec2", "TerminateInstances", InstanceIds=[identity])
    tell("aws-iam", "RemoveRoleFromInstanceProfile", **profile, RoleName="node")
    tell("aws-iam", "DeleteInstanceProfile", **profile)


def removal(
    tell: Told, vpc: str, gateway: str, table: str, subnets: list[str], launch_template: str
) -> None:
    tell("ec2", "DeleteLaunchTemplate", LaunchTemplateId=launch_template)
    for left in tell("elb", "DescribeLoadBalancers")["LoadBalancerDescriptions"]:
        tell("elb", "DescribeTags", LoadBalancerNames=[left["LoadBalancerName"]])
        tell("elb", "DeleteLoadBalancer", LoadBalancerName=left["LoadBalancerName"])
    for left in tell("elbv2", "DescribeLoadBalancers")["LoadBalancers"]:
        tell("elbv2", "DescribeTags", ResourceArns=[left["LoadBalancerArn"]])
        tell("elbv2", "DeleteLoadBalancer", LoadBalancerArn=left["LoadBalancerArn"])
    for group in tell("elbv2", "DescribeTargetGroups")["TargetGroups"]:
        tell("elbv2", "DeleteTargetGroup", TargetGroupArn=group["TargetGroupArn"])
    tell.interfaces_are_gone()
    for log in tell("logs", "DescribeLogGroups", logGroupNamePrefix="/aws/")["logGroups"]:
        tell("logs", "DeleteLogGroup", logGroupName=log["logGroupName"])
    for volume in tell("ec2", "DescribeVolumes")["Volumes"]:
        tell("ec2", "DeleteVolume", VolumeId=volume["VolumeId"])
    for snapshot in tell("ec2", "DescribeSnapshots", OwnerIds=["self"])["Snapshots"]:
        tell("ec2", "DeleteSnapshot", SnapshotId=snapshot["SnapshotId"])
    for interface in tell("ec2", "DescribeNetworkInterfaces")["NetworkInterfaces"]:
        identity = interface["NetworkInterfaceId"]
        tell("ec2", "DeleteNetworkInterface", NetworkInterfaceId=identity)
    for group in tell("ec2", "DescribeSecurityGroups")["SecurityGroups"]:
        tell("ec2", "DeleteSecurityGroup", GroupId=group["GroupId"])
    for subnet in subnets:
        tell("ec2", "DeleteSubnet", SubnetId=subnet)
    tell("ec2", "DeleteRoute", RouteTableId=table, DestinationCidrBlock="0.0.0.0/0")
    tell("ec2", "DeleteRouteTable", RouteTableId=table)
    tell("ec2", "DetachInternetGateway", InternetGatewayId=gateway, VpcId=vpc)
    tell("ec2", "DeleteInternetGateway", InternetGatewayId=gateway)
    tell("ec2", "DeleteVpc", VpcId=vpc)
    for role in ("cluster", "node"):
        attached = tell("aws-iam", "ListAttachedRolePolicies", RoleName=role)["AttachedPolicies"]
        for policy in attached:
            tell("aws-iam", "DetachRolePolicy", RoleName=role, PolicyArn=policy["PolicyArn"])
        tell("aws-iam", "DeleteRole", RoleName=role)


@pytest.fixture(scope="module")
def told(clouds_over_http: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    """A cluster with all that belongs to it, from nothing to nothing."""
    environment = tmp_path_factory.mktemp("E")
    with over_http(environment) as over:
        reserved = {"cr-0123456789abcdef0": RESERVATION}
        write_account(environment, **{**PROMPT, "leftovers_s": 3600.0, "reservations": reserved})
        tell = Told(over)
        tell("sts", "GetCallerIdentity")
        tell("eks", "DescribeAddonVersions", addonName="coredns", kubernetesVersion="1.35")
        images = "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/nvidia"
        tell("ssm", "GetParameter", Name=f"{images}/recommended/release_version")
        tell("kms", "DescribeKey", KeyId=f"arn:aws:kms:eu-west-1:{ACCOUNT}:key/1")
        tell("resource-groups", "ListGroupResources", Group=GROUP)
        tell("sqs", "GetQueueUrl", QueueName="interruptions")
        principal = {"PolicySourceArn": "arn:aws:iam::123456789012:user/rehearsal"}
        tell("aws-iam", "SimulatePrincipalPolicy", **principal, ActionNames=["ec2:CreateVpc"])
        tell("service-quotas", "GetServiceQuota", ServiceCode="ec2", QuotaCode="L-417A185B")
        tell("eks", "DescribeClusterVersions", clusterVersions=["1.35"])
        vpc, gateway, table, subnets = network(tell)
        roles(tell)
        placement_group(tell)
        launch_template = template(tell)
        cluster(tell, subnets, launch_template)
        machine(tell, subnets[0], launch_template)
        removal(tell, vpc, gateway, table, subnets, launch_template)
        assert over.cloud.inventory() == {}
        yield tell


@pytest.mark.parametrize(("service", "operation"), _simulated())
def test_botocore_reads_the_intended_answer(told: Told, service: str, operation: str) -> None:
    """An operation that is simulated and not called here fails: give it a call above."""
    called = (service, operation) in told.answers
    assert called, "simulated, and not called above"
    for read, meant in told.answers[service, operation]:
        assert read == meant
