"""A kubelet for device plugins: it keeps what plugins register and list."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any

import grpc

from slicewright.rehearsal.cluster.kubelet.deviceplugin import messages


class StubKubelet:
    """Serves `<directory>/kubelet.sock`; a context manager. Keeps the lists of each resource."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._changed = threading.Condition()
        self._lists: dict[str, list[dict[str, str]]] = {}
        self._channels: dict[str, grpc.Channel] = {}
        self._failures: list[str] = []
        self.registrations: list[str] = []
        self._fd = -1

    def __enter__(self) -> StubKubelet:
        self._fd = os.open(self._directory, os.O_PATH | os.O_DIRECTORY)
        (self._directory / "kubelet.sock").unlink(missing_ok=True)
        self._server = grpc.server(ThreadPoolExecutor(max_workers=4))
        handler = grpc.unary_unary_rpc_method_handler(
            self._register,
            request_deserializer=messages.RegisterRequest.FromString,
            response_serializer=_bytes,
        )
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(messages.REGISTRATION, {"Register": handler}),)
        )
        self._server.add_insecure_port(f"unix:/proc/self/fd/{self._fd}/kubelet.sock")
        self._server.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for channel in self._channels.values():
            channel.close()
        self._server.stop(grace=0).wait()
        (self._directory / "kubelet.sock").unlink(missing_ok=True)
        os.close(self._fd)

    @property
    def offered(self) -> dict[str, list[str]]:
        """Device ids of each resource, as they were listed last."""
        with self._changed:
            return {resource: sorted(lists[-1]) for resource, lists in self._lists.items() if lists}

    def devices(
        self,
        resource: str,
        count: int,
        *,
        healthy: int | None = None,
        meanwhile: Callable[[], None] = lambda: None,
        timeout_s: float = 180,
    ) -> dict[str, str]:
        """Device id -> health of `resource`, once it has `count` devices, `healthy` of them
        healthy.

        meanwhile: called now and then until it is so.
        """

        def there() -> dict[str, str] | None:
            for listed in self._lists.get(resource, [])[-1:]:
                if len(listed) == count and (
                    healthy is None or list(listed.values()).count("Healthy") == healthy
                ):
                    return listed
            return None

        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            meanwhile()
            with self._changed:
                found = self._changed.wait_for(there, 0.5)
            if found is not None:
                return found
        raise AssertionError(
            f"{resource}: {count} devices expected, lists were {self._lists}; {self._failures}"
        )

    def registered(self, times: int, *, timeout_s: float = 180) -> list[str]:
        """The resources registered, once there were `times` registrations."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.registrations) >= times, timeout_s), (
                self.registrations
            )
            return list(self.registrations)

    def allocate(self, resource: str, *ids: str) -> Any:
        """The plugin's answer for one container. Raises grpc.RpcError."""
        request = messages.AllocateRequest()
        request.container_requests.add(devices_ids=ids)
        call = self._channels[resource].unary_unary(
            f"/{messages.DEVICE_PLUGIN}/Allocate",
            request_serializer=_bytes,
            response_deserializer=messages.AllocateResponse.FromString,
        )
        return call(request, timeout=180).container_responses[0]

    def preferred(self, resource: str, available: list[str], size: int) -> list[str]:
        request = messages.PreferredAllocationRequest()
        request.container_requests.add(available_deviceIDs=available, allocation_size=size)
        call = self._channels[resource].unary_unary(
            f"/{messages.DEVICE_PLUGIN}/GetPreferredAllocation",
            request_serializer=_bytes,
            response_deserializer=messages.PreferredAllocationResponse.FromString,
        )
        return list(call(request, timeout=180).container_responses[0].deviceIDs)

    def _register(self, request: Any, _: grpc.ServicerContext) -> Any:
        # A pool of its own: another test's connection to the same address would bring its back-off
        # along.
        options = [("grpc.use_local_subchannel_pool", 1)]
        channel = grpc.insecure_channel(
            f"unix:/proc/self/fd/{self._fd}/{request.endpoint}", options
        )
        with self._changed:
            self._channels[request.resource_name] = channel
            self.registrations.append(request.resource_name)
            self._changed.notify_all()
        threading.Thread(
            target=self._watch, args=(request.resource_name, channel), daemon=True
        ).start()
        return messages.Empty()

    def _watch(self, resource: str, channel: grpc.Channel) -> None:
        stream = channel.unary_stream(
            f"/{messages.DEVICE_PLUGIN}/ListAndWatch",
            request_serializer=_bytes,
            response_deserializer=messages.ListAndWatchResponse.FromString,
        )
        try:
            for answer in stream(messages.Empty()):
                with self._changed:
                    self._lists.setdefault(resource, []).append(
                        {d.ID: d.health for d in answer.devices}
                    )
                    self._changed.notify_all()
        except (grpc.RpcError, ValueError) as e:
            self._failures.append(str(e))  # usually that the plugin, or the test, is over


def _bytes(message: Any) -> bytes:
    data: bytes = message.SerializeToString()
    return data
