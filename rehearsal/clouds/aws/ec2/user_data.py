"""The NodeConfig documents in a launch template's user data, which nodeadm reads at boot.

Source: awslabs/amazon-eks-ami, nodeadm, API node.eks.aws/v1alpha1.
"""

from __future__ import annotations

import base64
import email
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import yaml

from slicewright.kubeapi import JsonObject

_SPEC = ("cluster", "kubelet", "containerd", "instance", "featureGates")
_KUBELET = ("config", "flags", "maxPodsExpression")
_INSTANCE = ("localStorage",)
_STORAGE = ("disabledMounts", "mountPath", "strategy")
_STRATEGIES = ("RAID0", "RAID10", "Mount")


@dataclass(frozen=True, kw_only=True)
class NodeConfig:
    """What the NodeConfig documents of a launch template change on a node."""

    max_pods: int | None = None
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[tuple[str, str, str], ...] | None = None
    """key, value, Kubernetes effect; None = not set."""
    local_storage: str | None = None
    """What nodeadm makes of the instance store: RAID0, RAID10 or Mount."""


class BadUserData(Exception):
    """Instances with this user data never join; the message says what nodeadm rejects."""


def node_config(data: JsonObject) -> NodeConfig:
    """Of a launch template's data: spec.kubelet.config and .flags, and spec.instance.

    Raises BadUserData.
    """
    if not data.get("UserData"):
        return NodeConfig()
    message = email.message_from_bytes(base64.b64decode(data["UserData"]))
    if not message.is_multipart():
        raise BadUserData(
            "user data is not a MIME multipart message, so EKS cannot merge its own into it"
        )
    max_pods: int | None = None
    labels: list[tuple[str, str]] = []
    taints: tuple[tuple[str, str, str], ...] | None = None
    flag_taints: tuple[tuple[str, str, str], ...] | None = None
    local_storage: str | None = None
    for part in message.walk():
        if part.get_content_type() != "application/node.eks.aws":
            continue
        payload = part.get_payload(decode=True)
        spec = _spec(payload.decode() if isinstance(payload, bytes) else str(payload))
        kubelet = _section(spec, "spec.kubelet", _KUBELET)
        instance = _section(spec, "spec.instance", _INSTANCE)
        storage = _section(instance, "spec.instance.localStorage", _STORAGE)
        local_storage = _strategy(storage) or local_storage
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
    # A kubelet flag takes precedence over the configuration file.
    return NodeConfig(
        max_pods=max_pods,
        labels=tuple(labels),
        taints=flag_taints if flag_taints is not None else taints,
        local_storage=local_storage,
    )


def shell_scripts(data: JsonObject) -> list[str]:
    """The scripts of a launch template's data that cloud-init runs before the kubelet starts."""
    if not data.get("UserData"):
        return []
    return scripts_of(base64.b64decode(data["UserData"]).decode())


def scripts_of(user_data: str) -> list[str]:
    """user_data: MIME multipart text."""
    return [
        str(part.get_payload()).lstrip("\n")
        for part in email.message_from_string(user_data).walk()
        if part.get_content_type() == "text/x-shellscript"
    ]


def _spec(text: str) -> JsonObject:
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
            "a part of type application/node.eks.aws is not a NodeConfig of node.eks.aws/v1alpha1"
        )
    return _section(document, "spec", _SPEC)


def _section(holder: JsonObject, path: str, keys: Collection[str]) -> JsonObject:
    """The part of a NodeConfig that lies there. Raises BadUserData for a field nodeadm lacks."""
    section: JsonObject = holder.get(path.rpartition(".")[2]) or {}
    unknown = sorted(set(section) - set(keys))
    if unknown:
        raise BadUserData(f"NodeConfig: unknown field {path}.{unknown[0]}")
    return section


def _strategy(storage: JsonObject) -> str | None:
    strategy = storage.get("strategy")
    if strategy is not None and strategy not in _STRATEGIES:
        raise BadUserData(
            f"NodeConfig: localStorage.strategy is {strategy!r}, not one of "
            f"{', '.join(_STRATEGIES)}"
        )
    return None if strategy is None else str(strategy)


def _flag_taints(values: Sequence[str]) -> tuple[tuple[str, str, str], ...]:
    taints = []
    for text in filter(None, values):
        pair, colon, effect = text.rpartition(":")
        if not colon or effect not in ("NoSchedule", "PreferNoSchedule", "NoExecute"):
            raise BadUserData(f"--register-with-taints: {text!r} is not key=value:effect")
        key, _, value = pair.partition("=")
        taints.append((key, value, effect))
    return tuple(taints)
