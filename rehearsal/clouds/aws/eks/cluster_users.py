"""AWS principals as users of EKS clusters: by the cluster's access entries.

Only who created a cluster of the authentication mode CONFIG_MAP is in `system:masters`; the
ConfigMap aws-auth is not simulated. Access policies allow requests beside RBAC, without showing in
it. The rights of all but AmazonEKSClusterAdminPolicy are approximations. Sources: EKS user guide,
"Grant IAM users access to Kubernetes with EKS access entries" (user names), "Review access policy
permissions".
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.eks.creator import has_no_access_entries
from slicewright.rehearsal.clouds.aws.state import ACCESS_ENTRIES, CLUSTERS, ClusterRecord
from slicewright.rehearsal.clouds.core.cluster_users import Attributes, User
from slicewright.rehearsal.clouds.core.context import Context

_CREATOR: Final = User(name="kubernetes-admin", groups=("system:masters",))
_READS: Final = ("get", "list", "watch")
_SESSION: Final = "{{SessionName}}"


@dataclass(frozen=True)
class EksUsers:
    """`core.cluster_users.ClusterUsers` of EKS."""

    context: Context

    def has(self, cluster: str) -> bool:
        return self._cluster(cluster) is not None

    def user(self, cluster: str, claims: Mapping[str, Any]) -> User | None:
        record = self._cluster(cluster)
        if record is None or claims.get("cluster") != cluster:
            return None
        principal, arn = claims["principal"], claims["arn"]
        if has_no_access_entries(record["cluster"]):
            return _CREATOR if record.get("creator") == principal else None
        for entry in self._entries(cluster):
            if entry["principalArn"] == principal:
                # EKS puts a hyphen in place of the @ of a session's name.
                session = arn.rpartition("/")[2].replace("@", "-")
                name = entry["username"].replace(_SESSION, session)
                return User(name=name, groups=tuple(entry["kubernetesGroups"]))
        return None

    def refusal(self, cluster: str, user: str, attributes: Attributes) -> str | None:
        for entry in self._entries(cluster):
            name = re.escape(entry["username"]).replace(re.escape(_SESSION), r"[^/]+")
            if re.fullmatch(name, user) and any(
                _allows(policy, attributes) for policy in entry["_policies"]
            ):
                return None
        return ""

    def _cluster(self, name: str) -> ClusterRecord | None:
        for key, record in self.context.store.items(CLUSTERS):
            if key.partition("/")[2] == name:
                return record
        return None

    def _entries(self, cluster: str) -> Iterator[JsonObject]:
        for key, entry in self.context.store.items(ACCESS_ENTRIES):
            if key.split("/")[1] == cluster:
                yield entry


def _allows(association: JsonObject, attributes: Attributes) -> bool:
    scope = association["accessScope"]
    if scope["type"] == "namespace" and not any(
        fnmatch.fnmatchcase(attributes.namespace, pattern) for pattern in scope["namespaces"]
    ):
        return False
    reads = attributes.verb in _READS
    match association["policyArn"].rpartition("/")[2]:
        case "AmazonEKSClusterAdminPolicy":
            return True
        case "AmazonEKSAdminViewPolicy":
            return reads
        case "AmazonEKSViewPolicy":
            return reads and bool(attributes.namespace) and attributes.resource != "secrets"
        case "AmazonEKSSecretReaderPolicy":
            return reads and attributes.resource == "secrets"
        case "AmazonEKSAdminPolicy":
            return bool(attributes.namespace)
        case "AmazonEKSEditPolicy":
            return bool(attributes.namespace) and attributes.group != "rbac.authorization.k8s.io"
        case _:
            return False
