"""Which container holds which device, asked of the kubelet.

The API is v1.PodResourcesLister, stable since Kubernetes 1.20, on a unix socket that belongs to
root. Its messages (numbers of their fields): k8s.io/kubelet v0.36.2,
pkg/apis/podresources/v1/api.proto.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from node_agent.attribution import grpc_call
from node_agent.attribution.grpc_call import NoAnswer
from node_agent.attribution.wire import NotProtobuf, messages, text, texts

SOCKET: Final = "/var/lib/kubelet/pod-resources/kubelet.sock"
_LIST: Final = "/v1.PodResourcesLister/List"


@dataclass(frozen=True, kw_only=True)
class Holding:
    """Devices of one resource that a container holds. A container may have several of one resource:
    one per NUMA node.
    """

    namespace: str
    pod: str
    container: str
    resource: str
    devices: tuple[str, ...]
    """Ids, as the device plugin gave them to the kubelet."""


def read(path: str, *, deadline_s: float) -> tuple[Holding, ...]:
    """All of the node, of every resource. Raises NoAnswer."""
    answer = grpc_call.ask(path, _LIST, deadline_s=deadline_s)
    try:
        return parse(answer)
    except NotProtobuf as e:
        raise NoAnswer(f"{path}: the answer to {_LIST} is not understood: {e}") from None


def parse(answer: bytes) -> tuple[Holding, ...]:
    """Of a ListPodResourcesResponse. Raises NotProtobuf."""
    return tuple(_holdings(answer))


def _holdings(answer: bytes) -> Iterator[Holding]:
    for pod in messages(answer, 1):
        name, namespace = text(pod, 1), text(pod, 2)
        for container in messages(pod, 3):
            container_name = text(container, 1)
            for devices in messages(container, 2):
                yield Holding(
                    namespace=namespace,
                    pod=name,
                    container=container_name,
                    resource=text(devices, 1),
                    devices=texts(devices, 2),
                )
