"""An EKS cluster that exists: looked up, and never changed or deleted."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from infra.components.eks_network import Network, look_up, used
from infra.plan import EksClusterPlan
from infra.spec import ExistingNetwork


@dataclass(frozen=True, kw_only=True)
class ExistingCluster:
    version: str
    """Version of Kubernetes. Its nodes get the same."""
    network: Network


def find(cluster: EksClusterPlan, provider: aws.Provider) -> ExistingCluster:
    """The cluster of the plan's name, as it is. Raises RunError where nodes cannot join it."""
    found = aws.eks.get_cluster(name=cluster.name, opts=pulumi.InvokeOptions(provider=provider))
    if found.status != "ACTIVE":
        # Source: eksctl-io/eksctl #2244: EKS adds no node groups to it.
        raise pulumi.RunError(
            f"cluster.existing: cluster {cluster.name} is {found.status}, and EKS adds nodes to an "
            "ACTIVE one only; wait until it is"
        )
    mode = found.access_configs[0].authentication_mode
    if cluster.access and mode == "CONFIG_MAP":
        raise pulumi.RunError(
            f"cluster.access: cluster {cluster.name} has the authentication mode {mode}, in which "
            "EKS refuses access entries; leave them out, or let `aws eks update-cluster-config "
            f"--name {cluster.name} --access-config authenticationMode=API_AND_CONFIG_MAP` allow "
            "both, which cannot be taken back"
        )
    match cluster.network:
        case ExistingNetwork(subnets=subnets):
            where, identities = "cluster.network.subnets", list(subnets)
        case _:
            where = f"subnets of cluster {cluster.name}"
            identities = found.vpc_config.subnet_ids
    there = [look_up(identity, provider) for identity in identities]
    vpc = found.vpc_config.vpc_id
    elsewhere = [f"{subnet.id} is in {subnet.vpc}" for subnet in there if subnet.vpc != vpc]
    if elsewhere:
        raise pulumi.RunError(
            f"{where}: nodes are in the cluster's VPC, which is {vpc}: {', '.join(elsewhere)}"
        )
    return ExistingCluster(version=found.version, network=used(cluster, there, where))
