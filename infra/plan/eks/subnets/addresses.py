"""The addresses that nodes and pods of an EKS cluster take in a VPC of the stack's own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from slicewright.infra import stack_file
from slicewright.infra.plan.findings import Checked, Stated, refuse, rule
from slicewright.infra.plan.model.fleets import EksFleetPlan
from slicewright.infra.plan.model.pools import EksPoolPlan, SystemPoolPlan

SUBNET_PREFIX: Final = 20
"""Prefix length of the subnets that the stack makes for nodes, one in each zone."""
_RESERVED: Final = 5
"""Addresses that AWS reserves in a subnet. Source: VPC user guide, subnet sizing."""
_ROOM: Final = 2 ** (32 - SUBNET_PREFIX) - _RESERVED
_KEPT_BY_CNI: Final = 100
"""Addresses of a node whose interfaces have 50 each: the VPC CNI keeps one interface full of unused
ones. Sources: aws/amazon-vpc-cni-k8s, docs/eni-and-ip-target.md; awslabs/ai-on-eks, networking.
"""


def nodes_by_zone(system: SystemPoolPlan, pools: Sequence[EksPoolPlan]) -> Mapping[str, int]:
    """The greatest number of nodes in each zone. EKS spreads a pool's nodes over its zones."""
    nodes: Counter[str] = Counter()
    for zones, count in [
        (system.zones, system.nodes),
        *((pool.settings.zones, pool.nodes) for pool in pools),
    ]:
        for zone in zones:
            nodes[zone] += -(-count.max // len(zones))
    return nodes


@rule("eks-subnet-room")
def check_own_subnets(
    fleet: stack_file.EksFleet, system: SystemPoolPlan, pools: Sequence[EksPoolPlan], stated: Stated
) -> Checked[None]:
    """Refuses more nodes than the stack's subnets have addresses.

    Only the account knows the sizes of existing subnets: `slicewright doctor` asks for them.
    """
    if fleet.cluster.existing or isinstance(fleet.cluster.network, stack_file.ExistingNetwork):
        return
    if not stated.has(("cluster", "network")):
        return
    for zone, nodes in nodes_by_zone(system, pools).items():
        if nodes > _ROOM:
            yield refuse(
                ("node_pools",),
                f"pools may have {nodes} nodes in {zone}, and the subnet that the stack creates "
                f"there has {_ROOM} addresses",
                "lower nodes, use more zones, or name larger subnets in cluster.network",
                "VPC user guide, subnet sizing",
            )


def address_notes(fleet: EksFleetPlan) -> list[str]:
    """A note for each zone whose subnet has fewer addresses than the CNI keeps by default."""
    if not fleet.cluster.own_vpc or _cni_is_set(fleet):
        return []
    return [
        f"cluster {fleet.cluster.name}: {nodes} nodes in {zone}, whose subnet has {_ROOM} "
        f"addresses: the VPC CNI keeps up to {_KEPT_BY_CNI} on a large machine, most of them "
        "unused, and once none is left pods of further nodes do not start; set WARM_IP_TARGET and "
        "MINIMUM_IP_TARGET in the settings of vpc-cni in cluster.addons, or name larger subnets "
        "in cluster.network"
        for zone, nodes in nodes_by_zone(fleet.system, fleet.pools).items()
        if nodes * _KEPT_BY_CNI > _ROOM
    ]


def _cni_is_set(fleet: EksFleetPlan) -> bool:
    return any(
        addon.name == "vpc-cni" and "WARM_IP_TARGET" in (addon.settings or "")
        for addon in fleet.cluster.addons
    )
