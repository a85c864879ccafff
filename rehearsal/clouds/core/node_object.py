"""The Node object that a machine's kubelet registers, as both clouds have it."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubeapi import JsonObject

KUBERNETES = "1.36.2"
MACHINE_ANNOTATION = "rehearsal.slicewright.io/machine"
_EFFECTS = {
    "NO_SCHEDULE": "NoSchedule",
    "PREFER_NO_SCHEDULE": "PreferNoSchedule",
    "NO_EXECUTE": "NoExecute",
}


@dataclass(frozen=True, kw_only=True)
class Build:
    """Everything in which nodes differ. Memory in KiB, cpu in thousandths."""

    name: str
    labels: Mapping[str, str]
    taints: Sequence[Mapping[str, str]]
    """Kubernetes form: key, value, effect NoSchedule."""
    provider_id: str
    vcpu: int
    reserved_cpu_millis: int
    memory_ki: int
    reserved_memory_ki: int
    disk_gb: int
    pods: int
    kubelet_version: str
    os_image: str
    kernel: str
    runtime: str
    machine: Mapping[str, Any] | None
    """What the simulated GPUs are; None = no GPU."""


def node_object(build: Build) -> JsonObject:
    """Kubelet and kwok add the rest (addresses, conditions, heartbeat). No GPU resource: a device
    plugin advertises those.
    """
    annotations = {"kwok.x-k8s.io/node": "fake", "node.alpha.kubernetes.io/ttl": "0"}
    if build.machine is not None:
        annotations[MACHINE_ANNOTATION] = json.dumps(build.machine, sort_keys=True)
    disk_ki = build.disk_gb * 1_000_000_000 // 1024
    seed = hashlib.sha256(build.name.encode()).hexdigest()
    common = {"hugepages-1Gi": "0", "hugepages-2Mi": "0", "pods": str(build.pods)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": build.name, "labels": dict(build.labels), "annotations": annotations},
        "spec": {"providerID": build.provider_id, "taints": [dict(t) for t in build.taints]},
        "status": {
            "capacity": {
                "cpu": str(build.vcpu),
                "memory": f"{build.memory_ki}Ki",
                "ephemeral-storage": f"{disk_ki}Ki",
                **common,
            },
            "allocatable": {
                "cpu": f"{build.vcpu * 1000 - build.reserved_cpu_millis}m",
                "memory": f"{build.memory_ki - build.reserved_memory_ki}Ki",
                # The kubelet keeps 10 % of the disk free.
                "ephemeral-storage": str(disk_ki * 1024 * 9 // 10),
                **common,
            },
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": str(uuid.uuid4()),
                "containerRuntimeVersion": build.runtime,
                "kernelVersion": build.kernel,
                "kubeProxyVersion": build.kubelet_version,
                "kubeletVersion": build.kubelet_version,
                "machineID": seed[:32],
                "operatingSystem": "linux",
                "osImage": build.os_image,
                "systemUUID": str(uuid.UUID(seed[32:64])),
            },
        },
    }


def kubernetes_taints(taints: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """Cloud form (NO_SCHEDULE) -> Kubernetes form."""
    return [
        {"key": t["key"], "value": t.get("value", ""), "effect": _EFFECTS[t["effect"]]}
        for t in taints
    ]
