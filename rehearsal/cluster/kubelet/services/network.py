"""All that Services need in one cluster: proxy, names, and what the API server asks of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from slicewright.kubeapi import ApiError, JsonObject, Unreachable
from slicewright.kubeapi.client import path_of
from slicewright.kubeapi.watch import Event
from slicewright.rehearsal.cluster.control_plane import egress
from slicewright.rehearsal.cluster.kubelet.api import Api
from slicewright.rehearsal.cluster.kubelet.services import aggregation, routing, tunnels
from slicewright.rehearsal.cluster.kubelet.services.names import HostsFiles
from slicewright.rehearsal.cluster.kubelet.services.proxy import ADDRESS, Addresses, ServiceProxy

_log = logging.getLogger(__name__)
_LOOK_S: Final = 0.5
"""Between two looks whether the server of an aggregated API is ready."""
_OWNER: Final = "slicewright-rehearsal"


class ServiceNetwork:
    """For the event loop only."""

    def __init__(
        self,
        directory: Path,
        addresses: Addresses,
        pods: Callable[[], Iterable[JsonObject]],
        api: Api,
    ) -> None:
        """directory: the cluster's."""
        self.hosts = HostsFiles(directory / "hosts")
        self._socket = directory / egress.SOCKET
        self._pods = pods
        self._api = api
        self._proxy = ServiceProxy(addresses, pods, self._publish)
        self._services: dict[str, JsonObject] = {}
        """By uid."""
        self._api_services: dict[str, JsonObject] = {}
        """By name."""
        self._told: dict[str, JsonObject] = {}
        """The last EndpointSlice that was written, by the Service's uid."""
        self._tunnels: asyncio.Server | None = None
        self._keeping: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Raises OSError."""
        self._tunnels = await tunnels.serve(self._socket, self._proxy.leads)
        self._keeping = asyncio.create_task(self._keep_endpoints(), name="endpoints")

    def close(self) -> None:
        if self._tunnels:
            self._tunnels.close()
        if self._keeping:
            self._keeping.cancel()
        self._proxy.close()

    def on_service(self, event: Event) -> None:
        if event.type == "LISTED":
            for uid in set(self._services) - {s["metadata"]["uid"] for s in event.items}:
                self._drop(uid)
            for service in event.items:
                self._see(service)
        elif event.type == "DELETED":
            self._drop(event.object["metadata"]["uid"])
        elif event.type in ("ADDED", "MODIFIED"):
            self._see(event.object)
        self.hosts.tell(self._proxy.names())

    def on_api_service(self, event: Event) -> None:
        if event.type == "LISTED":
            self._api_services = {one["metadata"]["name"]: one for one in event.items}
        elif event.type == "DELETED":
            self._api_services.pop(event.object["metadata"]["name"], None)
        elif event.type in ("ADDED", "MODIFIED"):
            self._api_services[event.object["metadata"]["name"]] = event.object

    def _see(self, service: JsonObject) -> None:
        self._services[service["metadata"]["uid"]] = service
        self._proxy.see(service)

    def _drop(self, uid: str) -> None:
        self._services.pop(uid, None)
        self._told.pop(uid, None)
        self._proxy.drop(uid)

    async def _publish(self, service: JsonObject, address: str) -> None:
        """Writes where a Service is reached. Raises ApiError, Unreachable."""
        of = service["metadata"]
        path = path_of("v1", "services", of["name"], of["namespace"])
        # The uid is a precondition: another Service of this name has another address.
        shown = {"uid": of["uid"], "annotations": {ADDRESS: address}}
        await self._api.run(self._api.client.patch, path, {"metadata": shown})
        if service["spec"].get("type") == "LoadBalancer":
            ingress = {"ip": address, "ipMode": "Proxy"}
            body = {
                "metadata": {"uid": of["uid"]},
                "status": {"loadBalancer": {"ingress": [ingress]}},
            }
            await self._api.of_controller("service-controller").patch_status(path, body)

    async def _keep_endpoints(self) -> None:
        """Of the Services that serve aggregated APIs."""
        while True:
            aggregated = aggregation.services_of(self._api_services.values())
            for uid, service in list(self._services.items()) if aggregated else ():
                of = service["metadata"]
                if (of["namespace"], of["name"]) not in aggregated:
                    continue
                if not routing.is_routed(service):
                    continue
                ready = any(
                    routing.backends(service, port, self._pods())
                    for port in routing.tcp_ports(service)
                )
                wanted = aggregation.endpoint_slice(service, ready=ready)
                if self._told.get(uid) != wanted and await self._write(wanted):
                    self._told[uid] = wanted
            await asyncio.sleep(_LOOK_S)

    async def _write(self, wanted: JsonObject) -> bool:
        of = wanted["metadata"]
        path = path_of("discovery.k8s.io/v1", "endpointslices", of["name"], of["namespace"])
        try:
            await self._api.run(
                self._api.client.patch,
                path,
                wanted,
                kind="apply",
                fieldManager=_OWNER,
                force="true",
            )
        except (ApiError, Unreachable) as e:
            _log.info("EndpointSlice %s/%s: not written: %s", of["namespace"], of["name"], e)
            return False
        return True
