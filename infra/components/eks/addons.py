"""The add-ons of a new EKS cluster, and the IAM roles that some of them need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pulumi
import pulumi_aws as aws

from slicewright.infra.components.eks.roles import Roles
from slicewright.infra.plan import POD_IDENTITY_AGENT, EksAddonPlan, EksClusterPlan

_BEFORE_NODES = ("vpc-cni", "kube-proxy")
"""A node is not Ready without its network. As nodes depend on it, the network also outlives them at
destroy. So the CNI's interfaces are not left behind in the subnets.
"""
_ON_NODES = ("aws-ebs-csi-driver", "coredns")
"""Deployments: their pods need a node, and EKS calls the add-on healthy only when they run."""


def addons_before_nodes(
    name: str, plan: EksClusterPlan, *, cluster: aws.eks.Cluster, parent: pulumi.Resource
) -> list[pulumi.Resource]:
    planned = {addon.name: addon for addon in plan.addons}
    return [_addon(name, planned[addon], plan.tags, cluster, parent, []) for addon in _BEFORE_NODES]


def other_addons(
    name: str,
    plan: EksClusterPlan,
    *,
    cluster: aws.eks.Cluster,
    system: pulumi.Resource,
    roles: Roles,
    parent: pulumi.Resource,
) -> list[pulumi.Resource]:
    """The add-ons that are not a dependency of nodes. Only Deployments wait for the system pool:
    EKS calls a DaemonSet healthy even if the cluster has no node.
    """
    addons: dict[str, aws.eks.Addon] = {}
    # Add-ons with a role come last: their pods get its credentials from the identity agent.
    for addon in sorted(plan.addons, key=lambda planned: planned.identity is not None):
        if addon.name in _BEFORE_NODES:
            continue
        depends_on: list[pulumi.Resource] = [system] if addon.name in _ON_NODES else []
        association = None
        if addon.identity is not None:
            role, rights = roles.pod_role(addon.identity.role, [addon.identity.policy])
            depends_on += [*rights, addons[POD_IDENTITY_AGENT]]
            association = aws.eks.AddonPodIdentityAssociationArgs(
                role_arn=role.arn, service_account=addon.identity.service_account
            )
        addons[addon.name] = _addon(
            name, addon, plan.tags, cluster, parent, depends_on, association
        )
    return [*addons.values()]


def _addon(
    name: str,
    addon: EksAddonPlan,
    tags: Mapping[str, str],
    cluster: aws.eks.Cluster,
    parent: pulumi.Resource,
    depends_on: Sequence[pulumi.Resource],
    association: aws.eks.AddonPodIdentityAssociationArgs | None = None,
) -> aws.eks.Addon:
    return aws.eks.Addon(
        f"{name}-{addon.name}",
        cluster_name=cluster.name,
        addon_name=addon.name,
        addon_version=addon.version,
        configuration_values=addon.settings,
        pod_identity_associations=[association] if association is not None else None,
        # A new cluster has unmanaged copies of some of them already.
        resolve_conflicts_on_create="OVERWRITE",
        resolve_conflicts_on_update="OVERWRITE",
        tags=dict(tags) or None,
        opts=pulumi.ResourceOptions(parent=parent, depends_on=list(depends_on)),
    )
