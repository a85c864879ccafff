"""Network interfaces and security groups that others make: nodes, load balancers, EKS.

Only what is left of them is simulated: an interface appears when its instance has gone.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.ec2.resources import (
    dependency_violation,
    filtered,
    key_of,
    new_id,
    public_fields,
)
from slicewright.rehearsal.clouds.aws.errors import aws_error
from slicewright.rehearsal.clouds.aws.iam import ACCOUNT
from slicewright.rehearsal.clouds.aws.state import NETWORK_INTERFACES, SECURITY_GROUPS, SUBNETS
from slicewright.rehearsal.clouds.core.context import Context, Methods, now


class NetworkInterfaces:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._store = context.store

    def methods(self) -> Methods:
        return {
            "DescribeNetworkInterfaces": self._describe,
            "DeleteNetworkInterface": self._delete,
            "DescribeSecurityGroups": self._describe_groups,
            "DeleteSecurityGroup": self._delete_group,
        }

    def _describe(self, params: JsonObject, body: JsonObject) -> JsonObject:
        ids = body.get("NetworkInterfaceIds")
        listed = interfaces(self._context, params["region"])
        if ids:
            listed = [self._find(params, i) for i in ids]
        listed = filtered(listed, body.get("Filters", ()), _INTERFACE_FILTERS, tags="TagSet")
        return {"NetworkInterfaces": [public_fields(i) for i in listed]}

    def _find(self, params: JsonObject, identity: str) -> JsonObject:
        for interface in interfaces(self._context, params["region"]):
            if interface["NetworkInterfaceId"] == identity:
                return interface
        raise aws_error(
            "InvalidNetworkInterfaceID.NotFound",
            f"The networkInterface ID '{identity}' does not exist",
        )

    def _delete(self, params: JsonObject, body: JsonObject) -> JsonObject:
        identity = body["NetworkInterfaceId"]
        with self._store.lock:
            if self._find(params, identity)["Status"] != "available":
                raise aws_error(
                    "InvalidParameterValue", f"Network interface '{identity}' is currently in use."
                )
            self._store.delete(NETWORK_INTERFACES, key_of(params, identity))
        return {}

    def _describe_groups(self, params: JsonObject, body: JsonObject) -> JsonObject:
        groups = security_groups(self._context, params["region"])
        ids = body.get("GroupIds")
        if ids:
            groups = [self._find_group(params, i) for i in ids]
        groups = filtered(groups, body.get("Filters", ()), _GROUP_FILTERS)
        return {"SecurityGroups": [public_fields(g) for g in groups]}

    def _find_group(self, params: JsonObject, identity: str | None) -> JsonObject:
        for group in security_groups(self._context, params["region"]):
            if group["GroupId"] == identity:
                return group
        raise aws_error("InvalidGroup.NotFound", f"The security group '{identity}' does not exist")

    def _delete_group(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._store.lock:
            group = self._find_group(params, body.get("GroupId"))
            if group["_cluster"] or interfaces(
                self._context, params["region"], group=group["GroupId"]
            ):
                raise dependency_violation(f"resource {group['GroupId']} has a dependent object")
            self._store.delete(SECURITY_GROUPS, key_of(params, group["GroupId"]))
        return {}


_INTERFACE_FILTERS: Mapping[str, Callable[[JsonObject], Sequence[str]]] = {
    "subnet-id": lambda i: [i["SubnetId"]],
    "vpc-id": lambda i: [i["VpcId"]],
    "group-id": lambda i: [g["GroupId"] for g in i["Groups"]],
    "status": lambda i: [i["Status"]],
}
_GROUP_FILTERS: Mapping[str, Callable[[JsonObject], Sequence[str]]] = {
    "vpc-id": lambda g: [g["VpcId"]],
    "group-name": lambda g: [g["GroupName"]],
}


def interfaces(
    context: Context,
    region: str,
    *,
    subnet: str | None = None,
    vpc: str | None = None,
    group: str | None = None,
) -> list[JsonObject]:
    """Those that are there, in one of these if given."""
    return [
        i
        for i in context.store.values(NETWORK_INTERFACES, prefix=f"{region}/")
        if not is_gone(i)
        and subnet in (None, i["SubnetId"])
        and vpc in (None, i["VpcId"])
        and (group is None or group in [g["GroupId"] for g in i["Groups"]])
    ]


def security_groups(context: Context, region: str, *, vpc: str | None = None) -> list[JsonObject]:
    return [
        g
        for g in context.store.values(SECURITY_GROUPS, prefix=f"{region}/")
        if not is_gone(g) and vpc in (None, g["VpcId"])
    ]


def is_gone(resource: JsonObject) -> bool:
    until = resource.get("_until")
    return until is not None and until <= time.time()


def add_interface(
    context: Context,
    region: str,
    subnet_id: str,
    *,
    group: str | None,
    description: str,
    status: str,
    lasts_s: float | None,
    tags: Mapping[str, str] | None = None,
) -> str | None:
    """Its id; None without such a subnet. group: None for the VPC's default one, which is not
    simulated. lasts_s: after these seconds AWS itself removes it;
    None = never.
    """
    subnet = context.store.get(SUBNETS, f"{region}/{subnet_id}")
    if subnet is None:
        return None
    identity = new_id("eni")
    interface = {
        "NetworkInterfaceId": identity,
        "SubnetId": subnet_id,
        "VpcId": subnet["VpcId"],
        "AvailabilityZone": subnet["AvailabilityZone"],
        "Description": description,
        "Status": status,
        "Groups": [] if group is None else [{"GroupId": group, "GroupName": group}],
        "OwnerId": ACCOUNT,
        "TagSet": tag_list(tags or {}),
        "_until": None if lasts_s is None else time.time() + lasts_s,
    }
    context.store.put(NETWORK_INTERFACES, f"{region}/{identity}", interface)
    return identity


def remove_interface(context: Context, region: str, identity: str) -> None:
    """With the instance that it is of."""
    context.store.delete(NETWORK_INTERFACES, f"{region}/{identity}")


def detach_interfaces(context: Context, region: str, description: str, *, lasts_s: float) -> None:
    """Of a load balancer that is deleted: AWS removes them after these seconds."""
    for interface in interfaces(context, region):
        if interface["Description"] == description:
            until = {"_until": time.time() + lasts_s}
            key = f"{region}/{interface['NetworkInterfaceId']}"
            context.store.put(NETWORK_INTERFACES, key, interface | until)


def add_security_group(context: Context, region: str, vpc: str, cluster: str) -> str:
    """The group that EKS makes of a new cluster; returns its id."""
    identity = new_id("sg")
    group = {
        "GroupId": identity,
        "GroupName": f"eks-cluster-sg-{cluster}-{secrets.randbelow(10**9)}",
        "Description": "EKS created security group applied to ENI that is attached to EKS Control "
        "Plane master nodes, as well as any managed workloads.",
        "VpcId": vpc,
        "OwnerId": ACCOUNT,
        "IpPermissions": [],
        "IpPermissionsEgress": [],
        "Tags": [
            {"Key": "aws:eks:cluster-name", "Value": cluster},
            {"Key": f"kubernetes.io/cluster/{cluster}", "Value": "owned"},
        ],
        "_cluster": cluster,
        "_since": now(),
    }
    context.store.put(SECURITY_GROUPS, f"{region}/{identity}", group)
    return identity


def add_balancer_group(
    context: Context, region: str, vpc: str, balancer: str, *, cluster: str
) -> str:
    """The group that the service controller makes for a classic load balancer; returns its id.

    Source: kubernetes/cloud-provider-aws, pkg/providers/v1/aws.go, EnsureLoadBalancer.
    """
    identity = new_id("sg")
    group = {
        "GroupId": identity,
        "GroupName": f"k8s-elb-{balancer}",
        "Description": f"Security group for Kubernetes ELB {balancer}",
        "VpcId": vpc,
        "OwnerId": ACCOUNT,
        "IpPermissions": [],
        "IpPermissionsEgress": [],
        "Tags": tag_list(owned_by(cluster)),
        "_cluster": "",
        "_since": now(),
    }
    context.store.put(SECURITY_GROUPS, f"{region}/{identity}", group)
    return identity


def owned_by(cluster: str) -> Mapping[str, str]:
    """The tags of what Kubernetes' cloud provider makes for a cluster.

    Source: kubernetes/cloud-provider-aws, pkg/providers/v1/tags.go.
    """
    return {"KubernetesCluster": cluster, f"kubernetes.io/cluster/{cluster}": "owned"}


def tag_list(tags: Mapping[str, str]) -> list[JsonObject]:
    return [{"Key": key, "Value": value} for key, value in sorted(tags.items())]


def release_security_group(context: Context, region: str, identity: str) -> None:
    """Its cluster is gone. Interfaces that still use the group keep it."""
    key = f"{region}/{identity}"
    group = context.store.get(SECURITY_GROUPS, key)
    users = interfaces(context, region, group=identity)
    if group is None:
        return
    if not users:
        context.store.delete(SECURITY_GROUPS, key)
        return
    ends = [i["_until"] for i in users]
    until = None if None in ends else max(ends)
    context.store.put(SECURITY_GROUPS, key, group | {"_cluster": "", "_until": until})
