"""The subnets of an EKS cluster and its nodes, in a new VPC or in an existing one."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from slicewright.infra import catalog
from slicewright.infra.plan import (
    EKS_SUBNET_PREFIX,
    EksClusterPlan,
    ExistingSubnet,
    cluster_subnet_ids,
    misfits,
    node_subnet_ids,
)
from slicewright.infra.stack_file import ExistingNetwork, PrivateNetwork, PublicNetwork

STACK_TAG = "slicewright.io/stack"
_VPC_RANGE = "10.0.0.0/16"
_INTERNET = "0.0.0.0/0"


@dataclass(frozen=True, kw_only=True)
class Network:
    cluster: Sequence[pulumi.Input[str]]
    """The control plane's subnets."""
    nodes: Mapping[str, Sequence[pulumi.Input[str]]]
    """Zone -> the subnets of nodes in it."""
    node_dependencies: Sequence[pulumi.Resource]
    """The resources that a node needs to reach registries. destroy deletes them after the node."""
    vpc: str | None
    """The VPC of existing subnets. None: the stack creates its VPC."""


def ec2_tags(cluster: EksClusterPlan, name: str) -> Mapping[str, str]:
    """The tags of EC2 resources with generated ids: the stack file's, the name, and the stack. The
    last one identifies a resource whose creation was interrupted before Pulumi recorded the id
    (`slicewright recover`).
    """
    stack = f"{pulumi.get_project()}/{pulumi.get_stack()}"
    return {**cluster.tags, "Name": name, STACK_TAG: stack}


def network_of(
    name: str, cluster: EksClusterPlan, *, parent: pulumi.Resource, provider: aws.Provider
) -> Network:
    """The network of the cluster and its nodes. Raises RunError if existing subnets do not fit."""
    match cluster.network:
        case ExistingNetwork(subnets=subnets):
            existing = [look_up(subnet_id, provider) for subnet_id in subnets]
            return existing_network(cluster, existing, "cluster.network.subnets")
        case PublicNetwork() | PrivateNetwork():
            return _NewVpc(name, cluster, parent).network()


def existing_network(
    cluster: EksClusterPlan, subnets: Sequence[ExistingSubnet], where: str
) -> Network:
    """The network of existing subnets. where: the key that names them, for messages.

    Raises RunError with every problem if the subnets do not fit.
    """
    if problems := misfits(cluster, subnets):
        lines = (f"{where}: {problem}" for problem in problems)
        raise pulumi.RunError("\n".join(lines))
    return Network(
        cluster=cluster_subnet_ids(cluster, subnets),
        nodes=node_subnet_ids(cluster, subnets),
        node_dependencies=[],
        vpc=subnets[0].vpc,
    )


def look_up(identity: str, provider: aws.Provider) -> ExistingSubnet:
    subnet = aws.ec2.get_subnet(id=identity, opts=pulumi.InvokeOptions(provider=provider))
    return ExistingSubnet(
        id=identity,
        vpc=subnet.vpc_id,
        zone=subnet.availability_zone,
        zone_id=subnet.availability_zone_id,
        gives_public_addresses=subnet.map_public_ip_on_launch,
        free_addresses=subnet.available_ip_address_count,
    )


class _NewVpc:
    """A new VPC with a public subnet per zone and, for private nodes, a private one behind it.

    The control plane is always in the public subnets, so that nodes can move between public and
    private subnets while the cluster stays. Its interfaces have no public addresses in either case.
    """

    def __init__(self, name: str, cluster: EksClusterPlan, parent: pulumi.Resource) -> None:
        self._name = name
        self._cluster = cluster
        self._zones = (*cluster.zones, *cluster.pool_zones)
        self._child = pulumi.ResourceOptions(parent=parent)
        self._tags = ec2_tags(cluster, cluster.name)
        self._vpc = aws.ec2.Vpc(
            f"{name}-network",
            cidr_block=_VPC_RANGE,
            # EKS nodes find the control plane by its private name.
            enable_dns_hostnames=True,
            enable_dns_support=True,
            tags=self._tags,
            opts=self._child,
        )

    def network(self) -> Network:
        gateway = aws.ec2.InternetGateway(
            f"{self._name}-internet", vpc_id=self._vpc.id, tags=self._tags, opts=self._child
        )
        table = self._table(
            f"{self._name}-routes",
            aws.ec2.RouteTableRouteArgs(cidr_block=_INTERNET, gateway_id=gateway.id),
            self._tags,
        )
        public: dict[str, aws.ec2.Subnet] = {}
        routes: dict[str, pulumi.Resource] = {}
        for zone, block in ranges(self._zones, self._cluster.region).items():
            public[zone] = self._subnet(zone, "", block, "elb")
            routes[zone] = self._associate(zone, "", public[zone], table)
        nodes: Mapping[str, aws.ec2.Subnet] = public
        node_dependencies = list(routes.values())
        if self._cluster.nat_zones:
            nodes, private_routes = self._behind(public, routes, gateway)
            node_dependencies += private_routes
        return Network(
            cluster=[public[zone].id for zone in self._cluster.zones],
            nodes={zone: [subnet.id] for zone, subnet in nodes.items()},
            node_dependencies=node_dependencies,
            vpc=None,
        )

    def _behind(
        self,
        public: Mapping[str, aws.ec2.Subnet],
        routes: Mapping[str, pulumi.Resource],
        gateway: aws.ec2.InternetGateway,
    ) -> tuple[Mapping[str, aws.ec2.Subnet], list[pulumi.Resource]]:
        """Adds a private subnet per zone. Its egress is a NAT gateway in a public subnet."""
        nats = {
            zone: self._nat(zone, public[zone], [gateway, routes[zone]])
            for zone in self._cluster.nat_zones
        }
        first = next(iter(nats.values()))
        private: dict[str, aws.ec2.Subnet] = {}
        associated: list[pulumi.Resource] = []
        blocks = private_ranges(self._zones, self._cluster.region)
        for zone, block in blocks.items():
            private[zone] = self._subnet(zone, "-private", block, "internal-elb")
            # A table of its own, so that another number of gateways changes its route in place.
            table = self._table(
                f"{self._name}-{zone}-private",
                aws.ec2.RouteTableRouteArgs(
                    cidr_block=_INTERNET, nat_gateway_id=nats.get(zone, first).id
                ),
                ec2_tags(self._cluster, f"{self._cluster.name}-{zone}-private"),
            )
            associated.append(self._associate(zone, "-private", private[zone], table))
        return private, associated

    def _nat(
        self, zone: str, subnet: aws.ec2.Subnet, depends_on: Sequence[pulumi.Resource]
    ) -> aws.ec2.NatGateway:
        tags = ec2_tags(self._cluster, f"{self._cluster.name}-{zone}")
        # Both need the internet gateway, which cannot be deleted before them. Source: VPC user
        # guide, NAT gateways; EC2 API, DetachInternetGateway.
        options = pulumi.ResourceOptions.merge(
            self._child, pulumi.ResourceOptions(depends_on=list(depends_on))
        )
        address = aws.ec2.Eip(
            f"{self._name}-{zone}",
            domain="vpc",
            tags=tags,
            # AWS adds the gateway's interface later: a refresh would show a change.
            opts=pulumi.ResourceOptions.merge(
                options, pulumi.ResourceOptions(ignore_changes=["networkInterface"])
            ),
        )
        return aws.ec2.NatGateway(
            f"{self._name}-{zone}",
            allocation_id=address.id,
            subnet_id=subnet.id,
            tags=tags,
            opts=options,
        )

    def _subnet(self, zone: str, kind: str, block: str, balancers: str) -> aws.ec2.Subnet:
        """balancers: the end of the role tag that load balancers look for."""
        by_id = catalog.is_zone_id(zone)
        return aws.ec2.Subnet(
            f"{self._name}-{zone}{kind}",
            vpc_id=self._vpc.id,
            availability_zone=None if by_id else zone,
            availability_zone_id=zone if by_id else None,
            cidr_block=block,
            map_public_ip_on_launch=not kind,
            tags={
                **ec2_tags(self._cluster, f"{self._cluster.name}-{zone}{kind}"),
                f"kubernetes.io/role/{balancers}": "1",
            },
            opts=self._child,
        )

    def _table(
        self, name: str, route: aws.ec2.RouteTableRouteArgs, tags: Mapping[str, str]
    ) -> aws.ec2.RouteTable:
        return aws.ec2.RouteTable(
            name, vpc_id=self._vpc.id, routes=[route], tags=dict(tags), opts=self._child
        )

    def _associate(
        self, zone: str, kind: str, subnet: aws.ec2.Subnet, table: aws.ec2.RouteTable
    ) -> aws.ec2.RouteTableAssociation:
        return aws.ec2.RouteTableAssociation(
            f"{self._name}-{zone}{kind}",
            subnet_id=subnet.id,
            route_table_id=table.id,
            opts=self._child,
        )


_BLOCKS = tuple(
    str(block) for block in ipaddress.ip_network(_VPC_RANGE).subnets(new_prefix=EKS_SUBNET_PREFIX)
)
_MOST_ZONES = 6
"""The greatest number of zones of a region, by letter or by number."""
_FIRST_BY_ID = 8
"""Blocks of zones by letter begin at the first one, blocks of zones by id here."""


def ranges(zones: Sequence[str], region: str) -> Mapping[str, str]:
    """Public subnet ranges by the zone's letter, so that adding or removing a zone changes no other
    range.

    A subnet whose range changes is replaced, and the node groups in it too. Zones given by id have
    ranges of their own, by their number. Zones with other names (Local Zones) get the remaining
    ranges, from the end, in their order.
    """
    free = list(_BLOCKS)
    fixed = {zone: free[n] for zone in zones if (n := _place(zone, region)) is not None}
    remaining = [block for block in free if block not in fixed.values()]
    return {zone: fixed.get(zone) or remaining.pop() for zone in zones}


def private_ranges(zones: Sequence[str], region: str) -> Mapping[str, str]:
    """Private subnet ranges, assigned as in `ranges` and apart from the public ones.

    The private ranges of zones by letter are the public ranges of zones by id, and vice versa. A
    file spells its zones in one way.
    """
    public = set(ranges(zones, region).values())
    fixed: dict[str, str] = {}
    for zone in zones:
        place = _place(zone, region)
        if place is not None and place % _FIRST_BY_ID < _MOST_ZONES:
            fixed[zone] = _BLOCKS[(place + _FIRST_BY_ID) % len(_BLOCKS)]
    remaining = [block for block in _BLOCKS if block not in public | set(fixed.values())]
    return {zone: fixed.get(zone) or remaining.pop() for zone in zones}


def _place(zone: str, region: str) -> int | None:
    """Index of the zone's range among the 16. None: any."""
    if catalog.is_zone_id(zone) and zone.count("-") == 1:
        number = int(zone.rpartition("-az")[2])
        return _FIRST_BY_ID - 1 + number if number <= _MOST_ZONES else None
    by_letter = zone[:-1] == region and "a" <= zone[-1] <= "p"
    return ord(zone[-1]) - ord("a") if by_letter else None
