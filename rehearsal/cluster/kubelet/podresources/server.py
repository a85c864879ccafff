"""A node's pod-resources socket: List, from the pods bound to the node and its device ledger.

Like the real kubelet (k8s.io/kubernetes v1.36.2, pkg/kubelet/apis/podresources/server_v1.go) it
lists every pod that has not ended, with all its containers, and one entry per device. It omits init
containers, CPUs, memory and topology; Get and GetAllocatableResources return UNIMPLEMENTED.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.cluster.kubelet.deviceplugin.ledger import Ledger
from slicewright.rehearsal.cluster.kubelet.grpc_socket import GrpcSocket
from slicewright.rehearsal.cluster.kubelet.podresources import messages

SOCKET = "kubelet.sock"


@dataclass(frozen=True, kw_only=True)
class BoundPod:
    """What List returns for a pod besides its devices."""

    namespace: str
    name: str
    containers: tuple[str, ...]

    @classmethod
    def of(cls, pod: JsonObject) -> BoundPod:
        metadata = pod["metadata"]
        containers = tuple(c["name"] for c in pod["spec"]["containers"])
        return cls(namespace=metadata["namespace"], name=metadata["name"], containers=containers)


class PodResources:
    """Serves `<directory>/kubelet.sock`.

    pods: by uid, those that have not ended; read at every call, as is the ledger.
    """

    def __init__(self, directory: Path, pods: Mapping[str, BoundPod], ledger: Ledger) -> None:
        self._pods = pods
        self._ledger = ledger
        self._socket = GrpcSocket(
            directory,
            SOCKET,
            service=messages.LISTER,
            method="List",
            request=messages.ListPodResourcesRequest,
            handler=self._list,
        )

    async def start(self) -> None:
        await self._socket.start()

    async def stop(self) -> None:
        await self._socket.stop()

    async def _list(self, request: Any, context: Any) -> Any:
        return messages.ListPodResourcesResponse(
            pod_resources=[self._pod(uid, pod) for uid, pod in self._pods.items()]
        )

    def _pod(self, uid: str, pod: BoundPod) -> Any:
        held = self._ledger.allocations.get(uid, {})
        containers = [
            messages.ContainerResources(
                name=name,
                devices=[
                    messages.ContainerDevices(resource_name=resource, device_ids=[device])
                    for resource, devices in held.get(name, {}).items()
                    for device in devices
                ],
            )
            for name in pod.containers
        ]
        return messages.PodResources(name=pod.name, namespace=pod.namespace, containers=containers)
