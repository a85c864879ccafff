"""Inline policies of the simulated IAM's roles, and what they allow."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.errors import aws_error
from slicewright.rehearsal.clouds.aws.policy_evaluation import Context, evaluate
from slicewright.rehearsal.clouds.aws.state import ROLES
from slicewright.rehearsal.clouds.core.context import Methods
from slicewright.rehearsal.clouds.core.store import Store


class RolePolicies:
    def __init__(self, store: Store) -> None:
        self._store = store

    def methods(self) -> Methods:
        return {
            "PutRolePolicy": self._put,
            "GetRolePolicy": self._get,
            "DeleteRolePolicy": self._delete,
            "ListRolePolicies": lambda _, body: {
                "PolicyNames": sorted(inline(self._role(body))),
                "IsTruncated": False,
            },
        }

    def inventory(self) -> list[JsonObject]:
        return [
            {"kind": "iam.rolePolicy", "name": f"{key} {name}"}
            for key, role in self._store.items(ROLES)
            for name in inline(role)
        ]

    def _role(self, body: JsonObject) -> JsonObject:
        role = self._store.get(ROLES, body["RoleName"])
        if role is None:
            raise aws_error(
                "NoSuchEntity", f"The role with name {body['RoleName']} cannot be found.", code=404
            )
        return role

    def _put(self, params: JsonObject, body: JsonObject) -> JsonObject:
        document = _document(body["PolicyDocument"])
        with self._store.lock:
            role = self._role(body)
            changed = inline(role) | {body["PolicyName"]: document}
            self._store.put(ROLES, body["RoleName"], role | {"inline": changed})
        return {}

    def _get(self, params: JsonObject, body: JsonObject) -> JsonObject:
        name = body["PolicyName"]
        document = self._find(self._role(body), name)
        return {
            "RoleName": body["RoleName"],
            "PolicyName": name,
            # The API answers with the document URL-encoded.
            "PolicyDocument": quote(json.dumps(document)),
        }

    def _delete(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._store.lock:
            role = self._role(body)
            self._find(role, body["PolicyName"])
            remaining = {k: v for k, v in inline(role).items() if k != body["PolicyName"]}
            self._store.put(ROLES, body["RoleName"], role | {"inline": remaining})
        return {}

    def _find(self, role: JsonObject, name: str) -> JsonObject:
        policy: JsonObject | None = inline(role).get(name)
        if policy is None:
            raise aws_error(
                "NoSuchEntity", f"The role policy with name {name} cannot be found.", code=404
            )
        return policy


def inline(role: JsonObject) -> dict[str, Any]:
    """Name -> document. Roles of an environment of an earlier version have none."""
    policies: dict[str, Any] = role.get("inline", {})
    return policies


def allows(
    role: JsonObject, action: str, *, resource: str = "*", tags: Mapping[str, str] | None = None
) -> bool:
    """Whether the role may do this on a resource with these tags.

    resource: its ARN; "*" for actions that know none.
    """
    context = {f"aws:resourcetag/{key.lower()}": [value] for key, value in (tags or {}).items()}
    return permits(role, action, resource, context)


def permits(role: JsonObject, action: str, arn: str, context: Context) -> bool:
    """Whether an inline policy of the role allows it, and its permissions boundary as well."""
    kinds = [[*inline(role).values()], *([[role["boundary"]]] if "boundary" in role else [])]
    return all(evaluate(kind, action, arn, context).decision == "allowed" for kind in kinds)


def _as_list(value: Any) -> Iterable[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _document(text: str) -> JsonObject:
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    if not isinstance(document, dict) or not document.get("Statement"):
        raise aws_error("MalformedPolicyDocument", "Syntax errors in policy.")
    for statement in _as_list(document["Statement"]):
        missing = [k for k in ("Effect", "Action", "Resource") if k not in statement]
        if missing:
            raise aws_error(
                "MalformedPolicyDocument",
                f"Syntax errors in policy: a Statement lacks {', '.join(missing)}.",
            )
    return document
