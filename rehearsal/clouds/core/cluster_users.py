"""The identities of a cloud as users of the Kubernetes APIs of its clusters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, kw_only=True)
class User:
    name: str
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Attributes:
    """The request whose right an API server asks for. Empty strings: not a resource, or cluster
    scope.
    """

    verb: str
    group: str = ""
    resource: str = ""
    namespace: str = ""
    path: str = ""


class ClusterUsers(Protocol):
    """The authenticator and the authorizer of one cloud's clusters, beside RBAC."""

    def has(self, cluster: str) -> bool:
        """True if the cluster belongs to this cloud."""

    def user(self, cluster: str, claims: Mapping[str, Any]) -> User | None:
        """The user that an identity is in this cluster. None: the cluster does not know it."""

    def refusal(self, cluster: str, user: str, attributes: Attributes) -> str | None:
        """Why the cloud gives the user no right. None: the cloud allows the request."""
