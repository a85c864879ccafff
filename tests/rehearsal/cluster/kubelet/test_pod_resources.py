"""The pod-resources socket of a simulated node, asked by the product's client and by gRPC's own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

from slicewright.node_agent.attribution import pod_resources
from slicewright.rehearsal.cluster.kubelet.deviceplugin.ledger import Ledger
from slicewright.rehearsal.cluster.kubelet.podresources import messages
from slicewright.rehearsal.cluster.kubelet.podresources.server import BoundPod, PodResources

RESOURCE = "nvidia.com/mig-1g.5gb"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    # Long on purpose: a unix socket's path is limited to 107 bytes.
    deep = tmp_path / ("x" * 60) / ("y" * 60)
    deep.mkdir(parents=True)
    return deep


def pod(name: str, *containers: str, phase: str = "Running") -> dict[str, Any]:
    return {
        "metadata": {"namespace": "team", "name": name, "uid": f"uid-{name}"},
        "spec": {"containers": [{"name": c} for c in containers]},
        "status": {"phase": phase},
    }


def served(
    directory: Path, pods: dict[str, BoundPod], ledger: Ledger, ask: Callable[[str], Awaitable[Any]]
) -> Any:
    """What `ask` returns while the socket is served; it is given a short name of the socket."""

    async def whole() -> Any:
        server = PodResources(directory, pods, ledger)
        await server.start()
        fd = os.open(directory, os.O_RDONLY)
        try:
            return await ask(f"/proc/self/fd/{fd}/kubelet.sock")
        finally:
            os.close(fd)
            await server.stop()

    return asyncio.run(whole())


async def by_the_product(path: str) -> Any:
    return await asyncio.to_thread(pod_resources.read, path, deadline_s=60)


def test_a_container_is_named_with_each_device_that_the_ledger_gives_it(directory: Path) -> None:
    ledger = Ledger()
    ledger.hold("uid-a", "one", RESOURCE, ("MIG-1", "MIG-2"))
    ledger.hold("uid-a", "two", "nvidia.com/gpu", ("GPU-1::0",))
    ledger.hold("uid-b", "one", RESOURCE, ("MIG-3",))
    pods = {f"uid-{name}": BoundPod.of(pod(name, "one", "two")) for name in "ab"}
    held = served(directory, pods, ledger, by_the_product)
    assert [(h.namespace, h.pod, h.container, h.resource, h.devices) for h in held] == [
        ("team", "a", "one", RESOURCE, ("MIG-1",)),
        ("team", "a", "one", RESOURCE, ("MIG-2",)),
        ("team", "a", "two", "nvidia.com/gpu", ("GPU-1::0",)),
        ("team", "b", "one", RESOURCE, ("MIG-3",)),
    ]


def test_a_pod_without_devices_is_named_with_its_containers(directory: Path) -> None:
    async def by_grpc(path: str) -> Any:
        async with grpc.aio.insecure_channel(f"unix:{path}") as channel:
            rpc = channel.unary_unary(
                f"/{messages.LISTER}/List",
                lambda m: m.SerializeToString(),
                messages.ListPodResourcesResponse.FromString,
            )
            return await rpc(messages.ListPodResourcesRequest(), timeout=60)

    answer = served(directory, {"uid-a": BoundPod.of(pod("a", "one", "two"))}, Ledger(), by_grpc)
    (only,) = answer.pod_resources
    assert (only.name, only.namespace, [c.name for c in only.containers]) == (
        "a",
        "team",
        ["one", "two"],
    )
    assert [list(c.devices) for c in only.containers] == [[], []]


def test_devices_that_the_node_has_lost_are_not_listed(directory: Path) -> None:
    ledger = Ledger()
    ledger.hold("uid-a", "one", RESOURCE, ("MIG-1",))
    assert served(directory, {}, ledger, by_the_product) == ()


def test_a_leftover_socket_is_replaced(directory: Path) -> None:
    for _ in range(2):
        (directory / "kubelet.sock").touch()
        assert served(directory, {}, Ledger(), by_the_product) == ()
