"""The simulated EC2's launch templates, and what nodeadm reads from their user data."""

from __future__ import annotations

import base64
import binascii
import email
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from kubeapi import JsonObject
from rehearsal.clouds.aws.iam import ACCOUNT
from rehearsal.clouds.core.context import Context, Methods, now
from rehearsal.clouds.core.errors import aws_error

TEMPLATES = "ec2/launchTemplates"


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

    def inventory(self) -> list[JsonObject]:
        return [
            {"kind": "ec2.launchTemplate", "name": key} for key, _ in self._store.items(TEMPLATES)
        ]

    def _create(self, params: JsonObject, body: JsonObject) -> JsonObject:
        name = body["LaunchTemplateName"]
        with self._store.lock:
            if any(
                t["LaunchTemplateName"] == name
                for k, t in self._store.items(TEMPLATES)
                if k.startswith(f"{params['region']}/")
            ):
                raise aws_error(
                    "InvalidLaunchTemplateName.AlreadyExistsException",
                    f"Launch template name already in use: {name}",
                )
            identity = f"lt-0{secrets.token_hex(8)}"
            tags = [
                t
                for s in body.get("TagSpecifications", [])
                if s.get("ResourceType") == "launch-template"
                for t in s.get("Tags", [])
            ]
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
                "LaunchTemplate": _shown(
                    self._store.put(TEMPLATES, f"{params['region']}/{identity}", template)
                )
            }

    def _create_version(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._store.lock:
            key, template = self._find(params, body)
            number = template["LatestVersionNumber"] + 1
            template["LatestVersionNumber"] = number
            template["_versions"].append(_version(number, body))
            self._store.put(TEMPLATES, key, template)
        return {"LaunchTemplateVersion": _shown_version(template, template["_versions"][-1])}

    def _modify(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._store.lock:
            key, template = self._find(params, body)
            wanted = str(body.get("DefaultVersion") or template["DefaultVersionNumber"])
            template["DefaultVersionNumber"] = _find_version(template, wanted)["number"]
            self._store.put(TEMPLATES, key, template)
        return {"LaunchTemplate": _shown(template)}

    def _describe(self, params: JsonObject, body: JsonObject) -> JsonObject:
        ids = body.get("LaunchTemplateIds")
        found = (
            [self._find(params, {"LaunchTemplateId": i})[1] for i in ids]
            if ids
            else self._store.values(TEMPLATES)
        )
        return {"LaunchTemplates": [_shown(t) for t in found]}

    def _describe_versions(self, params: JsonObject, body: JsonObject) -> JsonObject:
        _, template = self._find(params, body)
        wanted = body.get("Versions") or [str(v["number"]) for v in template["_versions"]]
        return {
            "LaunchTemplateVersions": [
                _shown_version(template, _find_version(template, str(w))) for w in wanted
            ]
        }

    def _delete(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._store.lock:
            key, template = self._find(params, body)
            self._store.delete(TEMPLATES, key)
        return {"LaunchTemplate": _shown(template)}

    def _find(self, params: JsonObject, body: JsonObject) -> tuple[str, JsonObject]:
        return find_template(
            self._store,
            params["region"],
            body.get("LaunchTemplateId"),
            body.get("LaunchTemplateName"),
        )


def find_template(
    store: Any, region: str, identity: str | None, name: str | None
) -> tuple[str, JsonObject]:
    """Raises CloudError as EC2 does for one that is not there."""
    for key, template in store.items(TEMPLATES):
        if key == f"{region}/{identity}" or (
            name and key.startswith(f"{region}/") and template["LaunchTemplateName"] == name
        ):
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
    """Of one version ($Latest and $Default understood)."""
    data: JsonObject = _find_version(template, version)["data"]
    return data


def resolved_version(template: JsonObject, version: str) -> str:
    return str(_find_version(template, version)["number"])


def _find_version(template: JsonObject, version: str) -> JsonObject:
    number = {
        "$Latest": template["LatestVersionNumber"],
        "$Default": template["DefaultVersionNumber"],
    }.get(version, version)
    for known in template["_versions"]:
        if str(known["number"]) == str(number):
            found: JsonObject = known
            return found
    raise aws_error(
        "InvalidLaunchTemplateId.VersionNotFound",
        f"Could not find launch template version {version} of {template['LaunchTemplateId']}",
    )


def _version(number: int, body: JsonObject) -> JsonObject:
    data = body.get("LaunchTemplateData") or {}
    user_data = data.get("UserData")
    if user_data:
        try:
            base64.b64decode(user_data, validate=True)
        except (binascii.Error, ValueError):
            raise aws_error(
                "InvalidUserData.Malformed", "Invalid BASE64 encoding of user data."
            ) from None
    return {
        "number": number,
        "data": data,
        "created": now(),
        "description": body.get("VersionDescription", ""),
    }


def _shown(template: JsonObject) -> JsonObject:
    return {k: v for k, v in template.items() if not k.startswith("_")}


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


@dataclass(frozen=True, kw_only=True)
class NodeSettings:
    """What the NodeConfig documents of a template's user data change on a node."""

    max_pods: int | None = None
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[tuple[str, str, str], ...] | None = None
    """key, value, Kubernetes effect; None = not set there."""


class BadUserData(Exception):
    """Instances with this user data never join; the message says what nodeadm stumbles over."""


def node_settings(data: JsonObject) -> NodeSettings:
    """Source: awslabs/amazon-eks-ami nodeadm, NodeConfig v1alpha1 (spec.kubelet.config and .flags).
    Raises BadUserData.
    """
    if not data.get("UserData"):
        return NodeSettings()
    message = email.message_from_bytes(base64.b64decode(data["UserData"]))
    if not message.is_multipart():
        raise BadUserData(
            "user data is not a MIME multipart message, so EKS cannot merge its own into it"
        )
    max_pods: int | None = None
    labels: list[tuple[str, str]] = []
    taints: tuple[tuple[str, str, str], ...] | None = None
    flag_taints: tuple[tuple[str, str, str], ...] | None = None
    for part in message.walk():
        if part.get_content_type() != "application/node.eks.aws":
            continue
        payload = part.get_payload(decode=True)
        kubelet = _kubelet(payload.decode() if isinstance(payload, bytes) else str(payload))
        config = kubelet.get("config") or {}
        max_pods = int(str(config["maxPods"])) if "maxPods" in config else max_pods
        if "registerWithTaints" in config:
            taints = tuple(
                (t["key"], t.get("value", ""), t["effect"]) for t in config["registerWithTaints"]
            )
        for flag in kubelet.get("flags") or []:
            name, _, value = str(flag).partition("=")
            if name == "--node-labels":
                labels += [
                    (k, v) for k, _, v in (pair.partition("=") for pair in value.split(",") if pair)
                ]
            elif name == "--register-with-taints":
                flag_taints = _flag_taints(value.split(","))
    # A kubelet flag wins over its configuration file.
    return NodeSettings(
        max_pods=max_pods,
        labels=tuple(labels),
        taints=flag_taints if flag_taints is not None else taints,
    )


def _kubelet(text: str) -> JsonObject:
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as e:
        raise BadUserData(f"the NodeConfig is not YAML: {e}") from None
    if (
        not isinstance(document, dict)
        or document.get("kind") != "NodeConfig"
        or document.get("apiVersion") != "node.eks.aws/v1alpha1"
    ):
        raise BadUserData(
            "a part of type application/node.eks.aws is no NodeConfig of node.eks.aws/v1alpha1"
        )
    spec = document.get("spec") or {}
    unknown = sorted(set(spec) - {"cluster", "kubelet", "containerd", "instance", "featureGates"})
    if unknown:
        raise BadUserData(f"NodeConfig: unknown field spec.{unknown[0]}")
    kubelet = spec.get("kubelet") or {}
    unknown = sorted(set(kubelet) - {"config", "flags", "maxPodsExpression"})
    if unknown:
        raise BadUserData(f"NodeConfig: unknown field spec.kubelet.{unknown[0]}")
    found: JsonObject = kubelet
    return found


def _flag_taints(values: Sequence[str]) -> tuple[tuple[str, str, str], ...]:
    found = []
    for text in filter(None, values):
        pair, colon, effect = text.rpartition(":")
        if not colon or effect not in ("NoSchedule", "PreferNoSchedule", "NoExecute"):
            raise BadUserData(f"--register-with-taints: {text!r} is not key=value:effect")
        key, _, value = pair.partition("=")
        found.append((key, value, effect))
    return tuple(found)
