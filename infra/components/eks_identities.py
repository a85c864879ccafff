"""The IAM roles of service accounts in an EKS cluster, which the stack made or found."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
import pulumi_aws as aws

from infra.spec import PodIdentity


def pod_identities(
    name: str,
    identities: Sequence[PodIdentity],
    *,
    cluster: aws.eks.Cluster,
    parent: pulumi.Resource,
) -> None:
    """EKS asks for neither the namespace nor the account to be there."""
    for one in identities:
        aws.eks.PodIdentityAssociation(
            # A namespace has no dots.
            f"{name}-pods-{one.namespace}.{one.service_account}",
            cluster_name=cluster.name,
            namespace=one.namespace,
            service_account=one.service_account,
            role_arn=one.role,
            # EKS has one association for each service account.
            opts=pulumi.ResourceOptions(parent=parent, delete_before_replace=True),
        )
