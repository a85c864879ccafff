"""An EKS cluster, made or looked up, and the node groups of a plan."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence

import pulumi
import pulumi_aws as aws

from infra import catalog, values
from infra.components import existing_eks_cluster
from infra.components.eks_access import access_entries
from infra.components.eks_addons import addons_before_nodes, other_addons
from infra.components.eks_autoscaler import autoscaler_identity
from infra.components.eks_identities import pod_identities
from infra.components.eks_network import Network, network_of
from infra.components.eks_node_groups import NodeGroups
from infra.components.eks_roles import Roles
from infra.components.karpenter import NodeMakings
from infra.plan import EVERYWHERE, EksClusterPlan, EksFleetPlan

_CLUSTER_POLICIES = ("AmazonEKSClusterPolicy",)
_NODE_POLICIES = (
    "AmazonEKSWorkerNodePolicy",
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonEKS_CNI_Policy",
)


class EksCluster(pulumi.ComponentResource):
    """Outputs: `cluster`, `kubeconfig` (JSON text, no secret in it), `endpoint`, `system_pool`,
    `pools` by name (node groups only), `access`, `before_autoscaler`: resources that give an
    autoscaler its role, `makings`: inputs for Karpenter's nodes, and `before_nodes`: resources that
    must outlive the nodes.
    """

    cluster: aws.eks.Cluster
    kubeconfig: pulumi.Output[str]
    endpoint: pulumi.Output[str]
    system_pool: pulumi.Resource
    pools: Mapping[str, pulumi.Resource]
    makings: NodeMakings
    before_nodes: Sequence[pulumi.Resource]
    access: Sequence[pulumi.Resource]
    """Access entries and their policies, without which `pulumi up` itself may have no access."""

    def __init__(
        self,
        name: str,
        plan: EksFleetPlan,
        *,
        provider: aws.Provider,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        options = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(providers=[provider]))
        super().__init__("slicewright:index:EksCluster", name, {}, options)
        self._region = catalog.aws_region(plan.cluster.region)
        self._roles = Roles(name, plan.cluster, self._region.partition, parent=self)
        if plan.cluster.existing:
            there = existing_eks_cluster.find(plan.cluster, provider)
            network, plan = there.network, _of_version(plan, there.version)
            self.cluster = aws.eks.Cluster.get(
                name, plan.cluster.name, opts=pulumi.ResourceOptions(parent=self)
            )
            addons = []
        else:
            network = network_of(name, plan.cluster, parent=self, provider=provider)
            self.cluster = self._made(name, plan.cluster, network)
            addons = addons_before_nodes(name, plan.cluster, cluster=self.cluster, parent=self)
        self.access = access_entries(name, plan.cluster, cluster=self.cluster, parent=self)
        pod_identities(name, plan.cluster, cluster=self.cluster, parent=self)
        node_role, node_rights = self._roles.of_service(
            "nodes", f"ec2.{self._region.suffix}", _NODE_POLICIES
        )
        self.before_nodes = [*node_rights, *addons, *network.before_nodes]
        self.makings = NodeMakings(
            role=node_role.name,
            subnet_ids=network.nodes,
            security_group=self.cluster.vpc_config.cluster_security_group_id,
        )
        groups = NodeGroups(
            name,
            plan,
            cluster=self.cluster,
            role=node_role,
            subnet_ids=network.nodes,
            before=self.before_nodes,
            provider=provider,
            parent=self,
        )
        self.system_pool = groups.system
        self.pools = groups.pools
        self.before_autoscaler: Sequence[pulumi.Resource] = []
        if not plan.cluster.existing:
            others = other_addons(
                name,
                plan.cluster,
                cluster=self.cluster,
                system=self.system_pool,
                roles=self._roles,
                parent=self,
            )
            if plan.cluster.autoscaler is not None:
                self.before_autoscaler = [
                    *others,
                    *autoscaler_identity(
                        name,
                        plan,
                        cluster=self.cluster,
                        node_role=node_role,
                        roles=self._roles,
                        parent=self,
                    ),
                ]
        self.endpoint = self.cluster.endpoint
        self.kubeconfig = pulumi.Output.all(
            self.cluster.name, self.cluster.endpoint, self.cluster.certificate_authority.data
        ).apply(
            lambda known: json.dumps(
                values.kubeconfig(
                    cluster=known[0],
                    server=known[1],
                    ca_data=known[2],
                    command="aws",
                    arguments=_token_arguments(known[0], plan.cluster.region),
                )
            )
        )
        self.register_outputs({"endpoint": self.endpoint, "kubeconfig": self.kubeconfig})

    def _made(self, name: str, cluster: EksClusterPlan, network: Network) -> aws.eks.Cluster:
        endpoint = cluster.endpoint
        cluster_role, cluster_rights = self._roles.of_service(
            "control-plane", "eks.amazonaws.com", _CLUSTER_POLICIES
        )
        return aws.eks.Cluster(
            name,
            name=cluster.name,
            role_arn=cluster_role.arn,
            version=cluster.version,
            vpc_config=aws.eks.ClusterVpcConfigArgs(
                subnet_ids=list(network.cluster),
                endpoint_public_access=endpoint.public,
                endpoint_private_access=endpoint.private,
                # Stated even for any address: the provider keeps the old value of a missing field.
                public_access_cidrs=list(endpoint.public_cidrs or [EVERYWHERE])
                if endpoint.public
                else None,
            ),
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
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=cluster_rights,
                # After a cluster's creation EKS refuses subnets of other zones
                # (aws/containers-roadmap #2258), and of another VPC. The provider would try. So
                # both changes replace the cluster. A cluster of an earlier version, which has the
                # subnets of the pools' zones too, keeps them: without a trigger in the state, none
                # is pulled.
                ignore_changes=[
                    *(["vpcConfig.subnetIds"] if network.vpc is None else []),
                    # Read at creation only. The provider would replace the cluster for it.
                    "accessConfig.bootstrapClusterCreatorAdminPermissions",
                ],
                replacement_trigger=[
                    *sorted(cluster.zones),
                    *([network.vpc] if network.vpc is not None else []),
                ],
                # The provider would keep the old key and say nothing.
                replace_on_changes=["encryptionConfig.provider.keyArn"]
                if cluster.secrets_key is not None
                else None,
                # Its name is fixed.
                delete_before_replace=True,
            ),
        )


def _of_version(plan: EksFleetPlan, version: str) -> EksFleetPlan:
    """The plan with nodes of the Kubernetes version of a cluster that exists."""
    return dataclasses.replace(
        plan,
        cluster=dataclasses.replace(plan.cluster, version=version),
        pools=tuple(
            pool.with_settings(dataclasses.replace(pool.settings, version=version))
            for pool in plan.pools
        ),
    )


def _token_arguments(cluster: str, region: str) -> list[str]:
    return ["eks", "get-token", "--cluster-name", cluster, "--region", region, "--output", "json"]
