"""The addresses that nodes and pods of a GKE cluster take, and the ranges of the stack's network.

Source: GKE docs, "Configure maximum Pods per node" and "Plan IP addresses".
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from slicewright.infra import stack_file
from slicewright.infra.plan.findings import Checked, Stated, refuse, rule
from slicewright.infra.plan.model.pools import GkePoolPlan, SystemPoolPlan


@dataclass(frozen=True, kw_only=True)
class Ranges:
    """The address ranges of a network that the stack makes."""

    nodes: str = "10.0.0.0/20"
    pods: str = "10.4.0.0/14"
    """1,024 nodes of 110 pods."""
    services: str = "10.8.0.0/20"


OWN_RANGES: Final = Ranges()
_SYSTEM_PODS_PER_NODE: Final = 110
"""GKE's default, which the system pool has."""
_RESERVED: Final = 4
"""Addresses that Google Cloud keeps of a subnet's primary range."""


def pod_addresses(system: SystemPoolPlan | None, pools: Sequence[GkePoolPlan]) -> int:
    """The addresses of the greatest number of nodes: GKE gives a node at least twice its pods, in a
    whole block.
    """
    counted = [(system.nodes.max, _SYSTEM_PODS_PER_NODE)] if system else []
    counted += [(pool.nodes.max, pool.settings.max_pods_per_node) for pool in pools]
    return sum(nodes * (1 << (2 * pods - 1).bit_length()) for nodes, pods in counted)


@rule("gke-network-room")
def check_own_network(
    fleet: stack_file.GkeFleet,
    system: SystemPoolPlan | None,
    pools: Sequence[GkePoolPlan],
    stated: Stated,
) -> Checked[None]:
    """Refuses more nodes or pods than the stack's network has addresses.

    Only the account knows the ranges of an existing network: `slicewright doctor` asks for them.
    """
    cluster = fleet.cluster
    if cluster.network is not None or cluster.existing or not stated.has(("cluster", "network")):
        return
    room, needed = _size(OWN_RANGES.pods), pod_addresses(system, pools)
    if needed > room:
        yield refuse(
            ("node_pools",),
            f"the pods of all nodes at their most take {needed} addresses, and the network that "
            f"the stack makes has {room} of them: GKE gives each node a block of twice its "
            "max_pods_per_node or more",
            "lower nodes or max_pods_per_node, or name a subnet with a larger range in "
            "cluster.network",
            "GKE docs, configure maximum Pods per node",
        )
    room = _size(OWN_RANGES.nodes) - _RESERVED
    nodes = sum(pool.nodes.max for pool in (*([system] if system else ()), *pools))
    if nodes > room:
        yield refuse(
            ("node_pools",),
            f"pools may have {nodes} nodes, and the network that the stack creates has {room} "
            "addresses for nodes",
            "lower nodes, or name a larger subnet in cluster.network",
            "GKE docs, plan IP addresses",
        )


def _size(cidr: str) -> int:
    return ipaddress.ip_network(cidr).num_addresses
