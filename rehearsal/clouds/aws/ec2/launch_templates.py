"""EC2 launch templates and their versions."""

from __future__ import annotations

import base64
import binascii
import re

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.ec2.resources import (
    filtered,
    key_of,
    missing,
    new_id,
    public_fields,
    tags_of,
)
from slicewright.rehearsal.clouds.aws.errors import aws_error
from slicewright.rehearsal.clouds.aws.iam import ACCOUNT
from slicewright.rehearsal.clouds.aws.state import LAUNCH_TEMPLATES
from slicewright.rehearsal.clouds.core.context import Context, Methods, now
from slicewright.rehearsal.clouds.core.store import Store

# Source: EC2 API reference, CreateLaunchTemplate.
_NAME = re.compile(r"[a-zA-Z0-9().\-/_]{3,128}")
_USER_DATA_BYTES = 16 * 1024
"""Of the decoded text. Source: EC2 user guide, "Run commands when you launch an instance"."""


class LaunchTemplates:
    def __init__(self, context: Context) -> None:
        self._store = context.store

    def methods(self) -> Methods:
        return {
            "CreateLaunchTemplate": self._create,
            "CreateLaunchTemplateVersion": self._create_version,
            "ModifyLaunchTemplate": self._modify,
            "DescribeLaunchTemplates": self._describe,
            "DescribeLaunchTemplateVersions": self._describe_versions,
            "DeleteLaunchTemplate": self._delete,
        }

    def _create(self, params: JsonObject, body: JsonObject) -> JsonObject:
        name = body["LaunchTemplateName"]
        if not _NAME.fullmatch(name):
            raise aws_error(
                "InvalidLaunchTemplateName.MalformedException",
                "A launch template name must be between 3 and 128 characters, and may contain "
                f"letters, numbers, and the following characters: - ( ) . / _; not {name!r}",
            )
        _check_data(body)
        tags = tags_of(body, "launch-template")
        with self._store.lock:
            if any(
                t["LaunchTemplateName"] == name
                for t in self._store.values(LAUNCH_TEMPLATES, prefix=f"{params['region']}/")
            ):
                raise aws_error(
                    "InvalidLaunchTemplateName.AlreadyExistsException",
                    f"Launch template name already in use: {name}",
                )
            identity = new_id("lt")
            template = {
                "LaunchTemplateId": identity,
                "LaunchTemplateName": name,
                "CreateTime": now(),
                "CreatedBy": f"arn:aws:iam::{ACCOUNT}:root",
                "DefaultVersionNumber": 1,
                "LatestVersionNumber": 1,
                "Tags": tags,
                "_versions": [_version(1, body)],
            }
            return {
                "LaunchTemplate": public_fields(
                    self._store.put(LAUNCH_TEMPLATES, key_of(params, identity), template)
                )
            }

    def _create_version(self, params: JsonObject, body: JsonObject) -> JsonObject:
        _check_data(body)
        with self._store.lock:
            key, template = self._find(params, body)
            number = template["LatestVersionNumber"] + 1
            template["LatestVersionNumber"] = number
            template["_versions"].append(_version(number, body))
            self._store.put(LAUNCH_TEMPLATES, key, template)
        return {"LaunchTemplateVersion": _shown_version(template, template["_versions"][-1])}

    def _modify(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._store.lock:
            key, template = self._find(params, body)
            version = str(body.get("DefaultVersion") or template["DefaultVersionNumber"])
            template["DefaultVersionNumber"] = _find_version(template, version)["number"]
            self._store.put(LAUNCH_TEMPLATES, key, template)
        return {"LaunchTemplate": public_fields(template)}

    def _describe(self, params: JsonObject, body: JsonObject) -> JsonObject:
        ids = body.get("LaunchTemplateIds")
        chosen = (
            [self._find(params, {"LaunchTemplateId": i})[1] for i in ids]
            if ids
            else self._store.values(LAUNCH_TEMPLATES, prefix=f"{params['region']}/")
        )
        name = {"launch-template-name": lambda t: [t["LaunchTemplateName"]]}
        chosen = filtered(chosen, body.get("Filters") or (), name)
        return {"LaunchTemplates": [public_fields(t) for t in chosen]}

    def _describe_versions(self, params: JsonObject, body: JsonObject) -> JsonObject:
        _, template = self._find(params, body)
        requested = body.get("Versions") or [str(v["number"]) for v in template["_versions"]]
        return {
            "LaunchTemplateVersions": [
                _shown_version(template, _find_version(template, str(w))) for w in requested
            ]
        }

    def _delete(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._store.lock:
            key, template = self._find(params, body)
            self._store.delete(LAUNCH_TEMPLATES, key)
        return {"LaunchTemplate": public_fields(template)}

    def _find(self, params: JsonObject, body: JsonObject) -> tuple[str, JsonObject]:
        return find_template(
            self._store,
            params["region"],
            body.get("LaunchTemplateId"),
            body.get("LaunchTemplateName"),
        )


def find_template(
    store: Store, region: str, identity: str | None, name: str | None
) -> tuple[str, JsonObject]:
    """Key and record of a template. Raises CloudError as EC2 does when there is none."""
    if not identity and not name:
        raise missing("launchTemplateId or launchTemplateName")
    if identity and name:
        raise aws_error(
            "InvalidParameterCombination",
            "The parameters launchTemplateId and launchTemplateName cannot be used together",
        )
    for key, template in store.items(LAUNCH_TEMPLATES, prefix=f"{region}/"):
        by_name = name and template["LaunchTemplateName"] == name
        if by_name or key == f"{region}/{identity}":
            return key, template
    if identity:
        raise aws_error(
            "InvalidLaunchTemplateId.NotFound",
            f"The specified launch template, with template ID {identity}, does not exist.",
        )
    raise aws_error(
        "InvalidLaunchTemplateName.NotFoundException",
        f"The specified launch template, with template name {name}, does not exist.",
    )


def template_data(template: JsonObject, version: str) -> JsonObject:
    """Of one version, which may be $Latest or $Default."""
    data: JsonObject = _find_version(template, version)["data"]
    return data


def resolved_version(template: JsonObject, version: str) -> str:
    return str(_find_version(template, version)["number"])


def _find_version(template: JsonObject, version: str) -> JsonObject:
    number = {
        "$Latest": template["LatestVersionNumber"],
        "$Default": template["DefaultVersionNumber"],
    }.get(version, version)
    for candidate in template["_versions"]:
        if str(candidate["number"]) == str(number):
            match: JsonObject = candidate
            return match
    raise aws_error(
        "InvalidLaunchTemplateId.VersionNotFound",
        f"Could not find launch template version {version} of {template['LaunchTemplateId']}",
    )


def _check_data(body: JsonObject) -> None:
    """Raises CloudError."""
    data = body.get("LaunchTemplateData")
    if not data and not body.get("SourceVersion"):
        raise missing("launchTemplateData")
    user_data = (data or {}).get("UserData")
    if user_data:
        try:
            decoded = base64.b64decode(user_data, validate=True)
        except (binascii.Error, ValueError):
            raise aws_error(
                "InvalidUserData.Malformed", "Invalid BASE64 encoding of user data."
            ) from None
        if len(decoded) > _USER_DATA_BYTES:
            raise aws_error(
                "InvalidParameterValue", f"User data is limited to {_USER_DATA_BYTES} bytes"
            )


def _version(number: int, body: JsonObject) -> JsonObject:
    data = body.get("LaunchTemplateData") or {}
    return {
        "number": number,
        "data": data,
        "created": now(),
        "description": body.get("VersionDescription", ""),
    }


def _shown_version(template: JsonObject, version: JsonObject) -> JsonObject:
    return {
        "LaunchTemplateId": template["LaunchTemplateId"],
        "LaunchTemplateName": template["LaunchTemplateName"],
        "VersionNumber": version["number"],
        "VersionDescription": version["description"],
        "CreateTime": version["created"],
        "DefaultVersion": version["number"] == template["DefaultVersionNumber"],
        "LaunchTemplateData": version["data"],
    }
