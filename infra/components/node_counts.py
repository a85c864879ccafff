"""The requested size of an EKS node group whose number of nodes an autoscaler changes.

The provider sends minimum, desired size and maximum together, and the desired size is then the one
in Pulumi's state: with an autoscaler at 3 and a state of 1, a larger maximum would end two nodes,
and EKS refuses a minimum above it (terraform-aws-modules/terraform-aws-eks #3683,
hashicorp/terraform-provider-aws #18310). So the program looks up the live number, and
sends it only together with a change of the limits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from slicewright.infra.plan import NodeCount


@dataclass(frozen=True, kw_only=True)
class Scaling:
    """The counts of a node group, in nodes."""

    min: int
    desired: int
    max: int


@dataclass(frozen=True, kw_only=True)
class RequestedSize:
    """The size that the program requests for a node group."""

    scaling: Scaling
    keeps_desired: bool
    """True if the program ignores the desired size in the state, because the autoscaler set it."""


def requested_size(nodes: NodeCount, live: Scaling | None) -> RequestedSize:
    """live: the live size of the node group. None if it does not exist."""
    if not nodes.autoscaled:
        # A different live count is drift, which a preview shows.
        fixed = Scaling(min=nodes.min, desired=nodes.min, max=nodes.max)
        return RequestedSize(scaling=fixed, keeps_desired=False)
    if live is None:
        initial = Scaling(min=nodes.min, desired=nodes.min, max=nodes.max)
        return RequestedSize(scaling=initial, keeps_desired=True)
    desired = min(max(live.desired, nodes.min), nodes.max)
    return RequestedSize(
        scaling=Scaling(min=nodes.min, desired=desired, max=nodes.max),
        keeps_desired=(live.min, live.max) == (nodes.min, nodes.max),
    )


def live(
    cluster: str, counts: Mapping[str, NodeCount], *, provider: aws.Provider
) -> Mapping[str, Scaling]:
    """The live sizes of the autoscaled node groups that exist. Others are not looked up.

    Names are listed first, because a request for a missing node group is an error.
    """
    scaled = [name for name, nodes in counts.items() if nodes.autoscaled]
    options = pulumi.InvokeOptions(provider=provider)
    if not scaled or cluster not in aws.eks.get_clusters(opts=options).names:
        return {}
    existing = aws.eks.get_node_groups(cluster_name=cluster, opts=options).names
    return {
        name: _scaling_of(
            aws.eks.get_node_group(
                cluster_name=cluster, node_group_name=name, opts=options
            ).scaling_configs
        )
        for name in scaled
        if name in existing
    }


def _scaling_of(configs: Iterable[aws.eks.outputs.GetNodeGroupScalingConfigResult]) -> Scaling:
    (config,) = configs
    return Scaling(min=config.min_size, desired=config.desired_size, max=config.max_size)
