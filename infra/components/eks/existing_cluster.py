"""An existing EKS cluster. Each run looks it up, and no run changes or deletes it."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from slicewright.infra.components.eks.network import Network, existing_network, look_up
from slicewright.infra.plan import EksClusterPlan
from slicewright.infra.stack_file import ExistingNetwork


@dataclass(frozen=True, kw_only=True)
class ExistingCluster:
    version: str
    """The Kubernetes version. New nodes get the same one."""
    network: Network


def find(cluster: EksClusterPlan, provider: aws.Provider) -> ExistingCluster:
    """The live cluster with the plan's name. Raises RunError if nodes cannot join it."""
    live = aws.eks.get_cluster(name=cluster.name, opts=pulumi.InvokeOptions(provider=provider))
    _check_joinable(cluster, live)
    _tell_of_auto_mode(cluster, live)
    match cluster.network:
        case ExistingNetwork(subnets=subnets):
            where, subnet_ids = "cluster.network.subnets", list(subnets)
        case _:
            where, subnet_ids = f"subnets of cluster {cluster.name}", live.vpc_config.subnet_ids
    existing = [look_up(subnet_id, provider) for subnet_id in subnet_ids]
    vpc = live.vpc_config.vpc_id
    elsewhere = [f"{subnet.id} is in {subnet.vpc}" for subnet in existing if subnet.vpc != vpc]
    if elsewhere:
        raise pulumi.RunError(
            f"{where}: nodes must be in the cluster's VPC, which is {vpc}, but "
            f"{', '.join(elsewhere)}"
        )
    return ExistingCluster(version=live.version, network=existing_network(cluster, existing, where))


def _check_joinable(cluster: EksClusterPlan, live: aws.eks.GetClusterResult) -> None:
    if live.status != "ACTIVE":
        # Source: eksctl-io/eksctl #2244: EKS adds no node groups to it.
        raise pulumi.RunError(
            f"cluster.existing: cluster {cluster.name} is {live.status}, but EKS adds nodes to an "
            "ACTIVE cluster only; wait until it is ACTIVE"
        )
    mode = live.access_configs[0].authentication_mode
    if cluster.access and mode == "CONFIG_MAP":
        raise pulumi.RunError(
            f"cluster.access: cluster {cluster.name} has the authentication mode {mode}, in which "
            "EKS refuses access entries; remove them, or allow both with `aws eks "
            f"update-cluster-config --name {cluster.name} --access-config "
            "authenticationMode=API_AND_CONFIG_MAP`, which cannot be reverted"
        )


def _tell_of_auto_mode(cluster: EksClusterPlan, live: aws.eks.GetClusterResult) -> None:
    """Source: terraform-aws-modules/terraform-aws-eks #3256: without the add-ons no node joins."""
    if any(config.enabled for config in live.compute_configs or ()):
        pulumi.log.info(
            f"cluster.existing: cluster {cluster.name} has EKS Auto Mode. Its own nodes cannot be "
            "partitioned: the pools are node groups beside them, and need the add-ons vpc-cni and "
            "kube-proxy (`slicewright doctor` looks for a CNI plugin)"
        )
