"""The access entries of an EKS cluster, in a new cluster and in an existing one."""

from __future__ import annotations

import pulumi
import pulumi_aws as aws

from slicewright.infra.plan import AccessPolicyPlan, EksClusterPlan


def access_entries(
    name: str,
    plan: EksClusterPlan,
    *,
    cluster: aws.eks.Cluster,
    parent: pulumi.Resource,
) -> list[pulumi.Resource]:
    """Creates the entries and their policies.

    EKS refuses a second entry for a principal. So an entry of another owner is never changed, and
    never deleted later.
    """
    created: list[pulumi.Resource] = []
    for entry_plan in plan.access:
        entry_name = f"{name}-{entry_plan.name}"
        entry = aws.eks.AccessEntry(
            entry_name,
            cluster_name=cluster.name,
            principal_arn=entry_plan.principal,
            type="STANDARD",
            # Stated even if empty: the provider keeps the old value of a missing field.
            kubernetes_groups=list(entry_plan.groups),
            tags=dict(plan.tags) or None,
            # EKS has one entry for each principal.
            opts=pulumi.ResourceOptions(parent=parent, delete_before_replace=True),
        )
        policies = [_policy(entry_name, entry, policy, parent) for policy in entry_plan.policies]
        created += [entry, *policies]
    return created


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
