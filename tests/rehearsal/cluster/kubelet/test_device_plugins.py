"""The registration socket and calls to device plugins, with a stub plugin on real sockets."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

from slicewright.rehearsal.cluster.kubelet.deviceplugin import messages
from slicewright.rehearsal.cluster.kubelet.deviceplugin.ledger import Ledger, Unavailable
from slicewright.rehearsal.cluster.kubelet.deviceplugin.plugins import (
    AllocationFailed,
    DevicePlugins,
)

RESOURCE = "nvidia.com/mig-1g.5gb"


class StubPlugin:
    """A device plugin of the v1beta1 API: serves its socket, registers, sends what it is told
    to.
    """

    def __init__(
        self,
        directory: Path,
        endpoint: str,
        devices: dict[str, str],
        *,
        prefers: tuple[str, ...] = (),
    ) -> None:
        self.directory = directory
        self.endpoint = endpoint
        self.prefers = prefers
        self.lists: asyncio.Queue[dict[str, str] | None] = asyncio.Queue()
        self.lists.put_nowait(devices)
        self.allocated: list[list[str]] = []
        self.refusal: str | None = None
        self._fd = os.open(directory, os.O_RDONLY)

    async def serve(self) -> None:
        self.server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        handlers = {
            "GetDevicePluginOptions": grpc.unary_unary_rpc_method_handler(
                self._options, messages.Empty.FromString, lambda m: m.SerializeToString()
            ),
            "ListAndWatch": grpc.unary_stream_rpc_method_handler(
                self._list, messages.Empty.FromString, lambda m: m.SerializeToString()
            ),
            "Allocate": grpc.unary_unary_rpc_method_handler(
                self._allocate, messages.AllocateRequest.FromString, lambda m: m.SerializeToString()
            ),
            "GetPreferredAllocation": grpc.unary_unary_rpc_method_handler(
                self._prefer,
                messages.PreferredAllocationRequest.FromString,
                lambda m: m.SerializeToString(),
            ),
        }
        self.server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(messages.DEVICE_PLUGIN, handlers),)
        )
        (self.directory / self.endpoint).unlink(missing_ok=True)
        self.server.add_insecure_port(f"unix:/proc/self/fd/{self._fd}/{self.endpoint}")
        await self.server.start()

    async def register(self, resource: str = RESOURCE, version: str = "v1beta1") -> None:
        async with grpc.aio.insecure_channel(
            f"unix:/proc/self/fd/{self._fd}/kubelet.sock"
        ) as channel:
            rpc = channel.unary_unary(
                "/v1beta1.Registration/Register",
                lambda m: m.SerializeToString(),
                messages.Empty.FromString,
            )
            await rpc(
                messages.RegisterRequest(
                    version=version, endpoint=self.endpoint, resource_name=resource
                ),
                timeout=120,
            )

    async def stop(self) -> None:
        await self.server.stop(0)
        os.close(self._fd)

    async def _options(self, request: Any, context: Any) -> Any:
        return messages.DevicePluginOptions(get_preferred_allocation_available=bool(self.prefers))

    async def _list(self, request: Any, context: Any) -> AsyncIterator[Any]:
        while (devices := await self.lists.get()) is not None:
            yield messages.ListAndWatchResponse(
                devices=[messages.Device(ID=i, health=h) for i, h in devices.items()]
            )

    async def _prefer(self, request: Any, context: Any) -> Any:
        wanted = list(self.prefers[: request.container_requests[0].allocation_size])
        return messages.PreferredAllocationResponse(container_responses=[{"deviceIDs": wanted}])

    async def _allocate(self, request: Any, context: Any) -> Any:
        if self.refusal:
            await context.abort(grpc.StatusCode.UNKNOWN, self.refusal)
        ids = list(request.container_requests[0].devices_ids)
        self.allocated.append(ids)
        return messages.AllocateResponse(
            container_responses=[{"envs": {"NVIDIA_VISIBLE_DEVICES": ",".join(ids)}}]
        )


class Node:
    """A ledger and a registration socket, with a way to wait for a state."""

    def __init__(self, directory: Path, checkpoint: Path | None = None) -> None:
        self.directory = directory
        self.ledger = Ledger(checkpoint=checkpoint)
        self.changes = asyncio.Event()
        self.plugins = DevicePlugins(directory, self.ledger, self.changes.set, stopped_ttl_s=0.2)

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(120):
            while not holds():
                await self.changes.wait()
                self.changes.clear()


def run(scenario: Callable[[Node], Awaitable[None]], directory: Path) -> None:
    async def whole() -> None:
        node = Node(directory)
        await node.plugins.start()
        try:
            await scenario(node)
        finally:
            await node.plugins.stop()

    asyncio.run(whole())


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    # Long on purpose: a unix socket's path is limited to 107 bytes.
    deep = tmp_path / ("x" * 60) / ("y" * 60)
    deep.mkdir(parents=True)
    return deep


def test_listed_devices_are_capacity_and_healthy_ones_allocatable(directory: Path) -> None:
    async def scenario(node: Node) -> None:
        plugin = StubPlugin(directory, "p.sock", {"a": "Healthy", "b": "Healthy", "c": "Unhealthy"})
        await plugin.serve()
        await plugin.register()
        await node.until(lambda: node.ledger.capacity() == {RESOURCE: 3})
        assert node.ledger.allocatable() == {RESOURCE: 2}
        plugin.lists.put_nowait({"a": "Healthy", "b": "Unhealthy", "c": "Unhealthy"})
        await node.until(lambda: node.ledger.allocatable() == {RESOURCE: 1})
        await plugin.stop()

    run(scenario, directory)


def test_without_its_plugin_a_resource_is_not_allocatable_and_later_has_no_capacity(
    directory: Path,
) -> None:
    async def scenario(node: Node) -> None:
        plugin = StubPlugin(directory, "p.sock", {"a": "Healthy"})
        await plugin.serve()
        await plugin.register()
        await node.until(lambda: node.ledger.allocatable() == {RESOURCE: 1})
        await plugin.stop()
        await node.until(lambda: node.ledger.allocatable() == {RESOURCE: 0})
        assert node.ledger.capacity() == {RESOURCE: 1}
        await node.until(lambda: node.ledger.capacity() == {RESOURCE: 0})

    run(scenario, directory)


def test_a_plugin_that_restarts_on_the_same_socket_is_followed(directory: Path) -> None:
    async def scenario(node: Node) -> None:
        for ids in ({"a": "Healthy"}, {"b": "Healthy", "c": "Healthy"}):
            plugin = StubPlugin(directory, "p.sock", ids)
            await plugin.serve()
            await plugin.register()
            await node.until(lambda ids=ids: set(node.ledger.free(RESOURCE)) == set(ids))  # type: ignore[misc]
            await plugin.stop()

    run(scenario, directory)


def test_a_plugin_that_restarts_twice_at_once_is_followed(directory: Path) -> None:
    """As where config-manager signals it while it still restarts: the second run lists nothing."""

    async def scenario(node: Node) -> None:
        plugin = StubPlugin(directory, "p.sock", {"a": "Healthy"})
        await plugin.serve()
        await plugin.register()
        await node.until(lambda: node.ledger.allocatable() == {RESOURCE: 1})
        await plugin.stop()
        await node.until(lambda: node.ledger.allocatable() == {RESOURCE: 0})
        gone = StubPlugin(directory, "no-such.sock", {})
        node.changes.clear()
        await gone.register()
        await node.changes.wait()
        again = StubPlugin(directory, "p.sock", {"b": "Healthy"})
        await again.serve()
        await again.register()
        await node.until(lambda: node.ledger.allocatable() == {RESOURCE: 1})
        await asyncio.sleep(0.5)  # longer than a stopped plugin's resource is remembered
        kept = node.ledger.allocatable()
        await again.stop()
        assert kept == {RESOURCE: 1}

    run(scenario, directory)


def test_devices_are_allocated_once_and_released_with_the_pod(directory: Path) -> None:
    async def scenario(node: Node) -> None:
        plugin = StubPlugin(directory, "p.sock", {"a": "Healthy", "b": "Healthy"})
        await plugin.serve()
        await plugin.register()
        await node.until(lambda: node.ledger.allocatable() == {RESOURCE: 2})
        first = await node.plugins.allocate("pod-1", "c", {RESOURCE: 1})
        second = await node.plugins.allocate("pod-2", "c", {RESOURCE: 1})
        assert {first.env["NVIDIA_VISIBLE_DEVICES"], second.env["NVIDIA_VISIBLE_DEVICES"]} == {
            "a",
            "b",
        }
        with pytest.raises(AllocationFailed, match="Requested: 1, Available: 0"):
            await node.plugins.allocate("pod-3", "c", {RESOURCE: 1})
        again = await node.plugins.allocate("pod-1", "c", {RESOURCE: 1})
        assert again.env == first.env
        node.ledger.release("pod-1")
        third = await node.plugins.allocate("pod-3", "c", {RESOURCE: 1})
        assert third.env == first.env
        await plugin.stop()

    run(scenario, directory)


def test_after_a_reboot_there_is_no_device_until_the_plugin_registers_again(
    directory: Path,
) -> None:
    async def scenario(node: Node) -> None:
        plugin = StubPlugin(directory, "p.sock", {"a": "Healthy", "b": "Healthy"})
        await plugin.serve()
        await plugin.register()
        await node.until(lambda: node.ledger.allocatable() == {RESOURCE: 2})
        first = await node.plugins.allocate("pod-1", "c", {RESOURCE: 1})
        await plugin.stop()
        await node.until(lambda: node.ledger.allocatable() == {RESOURCE: 0})
        node.ledger.restart()
        assert (node.ledger.capacity(), node.ledger.allocatable()) == ({RESOURCE: 0},) * 2
        with pytest.raises(AllocationFailed, match="no healthy devices present; cannot allocate"):
            await node.plugins.allocate("pod-1", "c", {RESOURCE: 1})
        with pytest.raises(AllocationFailed, match="cannot allocate unregistered device other/x"):
            await node.plugins.allocate("pod-1", "c", {"other/x": 1})
        again = StubPlugin(directory, "p.sock", {"a": "Healthy", "b": "Healthy"})
        await again.serve()
        await again.register()
        await node.until(lambda: node.ledger.allocatable() == {RESOURCE: 2})
        assert (await node.plugins.allocate("pod-1", "c", {RESOURCE: 1})).env == first.env
        await again.stop()

    run(scenario, directory)


def test_a_pod_whose_devices_are_gone_after_a_reboot_is_refused(directory: Path) -> None:
    """Partitions get new UUIDs whenever they are made."""

    async def scenario(node: Node) -> None:
        for ids in ({"a": "Healthy"}, {"b": "Healthy"}):
            plugin = StubPlugin(directory, "p.sock", ids)
            await plugin.serve()
            await plugin.register()
            await node.until(lambda ids=ids: set(node.ledger.devices.get(RESOURCE, ())) == set(ids))  # type: ignore[misc]
            if "a" in ids:
                await node.plugins.allocate("pod-1", "c", {RESOURCE: 1})
                await plugin.stop()
                await node.until(lambda: node.ledger.allocatable() == {RESOURCE: 0})
                node.ledger.restart()
        with pytest.raises(
            AllocationFailed,
            match="previously allocated devices are no longer healthy; cannot allocate unhealthy",
        ):
            await node.plugins.allocate("pod-1", "c", {RESOURCE: 1})
        await plugin.stop()

    run(scenario, directory)


def test_a_container_that_survived_its_kubelet_needs_no_plugin(directory: Path) -> None:
    async def scenario(node: Node) -> None:
        node.ledger.devices[RESOURCE] = {}
        node.ledger.hold("pod-1", "c", RESOURCE, ("a",))
        allocated = await node.plugins.allocate("pod-1", "c", {RESOURCE: 1}, running=True)
        assert dict(allocated.env) == {}

    run(scenario, directory)


def test_the_plugins_preference_is_followed(directory: Path) -> None:
    async def scenario(node: Node) -> None:
        plugin = StubPlugin(
            directory, "p.sock", dict.fromkeys("abcd", "Healthy"), prefers=("d", "b")
        )
        await plugin.serve()
        await plugin.register()
        await node.until(lambda: node.ledger.allocatable() == {RESOURCE: 4})
        await node.plugins.allocate("pod-1", "c", {RESOURCE: 2})
        assert sorted(plugin.allocated[0]) == ["b", "d"]
        await plugin.stop()

    run(scenario, directory)


def test_a_plugins_error_is_in_the_pods_status(directory: Path) -> None:
    async def scenario(node: Node) -> None:
        plugin = StubPlugin(directory, "p.sock", {"a": "Healthy", "b": "Healthy"})
        plugin.refusal = "maximum request size for shared resources is 1; found 2"
        await plugin.serve()
        await plugin.register()
        await node.until(lambda: node.ledger.allocatable() == {RESOURCE: 2})
        with pytest.raises(
            AllocationFailed, match="maximum request size for shared resources is 1; found 2"
        ):
            await node.plugins.allocate("pod-1", "c", {RESOURCE: 2})
        await plugin.stop()

    run(scenario, directory)


@pytest.mark.parametrize(("resource", "version"), [(RESOURCE, "v1"), ("gpu", "v1beta1")])
def test_a_bad_registration_is_refused(directory: Path, resource: str, version: str) -> None:
    async def scenario(node: Node) -> None:
        plugin = StubPlugin(directory, "p.sock", {})
        await plugin.serve()
        with pytest.raises(grpc.aio.AioRpcError, match=r"not supported|invalid registration"):
            await plugin.register(resource, version)
        assert node.ledger.capacity() == {}
        await plugin.stop()

    run(scenario, directory)


def test_allocations_survive_a_restart(tmp_path: Path) -> None:
    before = Ledger(
        checkpoint=tmp_path / "devices.json", devices={RESOURCE: {"a": True, "b": True}}
    )
    before.hold("pod-1", "c", RESOURCE, ("a",))
    after = Ledger(checkpoint=tmp_path / "devices.json", devices={RESOURCE: {"a": True, "b": True}})
    after.load()
    assert after.free(RESOURCE) == ("b",)
    with pytest.raises(Unavailable):
        after.choose(RESOURCE, 2)
