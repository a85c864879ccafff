"""RBAC for one of our programs: its service account, its roles, and their bindings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

_API_GROUP = "rbac.authorization.k8s.io"


@dataclass(frozen=True, kw_only=True)
class ProgramRights:
    """Creates the objects that give a program its rights.

    component: the prefix of Pulumi's resource names. object_name: the name of every role and
    binding in the cluster.
    """

    component: str
    object_name: str
    service_account: str
    namespace: pulumi.Input[str]
    """The namespace of the service account."""
    opts: pulumi.ResourceOptions

    def create_account(self) -> pulumi.Resource:
        account: pulumi.Resource = k8s.core.v1.ServiceAccount(
            f"{self.component}-account",
            metadata=k8s.meta.v1.ObjectMetaArgs(
                name=self.service_account, namespace=self.namespace
            ),
            opts=self.opts,
        )
        return account

    def bind_cluster_role(self, rules: Sequence[Mapping[str, Any]]) -> pulumi.Resource:
        """Grants the rules in the whole cluster. Returns the binding, which needs the role."""
        role = k8s.rbac.v1.ClusterRole(
            f"{self.component}-role",
            metadata=k8s.meta.v1.ObjectMetaArgs(name=self.object_name),
            rules=[_policy_rule(rule) for rule in rules],
            opts=self.opts,
        )
        binding: pulumi.Resource = k8s.rbac.v1.ClusterRoleBinding(
            f"{self.component}-binding",
            metadata=k8s.meta.v1.ObjectMetaArgs(name=self.object_name),
            role_ref=k8s.rbac.v1.RoleRefArgs(
                api_group=_API_GROUP, kind="ClusterRole", name=role.metadata.name
            ),
            subjects=[self._subject()],
            opts=self.opts,
        )
        return binding

    def bind_role(
        self, suffix: str, namespace: pulumi.Input[str], rules: Sequence[Mapping[str, Any]]
    ) -> pulumi.Resource:
        """Grants the rules in one namespace. suffix: ends the names of both resources."""
        metadata = k8s.meta.v1.ObjectMetaArgs(name=self.object_name, namespace=namespace)
        role = k8s.rbac.v1.Role(
            f"{self.component}-role-{suffix}",
            metadata=metadata,
            rules=[_policy_rule(rule) for rule in rules],
            opts=self.opts,
        )
        binding: pulumi.Resource = k8s.rbac.v1.RoleBinding(
            f"{self.component}-binding-{suffix}",
            metadata=metadata,
            role_ref=k8s.rbac.v1.RoleRefArgs(
                api_group=_API_GROUP, kind="Role", name=role.metadata.name
            ),
            subjects=[self._subject()],
            opts=self.opts,
        )
        return binding

    def _subject(self) -> k8s.rbac.v1.SubjectArgs:
        return k8s.rbac.v1.SubjectArgs(
            kind="ServiceAccount", name=self.service_account, namespace=self.namespace
        )


def _policy_rule(rule: Mapping[str, Any]) -> k8s.rbac.v1.PolicyRuleArgs:
    return k8s.rbac.v1.PolicyRuleArgs(
        api_groups=rule["apiGroups"],
        resources=rule["resources"],
        resource_names=rule.get("resourceNames"),
        verbs=rule["verbs"],
    )
