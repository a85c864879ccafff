"""The add-ons of a new EKS cluster."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
import pulumi_aws as aws

from infra.plan import EksAddonPlan, EksClusterPlan

_BEFORE_NODES = ("vpc-cni", "kube-proxy")
"""A node is not Ready without its network. As nodes depend on it, the network also outlives them at
destroy, which is what keeps the CNI's interfaces from being left behind in the subnets.
"""
_ON_NODES = ("coredns",)
"""Deployments: their pods need a node, and EKS calls the add-on healthy only when they run."""


def addons_before_nodes(
    name: str, plan: EksClusterPlan, *, cluster: aws.eks.Cluster, parent: pulumi.Resource
) -> list[pulumi.Resource]:
    planned = {addon.name: addon for addon in plan.addons}
    return [_addon(name, planned[addon], cluster, parent, []) for addon in _BEFORE_NODES]


def other_addons(
    name: str,
    plan: EksClusterPlan,
    *,
    cluster: aws.eks.Cluster,
    system: pulumi.Resource,
    parent: pulumi.Resource,
) -> None:
    """DaemonSets wait for no node: EKS calls them healthy while there is none."""
    for addon in plan.addons:
        if addon.name not in _BEFORE_NODES:
            _addon(name, addon, cluster, parent, [system] if addon.name in _ON_NODES else [])


def _addon(
    name: str,
    addon: EksAddonPlan,
    cluster: aws.eks.Cluster,
    parent: pulumi.Resource,
    after: Sequence[pulumi.Resource],
) -> aws.eks.Addon:
    return aws.eks.Addon(
        f"{name}-{addon.name}",
        cluster_name=cluster.name,
        addon_name=addon.name,
        addon_version=addon.version,
        configuration_values=addon.settings,
        # A new cluster has unmanaged copies of some of them already.
        resolve_conflicts_on_create="OVERWRITE",
        resolve_conflicts_on_update="OVERWRITE",
        opts=pulumi.ResourceOptions(parent=parent, depends_on=list(after)),
    )
