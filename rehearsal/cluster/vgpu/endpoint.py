"""One resource of a device plugin: its socket beside the kubelet's, and its list of devices."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

from slicewright.rehearsal.cluster.kubelet.deviceplugin import messages
from slicewright.rehearsal.cluster.vgpu.engine import Devices

Allocate = Callable[[Sequence[str]], dict[str, str]]
"""Device ids of a container -> its variables. Raises ValueError with the refusal."""
_TIMEOUT_S = 10.0
_THREADS = 4


class Endpoint:
    """Serves `directory`/`socket`. For several threads."""

    def __init__(self, directory: Path, socket: str, resource: str, allocate: Allocate) -> None:
        self.resource = resource
        self._directory = directory
        self._socket = socket
        self._allocate = allocate
        self._devices: Devices = {}
        self._changed = threading.Condition()
        self._generation = 0
        self._server: Any = None

    def offer(self, devices: Devices) -> None:
        """Sends the list to the kubelet if it has changed."""
        with self._changed:
            if devices != self._devices:
                self._devices = devices
                self._generation += 1
                self._changed.notify_all()

    def start(self) -> None:
        """Serves anew, and registers. Raises grpc.RpcError if the kubelet does not answer."""
        self.stop()
        path = self._directory / self._socket
        path.unlink(missing_ok=True)
        self._server = grpc.server(ThreadPoolExecutor(_THREADS), options=[("grpc.so_reuseport", 0)])
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(messages.DEVICE_PLUGIN, self._handlers()),)
        )
        self._server.add_insecure_port(f"unix:{path}")
        self._server.start()
        self._register()

    def stop(self) -> None:
        if self._server is not None:
            with self._changed:
                self._generation += 1
                self._changed.notify_all()
            self._server.stop(grace=0).wait()
            self._server = None

    def _handlers(self) -> dict[str, Any]:
        def unary(answer: Callable[[Any, Any], Any], request: Any) -> Any:
            return grpc.unary_unary_rpc_method_handler(answer, request.FromString, _bytes)

        return {
            "GetDevicePluginOptions": unary(self._options, messages.Empty),
            "Allocate": unary(self._answer, messages.AllocateRequest),
            "ListAndWatch": grpc.unary_stream_rpc_method_handler(
                self._lists, messages.Empty.FromString, _bytes
            ),
        }

    def _register(self) -> None:
        kubelet = f"unix:{self._directory / 'kubelet.sock'}"
        with grpc.insecure_channel(kubelet) as channel:
            rpc = channel.unary_unary(
                f"/{messages.REGISTRATION}/Register", _bytes, messages.Empty.FromString
            )
            request = messages.RegisterRequest(
                version=messages.VERSION, endpoint=self._socket, resource_name=self.resource
            )
            rpc(request, timeout=_TIMEOUT_S, wait_for_ready=True)

    def _options(self, request: Any, context: Any) -> Any:
        return messages.DevicePluginOptions()

    def _lists(self, request: Any, context: Any) -> Iterator[Any]:
        sent, server = -1, self._server
        while context.is_active() and self._server is server:
            with self._changed:
                if self._generation == sent:
                    self._changed.wait(_TIMEOUT_S)
                    continue
                sent, devices = self._generation, self._devices
            yield messages.ListAndWatchResponse(
                devices=[
                    messages.Device(ID=i, health=messages.HEALTHY if healthy else "Unhealthy")
                    for i, healthy in devices.items()
                ]
            )

    def _answer(self, request: Any, context: Any) -> Any:
        if len(request.container_requests) > 1:
            context.abort(grpc.StatusCode.UNKNOWN, "multiple Container Requests not supported")
        (container,) = request.container_requests
        try:
            variables = self._allocate(tuple(container.devices_ids))
        except ValueError as e:
            context.abort(grpc.StatusCode.UNKNOWN, str(e))
        response = messages.ContainerAllocateResponse(envs=variables)
        return messages.AllocateResponse(container_responses=[response])


def _bytes(message: Any) -> bytes:
    serialized: bytes = message.SerializeToString()
    return serialized
