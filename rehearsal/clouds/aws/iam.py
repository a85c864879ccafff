"""The simulated AWS IAM: roles, their trust policies, and the policies that they have."""

from __future__ import annotations

import json
import secrets
import time
import unicodedata
from typing import Any
from urllib.parse import quote

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.account import account_of
from slicewright.rehearsal.clouds.aws.boundaries import Boundaries, with_boundary
from slicewright.rehearsal.clouds.aws.errors import aws_error
from slicewright.rehearsal.clouds.aws.role_policies import RolePolicies, inline
from slicewright.rehearsal.clouds.aws.state import INSTANCE_PROFILES, ROLES
from slicewright.rehearsal.clouds.core.context import Context, Methods, now
from slicewright.rehearsal.clouds.core.errors import CloudError

ACCOUNT = "123456789012"
SPOT_ROLE = "AWSServiceRoleForEC2Spot"
_MOST_TAGS = 50
"""Of a role. Source: IAM user guide, IAM and AWS STS quotas."""
_TAG_SIGNS = "_.:/=+-@"
"""Beside letters, numbers and spaces. Source: IAM API, Tag."""
# The managed policies that clusters and nodes may name. Source: "AWS Managed Policy Reference".
_MANAGED = {
    "AmazonEKSClusterPolicy", "AmazonEKSVPCResourceController", "AmazonEKSServicePolicy",
    "AmazonEKSWorkerNodePolicy",
    "AmazonEKSWorkerNodeMinimalPolicy", "AmazonEC2ContainerRegistryPullOnly",
    "AmazonEC2ContainerRegistryReadOnly",
    "AmazonEKS_CNI_Policy", "AmazonSSMManagedInstanceCore", "service-role/AmazonEBSCSIDriverPolicy",
    "AmazonEBSCSIDriverPolicyV2", "AmazonEBSCSIDriverEKSClusterScopedPolicy",
    "CloudWatchAgentServerPolicy",
    "AmazonS3ReadOnlyAccess", "AmazonEKSComputePolicy", "AmazonEKSNetworkingPolicy",
    "AmazonEKSLoadBalancingPolicy",
    "AmazonEKSBlockStoragePolicy",
}  # fmt: skip


class AwsIam:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._store = context.store
        self._inline = RolePolicies(context.store)
        self._boundaries = Boundaries(context)

    def methods(self) -> Methods:
        return {
            **self._inline.methods(),
            **self._boundaries.methods(),
            "CreateRole": self._create,
            "GetRole": lambda _, body: {"Role": shown_role(self._role(body))},
            "UpdateAssumeRolePolicy": self._update_trust,
            "UpdateRole": self._update,
            "UpdateRoleDescription": self._describe,
            "DeleteRole": self._delete,
            "AttachRolePolicy": self._attach,
            "DetachRolePolicy": self._detach,
            "ListAttachedRolePolicies": lambda _, body: {
                "AttachedPolicies": _policies(self._role(body)),
                "IsTruncated": False,
            },
            "TagRole": self._tag,
            "UntagRole": self._untag,
        }

    def inventory(self) -> list[JsonObject]:
        roles = list(self._store.items(ROLES))
        attached = [
            {"kind": "iam.rolePolicyAttachment", "name": f"{key} {arn}"}
            for key, role in roles
            for arn in role["policies"]
        ]
        profiles = [
            {"kind": "iam.instanceProfile", "name": key}
            for key, _ in self._store.items(INSTANCE_PROFILES)
        ]
        resources = [{"kind": "iam.role", "name": key} for key, _ in roles]
        return resources + attached + self._inline.inventory() + profiles

    def _role(self, body: JsonObject) -> JsonObject:
        role = (
            self._store.get(ROLES, body["RoleName"])
            or self._callers_role(body["RoleName"])
            or self._linked_role(body["RoleName"])
        )
        if role is None:
            raise aws_error(
                "NoSuchEntity", f"The role with name {body['RoleName']} cannot be found.", code=404
            )
        return role

    def _callers_role(self, name: str) -> JsonObject | None:
        """The role by which the user of the rehearsal is said to call; it can only be looked at."""
        caller = account_of(self._context).caller
        if caller.role != name:
            return None
        return _given_role(name, caller.role_path, {"AWS": ACCOUNT})

    def _linked_role(self, name: str) -> JsonObject | None:
        """The service-linked role of EC2's spot instances, where the account has it."""
        if name != SPOT_ROLE or not account_of(self._context).spot_role:
            return None
        service = "spot.amazonaws.com"
        return _given_role(name, f"/aws-service-role/{service}/", {"Service": service})

    def _create(self, params: JsonObject, body: JsonObject) -> JsonObject:
        name, path = body["RoleName"], body.get("Path", "/")
        trust = _document(body["AssumeRolePolicyDocument"])
        boundary = self._boundaries.boundary_fields(body.get("PermissionsBoundary"))
        with self._store.lock:
            if self._store.get(ROLES, name):
                raise aws_error(
                    "EntityAlreadyExists", f"Role with name {name} already exists.", code=409
                )
            role = {
                "RoleName": name,
                "Path": path,
                "Arn": f"arn:aws:iam::{ACCOUNT}:role{path}{name}",
                "RoleId": f"AROA{secrets.token_hex(8).upper()}",
                "CreateDate": now(),
                "MaxSessionDuration": body.get("MaxSessionDuration", 3600),
                "Description": body.get("Description", ""),
                "Tags": _tagged([], body.get("Tags", [])),
                **boundary,
                "trust": trust,
                "policies": [],
                "_since": {"role": time.time()},
            }
            return {"Role": shown_role(self._store.put(ROLES, name, role))}

    def _update_trust(self, params: JsonObject, body: JsonObject) -> JsonObject:
        return self._change(body, trust=_document(body["PolicyDocument"]))

    def _update(self, params: JsonObject, body: JsonObject) -> JsonObject:
        return self._change(
            body, **{k: body[k] for k in ("Description", "MaxSessionDuration") if k in body}
        )

    def _describe(self, params: JsonObject, body: JsonObject) -> JsonObject:
        self._change(body, Description=body["Description"])
        return {"Role": shown_role(self._role(body))}

    def _change(self, body: JsonObject, **fields: Any) -> JsonObject:
        with self._store.lock:
            self._store.put(ROLES, body["RoleName"], self._role(body) | fields)
        return {}

    def _delete(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._store.lock:
            role = self._role(body)
            if role["policies"]:
                raise aws_error(
                    "DeleteConflict",
                    "Cannot delete entity, must detach all policies first.",
                    code=409,
                )
            if inline(role):
                raise aws_error(
                    "DeleteConflict", "Cannot delete entity, must delete policies first.", code=409
                )
            if self._profiles_of(body["RoleName"]):
                raise aws_error(
                    "DeleteConflict",
                    "Cannot delete entity, must remove roles from instance profile first.",
                    code=409,
                )
            self._store.delete(ROLES, body["RoleName"])
        return {}

    def _profiles_of(self, role_name: str) -> list[JsonObject]:
        return [p for p in self._store.values(INSTANCE_PROFILES) if p["RoleName"] == role_name]

    def _attach(self, params: JsonObject, body: JsonObject) -> JsonObject:
        arn = body["PolicyArn"]
        if (
            not arn.startswith("arn:aws:iam::aws:policy/")
            or arn.removeprefix("arn:aws:iam::aws:policy/") not in _MANAGED
        ):
            raise aws_error(
                "NoSuchEntity", f"Policy {arn} does not exist or is not attachable.", code=404
            )
        with self._store.lock:
            role = self._role(body)
            since = (
                role["_since"] if arn in role["policies"] else role["_since"] | {arn: time.time()}
            )
            return self._change(body, policies=sorted({*role["policies"], arn}), _since=since)

    def _detach(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._store.lock:
            role = self._role(body)
            if body["PolicyArn"] not in role["policies"]:
                raise aws_error(
                    "NoSuchEntity", f"Policy {body['PolicyArn']} was not found.", code=404
                )
            return self._change(
                body, policies=[p for p in role["policies"] if p != body["PolicyArn"]]
            )

    def _tag(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._store.lock:
            return self._change(body, Tags=_tagged(self._role(body)["Tags"], body["Tags"]))

    def _untag(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._store.lock:
            return self._change(
                body, Tags=[t for t in self._role(body)["Tags"] if t["Key"] not in body["TagKeys"]]
            )


def _tagged(existing: list[JsonObject], added: list[JsonObject]) -> list[JsonObject]:
    """The tags of a role that is given some. Keys that differ in case only are the same.

    Source: aws/aws-cdk #26253, github-aws-runners/terraform-aws-github-runner #1346.
    """
    for text in (str(t[part]) for t in added for part in ("Key", "Value")):
        if any(c not in _TAG_SIGNS and unicodedata.category(c)[0] not in "LNZ" for c in text):
            raise aws_error(
                "ValidationError",
                f"1 validation error detected: Value '{text}' at 'tags' failed to satisfy "
                r"constraint: Member must satisfy regular expression pattern: "
                r"[\p{L}\p{Z}\p{N}_.:/=+\-@]+",
            )
    new = {str(t["Key"]).casefold(): t for t in added}
    if len(new) < len(added):
        raise aws_error(
            "InvalidInput",
            "Duplicate tag keys found. Please note that Tag keys are case insensitive.",
        )
    tags = {str(t["Key"]).casefold(): t for t in existing} | new
    if len(tags) > _MOST_TAGS:
        raise aws_error(
            "LimitExceeded",
            f"The number of tags has reached the maximum of {_MOST_TAGS}.",
            code=409,
        )
    return sorted(tags.values(), key=lambda t: str(t["Key"]))


def find_role(context: Context, arn: str) -> JsonObject | None:
    return next((r for r in context.store.values(ROLES) if r["Arn"] == arn), None)


def known_role(context: Context, arn: str) -> JsonObject | None:
    """The role as other services know it: new roles and attachments spread slowly.

    Source: IAM user guide, "Troubleshoot IAM: Changes that I make are not always immediately
    visible".
    """
    role = find_role(context, arn)
    spread_s = max(account_of(context).iam_spread_s, context.faults.iam_delay_s())
    before = time.time() - spread_s
    if role is None or role["_since"]["role"] > before:
        return None
    spread = {"policies": [p for p in role["policies"] if role["_since"][p] <= before]}
    return with_boundary(context, role | spread)


def make_instance_profile(context: Context, name: str, role_arn: str) -> None:
    """EKS makes one for each node group; it holds the node role until the group is gone."""
    profile = {
        "InstanceProfileName": name,
        "InstanceProfileId": f"AIPA{secrets.token_hex(8).upper()}",
        "CreateDate": now(),
        "RoleName": role_arn.rpartition("/")[2],
    }
    context.store.put(INSTANCE_PROFILES, name, profile)


def trusts(role: JsonObject, service: str, action: str = "sts:AssumeRole") -> bool:
    """Whether the service may assume the role, or do another thing with it."""
    for statement in role["trust"].get("Statement", []):
        actions, principal = statement.get("Action", []), statement.get("Principal", {})
        services = principal.get("Service", []) if isinstance(principal, dict) else []
        services = [services] if isinstance(services, str) else services
        actions = [actions] if isinstance(actions, str) else actions
        if statement.get("Effect") == "Allow" and action in actions and service in services:
            return True
    return False


def attached(role: JsonObject) -> set[str]:
    """The names of its managed policies."""
    return {arn.rpartition("/")[2] for arn in role["policies"]}


def _given_role(name: str, path: str, principal: JsonObject) -> JsonObject:
    """One that exists from the start."""
    trust = {"Effect": "Allow", "Principal": principal, "Action": "sts:AssumeRole"}
    return {
        "RoleName": name,
        "Path": path,
        "Arn": f"arn:aws:iam::{ACCOUNT}:role{path}{name}",
        "RoleId": "AROAREHEARSALREHEARSA",
        "CreateDate": now(),
        "trust": {"Version": "2012-10-17", "Statement": [trust]},
        "policies": [],
        "_since": {"role": 0.0},
    }


def _document(text: str) -> JsonObject:
    try:
        document = json.loads(text)
    except ValueError:
        raise _malformed("This policy contains invalid JsonObject") from None
    if not isinstance(document, dict) or not document.get("Statement"):
        raise _malformed("Syntax errors in policy: no Statement.")
    statements = document["Statement"]
    document["Statement"] = [statements] if isinstance(statements, dict) else statements
    for statement in document["Statement"]:
        missing = [k for k in ("Effect", "Principal", "Action") if k not in statement]
        if missing:
            raise _malformed(f"Syntax errors in policy: a Statement lacks {', '.join(missing)}.")
    return document


def _malformed(message: str) -> CloudError:
    return aws_error("MalformedPolicyDocument", message)


def shown_role(role: JsonObject) -> JsonObject:
    """In the API's form."""
    hidden = ("trust", "policies", "inline", "boundary", "_since")
    visible = {k: v for k, v in role.items() if k not in hidden}
    # The API answers with the document URL-encoded.
    return visible | {"AssumeRolePolicyDocument": quote(json.dumps(role["trust"]))}


def _policies(role: JsonObject) -> list[JsonObject]:
    return [{"PolicyName": arn.rpartition("/")[2], "PolicyArn": arn} for arn in role["policies"]]
