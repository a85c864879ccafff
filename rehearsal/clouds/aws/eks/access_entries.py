"""EKS access entries: who may use a cluster's Kubernetes API (`cluster_users`).

Sources: EKS user guide, create access entries, and associate access policies; messages:
terraform-aws-modules/terraform-aws-eks #2915 (groups), #3293 (a second entry),
cartography-cncf/cartography (authentication modes), hashicorp/terraform-provider-aws,
internal/service/eks/access_entry.go and access_policy_association.go (principals). How EKS words
the others is not known.
"""

from __future__ import annotations

import re

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.account import account_of
from slicewright.rehearsal.clouds.aws.eks.checks import invalid, refused
from slicewright.rehearsal.clouds.aws.eks.clusters import Clusters
from slicewright.rehearsal.clouds.aws.eks.creator import (
    has_no_access_entries,
    new_entry,
    public_fields,
)
from slicewright.rehearsal.clouds.aws.eks.updates import in_use
from slicewright.rehearsal.clouds.aws.errors import aws_error
from slicewright.rehearsal.clouds.aws.iam import ACCOUNT, known_role
from slicewright.rehearsal.clouds.aws.state import ACCESS_ENTRIES
from slicewright.rehearsal.clouds.core.context import Context, Methods, now

_MOST = 3000
"""Of a cluster. Source: EKS service quotas."""
_PRINCIPAL = re.compile(r"arn:aws[a-z-]*:iam::(?P<account>\d{12}):(?:role|user)/\S+")
_POLICY = re.compile(r"arn:aws[a-z-]*:eks::aws:cluster-access-policy/(?P<name>\w+)")
_POLICIES = frozenset(
    {
        "AmazonEKSAdminPolicy",
        "AmazonEKSAdminViewPolicy",
        "AmazonEKSClusterAdminPolicy",
        "AmazonEKSEditPolicy",
        "AmazonEKSSecretReaderPolicy",
        "AmazonEKSViewPolicy",
    }
)


class AccessEntries:
    def __init__(self, context: Context, clusters: Clusters) -> None:
        self._context = context
        self._store = context.store
        self._clusters = clusters

    def methods(self) -> Methods:
        return {
            "CreateAccessEntry": self._create,
            "DescribeAccessEntry": lambda params, body: {
                "accessEntry": public_fields(self._entry(params, body))
            },
            "ListAccessEntries": self._list,
            "UpdateAccessEntry": self._update,
            "DeleteAccessEntry": self._delete,
            "AssociateAccessPolicy": self._associate,
            "DisassociateAccessPolicy": self._disassociate,
            "ListAssociatedAccessPolicies": lambda params, body: {
                "clusterName": body["clusterName"],
                "principalArn": body["principalArn"],
                "associatedAccessPolicies": self._entry(params, body)["_policies"],
            },
        }

    def _cluster(self, params: JsonObject, body: JsonObject) -> None:
        item = self._clusters.find(params, body["clusterName"])
        if has_no_access_entries(item["cluster"]):
            raise refused(
                "The cluster's authentication mode must be set to one of [API, API_AND_CONFIG_MAP] "
                "to perform this operation."
            )

    def _entry(self, params: JsonObject, body: JsonObject) -> JsonObject:
        self._cluster(params, body)
        entry = self._store.get(ACCESS_ENTRIES, _key(params, body))
        if entry is None:
            raise aws_error(
                "ResourceNotFoundException",
                "The specified principalArn could not be found. You can view your available access "
                "entries with 'list-access-entries'.",
                code=404,
            )
        return entry

    def _list(self, params: JsonObject, body: JsonObject) -> JsonObject:
        self._cluster(params, body)
        prefix = f"{params['region']}/{body['clusterName']}/"
        entries = self._store.values(ACCESS_ENTRIES, prefix=prefix)
        return {"accessEntries": [entry["principalArn"] for entry in entries]}

    def _create(self, params: JsonObject, body: JsonObject) -> JsonObject:
        region, cluster, principal = params["region"], body["clusterName"], body["principalArn"]
        if body.get("type", "STANDARD") != "STANDARD":
            raise invalid("the rehearsal's cloud simulates access entries of type STANDARD only")
        with self._store.lock:
            self._cluster(params, body)
            self._check_principal(principal)
            _check_groups(body.get("kubernetesGroups") or [])
            existing = self._store.values(ACCESS_ENTRIES, prefix=f"{region}/{cluster}/")
            if any(entry["principalArn"] == principal for entry in existing):
                raise in_use(
                    "The specified access entry resource is already in use on this cluster."
                )
            if len(existing) >= _MOST:
                raise aws_error(
                    "ResourceLimitExceededException",
                    f"Cluster {cluster} has the maximum number of access entries, {_MOST}.",
                )
            entry = new_entry(region, cluster, principal) | {
                "kubernetesGroups": body.get("kubernetesGroups") or [],
                "tags": body.get("tags", {}),
                **({"username": body["username"]} if body.get("username") else {}),
            }
            self._store.put(ACCESS_ENTRIES, _key(params, body), entry)
        return {"accessEntry": public_fields(entry)}

    def _check_principal(self, arn: str) -> None:
        """Of this account, what there is; of others, whatever looks like one. Raises CloudError."""
        parts = _PRINCIPAL.fullmatch(arn)
        in_account = parts is not None and parts["account"] == ACCOUNT
        principal_exists = (
            not in_account
            or arn == account_of(self._context).caller.principal
            or known_role(self._context, arn) is not None
        )
        if parts is None or not principal_exists or ":role/aws-service-role/" in arn:
            raise invalid("The specified principalArn is invalid: invalid principal.")

    def _update(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._store.lock:
            entry = self._entry(params, body)
            _check_groups(body.get("kubernetesGroups") or [])
            changed_fields = ("kubernetesGroups", "username")
            changed: JsonObject = {k: body[k] for k in changed_fields if k in body}
            entry = entry | changed | {"modifiedAt": now()}
            self._store.put(ACCESS_ENTRIES, _key(params, body), entry)
        return {"accessEntry": public_fields(entry)}

    def _delete(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._store.lock:
            self._entry(params, body)
            self._store.delete(ACCESS_ENTRIES, _key(params, body))
        return {}

    def _associate(self, params: JsonObject, body: JsonObject) -> JsonObject:
        """Again, it changes the scope."""
        policy, scope = body["policyArn"], body["accessScope"]
        with self._store.lock:
            entry = self._entry(params, body)
            parts = _POLICY.fullmatch(policy)
            if parts is None or parts["name"] not in _POLICIES:
                raise invalid(f"The specified policyArn {policy} is invalid")
            _check_scope(scope)
            before = [
                policy_entry
                for policy_entry in entry["_policies"]
                if policy_entry["policyArn"] == policy
            ]
            association = {
                "policyArn": policy,
                "accessScope": {"type": scope["type"], "namespaces": scope.get("namespaces", [])},
                "associatedAt": before[0]["associatedAt"] if before else now(),
                "modifiedAt": now(),
            }
            remaining = [
                policy_entry
                for policy_entry in entry["_policies"]
                if policy_entry["policyArn"] != policy
            ]
            entry["_policies"] = [*remaining, association]
            self._store.put(ACCESS_ENTRIES, _key(params, body), entry)
        names = {"clusterName": body["clusterName"], "principalArn": body["principalArn"]}
        return {**names, "associatedAccessPolicy": association}

    def _disassociate(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._store.lock:
            entry = self._entry(params, body)
            remaining = [
                policy_entry
                for policy_entry in entry["_policies"]
                if policy_entry["policyArn"] != body["policyArn"]
            ]
            if len(remaining) == len(entry["_policies"]):
                raise aws_error(
                    "ResourceNotFoundException",
                    f"The policy {body['policyArn']} is not associated with the access entry.",
                    code=404,
                )
            entry["_policies"] = remaining
            self._store.put(ACCESS_ENTRIES, _key(params, body), entry)
        return {}


def _check_groups(groups: list[str]) -> None:
    for group in groups:
        if group.startswith("system:"):
            raise invalid(
                f"The kubernetes group name {group} is invalid, it cannot start with system:"
            )


def _check_scope(scope: JsonObject) -> None:
    if (scope["type"] == "namespace") != bool(scope.get("namespaces")):
        raise invalid(
            "accessScope: namespaces are required for the type namespace, and for no other"
        )


def _key(params: JsonObject, body: JsonObject) -> str:
    return f"{params['region']}/{body['clusterName']}/{body['principalArn']}"
