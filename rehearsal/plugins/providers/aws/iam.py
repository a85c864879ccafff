"""aws:iam Role, RolePolicy and RolePolicyAttachment.

Source of the API calls: hashicorp/terraform-provider-aws, internal/service/iam/role.go.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from slicewright.rehearsal.plugins.bridge.resources import (
    Autoname,
    CreateResult,
    Resource,
    Session,
    State,
    not_simulated,
    prior_values,
)
from slicewright.rehearsal.plugins.engine.plugin import CheckFailure
from slicewright.rehearsal.plugins.engine.properties import Properties
from slicewright.rehearsal.plugins.providers.aws.calls import (
    call,
    or_none,
    seen_tags,
    tag_changes,
    tag_list,
    tag_map,
)

_SIMULATED = (
    "name",
    "namePrefix",
    "assumeRolePolicy",
    "description",
    "path",
    "maxSessionDuration",
    "forceDetachPolicies",
    "permissionsBoundary",
    "tags",
)


class Role(Resource):
    kind = "aws:iam/role:Role"
    force_new = ("name", "namePrefix", "path")
    keeps = ("name",)
    autoname = Autoname("name", 64, prefix_property="namePrefix")

    def defaults(self, inputs: Properties, settings: Mapping[str, str]) -> Properties:
        return {"path": "/", "maxSessionDuration": 3600, "forceDetachPolicies": False}

    def rules(self, inputs: Properties) -> Sequence[CheckFailure]:
        failures = not_simulated(
            inputs, _SIMULATED, hint="; give it policies with RolePolicy and RolePolicyAttachment"
        )
        policy = inputs.get("assumeRolePolicy")
        if isinstance(policy, str):
            try:
                json.loads(policy)
            except ValueError as e:
                failures.append(
                    CheckFailure("assumeRolePolicy", f"contains an invalid JSON policy: {e}")
                )
        return failures

    def create(self, session: Session, inputs: Properties) -> CreateResult:
        name = inputs.get("name") or f"{inputs['namePrefix']}{secrets.token_hex(8)}"
        call(
            session,
            inputs,
            "iam",
            "CreateRole",
            RoleName=name,
            AssumeRolePolicyDocument=_text(inputs["assumeRolePolicy"]),
            Path=inputs.get("path"),
            Description=inputs.get("description"),
            MaxSessionDuration=inputs.get("maxSessionDuration"),
            PermissionsBoundary=inputs.get("permissionsBoundary"),
            Tags=tag_list(inputs.get("tags")) or None,
        )
        return CreateResult(str(name))

    def read(self, session: Session, resource_id: str, inputs: Properties) -> State | None:
        answer = or_none(session, inputs, "iam", "GetRole", RoleName=resource_id)
        if answer is None:
            return None
        role = answer["Role"]
        tags = tag_map(role["Tags"])
        trust, prior_trust = (
            json.dumps(role["AssumeRolePolicyDocument"]),
            inputs.get("assumeRolePolicy"),
        )
        # Texts of the same policy may differ in form.
        if prior_trust is not None and _normal(prior_trust) == _normal(trust):
            trust = prior_trust
        read_inputs = {
            "assumeRolePolicy": trust,
            "path": role["Path"],
            "maxSessionDuration": role["MaxSessionDuration"],
        }
        if role.get("Description") or "description" in inputs:
            read_inputs["description"] = role.get("Description", "")
        if boundary := role.get("PermissionsBoundary"):
            read_inputs["permissionsBoundary"] = boundary["PermissionsBoundaryArn"]
        if "namePrefix" not in inputs:
            read_inputs["name"] = role["RoleName"]
        outputs = {
            **read_inputs,
            "name": role["RoleName"],
            "arn": role["Arn"],
            "uniqueId": role["RoleId"],
            "createDate": role["CreateDate"],
            "tags": tags,
            "tagsAll": tags,
            "forceDetachPolicies": False,
        }
        return State(
            {
                **read_inputs,
                **seen_tags(tags, inputs),
                **prior_values(inputs, "namePrefix", "forceDetachPolicies"),
            },
            outputs,
        )

    def update(
        self, session: Session, resource_id: str, old: Properties, new: Properties
    ) -> Sequence[str]:
        if _normal(old.get("assumeRolePolicy")) != _normal(new["assumeRolePolicy"]):
            document = _text(new["assumeRolePolicy"])
            call(
                session,
                new,
                "iam",
                "UpdateAssumeRolePolicy",
                RoleName=resource_id,
                PolicyDocument=document,
            )
        if old.get("description") != new.get("description"):
            # One that is no longer stated is cleared.
            described = {"Description": new.get("description") or ""}
            call(session, new, "iam", "UpdateRoleDescription", RoleName=resource_id, **described)
        if old.get("maxSessionDuration") != new.get("maxSessionDuration"):
            lasting = {"MaxSessionDuration": new.get("maxSessionDuration")}
            call(session, new, "iam", "UpdateRole", RoleName=resource_id, **lasting)
        if old.get("permissionsBoundary") != (boundary := new.get("permissionsBoundary")):
            kind = "Put" if boundary else "Delete"
            bounded = {"PermissionsBoundary": boundary} if boundary else {}
            operation = f"{kind}RolePermissionsBoundary"
            call(session, new, "iam", operation, RoleName=resource_id, **bounded)
        removed, set_ = tag_changes(old, new)
        if removed:
            call(session, new, "iam", "UntagRole", RoleName=resource_id, TagKeys=removed)
        if set_:
            call(session, new, "iam", "TagRole", RoleName=resource_id, Tags=tag_list(set_))
        return []

    def delete(self, session: Session, resource_id: str, inputs: Properties) -> None:
        if inputs.get("forceDetachPolicies"):
            answer = or_none(
                session, inputs, "iam", "ListAttachedRolePolicies", RoleName=resource_id
            ) or {"AttachedPolicies": []}
            for policy in answer["AttachedPolicies"]:
                call(
                    session,
                    inputs,
                    "iam",
                    "DetachRolePolicy",
                    RoleName=resource_id,
                    PolicyArn=policy["PolicyArn"],
                )
        or_none(session, inputs, "iam", "DeleteRole", RoleName=resource_id)


def _text(policy: Any) -> str:
    """The policy as text; the SDK also accepts a document, and sends it as an object."""
    return policy if isinstance(policy, str) else json.dumps(policy)


def _normal(policy: Any) -> Any:
    """The policy with lists of one item replaced by the item, which IAM treats as the same."""
    if isinstance(policy, str):
        try:
            policy = json.loads(policy)
        except ValueError:
            return policy
    if isinstance(policy, dict):
        return {k: _normal_member(v) for k, v in policy.items()}
    return policy


def _normal_member(value: Any) -> Any:
    if isinstance(value, list) and len(value) == 1:
        return _normal_member(value[0])
    if isinstance(value, dict):
        return {k: _normal_member(v) for k, v in value.items()}
    return [_normal_member(v) for v in value] if isinstance(value, list) else value


class RolePolicyAttachment(Resource):
    kind = "aws:iam/rolePolicyAttachment:RolePolicyAttachment"
    force_new = ("role", "policyArn")
    # As pulumi/pulumi-aws asks for it: otherwise the old attachment's end takes away the new one's
    # right where both are the same.
    delete_before_replace = True

    def create(self, session: Session, inputs: Properties) -> CreateResult:
        role, policy = _role_name(inputs["role"]), str(inputs["policyArn"])
        call(session, inputs, "iam", "AttachRolePolicy", RoleName=role, PolicyArn=policy)
        return CreateResult(f"{role}/{policy}")

    def read(self, session: Session, resource_id: str, inputs: Properties) -> State | None:
        role, _, policy = resource_id.partition("/")
        answer = or_none(session, inputs, "iam", "ListAttachedRolePolicies", RoleName=role)
        if answer is None or not any(p["PolicyArn"] == policy for p in answer["AttachedPolicies"]):
            return None
        read_inputs = {"role": inputs.get("role", role), "policyArn": policy}
        return State(read_inputs, dict(read_inputs))

    def delete(self, session: Session, resource_id: str, inputs: Properties) -> None:
        role, _, policy = resource_id.partition("/")
        or_none(session, inputs, "iam", "DetachRolePolicy", RoleName=role, PolicyArn=policy)


class RolePolicy(Resource):
    """An inline policy. Source: hashicorp/terraform-provider-aws, iam/role_policy.go."""

    kind = "aws:iam/rolePolicy:RolePolicy"
    force_new = ("role", "name", "namePrefix")
    keeps = ("name",)
    autoname = Autoname("name", 128, prefix_property="namePrefix")

    def rules(self, inputs: Properties) -> Sequence[CheckFailure]:
        policy = inputs.get("policy")
        if isinstance(policy, str):
            try:
                json.loads(policy)
            except ValueError as e:
                return [CheckFailure("policy", f"contains an invalid JSON policy: {e}")]
        return []

    def create(self, session: Session, inputs: Properties) -> CreateResult:
        role, name = _role_name(inputs["role"]), str(inputs["name"])
        self._put(session, inputs, role, name)
        return CreateResult(f"{role}:{name}")

    def read(self, session: Session, resource_id: str, inputs: Properties) -> State | None:
        role, _, name = resource_id.partition(":")
        answer = or_none(session, inputs, "iam", "GetRolePolicy", RoleName=role, PolicyName=name)
        if answer is None:
            return None
        policy, prior_policy = json.dumps(answer["PolicyDocument"]), inputs.get("policy")
        # Texts of the same policy may differ in form.
        if prior_policy is not None and _normal(prior_policy) == _normal(policy):
            policy = prior_policy
        read_inputs = {"role": inputs.get("role", role), "name": name, "policy": policy}
        return State(read_inputs, dict(read_inputs))

    def update(
        self, session: Session, resource_id: str, old: Properties, new: Properties
    ) -> Sequence[str]:
        role, _, name = resource_id.partition(":")
        self._put(session, new, role, name)
        return []

    def delete(self, session: Session, resource_id: str, inputs: Properties) -> None:
        role, _, name = resource_id.partition(":")
        or_none(session, inputs, "iam", "DeleteRolePolicy", RoleName=role, PolicyName=name)

    def _put(self, session: Session, inputs: Properties, role: str, name: str) -> None:
        document = _text(inputs["policy"])
        call(
            session,
            inputs,
            "iam",
            "PutRolePolicy",
            RoleName=role,
            PolicyName=name,
            PolicyDocument=document,
        )


def _role_name(role: Any) -> str:
    """The name in a role's id (which is the name) or ARN."""
    return str(role).rpartition("/")[2]
