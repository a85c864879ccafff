"""What EKS leaves in the account, and what it stands in the way of."""

from __future__ import annotations

from contextlib import suppress

import pytest

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.account import PROMPT, write_account
from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.clouds.core.fake_control_planes import fake_nodes


def delete_all(aws) -> None:
    """The node groups, the cluster."""
    for group in aws.call("eks", "ListNodegroups", clusterName="p4d")["nodegroups"]:
        aws.call("eks", "DeleteNodegroup", clusterName="p4d", nodegroupName=group)
    assert aws.cloud.tasks.wait(120)
    aws.call("eks", "DeleteCluster", name="p4d")
    assert aws.cloud.tasks.wait(120)


def refused(aws, operation: str, **body: str) -> str:
    with pytest.raises(CloudError) as caught:
        aws.call("ec2", operation, **body)
    return caught.value.reason


def test_interfaces_of_nodes_hold_subnet_security_group_and_network(aws) -> None:
    aws.make_cluster()
    aws.make_group()
    write_account(aws.environment, **{**PROMPT, "leftovers_s": 3600.0})
    delete_all(aws)
    inventory = aws.cloud.inventory()
    assert len(inventory["ec2.networkInterface"]) == 1
    assert len(inventory["ec2.securityGroup"]) == 1
    (interface,) = aws.call(
        "ec2",
        "DescribeNetworkInterfaces",
        Filters=[{"Name": "subnet-id", "Values": [aws.subnets[0]]}],
    )["NetworkInterfaces"]
    assert interface["Status"] == "available"
    group = interface["Groups"][0]["GroupId"]
    assert refused(aws, "DeleteSubnet", SubnetId=aws.subnets[0]) == "DependencyViolation"
    assert refused(aws, "DeleteSecurityGroup", GroupId=group) == "DependencyViolation"
    # The remedy that AWS has: interfaces first.
    aws.call("ec2", "DeleteNetworkInterface", NetworkInterfaceId=interface["NetworkInterfaceId"])
    aws.call("ec2", "DeleteSecurityGroup", GroupId=group)
    aws.call("ec2", "DeleteSubnet", SubnetId=aws.subnets[0])


def test_leftovers_of_nodes_go_by_themselves(aws) -> None:
    aws.make_cluster()
    aws.make_group()
    write_account(aws.environment, **{**PROMPT, "leftovers_s": 0.05})
    delete_all(aws)
    deleted = False
    while not deleted:
        with suppress(CloudError):
            aws.call("ec2", "DeleteSubnet", SubnetId=aws.subnets[0])
            deleted = True
    inventory = aws.cloud.inventory()
    assert not {"ec2.networkInterface", "ec2.securityGroup"} & set(inventory)


def test_the_clusters_security_group_is_eks_own_while_it_lives(aws) -> None:
    cluster = aws.make_cluster()
    group = cluster["resourcesVpcConfig"]["clusterSecurityGroupId"]
    (found,) = aws.call("ec2", "DescribeSecurityGroups", GroupIds=[group])["SecurityGroups"]
    assert found["GroupName"].startswith("eks-cluster-sg-p4d-")
    assert not [name for name in found if name.startswith("_")]
    assert refused(aws, "DeleteSecurityGroup", GroupId=group) == "DependencyViolation"


def test_load_balancers_and_volumes_outlive_their_cluster(aws) -> None:
    aws.make_cluster()
    nodes = fake_nodes(aws.environment, "p4d")
    uid = "0a1b2c3d-0000-4000-8000-123456789abc"
    nodes.add_object(
        "/api/v1/services", {"metadata": {"uid": uid}, "spec": {"type": "LoadBalancer"}}
    )
    nodes.add_object("/api/v1/services", {"metadata": {"uid": "b"}, "spec": {"type": "ClusterIP"}})
    csi = {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-0123456789abcdef0"}
    nodes.add_object("/api/v1/persistentvolumes", {"spec": {"csi": csi}})
    delete_all(aws)
    inventory = aws.cloud.inventory()
    assert inventory["elb.loadBalancer"] == ["eu-west-1/a0a1b2c3d000040008000123456789ab"]
    assert inventory["ec2.volume"] == ["eu-west-1/vol-0123456789abcdef0"]
    assert len(inventory["ec2.networkInterface"]) == len(aws.subnets)
    gateway = aws.call("ec2", "DescribeInternetGateways")["InternetGateways"][0]
    identity = gateway["InternetGatewayId"]
    where = {"InternetGatewayId": identity, "VpcId": aws.vpc}
    assert refused(aws, "DetachInternetGateway", **where) == "DependencyViolation"
    assert refused(aws, "DeleteSubnet", SubnetId=aws.subnets[0]) == "DependencyViolation"
    # The remedies that AWS has.
    (left,) = aws.call("elb", "DescribeLoadBalancers")["LoadBalancerDescriptions"]
    assert sorted(left["Subnets"]) == sorted(aws.subnets)
    assert aws.call("elbv2", "DescribeLoadBalancers")["LoadBalancers"] == []
    aws.call("elb", "DeleteLoadBalancer", LoadBalancerName=left["LoadBalancerName"])
    (volume,) = aws.call("ec2", "DescribeVolumes")["Volumes"]
    aws.call("ec2", "DeleteVolume", VolumeId=volume["VolumeId"])
    aws.call("ec2", "DetachInternetGateway", **where)
    # The load balancer's own, which holds the network; the cluster's has gone with it.
    (group,) = aws.call("ec2", "DescribeSecurityGroups")["SecurityGroups"]
    assert group["GroupName"] == f"k8s-elb-{left['LoadBalancerName']}"
    assert refused(aws, "DeleteVpc", VpcId=aws.vpc) == "DependencyViolation"
    aws.call("ec2", "DeleteSecurityGroup", GroupId=group["GroupId"])
    aws.call("ec2", "DeleteSubnet", SubnetId=aws.subnets[0])
    assert not {"elb.loadBalancer", "ec2.volume"} & set(aws.cloud.inventory())


def test_a_network_load_balancer_is_deleted_by_its_arn(aws) -> None:
    aws.make_cluster()
    kind = {"service.beta.kubernetes.io/aws-load-balancer-type": "nlb"}
    meta = {"uid": "0a1b2c3d-0000-4000-8000-123456789abc", "annotations": kind}
    service = {"metadata": meta, "spec": {"type": "LoadBalancer"}}
    fake_nodes(aws.environment, "p4d").add_object("/api/v1/services", service)
    delete_all(aws)
    assert aws.call("elb", "DescribeLoadBalancers")["LoadBalancerDescriptions"] == []
    (left,) = aws.call("elbv2", "DescribeLoadBalancers")["LoadBalancers"]
    assert {z["SubnetId"] for z in left["AvailabilityZones"]} == set(aws.subnets)
    assert refused(aws, "DeleteSubnet", SubnetId=aws.subnets[0]) == "DependencyViolation"
    # Twice: the API reference says that the second call succeeds, too.
    for _ in range(2):
        aws.call("elbv2", "DeleteLoadBalancer", LoadBalancerArn=left["LoadBalancerArn"])
    aws.call("ec2", "DeleteSubnet", SubnetId=aws.subnets[0])


def test_target_groups_outlive_their_load_balancer(aws) -> None:
    aws.make_cluster()
    kind = {"service.beta.kubernetes.io/aws-load-balancer-type": "nlb"}
    meta = {"uid": "0a1b2c3d", "namespace": "ml", "name": "triton", "annotations": kind}
    spec = {"type": "LoadBalancer", "ports": [{"port": 8000}, {"port": 8001}]}
    nodes = fake_nodes(aws.environment, "p4d")
    nodes.add_object("/api/v1/services", {"metadata": meta, "spec": spec})
    delete_all(aws)

    def groups() -> list[dict[str, object]]:
        return list(aws.call("elbv2", "DescribeTargetGroups")["TargetGroups"])

    assert sorted(g["Port"] for g in groups()) == [8000, 8001]
    (left,) = aws.call("elbv2", "DescribeLoadBalancers")["LoadBalancers"]
    arn = groups()[0]["TargetGroupArn"]
    with pytest.raises(CloudError) as caught:
        aws.call("elbv2", "DeleteTargetGroup", TargetGroupArn=arn)
    assert caught.value.reason == "ResourceInUse"
    aws.call("elbv2", "DeleteLoadBalancer", LoadBalancerArn=left["LoadBalancerArn"])
    assert [g["LoadBalancerArns"] for g in groups()] == [[], []]
    (tags,) = aws.call("elbv2", "DescribeTags", ResourceArns=[arn])["TagDescriptions"]
    assert {"Key": "kubernetes.io/cluster/p4d", "Value": "owned"} in tags["Tags"]
    for group in groups():
        aws.call("elbv2", "DeleteTargetGroup", TargetGroupArn=group["TargetGroupArn"])
    assert "elbv2.targetGroup" not in aws.cloud.inventory()


def test_the_log_group_of_a_cluster_with_logs_stays(aws) -> None:
    aws.make_cluster()
    on = {"clusterLogging": [{"types": ["api"], "enabled": True}]}
    aws.call("eks", "UpdateClusterConfig", name="p4d", logging=on)
    aws.settle("cluster")
    delete_all(aws)
    assert aws.cloud.inventory()["logs.logGroup"] == ["eu-west-1/aws/eks/p4d/cluster"]
    aws.call("logs", "DeleteLogGroup", logGroupName="/aws/eks/p4d/cluster")
    assert "logs.logGroup" not in aws.cloud.inventory()


def test_leftovers_carry_the_name_of_their_cluster(aws) -> None:
    """By the tags that EKS's CNI and CSI driver and Kubernetes' service controller give."""
    aws.make_cluster()
    aws.make_group()
    write_account(aws.environment, **{**PROMPT, "leftovers_s": 3600.0})
    nodes = fake_nodes(aws.environment, "p4d")
    for uid, asked in (
        ("1", {}),
        ("2", {"service.beta.kubernetes.io/aws-load-balancer-type": "nlb"}),
    ):
        meta = {"uid": uid, "namespace": "ml", "name": f"s{uid}", "annotations": asked}
        service = {"metadata": meta, "spec": {"type": "LoadBalancer"}}
        nodes.add_object("/api/v1/services", service)
    csi = {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-0123456789abcdef0"}
    nodes.add_object("/api/v1/persistentvolumes", {"spec": {"csi": csi}})
    delete_all(aws)
    owned = {"Name": "tag:kubernetes.io/cluster/p4d", "Values": ["owned"]}

    def found(operation: str, of: str, **by: object) -> int:
        mine = aws.call("ec2", operation, Filters=[by or owned])[of]
        other = {"Name": "tag:kubernetes.io/cluster/p4", "Values": ["owned"]}
        assert aws.call("ec2", operation, Filters=[other])[of] == []
        return len(mine)

    assert found("DescribeVolumes", "Volumes") == 1
    assert found("DescribeSecurityGroups", "SecurityGroups") == 2
    cni = {"Name": "tag:cluster.k8s.amazonaws.com/name", "Values": ["p4d"]}
    assert found("DescribeNetworkInterfaces", "NetworkInterfaces", **cni) == 1
    (classic,) = aws.call("elb", "DescribeTags", LoadBalancerNames=["a1"])["TagDescriptions"]
    assert {"Key": "kubernetes.io/service-name", "Value": "ml/s1"} in classic["Tags"]
    (balancer,) = aws.call("elbv2", "DescribeLoadBalancers")["LoadBalancers"]
    arns = [balancer["LoadBalancerArn"]]
    (network,) = aws.call("elbv2", "DescribeTags", ResourceArns=arns)["TagDescriptions"]
    assert {"Key": "kubernetes.io/cluster/p4d", "Value": "owned"} in network["Tags"]


def test_a_volume_is_shown_while_its_cluster_lives_and_stays_as_old_as_it_is(aws) -> None:
    def volumes() -> list[JsonObject]:
        return list(aws.call("ec2", "DescribeVolumes")["Volumes"])

    csi = {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-0123456789abcdef0"}
    aws.make_cluster()
    begun = aws.call("eks", "DescribeCluster", name="p4d")["cluster"]["createdAt"]
    fake_nodes(aws.environment, "p4d").add_object(
        "/api/v1/persistentvolumes", {"metadata": {"name": "v"}, "spec": {"csi": csi}}
    )
    (shown,) = volumes()
    assert shown["CreateTime"] > begun
    assert aws.cloud.inventory().get("ec2.volume") is None
    delete_all(aws)
    assert volumes() == [shown]
    # The next cluster of that name has it, too.
    network = {"subnetIds": aws.subnets}
    role = "arn:aws:iam::123456789012:role/cluster"
    aws.call("eks", "CreateCluster", name="p4d", roleArn=role, resourcesVpcConfig=network)
    assert aws.cloud.tasks.wait(120)
    fake_nodes(aws.environment, "p4d").add_object(
        "/api/v1/persistentvolumes", {"metadata": {"name": "v"}, "spec": {"csi": csi}}
    )
    assert volumes() == [shown]
    delete_all(aws)
    assert volumes() == [shown]
