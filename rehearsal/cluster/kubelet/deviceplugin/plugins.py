"""A node's registration socket, and the calls to the device plugins that register there."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from slicewright.rehearsal.cluster.kubelet.deviceplugin import messages
from slicewright.rehearsal.cluster.kubelet.deviceplugin.ledger import Ledger, Unavailable, failure
from slicewright.rehearsal.cluster.kubelet.deviceplugin.simulated_plugin import (
    DeviceList,
    SimulatedPlugin,
)
from slicewright.rehearsal.cluster.kubelet.grpc_socket import GrpcSocket

KUBELET_SOCKET = "kubelet.sock"
STOPPED_TTL_S = 5.0
"""How long a resource keeps its capacity after its plugin has ended; allocatable is 0 at once.

The real kubelet waits 300 s (endpointStoppedTTL, pkg/kubelet/cm/devicemanager/types.go), for which
a rehearsal would show the old layout's resources.
"""
_CALL_TIMEOUT_S = 10.0
_log = logging.getLogger(__name__)


class AllocationFailed(Exception):
    """The plugin refused or did not answer; the message is for the pod's status."""


@dataclass(frozen=True, kw_only=True)
class Allocation:
    """A plugin's answer to Allocate: what the container gets."""

    env: Mapping[str, str]
    mounts: tuple[tuple[str, str, bool], ...]
    """(container path, host path, read-only)"""
    cdi_devices: frozenset[str] = frozenset()
    """Qualified names (vendor/class=name), which the container runtime resolves."""
    device_files: frozenset[str] = frozenset()
    """Device nodes of the host, for the same place in the container."""


@dataclass(eq=False)
class _Plugin:
    """One registered endpoint. A newer registration of the same resource replaces it."""

    resource: str
    endpoint: str
    channel: Any
    preferred: bool = False
    task: asyncio.Task[None] | None = None

    async def call(self, method: str, request: Any, response: Any) -> Any:
        rpc = self.channel.unary_unary(
            f"/{messages.DEVICE_PLUGIN}/{method}",
            request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=response.FromString,
        )
        return await rpc(request, timeout=_CALL_TIMEOUT_S)


class DevicePlugins:
    """Serves `<directory>/kubelet.sock`, and mirrors the plugins' device lists in the ledger.

    changed: called in the event loop whenever capacity or allocatable may have changed.
    """

    def __init__(
        self,
        directory: Path,
        ledger: Ledger,
        changed: Callable[[], None],
        *,
        stopped_ttl_s: float = STOPPED_TTL_S,
    ) -> None:
        self._directory = directory
        self._ledger = ledger
        self._changed = changed
        self._stopped_ttl_s = stopped_ttl_s
        self._plugins: dict[str, _Plugin | SimulatedPlugin] = {}
        self._forgetting: dict[str, asyncio.TimerHandle] = {}
        self._fd = -1
        self._socket = GrpcSocket(
            directory,
            KUBELET_SOCKET,
            service=messages.REGISTRATION,
            method="Register",
            request=messages.RegisterRequest,
            handler=self._register,
        )

    async def start(self) -> None:
        """Creates the socket, which makes plugins register again, as after a kubelet's restart."""
        self._fd = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        await self._socket.start()

    async def stop(self) -> None:
        for timer in self._forgetting.values():
            timer.cancel()
        tasks = [p.task for p in self._plugins.values() if p.task]
        self._plugins.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._socket.stop()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    async def allocate(
        self, pod_uid: str, container: str, asked: Mapping[str, int], *, running: bool = False
    ) -> Allocation:
        """Allocates devices for one container, in the plugins and in the ledger.

        A container that already has devices keeps them; Allocate is called again for its answer.
        running: it runs already, because only the kubelet has restarted; then it needs no plugin.
        After a reboot it does: until the plugin has registered again, the pod is refused, and for
        good. Raises AllocationFailed; the caller then releases the pod. Source: devicesToAllocate,
        k8s.io/kubernetes v1.36.2, pkg/kubelet/cm/devicemanager/manager.go.
        """
        env: dict[str, str] = {}
        mounts: list[tuple[str, str, bool]] = []
        cdi_devices: set[str] = set()
        files: set[str] = set()
        for resource, count in sorted(asked.items()):
            held = self._ledger.allocations.get(pod_uid, {}).get(container, {}).get(resource)
            plugin = self._plugins.get(resource)
            if held and running and plugin is None:
                continue
            try:
                self._ledger.require_healthy(resource, held or ())
                if plugin is None:
                    raise Unavailable(failure(f"endpoint not found in cache for {resource}"))
                ids = held or self._ledger.choose(
                    resource, count, await self._preferred(plugin, count)
                )
                self._ledger.hold(pod_uid, container, resource, ids)
                request = messages.AllocateRequest(
                    container_requests=[messages.ContainerAllocateRequest(devices_ids=list(ids))]
                )
                answer = await plugin.call("Allocate", request, messages.AllocateResponse)
            except Unavailable as e:
                raise AllocationFailed(str(e)) from None
            except grpc.aio.AioRpcError as e:
                raise AllocationFailed(
                    failure(f"rpc error: code = {e.code().name.title()} desc = {e.details()}")
                ) from None
            for response in answer.container_responses:
                env.update(response.envs)
                mounts.extend((m.container_path, m.host_path, m.read_only) for m in response.mounts)
                cdi_devices.update(device.name for device in response.cdi_devices)
                files.update(device.host_path for device in response.devices)
        return Allocation(
            env=env,
            mounts=tuple(mounts),
            cdi_devices=frozenset(cdi_devices),
            device_files=frozenset(files),
        )

    def offer(self, devices: Mapping[str, tuple[str, ...]], listed: DeviceList) -> None:
        """Devices of plugins without a process, in place of all that were offered before.

        What is not there any more is forgotten at once.
        """
        for resource, plugin in list(self._plugins.items()):
            if isinstance(plugin, SimulatedPlugin) and resource not in devices:
                del self._plugins[resource]
                self._ledger.devices[resource] = {}
        for resource, ids in devices.items():
            self._plugins[resource] = SimulatedPlugin(resource, listed)
            self._ledger.devices[resource] = dict.fromkeys(ids, True)
        self._changed()

    async def _preferred(self, plugin: _Plugin | SimulatedPlugin, count: int) -> tuple[str, ...]:
        free = self._ledger.free(plugin.resource)
        if not plugin.preferred or len(free) <= count:
            return ()
        request = messages.PreferredAllocationRequest(
            container_requests=[
                messages.ContainerPreferredAllocationRequest(
                    available_deviceIDs=list(free), allocation_size=count
                )
            ]
        )
        answer = await plugin.call(
            "GetPreferredAllocation", request, messages.PreferredAllocationResponse
        )
        return tuple(answer.container_responses[0].deviceIDs) if answer.container_responses else ()

    async def _register(self, request: Any, context: Any) -> Any:
        if request.version != messages.VERSION:
            await context.abort(
                grpc.StatusCode.UNKNOWN,
                f"requested device plugin API version {request.version!r} is not "
                f"supported; supported: [{messages.VERSION!r}]",
            )
        if "/" not in request.resource_name or "/" in request.endpoint or not request.endpoint:
            await context.abort(
                grpc.StatusCode.UNKNOWN,
                f"invalid registration: resource {request.resource_name!r} must be "
                "domain/name and endpoint "
                f"{request.endpoint!r} the name of a socket beside {KUBELET_SOCKET}",
            )
        old = self._plugins.pop(request.resource_name, None)
        if old and old.task:
            old.task.cancel()
        channel = grpc.aio.insecure_channel(
            f"unix:/proc/self/fd/{self._fd}/{request.endpoint}",
            # Channels to one path would share a connection, also to a restarted plugin's socket.
            options=[("grpc.use_local_subchannel_pool", 1)],
        )
        plugin = _Plugin(request.resource_name, request.endpoint, channel)
        self._plugins[request.resource_name] = plugin
        plugin.task = asyncio.create_task(
            self._follow(plugin), name=f"plugin {request.resource_name}"
        )
        return messages.Empty()

    async def _follow(self, plugin: _Plugin) -> None:
        """Mirrors one plugin's device list until its stream ends."""
        try:
            options = await plugin.call(
                "GetDevicePluginOptions", messages.Empty(), messages.DevicePluginOptions
            )
            plugin.preferred = options.get_preferred_allocation_available
            stream = plugin.channel.unary_stream(
                f"/{messages.DEVICE_PLUGIN}/ListAndWatch",
                request_serializer=lambda m: m.SerializeToString(),
                response_deserializer=messages.ListAndWatchResponse.FromString,
            )(messages.Empty())
            async for response in stream:
                if timer := self._forgetting.pop(plugin.resource, None):
                    timer.cancel()
                self._ledger.devices[plugin.resource] = {
                    d.ID: d.health == messages.HEALTHY for d in response.devices
                }
                self._changed()
        except grpc.aio.AioRpcError as e:
            _log.info(
                "%s: device plugin %s ended: %s %s",
                self._directory,
                plugin.resource,
                e.code().name,
                e.details(),
            )
        finally:
            if self._plugins.get(plugin.resource) is plugin:
                del self._plugins[plugin.resource]
                self._gone(plugin.resource)
            await plugin.channel.close()

    def _gone(self, resource: str) -> None:
        known = self._ledger.devices.get(resource)
        if known is None:
            return
        self._ledger.devices[resource] = dict.fromkeys(known, False)
        if timer := self._forgetting.pop(resource, None):
            timer.cancel()  # an earlier plugin's, which could not be cancelled any more
        self._forgetting[resource] = asyncio.get_running_loop().call_later(
            self._stopped_ttl_s, self._forget, resource
        )
        self._changed()

    def _forget(self, resource: str) -> None:
        self._forgetting.pop(resource, None)
        self._ledger.devices[resource] = {}
        self._changed()
