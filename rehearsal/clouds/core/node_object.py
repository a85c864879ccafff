"""The Node object that a machine's kubelet registers, as far as both clouds agree on it."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.taints import Taint

KUBERNETES = "1.36.2"
MACHINE_ANNOTATION = "rehearsal.slicewright.io/machine"
ADDRESS_ANNOTATION = "rehearsal.slicewright.io/shared-address"
"""The annotation of a node behind a NAT gateway: the address that registries see."""

DOWN_ANNOTATION = "rehearsal.slicewright.io/down"
"""The annotation of a node whose kubelet does not run: kwok does not make it Ready."""


@dataclass(frozen=True, kw_only=True)
class NodeDetails:
    """Everything in which nodes differ."""

    name: str
    labels: Mapping[str, str]
    taints: Sequence[Taint]
    """In Kubernetes' form."""
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
    architecture: str = "amd64"
    machine: Mapping[str, object] | None
    """The simulated GPUs, for the kubelet stand-in; None = no GPU."""
    boots: bool = False
    """Whether programs run before its kubelet starts: then it is not Ready at once."""
    shared_address: str = ""
    """The NAT gateway by which it reaches the internet; empty: it has an address of its own."""


def node_object(details: NodeDetails) -> JsonObject:
    """Without GPU resources, which a device plugin advertises.

    The kubelet stand-in and kwok add addresses, conditions and the heartbeat.
    """
    annotations = {"kwok.x-k8s.io/node": "fake", "node.alpha.kubernetes.io/ttl": "0"}
    if details.machine is not None:
        annotations[MACHINE_ANNOTATION] = json.dumps(details.machine, sort_keys=True)
    if details.boots:
        annotations[DOWN_ANNOTATION] = "true"
    if details.shared_address:
        annotations[ADDRESS_ANNOTATION] = details.shared_address
    disk_ki = details.disk_gb * 1_000_000_000 // 1024
    seed = hashlib.sha256(details.name.encode()).hexdigest()
    common = {"hugepages-1Gi": "0", "hugepages-2Mi": "0", "pods": str(details.pods)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": details.name,
            "labels": dict(details.labels),
            "annotations": annotations,
        },
        "spec": {
            "providerID": details.provider_id,
            "taints": [dict(t) for t in details.taints],
        },
        "status": {
            "capacity": {
                "cpu": str(details.vcpu),
                "memory": f"{details.memory_ki}Ki",
                "ephemeral-storage": f"{disk_ki}Ki",
                **common,
            },
            "allocatable": {
                "cpu": f"{details.vcpu * 1000 - details.reserved_cpu_millis}m",
                "memory": f"{details.memory_ki - details.reserved_memory_ki}Ki",
                # The kubelet's default hard eviction threshold: nodefs.available<10%.
                "ephemeral-storage": str(disk_ki * 1024 * 9 // 10),
                **common,
            },
            "nodeInfo": {
                "architecture": details.architecture,
                "bootID": str(uuid.uuid4()),
                "containerRuntimeVersion": details.runtime,
                "kernelVersion": details.kernel,
                "kubeProxyVersion": details.kubelet_version,
                "kubeletVersion": details.kubelet_version,
                "machineID": seed[:32],
                "operatingSystem": "linux",
                "osImage": details.os_image,
                "systemUUID": str(uuid.UUID(seed[32:64])),
            },
        },
    }
