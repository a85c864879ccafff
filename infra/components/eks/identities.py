"""The IAM roles of service accounts in an EKS cluster."""

from __future__ import annotations

import pulumi
import pulumi_aws as aws

from slicewright.infra.plan import EksClusterPlan


def pod_identities(
    name: str,
    plan: EksClusterPlan,
    *,
    cluster: aws.eks.Cluster,
    parent: pulumi.Resource,
) -> None:
    """EKS does not require that the namespace or the account exist."""
    for identity in plan.pod_identities:
        aws.eks.PodIdentityAssociation(
            # A namespace has no dots.
            f"{name}-pods-{identity.namespace}.{identity.service_account}",
            cluster_name=cluster.name,
            namespace=identity.namespace,
            service_account=identity.service_account,
            role_arn=identity.role,
            tags=dict(plan.tags) or None,
            # EKS has one association for each service account.
            opts=pulumi.ResourceOptions(parent=parent, delete_before_replace=True),
        )
