"""IAM roles of an EKS cluster, each with managed policies of AWS."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pulumi
import pulumi_aws as aws

_PODS = "pods.eks.amazonaws.com"
"""Of EKS Pod Identity, the same in every partition."""


class Roles:
    """Children of `parent`; each comes with the attachments that give it its rights."""

    def __init__(self, partition: str, tags: Mapping[str, str], *, parent: pulumi.Resource) -> None:
        self._partition = partition
        self._tags = tags
        self._parent = parent

    def of_service(
        self, name: str, service: str, policies: Sequence[str]
    ) -> tuple[aws.iam.Role, list[pulumi.Resource]]:
        return self._made(name, service, "sts:AssumeRole", policies)

    def of_pods(
        self, name: str, policies: Sequence[str]
    ) -> tuple[aws.iam.Role, list[pulumi.Resource]]:
        """EKS tags the sessions of pods. Source: EKS user guide, create IAM role with trust policy
        required by EKS Pod Identity.
        """
        return self._made(name, _PODS, ["sts:AssumeRole", "sts:TagSession"], policies)

    def _made(
        self, name: str, service: str, actions: str | list[str], policies: Sequence[str]
    ) -> tuple[aws.iam.Role, list[pulumi.Resource]]:
        trust = {
            "Version": "2012-10-17",
            "Statement": [
                {"Effect": "Allow", "Principal": {"Service": service}, "Action": actions}
            ],
        }
        opts = pulumi.ResourceOptions(parent=self._parent)
        role = aws.iam.Role(
            name, assume_role_policy=json.dumps(trust), tags=dict(self._tags) or None, opts=opts
        )
        rights: list[pulumi.Resource] = [
            aws.iam.RolePolicyAttachment(
                f"{name}-{policy}",
                role=role.name,
                policy_arn=f"arn:{self._partition}:iam::aws:policy/{policy}",
                opts=opts,
            )
            for policy in policies
        ]
        return role, rights
