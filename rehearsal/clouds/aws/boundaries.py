"""Permissions boundaries of the simulated IAM's roles.

Source: IAM user guide, permissions boundaries for IAM entities; IAM API reference,
PutRolePermissionsBoundary, DeleteRolePermissionsBoundary.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.account import account_of
from slicewright.rehearsal.clouds.aws.errors import aws_error
from slicewright.rehearsal.clouds.aws.state import ROLES
from slicewright.rehearsal.clouds.core.context import Context, Methods

_FIELD = "PermissionsBoundary"
_KIND = "PermissionsBoundaryPolicy"


class Boundaries:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._store = context.store

    def methods(self) -> Methods:
        return {
            "PutRolePermissionsBoundary": self._put,
            "DeleteRolePermissionsBoundary": self._delete,
            "GetPolicy": self._policy,
        }

    def boundary_fields(self, arn: str | None) -> JsonObject:
        """What a role with this boundary has in its record. Raises CloudError."""
        if arn is None:
            return {}
        boundaries = account_of(self._context).boundaries
        if boundaries is not None and arn not in boundaries:
            raise aws_error(
                "NoSuchEntity", f"Scope ARN: {arn} does not exist or is not attachable.", code=404
            )
        attachment = {"PermissionsBoundaryType": _KIND, "PermissionsBoundaryArn": arn}
        return {_FIELD: attachment}

    def _policy(self, params: JsonObject, body: JsonObject) -> JsonObject:
        arn, boundaries = str(body["PolicyArn"]), account_of(self._context).boundaries
        if boundaries is not None and arn not in boundaries:
            raise aws_error("NoSuchEntity", f"Policy {arn} was not found.", code=404)
        policy = {"Arn": arn, "PolicyName": arn.rpartition("/")[2], "IsAttachable": True}
        return {"Policy": policy}

    def _put(self, params: JsonObject, body: JsonObject) -> JsonObject:
        boundary = self.boundary_fields(body[_FIELD])
        with self._store.lock:
            self._store.put(ROLES, body["RoleName"], self._role(body) | boundary)
        return {}

    def _delete(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._store.lock:
            role = self._role(body)
            if _FIELD not in role:
                message = f"Role {body['RoleName']} does not have a permissions boundary."
                raise aws_error("NoSuchEntity", message, code=404)
            without = {key: value for key, value in role.items() if key != _FIELD}
            self._store.put(ROLES, body["RoleName"], without)
        return {}

    def _role(self, body: JsonObject) -> JsonObject:
        role = self._store.get(ROLES, body["RoleName"])
        if role is None:
            raise aws_error(
                "NoSuchEntity", f"The role with name {body['RoleName']} cannot be found.", code=404
            )
        return role


def boundary_arn(role: JsonObject) -> str | None:
    attachment: Mapping[str, Any] = role.get(_FIELD, {})
    return attachment.get("PermissionsBoundaryArn")


def with_boundary(context: Context, role: JsonObject) -> JsonObject:
    """The role with the document of its boundary as `boundary`, where it has one."""
    arn, boundaries = boundary_arn(role), account_of(context).boundaries
    if arn is None or boundaries is None:
        return role
    # A boundary that was deleted allows nothing.
    return role | {"boundary": boundaries.get(arn, {"Statement": []})}
