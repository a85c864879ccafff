"""The NodeConfig documents in a launch template's user data, which nodeadm reads at boot.

Source: awslabs/amazon-eks-ami, nodeadm, API node.eks.aws/v1alpha1.
"""

from __future__ import annotations

import base64
import email
from collections.abc import Sequence
from dataclasses import dataclass

import yaml

from kubeapi import JsonObject


@dataclass(frozen=True, kw_only=True)
class NodeConfig:
    """What the NodeConfig documents of a launch template change on a node."""

    max_pods: int | None = None
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[tuple[str, str, str], ...] | None = None
    """key, value, Kubernetes effect; None = not set."""


class BadUserData(Exception):
    """Instances with this user data never join; the message says what nodeadm rejects."""


def node_config(data: JsonObject) -> NodeConfig:
    """Of a launch template's data: spec.kubelet.config and .flags. Raises BadUserData."""
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
    # A kubelet flag takes precedence over the configuration file.
    return NodeConfig(
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
            "a part of type application/node.eks.aws is not a NodeConfig of node.eks.aws/v1alpha1"
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
