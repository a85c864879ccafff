"""Instance profiles of the simulated IAM: those that EKS makes for node groups, and others."""

from __future__ import annotations

import secrets

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.errors import aws_error
from slicewright.rehearsal.clouds.aws.iam import ACCOUNT, shown_role
from slicewright.rehearsal.clouds.aws.state import INSTANCE_PROFILES, ROLES
from slicewright.rehearsal.clouds.core.context import Context, Methods, now_precisely
from slicewright.rehearsal.clouds.core.errors import CloudError


class InstanceProfiles:
    def __init__(self, context: Context) -> None:
        self._store = context.store

    def methods(self) -> Methods:
        return {
            "CreateInstanceProfile": self._create,
            "GetInstanceProfile": lambda _, body: {
                "InstanceProfile": self._describe(self._find(body))
            },
            "ListInstanceProfiles": self._list,
            "ListInstanceProfilesForRole": self._list_of_role,
            "ListInstanceProfileTags": lambda _, body: {
                "Tags": self._find(body).get("Tags", []),
                "IsTruncated": False,
            },
            "AddRoleToInstanceProfile": self._add_role,
            "RemoveRoleFromInstanceProfile": self._remove_role,
            "DeleteInstanceProfile": self._delete,
        }

    def _create(self, params: JsonObject, body: JsonObject) -> JsonObject:
        name = body["InstanceProfileName"]
        with self._store.lock:
            if self._store.get(INSTANCE_PROFILES, name):
                raise aws_error(
                    "EntityAlreadyExists", f"Instance Profile {name} already exists.", code=409
                )
            profile = {
                "InstanceProfileName": name,
                "InstanceProfileId": f"AIPA{secrets.token_hex(8).upper()}",
                "CreateDate": now_precisely(),
                "RoleName": "",
                "Path": body.get("Path", "/"),
                "Tags": body.get("Tags", []),
            }
            return {"InstanceProfile": self._describe(self._put(profile))}

    def _list(self, params: JsonObject, body: JsonObject) -> JsonObject:
        """Without tags, as IAM lists them."""
        prefix = body.get("PathPrefix", "/")
        profiles = [
            self._describe(profile)
            for profile in self._store.values(INSTANCE_PROFILES)
            if _path(profile).startswith(prefix)
        ]
        listed = [{k: v for k, v in profile.items() if k != "Tags"} for profile in profiles]
        return {"InstanceProfiles": listed, "IsTruncated": False}

    def _list_of_role(self, params: JsonObject, body: JsonObject) -> JsonObject:
        name = body["RoleName"]
        if self._store.get(ROLES, name) is None:
            raise _no_role(name)
        profiles = [p for p in self._store.values(INSTANCE_PROFILES) if p["RoleName"] == name]
        return {"InstanceProfiles": [self._describe(p) for p in profiles], "IsTruncated": False}

    def _add_role(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._store.lock:
            profile = self._find(body)
            if self._store.get(ROLES, body["RoleName"]) is None:
                raise _no_role(body["RoleName"])
            if profile["RoleName"]:
                raise aws_error(
                    "LimitExceeded",
                    "Cannot exceed quota for InstanceSessionsPerInstanceProfile: 1",
                    code=409,
                )
            self._put(profile | {"RoleName": body["RoleName"]})
        return {}

    def _remove_role(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._store.lock:
            profile = self._find(body)
            if profile["RoleName"] != body["RoleName"]:
                raise _no_role(body["RoleName"])
            self._put(profile | {"RoleName": ""})
        return {}

    def _delete(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._store.lock:
            profile = self._find(body)
            if profile["RoleName"]:
                raise aws_error(
                    "DeleteConflict",
                    "Cannot delete entity, must remove roles from instance profile first.",
                    code=409,
                )
            self._store.delete(INSTANCE_PROFILES, profile["InstanceProfileName"])
        return {}

    def _find(self, body: JsonObject) -> JsonObject:
        name = body["InstanceProfileName"]
        profile = self._store.get(INSTANCE_PROFILES, name)
        if profile is None:
            raise aws_error("NoSuchEntity", f"Instance Profile {name} cannot be found.", code=404)
        return profile

    def _put(self, profile: JsonObject) -> JsonObject:
        return self._store.put(INSTANCE_PROFILES, profile["InstanceProfileName"], profile)

    def _describe(self, profile: JsonObject) -> JsonObject:
        role = self._store.get(ROLES, profile["RoleName"]) if profile["RoleName"] else None
        return {
            "Path": _path(profile),
            "InstanceProfileName": profile["InstanceProfileName"],
            "InstanceProfileId": profile["InstanceProfileId"],
            "Arn": f"arn:aws:iam::{ACCOUNT}:instance-profile{_path(profile)}"
            f"{profile['InstanceProfileName']}",
            "CreateDate": profile["CreateDate"],
            "Roles": [] if role is None else [shown_role(role)],
            "Tags": profile.get("Tags", []),
        }


def _path(profile: JsonObject) -> str:
    """Those of node groups have none of their own."""
    return str(profile.get("Path", "/"))


def _no_role(name: str) -> CloudError:
    return aws_error("NoSuchEntity", f"The role with name {name} cannot be found.", code=404)
