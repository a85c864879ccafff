"""The requested size of an EKS node group whose number of nodes an autoscaler changes.

The provider sends minimum, desired size and maximum together, and the desired size is then the one
in Pulumi's state: with an autoscaler at 3 and a state of 1, a larger maximum would end two nodes,
and EKS refuses a minimum above it (terraform-aws-modules/terraform-aws-eks #3683,
hashicorp/terraform-provider-aws #18310). So the live number is asked for, and sent only together
with a change of the limits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from infra.plan import NodeCount


@dataclass(frozen=True, kw_only=True)
class Scaling:
    """The counts of a node group, in nodes."""

    min: int
    desired: int
    max: int


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The node counts that the program requests."""

    scaling: Scaling
    keeps_desired: bool
    """Whether a different desired size in the state stays: the autoscaler has set it."""


def asked(nodes: NodeCount, live: Scaling | None) -> Asked:
    """live: the live size of the node group. None if it does not exist."""
    if not nodes.autoscaled:
        # Another count is drift then, and is shown.
        fixed = Scaling(min=nodes.min, desired=nodes.min, max=nodes.max)
        return Asked(scaling=fixed, keeps_desired=False)
    if live is None:
        fewest = Scaling(min=nodes.min, desired=nodes.min, max=nodes.max)
        return Asked(scaling=fewest, keeps_desired=True)
    desired = min(max(live.desired, nodes.min), nodes.max)
    return Asked(
        scaling=Scaling(min=nodes.min, desired=desired, max=nodes.max),
        keeps_desired=(live.min, live.max) == (nodes.min, nodes.max),
    )


def live(
    cluster: str, counts: Mapping[str, NodeCount], *, provider: aws.Provider
) -> Mapping[str, Scaling]:
    """The live sizes of the autoscaled node groups that exist. AWS is not asked for the others.

    Names are listed first, because a request for a missing node group is an error.
    """
    scaled = [name for name, nodes in counts.items() if nodes.autoscaled]
    options = pulumi.InvokeOptions(provider=provider)
    if not scaled or cluster not in aws.eks.get_clusters(opts=options).names:
        return {}
    there = aws.eks.get_node_groups(cluster_name=cluster, opts=options).names
    return {
        name: _of(
            aws.eks.get_node_group(
                cluster_name=cluster, node_group_name=name, opts=options
            ).scaling_configs
        )
        for name in scaled
        if name in there
    }


def _of(configs: Iterable[aws.eks.outputs.GetNodeGroupScalingConfigResult]) -> Scaling:
    (config,) = configs
    return Scaling(min=config.min_size, desired=config.desired_size, max=config.max_size)
