"""Google accounts as users of GKE clusters: the name is the e-mail address, and there is no group.

IAM allows requests beside RBAC. Here an account has all rights of `roles/container.admin`, or none.
Sources: GKE docs, "Role-based access control" and "Create IAM allow policies" (interaction with
Kubernetes RBAC), and "Plan access control" (form of a refusal).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slicewright.rehearsal.clouds.core.cluster_users import Attributes, User
from slicewright.rehearsal.clouds.core.context import Context
from slicewright.rehearsal.clouds.gcp.account import account_of
from slicewright.rehearsal.clouds.gcp.state import CLUSTERS

_VERBS = {"patch": "update", "watch": "list", "deletecollection": "delete"}
"""Verb of Kubernetes -> verb in the name of the permission, if they differ."""


@dataclass(frozen=True)
class GkeUsers:
    """`core.cluster_users.ClusterUsers` of GKE."""

    context: Context

    def has(self, cluster: str) -> bool:
        clusters = self.context.store.items(CLUSTERS)
        return any(record["cluster"]["name"] == cluster for _, record in clusters)

    def user(self, cluster: str, claims: Mapping[str, Any]) -> User | None:
        """Every Google account is a user of every cluster; its rights are another matter."""
        return User(name=claims["account"]) if claims.get("cloud") == "google" else None

    def refusal(self, cluster: str, user: str, attributes: Attributes) -> str | None:
        if user in account_of(self.context).cluster_admins:
            return None
        verb = _VERBS.get(attributes.verb, attributes.verb)
        permission = f"container.{attributes.resource or 'nonResourcePaths'}.{verb}"
        return f'requires one of ["{permission}"] permission(s).'
