"""An EKS cluster, new or existing, and the node groups of a plan."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from slicewright.infra import catalog, manifests
from slicewright.infra.components.eks import existing_cluster as existing_eks_cluster
from slicewright.infra.components.eks.access import access_entries
from slicewright.infra.components.eks.addons import addons_before_nodes, other_addons
from slicewright.infra.components.eks.autoscaler import autoscaler_identity
from slicewright.infra.components.eks.identities import pod_identities
from slicewright.infra.components.eks.karpenter import NodeClassInputs
from slicewright.infra.components.eks.network import Network, network_of
from slicewright.infra.components.eks.new_cluster import new_eks_cluster
from slicewright.infra.components.eks.node_groups import NodeGroups
from slicewright.infra.components.eks.roles import Roles
from slicewright.infra.plan import EksFleetPlan

_NODE_POLICIES = (
    "AmazonEKSWorkerNodePolicy",
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonEKS_CNI_Policy",
)


@dataclass(frozen=True, kw_only=True)
class _ControlPlane:
    cluster: aws.eks.Cluster
    network: Network
    addons: Sequence[pulumi.Resource] = ()
    """The add-ons that nodes need. Empty for an existing cluster, which brings its own."""


class EksCluster(pulumi.ComponentResource):
    """Outputs: `cluster`, `kubeconfig` (JSON text, no secret in it), `endpoint`, `system_pool`,
    `pools` by name (node groups only), `access`, `autoscaler_dependencies`: resources that give an
    autoscaler its role, `node_class_inputs`: inputs for Karpenter's nodes, and
    `node_dependencies`: resources that must outlive the nodes.
    """

    cluster: aws.eks.Cluster
    kubeconfig: pulumi.Output[str]
    endpoint: pulumi.Output[str]
    system_pool: pulumi.Resource
    pools: Mapping[str, pulumi.Resource]
    node_class_inputs: NodeClassInputs
    node_dependencies: Sequence[pulumi.Resource]
    autoscaler_dependencies: Sequence[pulumi.Resource]
    access: Sequence[pulumi.Resource]
    """Access entries and their policies, without which `pulumi up` itself may have no access."""

    def __init__(
        self,
        name: str,
        plan: EksFleetPlan,
        *,
        provider: aws.Provider,
        profile: str | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """profile: the provider's profile of the AWS configuration, for the kubeconfig too."""
        options = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(providers=[provider]))
        super().__init__("slicewright:index:EksCluster", name, {}, options)
        region = catalog.aws_region(plan.cluster.region)
        roles = Roles(name, plan.cluster, region.partition, parent=self)
        if plan.cluster.existing:
            existing = existing_eks_cluster.find(plan.cluster, provider)
            plan = _with_version(plan, existing.version)
            control_plane = self._existing_control_plane(name, plan, existing.network)
        else:
            control_plane = self._new_control_plane(name, plan, roles, provider)
        self.cluster, network = control_plane.cluster, control_plane.network
        self.access = access_entries(name, plan.cluster, cluster=self.cluster, parent=self)
        pod_identities(name, plan.cluster, cluster=self.cluster, parent=self)
        node_role, node_rights = roles.service_role("nodes", f"ec2.{region.suffix}", _NODE_POLICIES)
        self.node_dependencies = [
            *node_rights,
            *control_plane.addons,
            *network.node_dependencies,
        ]
        self.node_class_inputs = NodeClassInputs(
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
            depends_on=self.node_dependencies,
            provider=provider,
            parent=self,
        )
        self.system_pool, self.pools = groups.system, groups.pools
        self.autoscaler_dependencies = (
            [] if plan.cluster.existing else self._add_addons(name, plan, roles, node_role)
        )
        self.endpoint = self.cluster.endpoint
        self.kubeconfig = _kubeconfig(self.cluster, plan.cluster.region, profile)
        self.register_outputs({"endpoint": self.endpoint, "kubeconfig": self.kubeconfig})

    def _existing_control_plane(
        self, name: str, plan: EksFleetPlan, network: Network
    ) -> _ControlPlane:
        cluster = aws.eks.Cluster.get(
            name, plan.cluster.name, opts=pulumi.ResourceOptions(parent=self)
        )
        return _ControlPlane(cluster=cluster, network=network)

    def _new_control_plane(
        self, name: str, plan: EksFleetPlan, roles: Roles, provider: aws.Provider
    ) -> _ControlPlane:
        network = network_of(name, plan.cluster, parent=self, provider=provider)
        cluster = new_eks_cluster(name, plan.cluster, network, roles=roles, parent=self)
        addons = addons_before_nodes(name, plan.cluster, cluster=cluster, parent=self)
        return _ControlPlane(cluster=cluster, network=network, addons=addons)

    def _add_addons(
        self, name: str, plan: EksFleetPlan, roles: Roles, node_role: aws.iam.Role
    ) -> list[pulumi.Resource]:
        """Adds the add-ons that need no node, or the system pool. Returns the dependencies of the
        autoscaler; none without one.
        """
        addons = other_addons(
            name,
            plan.cluster,
            cluster=self.cluster,
            system=self.system_pool,
            roles=roles,
            parent=self,
        )
        if plan.cluster.autoscaler is None:
            return []
        identity = autoscaler_identity(
            name, plan, cluster=self.cluster, node_role=node_role, roles=roles, parent=self
        )
        return [*addons, *identity]


def _kubeconfig(cluster: aws.eks.Cluster, region: str, profile: str | None) -> pulumi.Output[str]:
    def as_json(fields: Sequence[str]) -> str:
        name, endpoint, ca_data = fields
        kubeconfig = manifests.kubeconfig(
            cluster=name,
            server=endpoint,
            ca_data=ca_data,
            plugin=manifests.eks_plugin(name, region, profile),
        )
        return json.dumps(kubeconfig)

    return pulumi.Output.all(
        cluster.name, cluster.endpoint, cluster.certificate_authority.data
    ).apply(as_json)


def _with_version(plan: EksFleetPlan, version: str) -> EksFleetPlan:
    """The plan with the Kubernetes version of an existing cluster, for its nodes too."""
    return dataclasses.replace(
        plan,
        cluster=dataclasses.replace(plan.cluster, version=version),
        pools=tuple(
            pool.with_settings(dataclasses.replace(pool.settings, version=version))
            for pool in plan.pools
        ),
    )
