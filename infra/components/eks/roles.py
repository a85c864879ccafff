"""The IAM roles that a stack creates, each with managed policies of AWS."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pulumi
import pulumi_aws as aws

from slicewright.infra.plan import EksClusterPlan, role_name

_PODS = "pods.eks.amazonaws.com"
"""The service principal of EKS Pod Identity, the same in every partition."""


class Roles:
    """Roles as children of `parent`. Each comes with the attachments that give it its rights."""

    def __init__(
        self, name: str, cluster: EksClusterPlan, partition: str, *, parent: pulumi.Resource
    ) -> None:
        """name: the component's name, which begins the names of the roles' resources."""
        self._name = name
        self._cluster = cluster
        self._partition = partition
        self._parent = parent

    def service_role(
        self, part: str, service: str, policies: Sequence[str]
    ) -> tuple[aws.iam.Role, list[pulumi.Resource]]:
        """A role for an AWS service. part: the part of the stack that the role belongs to."""
        return self._role_with_policies(part, service, "sts:AssumeRole", policies)

    def pod_role(
        self, part: str, policies: Sequence[str]
    ) -> tuple[aws.iam.Role, list[pulumi.Resource]]:
        """A role for pods. EKS tags their sessions. Source: EKS user guide, create IAM role with
        trust policy required by EKS Pod Identity.
        """
        return self._role_with_policies(part, _PODS, ["sts:AssumeRole", "sts:TagSession"], policies)

    def _role_with_policies(
        self, part: str, service: str, actions: str | list[str], policies: Sequence[str]
    ) -> tuple[aws.iam.Role, list[pulumi.Resource]]:
        role = self._role(part, service, actions)
        rights: list[pulumi.Resource] = [
            aws.iam.RolePolicyAttachment(
                f"{self._name}-{part}-{policy}",
                role=role.name,
                policy_arn=f"arn:{self._partition}:iam::aws:policy/{policy}",
                opts=pulumi.ResourceOptions(parent=self._parent),
            )
            for policy in policies
        ]
        return role, rights

    def _role(self, part: str, service: str, actions: str | list[str]) -> aws.iam.Role:
        trust = {
            "Version": "2012-10-17",
            "Statement": [
                {"Effect": "Allow", "Principal": {"Service": service}, "Action": actions}
            ],
        }
        cluster = self._cluster
        name = cluster.role_names[part]
        trigger = role_name(cluster=cluster.name, region=cluster.region, part=part)
        return aws.iam.Role(
            f"{self._name}-{part}",
            name=name,
            assume_role_policy=json.dumps(trust),
            permissions_boundary=cluster.permissions_boundary,
            tags=dict(cluster.tags) or None,
            opts=pulumi.ResourceOptions(
                parent=self._parent,
                # A role of an earlier version keeps its other name, because node groups refer to
                # it: a trigger that is not in the state yet replaces nothing. An existing cluster
                # has the same trigger: a stack that takes over its cluster keeps its node groups.
                ignore_changes=["name"],
                replacement_trigger=[trigger],
            ),
        )
