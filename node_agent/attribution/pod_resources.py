"""Reads from the kubelet which container uses which device.

The API is v1.PodResourcesLister, stable since Kubernetes 1.20, on a unix socket that belongs to
root. Its messages (numbers of their fields): k8s.io/kubelet v0.36.2,
pkg/apis/podresources/v1/api.proto.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from slicewright.node_agent.attribution import grpc_call
from slicewright.node_agent.attribution.grpc_call import CallFailed
from slicewright.node_agent.attribution.wire import NotProtobuf, messages, text, texts

SOCKET: Final = "/var/lib/kubelet/pod-resources/kubelet.sock"
_MOST: Final = 50_000
"""Allocations of all resources on a node, far more than any kubelet can have."""
_LONGEST_NAME: Final = 253
_LIST: Final = "/v1.PodResourcesLister/List"


@dataclass(frozen=True, kw_only=True)
class ContainerDevices:
    """Devices of one resource allocated to a container, one object per NUMA node."""

    namespace: str
    pod: str
    container: str
    resource: str
    devices: tuple[str, ...]
    """Device plugin ids."""


def read(path: str, *, deadline_s: float) -> tuple[ContainerDevices, ...]:
    """Every container's devices on the node. Raises CallFailed."""
    answer = grpc_call.call(path, _LIST, deadline_s=deadline_s)
    try:
        return parse(answer)
    except NotProtobuf as e:
        raise CallFailed(f"{path}: the answer to {_LIST} is not valid: {e}") from None


def parse(answer: bytes) -> tuple[ContainerDevices, ...]:
    """Reads a ListPodResourcesResponse. Raises NotProtobuf."""
    allocations = tuple(islice(_devices(answer), _MOST + 1))
    if len(allocations) > _MOST:
        raise NotProtobuf(f"more than {_MOST} allocations on one node")
    return allocations


def _devices(answer: bytes) -> Iterator[ContainerDevices]:
    for pod in messages(answer, 1):
        name, namespace = text(pod, 1), text(pod, 2)
        for container in messages(pod, 3):
            container_name = text(container, 1)
            if max(map(len, (name, namespace, container_name))) > _LONGEST_NAME:
                raise NotProtobuf(f"a name of more than {_LONGEST_NAME} characters")
            for devices in messages(container, 2):
                yield ContainerDevices(
                    namespace=namespace,
                    pod=name,
                    container=container_name,
                    resource=text(devices, 1),
                    devices=texts(devices, 2),
                )
