"""Containers, variables, mounts and volumes of the operands' pods. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.cluster.gpu_operator.policy import Operand

PRIVILEGED: JsonObject = {"privileged": True}


def main(
    name: str,
    operand: Operand,
    *,
    command: Sequence[str] = (),
    args: Sequence[str] = (),
    env: Sequence[JsonObject] = (),
    mounts: Sequence[JsonObject] = (),
) -> JsonObject:
    """The operand's first container; environment and arguments of the ClusterPolicy win."""
    container: JsonObject = {
        "name": name,
        **image(operand),
        "env": merged(env, operand.env),
        "securityContext": dict(PRIVILEGED),
        "volumeMounts": [dict(mount) for mount in mounts],
    }
    if command:
        container["command"] = list(command)
    if arguments := operand.args or args:
        container["args"] = list(arguments)
    if operand.resources:
        container["resources"] = dict(operand.resources)
    return container


def image(operand: Operand) -> JsonObject:
    return {"image": operand.image, "imagePullPolicy": operand.pull_policy}


def merged(own: Sequence[JsonObject], given: Sequence[JsonObject]) -> list[JsonObject]:
    merged: dict[str, JsonObject] = {e["name"]: dict(e) for e in own}
    merged.update({e["name"]: dict(e) for e in given})
    return list(merged.values())


def value(name: str, value: str) -> JsonObject:
    return {"name": name, "value": value}


def field(name: str, path: str) -> JsonObject:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def mount(volume: str, path: str, *, read_only: bool = False, propagation: str = "") -> JsonObject:
    mount: JsonObject = {"name": volume, "mountPath": path}
    if read_only:
        mount["readOnly"] = True
    if propagation:
        mount["mountPropagation"] = propagation
    return mount


def entrypoint_mount(volume: str) -> JsonObject:
    return {
        "name": volume,
        "mountPath": "/bin/entrypoint.sh",
        "subPath": "entrypoint.sh",
        "readOnly": True,
    }


def entrypoint_volume(name: str, *, config_map: str = "") -> JsonObject:
    return {"name": name, "configMap": {"name": config_map or name, "defaultMode": 0o700}}


def config_map(volume: str, name: str) -> JsonObject:
    return {"name": volume, "configMap": {"name": name}}


def host_path(name: str, path: str, kind: str = "") -> JsonObject:
    source: JsonObject = {"path": path}
    if kind:
        source["type"] = kind
    return {"name": name, "hostPath": source}


def deployed(operand: str) -> dict[str, str]:
    return {f"nvidia.com/gpu.deploy.{operand}": "true"}
