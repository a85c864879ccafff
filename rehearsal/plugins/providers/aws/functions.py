"""The functions of the aws provider that a program calls: what is there, by name.

Source: hashicorp/terraform-provider-aws, internal/service/eks/clusters_data_source.go,
cluster_data_source.go, node_groups_data_source.go, node_group_data_source.go, internal/service/ec2/
vpc_subnet_data_source.go.
"""

from __future__ import annotations

from slicewright.rehearsal.plugins.bridge.resources import Function, Session
from slicewright.rehearsal.plugins.engine.plugin import ProviderError
from slicewright.rehearsal.plugins.engine.properties import Properties
from slicewright.rehearsal.plugins.providers.aws.calls import call, region_of, tag_map


def _clusters(session: Session, args: Properties) -> Properties:
    region = region_of(session, args)
    return {
        "id": region,
        "names": call(session, args, "eks", "ListClusters")["clusters"],
        "region": region,
    }


def _cluster(session: Session, args: Properties) -> Properties:
    """An error where it does not exist, as of the official one."""
    cluster = call(session, args, "eks", "DescribeCluster", name=args["name"])["cluster"]
    network = cluster["resourcesVpcConfig"]
    return {
        "id": cluster["name"],
        "name": cluster["name"],
        "arn": cluster["arn"],
        "accessConfigs": [
            {
                "authenticationMode": cluster["accessConfig"]["authenticationMode"],
                "bootstrapClusterCreatorAdminPermissions": False,
            }
        ],
        "certificateAuthorities": [{"data": cluster.get("certificateAuthority", {}).get("data")}],
        "endpoint": cluster.get("endpoint", ""),
        "platformVersion": cluster["platformVersion"],
        "roleArn": cluster["roleArn"],
        "status": cluster["status"],
        "tags": cluster.get("tags", {}),
        "version": cluster["version"],
        "vpcConfig": {
            "clusterSecurityGroupId": network["clusterSecurityGroupId"],
            "controlPlaneEgressMode": "",
            "endpointPrivateAccess": network["endpointPrivateAccess"],
            "endpointPublicAccess": network["endpointPublicAccess"],
            "publicAccessCidrs": network["publicAccessCidrs"],
            "securityGroupIds": network["securityGroupIds"],
            "subnetIds": network["subnetIds"],
            "vpcId": network["vpcId"],
        },
        "region": region_of(session, args),
    }


def _node_groups(session: Session, args: Properties) -> Properties:
    """An error where the cluster does not exist, as of the official one."""
    cluster = args["clusterName"]
    return {
        "id": cluster,
        "clusterName": cluster,
        "names": call(session, args, "eks", "ListNodegroups", clusterName=cluster)["nodegroups"],
        "region": region_of(session, args),
    }


def _node_group(session: Session, args: Properties) -> Properties:
    """An error where it does not exist, as of the official one."""
    cluster, name = args["clusterName"], args["nodeGroupName"]
    group = call(
        session, args, "eks", "DescribeNodegroup", clusterName=cluster, nodegroupName=name
    )["nodegroup"]
    return {
        "id": f"{cluster}:{name}",
        "arn": group["nodegroupArn"],
        "clusterName": cluster,
        "nodeGroupName": name,
        "amiType": group["amiType"],
        "capacityType": group["capacityType"],
        "instanceTypes": group["instanceTypes"],
        "labels": group.get("labels", {}),
        "nodeRoleArn": group["nodeRole"],
        "releaseVersion": group["releaseVersion"],
        "scalingConfigs": [group["scalingConfig"]],
        "status": group["status"],
        "subnetIds": group["subnets"],
        "tags": group.get("tags", {}),
        "version": group["version"],
        "region": region_of(session, args),
    }


def _subnet(session: Session, args: Properties) -> Properties:
    """By its id. An error where it does not exist, as of the official one."""
    ids = {"SubnetIds": [args["id"]]} if args.get("id") else {}
    if not ids or set(args) - {"id", "region"}:
        raise ProviderError("getSubnet: the rehearsal simulates looking a subnet up by id only")
    subnet = call(session, args, "ec2", "DescribeSubnets", **ids)["Subnets"][0]
    return {
        "id": subnet["SubnetId"],
        "arn": subnet["SubnetArn"],
        "availabilityZone": subnet["AvailabilityZone"],
        "availabilityZoneId": subnet["AvailabilityZoneId"],
        "availableIpAddressCount": subnet["AvailableIpAddressCount"],
        "cidrBlock": subnet["CidrBlock"],
        "defaultForAz": False,
        "mapPublicIpOnLaunch": subnet["MapPublicIpOnLaunch"],
        "ownerId": subnet["OwnerId"],
        "state": subnet["State"],
        "tags": tag_map(subnet["Tags"]),
        "vpcId": subnet["VpcId"],
        "region": region_of(session, args),
    }


FUNCTIONS: dict[str, Function] = {
    "aws:eks/getClusters:getClusters": _clusters,
    "aws:eks/getCluster:getCluster": _cluster,
    "aws:eks/getNodeGroups:getNodeGroups": _node_groups,
    "aws:eks/getNodeGroup:getNodeGroup": _node_group,
    "aws:ec2/getSubnet:getSubnet": _subnet,
}
