"""What the simulated IAM checks a request against.

Source: service authorization reference, AWS Identity and Access Management: UpdateAssumeRolePolicy
and DeleteRole know no condition on the role's boundary, and nothing tells what a trust policy or an
inline policy says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.authorization.check import (
    Check,
    by_key,
    request_tags,
    resource_tags,
)
from slicewright.rehearsal.clouds.aws.boundaries import boundary_arn
from slicewright.rehearsal.clouds.aws.policy_evaluation import Context
from slicewright.rehearsal.clouds.aws.state import ROLES
from slicewright.rehearsal.clouds.core.store import Store

_HOME: Final = "us-east-1"
"""The region of IAM's own endpoint. Source: IAM user guide, aws:RequestedRegion."""
_SETS_BOUNDARY: Final = ("CreateRole", "PutRolePermissionsBoundary")
_KNOWS_BOUNDARY: Final = (
    *("AttachRolePolicy", "DetachRolePolicy", "PutRolePolicy", "DeleteRolePolicy"),
    "DeleteRolePermissionsBoundary",
)
_NAMED: Final[Mapping[str, str]] = {
    "InstanceProfileName": "instance-profile",
    "RoleName": "role",
    "UserName": "user",
    "GroupName": "group",
    "PolicyName": "policy",
}
"""Parameter -> kind of the resource that it names; the first that a request has is what AWS checks.
"""
_ARNS: Final = ("OpenIDConnectProviderArn", "SAMLProviderArn", "PolicyArn")


def iam_checks(store: Store, account: str, operation: str, body: JsonObject) -> Iterator[Check]:
    role = store.get(ROLES, body.get("RoleName", "")) or {}
    tags = request_tags(by_key(body.get("Tags")))
    arn = _arn(account, role, body)
    context: Context = {
        "aws:requestedregion": [_HOME],
        **resource_tags(by_key(role.get("Tags"))),
        **tags,
        **({"aws:tagkeys": list(body["TagKeys"])} if "TagKeys" in body else {}),
        **_policy(operation, body),
        **_boundary(operation, role, body),
    }
    yield Check(action=f"iam:{operation}", arn=arn, context=context)
    if operation == "CreateRole" and tags:
        yield Check(action="iam:TagRole", arn=arn, context=context)
    if operation == "AddRoleToInstanceProfile":
        yield pass_role(f"arn:aws:iam::{account}:role/{body['RoleName']}", "ec2.amazonaws.com")


def pass_role(arn: str, service: str) -> Check:
    """The right that handing a role to a service needs."""
    context = {"aws:requestedregion": [_HOME], "iam:passedtoservice": [service]}
    return Check(action="iam:PassRole", arn=arn, context=context)


def _arn(account: str, role: JsonObject, body: JsonObject) -> str:
    for name, kind in _NAMED.items():
        if name in body:
            if kind == "role" and role:
                return str(role["Arn"])
            path = str(body.get("Path", "/"))
            return f"arn:aws:iam::{account}:{kind}{path}{body[name]}"
    return str(next((body[name] for name in _ARNS if name in body), "*"))


def _policy(operation: str, body: JsonObject) -> Context:
    attaches = operation in ("AttachRolePolicy", "DetachRolePolicy")
    return {"iam:policyarn": [body["PolicyArn"]]} if attaches else {}


def _boundary(operation: str, role: JsonObject, body: JsonObject) -> Context:
    if operation in _SETS_BOUNDARY:
        arn = body.get("PermissionsBoundary")
    else:
        arn = boundary_arn(role) if operation in _KNOWS_BOUNDARY else None
    return {"iam:permissionsboundary": [arn]} if arn is not None else {}
