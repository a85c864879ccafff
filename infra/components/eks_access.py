"""The access entries of an EKS cluster, whether the stack made the cluster or found it."""

from __future__ import annotations

import pulumi
import pulumi_aws as aws

from infra.plan import AccessPolicyPlan, EksClusterPlan


def access_entries(
    name: str,
    plan: EksClusterPlan,
    *,
    cluster: aws.eks.Cluster,
    parent: pulumi.Resource,
) -> list[pulumi.Resource]:
    """Entries and their policies. EKS refuses an entry for a principal that has one already; so an
    entry of another owner is neither changed nor, later, deleted.
    """
    found: list[pulumi.Resource] = []
    for entry in plan.access:
        made = aws.eks.AccessEntry(
            f"{name}-{entry.name}",
            cluster_name=cluster.name,
            principal_arn=entry.principal,
            type="STANDARD",
            # Stated even if empty: the provider keeps the old value of a missing field.
            kubernetes_groups=list(entry.groups),
            tags=dict(plan.tags) or None,
            # EKS has one entry for each principal.
            opts=pulumi.ResourceOptions(parent=parent, delete_before_replace=True),
        )
        found.append(made)
        found += [_policy(f"{name}-{entry.name}", made, one, parent) for one in entry.policies]
    return found


def _policy(
    name: str, entry: aws.eks.AccessEntry, policy: AccessPolicyPlan, parent: pulumi.Resource
) -> aws.eks.AccessPolicyAssociation:
    return aws.eks.AccessPolicyAssociation(
        f"{name}-{policy.name}",
        cluster_name=entry.cluster_name,
        principal_arn=entry.principal_arn,
        policy_arn=policy.arn,
        access_scope=aws.eks.AccessPolicyAssociationAccessScopeArgs(
            type="namespace" if policy.namespaces else "cluster",
            namespaces=list(policy.namespaces) or None,
        ),
        # Another scope is another association to the provider, and the same one to EKS: created
        # first, it would be deleted with the old one.
        opts=pulumi.ResourceOptions(parent=parent, delete_before_replace=True),
    )
