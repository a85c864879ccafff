"""A GKE cluster, a system pool, and the GPU pools of a plan."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pulumi
import pulumi_gcp as gcp

from slicewright.infra import manifests
from slicewright.infra.components.gke.control_plane import GkeControlPlane
from slicewright.infra.components.gke.existing_cluster import existing_gke_cluster
from slicewright.infra.components.gke.gpu_networks import GpuVpc, gpu_vpcs
from slicewright.infra.components.gke.new_cluster import new_gke_cluster
from slicewright.infra.components.gke.node_pool_context import NodePoolContext
from slicewright.infra.components.gke.node_pools import gpu_pool, system_pool
from slicewright.infra.plan import GkeFleetPlan


class GkeCluster(pulumi.ComponentResource):
    """Outputs: `cluster`, `kubeconfig` (JSON text, no secret in it), `endpoint`, `system_pool`,
    `pools` by name, `gpu_networks` by name.
    """

    cluster: gcp.container.Cluster
    kubeconfig: pulumi.Output[str]
    endpoint: pulumi.Output[str]
    system_pool: Sequence[pulumi.Resource]
    """Empty if the stack has no system pool."""
    pools: Mapping[str, pulumi.Resource]
    gpu_networks: Mapping[str, GpuVpc]

    def __init__(
        self,
        name: str,
        plan: GkeFleetPlan,
        *,
        project: str,
        provider: gcp.Provider,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        options = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(providers=[provider]))
        super().__init__("slicewright:index:GkeCluster", name, {}, options)
        account, role_binding = self._node_account(name, plan, project)
        if plan.cluster.existing:
            control_plane = existing_gke_cluster(name, plan, project=project, parent=self)
        else:
            control_plane = new_gke_cluster(
                name, plan.cluster, account, project=project, parent=self
            )
        self.cluster = control_plane.cluster
        self.gpu_networks = gpu_vpcs(name, plan.cluster, self)
        gpu_network_dependencies = (
            resource for vpc in self.gpu_networks.values() for resource in vpc.node_dependencies
        )
        context = NodePoolContext(
            parent=self,
            cluster=self.cluster,
            cluster_id=control_plane.cluster_id,
            account=account,
            node_dependencies=[role_binding, *control_plane.egress, *gpu_network_dependencies],
            private_nodes=plan.cluster.private_nodes,
            kms_key=plan.cluster.kms_key,
            gpu_networks=self.gpu_networks,
        )
        self.system_pool = [] if plan.system is None else [system_pool(name, plan.system, context)]
        self.pools = {
            pool.name: gpu_pool(name, pool, context, depends_on=self.system_pool)
            for pool in plan.pools
        }
        self.endpoint = control_plane.server.apply(lambda host: f"https://{host}")
        self.kubeconfig = self._kubeconfig(control_plane)
        self.register_outputs({"endpoint": self.endpoint, "kubeconfig": self.kubeconfig})

    def _node_account(
        self, name: str, plan: GkeFleetPlan, project: str
    ) -> tuple[gcp.serviceaccount.Account, pulumi.Resource]:
        """Creates the service account of nodes, and the binding of its role."""
        child = pulumi.ResourceOptions(parent=self)
        account = gcp.serviceaccount.Account(
            f"{name}-nodes",
            account_id=plan.cluster.node_account_id,
            display_name=f"Nodes of GKE cluster {plan.cluster.name}",
            opts=child,
        )
        role_binding = gcp.projects.IAMMember(
            f"{name}-nodes",
            project=project,
            role="roles/container.defaultNodeServiceAccount",
            member=account.email.apply(lambda email: f"serviceAccount:{email}"),
            opts=child,
        )
        return account, role_binding

    def _kubeconfig(self, control_plane: GkeControlPlane) -> pulumi.Output[str]:
        def as_json(fields: Sequence[str]) -> str:
            name, server, ca_data = fields
            kubeconfig = manifests.kubeconfig(
                cluster=name,
                server=server,
                ca_data=ca_data,
                plugin=manifests.GKE_PLUGIN,
            )
            return json.dumps(kubeconfig)

        return pulumi.Output.all(self.cluster.name, self.endpoint, control_plane.ca_data).apply(
            as_json
        )
