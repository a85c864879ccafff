"""An access entry gives a principal of AWS its rights in an EKS cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

CLUSTER_ADMIN: Final = "AmazonEKSClusterAdminPolicy"


@dataclass(frozen=True, kw_only=True)
class AccessPolicyPlan:
    name: str
    arn: str
    namespaces: tuple[str, ...]
    """Sorted. Empty: the whole cluster."""


@dataclass(frozen=True, kw_only=True)
class AccessEntryPlan:
    name: str
    """Name of the Pulumi resource. It does not depend on the entry's place in the file."""
    principal: str
    """ARN."""
    groups: tuple[str, ...]
    """Sorted."""
    policies: tuple[AccessPolicyPlan, ...]
    """Sorted by name."""

    @property
    def administers(self) -> bool:
        """Whether it has all rights in the whole cluster."""
        return any(
            policy.name == CLUSTER_ADMIN and not policy.namespaces for policy in self.policies
        )
