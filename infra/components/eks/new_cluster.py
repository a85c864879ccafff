"""A new EKS cluster, with the role of its control plane."""

from __future__ import annotations

import pulumi
import pulumi_aws as aws

from slicewright.infra.components.eks.network import Network
from slicewright.infra.components.eks.roles import Roles
from slicewright.infra.plan import EVERYWHERE, EksClusterPlan

_CLUSTER_POLICIES = ("AmazonEKSClusterPolicy",)


def new_eks_cluster(
    name: str, cluster: EksClusterPlan, network: Network, *, roles: Roles, parent: pulumi.Resource
) -> aws.eks.Cluster:
    cluster_role, cluster_rights = roles.service_role(
        "control-plane", "eks.amazonaws.com", _CLUSTER_POLICIES
    )
    return aws.eks.Cluster(
        name,
        name=cluster.name,
        role_arn=cluster_role.arn,
        version=cluster.version,
        vpc_config=_vpc_config(cluster, network),
        encryption_config=aws.eks.ClusterEncryptionConfigArgs(
            provider=aws.eks.ClusterEncryptionConfigProviderArgs(key_arn=cluster.secrets_key),
            resources=["secrets"],
        )
        if cluster.secrets_key is not None
        else None,
        enabled_cluster_log_types=list(cluster.logs) or None,
        access_config=aws.eks.ClusterAccessConfigArgs(
            authentication_mode="API_AND_CONFIG_MAP",
            bootstrap_cluster_creator_admin_permissions=cluster.creator_admin,
        ),
        tags=dict(cluster.tags) or None,
        opts=pulumi.ResourceOptions.merge(
            pulumi.ResourceOptions(parent=parent, depends_on=cluster_rights),
            _replacement(cluster, network),
        ),
    )


def _vpc_config(cluster: EksClusterPlan, network: Network) -> aws.eks.ClusterVpcConfigArgs:
    endpoint = cluster.endpoint
    # Stated even for any address: the provider keeps the old value of a missing field.
    public_cidrs = list(endpoint.public_cidrs or [EVERYWHERE]) if endpoint.public else None
    return aws.eks.ClusterVpcConfigArgs(
        subnet_ids=list(network.cluster),
        endpoint_public_access=endpoint.public,
        endpoint_private_access=endpoint.private,
        public_access_cidrs=public_cidrs,
    )


def _replacement(cluster: EksClusterPlan, network: Network) -> pulumi.ResourceOptions:
    """Options that say which changes replace the cluster.

    After a cluster's creation EKS refuses subnets of other zones (aws/containers-roadmap #2258) and
    subnets of another VPC. The provider would try. So both changes replace the cluster. A cluster
    of an earlier version, which has the subnets of the pools' zones too, keeps them: a trigger that
    is not in the state yet replaces nothing.
    """
    own_vpc = network.vpc is None
    return pulumi.ResourceOptions(
        ignore_changes=[
            *(["vpcConfig.subnetIds"] if own_vpc else []),
            # Read at creation only. The provider would replace the cluster for it.
            "accessConfig.bootstrapClusterCreatorAdminPermissions",
        ],
        replacement_trigger=[*sorted(cluster.zones), *([] if own_vpc else [network.vpc])],
        # The provider would keep the old key and say nothing.
        replace_on_changes=["encryptionConfig.provider.keyArn"]
        if cluster.secrets_key is not None
        else None,
        # Its name is fixed.
        delete_before_replace=True,
    )
