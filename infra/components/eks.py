"""An EKS cluster with a VPC of its own, and the node groups of a plan."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Mapping, Sequence

import pulumi
import pulumi_aws as aws

from infra import catalog, values
from infra.components.eks_node_groups import NodeGroups
from infra.plan import EksFleetPlan

_VPC_RANGE = "10.0.0.0/16"
_CLUSTER_POLICIES = ("AmazonEKSClusterPolicy",)
_NODE_POLICIES = (
    "AmazonEKSWorkerNodePolicy",
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonEKS_CNI_Policy",
)
_ADDONS_BEFORE_NODES = ("vpc-cni", "kube-proxy")
"""A node is not Ready without its network. As nodes depend on it, the network also outlives them at
destroy, which is what keeps the CNI's interfaces from being left behind in the subnets.
"""
_ADDON_SETTINGS: Mapping[str, Mapping[str, str]] = {
    # Without it, NetworkPolicies have no effect. Source: EKS docs, limit pod traffic with
    # Kubernetes network policies.
    "vpc-cni": {"enableNetworkPolicy": "true"},
}


class EksCluster(pulumi.ComponentResource):
    """Outputs: `cluster`, `kubeconfig` (JSON text, no secret in it), `endpoint`, `system_pool`,
    `pools` by name.
    """

    cluster: aws.eks.Cluster
    kubeconfig: pulumi.Output[str]
    endpoint: pulumi.Output[str]
    system_pool: pulumi.Resource
    pools: Mapping[str, pulumi.Resource]

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
        subnets, routes = self._network(name, plan)
        self._region = catalog.aws_region(plan.cluster.region)
        cluster_role, cluster_rights = self._role(
            f"{name}-control-plane", "eks.amazonaws.com", _CLUSTER_POLICIES
        )
        node_role, node_rights = self._role(
            f"{name}-nodes", f"ec2.{self._region.suffix}", _NODE_POLICIES
        )
        self.cluster = aws.eks.Cluster(
            name,
            name=plan.cluster.name,
            role_arn=cluster_role.arn,
            version=plan.cluster.version,
            vpc_config=aws.eks.ClusterVpcConfigArgs(
                subnet_ids=[subnets[zone].id for zone in plan.cluster.zones]
            ),
            access_config=aws.eks.ClusterAccessConfigArgs(
                authentication_mode="API_AND_CONFIG_MAP",
                bootstrap_cluster_creator_admin_permissions=True,
            ),
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=cluster_rights,
                # EKS refuses subnets of other zones than those of the cluster's creation
                # (aws/containers-roadmap #2258), and the provider would try. So other zones are
                # another cluster, and one of an earlier version, which has the subnets of the
                # pools' zones too, keeps them: without a trigger in the state, none is pulled.
                ignore_changes=["vpcConfig.subnetIds"],
                replacement_trigger=sorted(plan.cluster.zones),
                # Its name is fixed.
                delete_before_replace=True,
            ),
        )
        addons = [self._addon(name, addon, []) for addon in _ADDONS_BEFORE_NODES]
        groups = NodeGroups(
            name,
            plan,
            cluster=self.cluster,
            role=node_role,
            subnet_ids={zone: subnet.id for zone, subnet in subnets.items()},
            before=[*node_rights, *addons, *routes],
            provider=provider,
            parent=self,
        )
        self.system_pool = groups.system
        self.pools = groups.pools
        # Its pods need a node to run on; EKS calls the add-on healthy only then.
        self._addon(name, "coredns", [self.system_pool])
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

    def _network(
        self, name: str, plan: EksFleetPlan
    ) -> tuple[Mapping[str, aws.ec2.Subnet], list[pulumi.Resource]]:
        """A public subnet per zone: nodes reach registries without a NAT gateway, which costs more
        than it is worth here.
        """
        child = pulumi.ResourceOptions(parent=self)
        vpc = aws.ec2.Vpc(
            f"{name}-network",
            cidr_block=_VPC_RANGE,
            # EKS nodes find the control plane by its private name.
            enable_dns_hostnames=True,
            enable_dns_support=True,
            tags={"Name": plan.cluster.name},
            opts=child,
        )
        gateway = aws.ec2.InternetGateway(
            f"{name}-internet", vpc_id=vpc.id, tags={"Name": plan.cluster.name}, opts=child
        )
        table = aws.ec2.RouteTable(
            f"{name}-routes",
            vpc_id=vpc.id,
            routes=[aws.ec2.RouteTableRouteArgs(cidr_block="0.0.0.0/0", gateway_id=gateway.id)],
            tags={"Name": plan.cluster.name},
            opts=child,
        )
        subnets: dict[str, aws.ec2.Subnet] = {}
        routes: list[pulumi.Resource] = []
        cluster = plan.cluster
        for zone, block in _ranges((*cluster.zones, *cluster.pool_zones), cluster.region).items():
            subnets[zone] = aws.ec2.Subnet(
                f"{name}-{zone}",
                vpc_id=vpc.id,
                availability_zone=None if catalog.is_zone_id(zone) else zone,
                availability_zone_id=zone if catalog.is_zone_id(zone) else None,
                cidr_block=block,
                map_public_ip_on_launch=True,
                tags={"Name": f"{plan.cluster.name}-{zone}", "kubernetes.io/role/elb": "1"},
                opts=child,
            )
            routes.append(
                aws.ec2.RouteTableAssociation(
                    f"{name}-{zone}",
                    subnet_id=subnets[zone].id,
                    route_table_id=table.id,
                    opts=child,
                )
            )
        return subnets, routes

    def _role(
        self, name: str, service: str, policies: Sequence[str]
    ) -> tuple[aws.iam.Role, list[pulumi.Resource]]:
        trust = {
            "Version": "2012-10-17",
            "Statement": [
                {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
            ],
        }
        role = aws.iam.Role(
            name, assume_role_policy=json.dumps(trust), opts=pulumi.ResourceOptions(parent=self)
        )
        rights: list[pulumi.Resource] = [
            aws.iam.RolePolicyAttachment(
                f"{name}-{policy}",
                role=role.name,
                policy_arn=f"arn:{self._region.partition}:iam::aws:policy/{policy}",
                opts=pulumi.ResourceOptions(parent=self),
            )
            for policy in policies
        ]
        return role, rights

    def _addon(self, name: str, addon: str, after: Sequence[pulumi.Resource]) -> aws.eks.Addon:
        return aws.eks.Addon(
            f"{name}-{addon}",
            cluster_name=self.cluster.name,
            addon_name=addon,
            configuration_values=json.dumps(_ADDON_SETTINGS[addon])
            if addon in _ADDON_SETTINGS
            else None,
            # A new cluster has unmanaged copies of these already.
            resolve_conflicts_on_create="OVERWRITE",
            resolve_conflicts_on_update="OVERWRITE",
            opts=pulumi.ResourceOptions(parent=self, depends_on=list(after)),
        )


def _ranges(zones: Sequence[str], region: str) -> Mapping[str, str]:
    """Subnet ranges by the zone's letter, so that adding or removing a zone changes no other range.

    A subnet whose range changes is replaced, and the node groups in it too. Zones given by id have
    ranges of their own, by their number. Zones with other names (Local Zones) get the remaining
    ranges, from the end, in their order.
    """
    free = [str(block) for block in ipaddress.ip_network(_VPC_RANGE).subnets(new_prefix=20)]
    fixed = {zone: free[n] for zone in zones if (n := _place(zone, region)) is not None}
    left = [block for block in free if block not in fixed.values()]
    return {zone: fixed.get(zone) or left.pop() for zone in zones}


def _place(zone: str, region: str) -> int | None:
    """Which of the 16 ranges is the zone's; None: any."""
    if catalog.is_zone_id(zone) and zone.count("-") == 1:
        number = int(zone.rpartition("-az")[2])
        return 7 + number if number <= 6 else None
    by_letter = zone[:-1] == region and "a" <= zone[-1] <= "p"
    return ord(zone[-1]) - ord("a") if by_letter else None


def _token_arguments(cluster: str, region: str) -> list[str]:
    return ["eks", "get-token", "--cluster-name", cluster, "--region", region, "--output", "json"]
