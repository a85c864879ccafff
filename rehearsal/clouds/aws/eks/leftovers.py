"""What EKS leaves in the account when a node group or a cluster is deleted.

Sources: terraform-aws-modules/terraform-aws-eks #2048, #2643, pulumi/pulumi-eks #194 (interfaces,
security group); terraform-aws-eks #2808 (load balancers); eksctl-io/eksctl #274 (volumes); EKS user
guide, "Send control plane logs to CloudWatch Logs" (the log group is never deleted). Tags
of interfaces: aws/amazon-vpc-cni-k8s, README, "ENI tags related to Allocation".
"""

from __future__ import annotations

from datetime import datetime

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.account import account_of
from slicewright.rehearsal.clouds.aws.ec2.network_interfaces import (
    add_interface,
    release_security_group,
)
from slicewright.rehearsal.clouds.aws.ec2.volumes import leave_snapshot, leave_volume
from slicewright.rehearsal.clouds.aws.eks.cluster_checks import enabled_logs
from slicewright.rehearsal.clouds.aws.load_balancers import leave_load_balancer
from slicewright.rehearsal.clouds.aws.state import LOG_GROUPS, NodeGroupRecord
from slicewright.rehearsal.clouds.core.context import Context, a_moment_after, now_precisely
from slicewright.rehearsal.clouds.core.node_api import VOLUME_SNAPSHOTS, NodeApi


def leave_of_nodes(context: Context, item: NodeGroupRecord, cluster: JsonObject) -> None:
    """The CNI's interfaces, which nothing removes when node and CNI end together."""
    lasts_s = account_of(context).leftovers_s
    if lasts_s <= 0:
        return
    for node in item["nodes"]:
        add_interface(
            context,
            item["region"],
            node["location"],
            group=cluster["resourcesVpcConfig"]["clusterSecurityGroupId"],
            description=f"aws-K8S-{node['name']}",
            status="available",
            lasts_s=lasts_s,
            tags={
                "cluster.k8s.amazonaws.com/name": cluster["name"],
                "eks:eni:owner": "amazon-vpc-cni",
                "node.k8s.amazonaws.com/instance_id": f"i-{node['name']}",
            },
        )


def leave_of_cluster(context: Context, region: str, cluster: JsonObject, api: NodeApi) -> None:
    """What its Services and claims had made, and its security group while something uses it."""
    network = cluster["resourcesVpcConfig"]
    group = network["clusterSecurityGroupId"]
    for service in api.listed("/api/v1/services"):
        if service["spec"].get("type") == "LoadBalancer":
            subnets = network["subnetIds"]
            leave_load_balancer(
                context, region, service, subnets=subnets, group=group, cluster=cluster["name"]
            )
    for volume in api.listed("/api/v1/persistentvolumes"):
        leave_volume(context, region, volume, cluster)
    for content in api.listed(VOLUME_SNAPSHOTS):
        leave_snapshot(context, region, content, cluster)
    release_security_group(context, region, group)


def keep_logs(context: Context, region: str, cluster: JsonObject) -> None:
    """EKS makes the log group once a log is enabled; it outlives the cluster, and one of an earlier
    cluster of that name is written on.
    """
    name = f"/aws/eks/{cluster['name']}/cluster"
    key = f"{region}{name}"
    if enabled_logs(cluster["logging"]) and context.store.get(LOG_GROUPS, key) is None:
        created = datetime.fromisoformat(a_moment_after(max(cluster["createdAt"], now_precisely())))
        made_ms = round(created.timestamp() * 1000)
        context.store.put(LOG_GROUPS, key, {"logGroupName": name, "creationTime": made_ms})
