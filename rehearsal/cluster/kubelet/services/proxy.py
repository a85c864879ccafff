"""Listens for every Service and passes connections on to its pods, in turn.

A Service's clusterIP leads nowhere on this machine. It gets an address of the cluster's loopback
block instead, shown by the annotation ADDRESS, and as its load balancer's where it has one.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from slicewright.kubeapi import ApiError, JsonObject, Unreachable
from slicewright.rehearsal.cluster.kubelet.services import routing

ADDRESS: Final = "rehearsal.slicewright.io/address"
_RETRY_S: Final = 1.0
_CHUNK: Final = 65536
_log = logging.getLogger(__name__)
Publish = Callable[[JsonObject, str], Coroutine[Any, Any, None]]
"""(Service, its address): writes it to the API. Raises ApiError, Unreachable."""


class Addresses(Protocol):
    """Where addresses for Services come from."""

    def take_service(self, preferred: str | None = None) -> str:
        """Raises NoAddress."""
        ...

    def give_back(self, address: str) -> None: ...


@dataclass
class _Routed:
    """One Service that is listened for."""

    service: JsonObject
    address: str
    servers: dict[int, asyncio.Server] = field(default_factory=dict)
    turns: Iterator[int] = field(default_factory=itertools.count)
    published: bool = False
    changing: asyncio.Lock = field(default_factory=asyncio.Lock)


class ServiceProxy:
    """For the event loop only: `see` and `drop` Services, `close` at the end."""

    def __init__(
        self,
        addresses: Addresses,
        pods: Callable[[], Iterable[JsonObject]],
        publish: Publish,
    ) -> None:
        self._addresses = addresses
        self._pods = pods
        self._publish = publish
        self._routed: dict[str, _Routed] = {}
        """By uid."""
        self._tasks: set[asyncio.Task[None]] = set()

    def known(self) -> set[str]:
        """Uids of the Services that are listened for."""
        return set(self._routed)

    def names(self) -> dict[tuple[str, str], str]:
        """The address of each Service that is listened for, by its namespace and name."""
        return {
            (of["namespace"], of["name"]): routed.address
            for routed in self._routed.values()
            for of in (routed.service["metadata"],)
        }

    def leads(self, cluster_ip: str, port: int) -> tuple[routing.Backend, ...] | None:
        """The ready pods behind a clusterIP's port, each first in turn; None where no Service has
        the address.
        """
        for routed in self._routed.values():
            if routed.service["spec"].get("clusterIP") == cluster_ip:
                if port not in routing.tcp_ports(routed.service):
                    return ()
                return self._in_turn(routed, port)
        return None

    def _in_turn(self, routed: _Routed, port: int) -> tuple[routing.Backend, ...]:
        found = routing.backends(routed.service, port, self._pods())
        first = next(routed.turns) % len(found) if found else 0
        return found[first:] + found[:first]

    def see(self, service: JsonObject) -> None:
        uid = service["metadata"]["uid"]
        if not routing.is_routed(service):
            self.drop(uid)
            return
        if (routed := self._routed.get(uid)) is None:
            earlier = (service["metadata"].get("annotations") or {}).get(ADDRESS)
            routed = _Routed(service, self._addresses.take_service(earlier))
            self._routed[uid] = routed
        routed.service = service
        self._spawn(self._listen(uid))

    def drop(self, uid: str) -> None:
        if routed := self._routed.pop(uid, None):
            for server in routed.servers.values():
                server.close()
            self._addresses.give_back(routed.address)

    def close(self) -> None:
        for uid in list(self._routed):
            self.drop(uid)
        for task in self._tasks:
            task.cancel()

    async def _listen(self, uid: str) -> None:
        """Opens and closes ports as the Service says, and tells its address."""
        if (routed := self._routed.get(uid)) is None:
            return
        async with routed.changing:
            wanted = set(routing.tcp_ports(routed.service))
            for port in set(routed.servers) - wanted:
                routed.servers.pop(port).close()
            for port in wanted - set(routed.servers):
                try:
                    server = await asyncio.start_server(
                        self._connected(routed, port), routed.address, port
                    )
                except OSError as e:
                    _log.warning("%s: port %d is not served: %s", _name(routed.service), port, e)
                    continue
                if self._routed.get(uid) is not routed:
                    server.close()  # it has gone meanwhile
                    return
                routed.servers[port] = server
        if not routed.published:
            routed.published = True
            await self._tell(uid, routed)

    async def _tell(self, uid: str, routed: _Routed) -> None:
        while self._routed.get(uid) is routed:
            try:
                await self._publish(routed.service, routed.address)
                return
            except (ApiError, Unreachable) as e:
                if isinstance(e, ApiError) and e.status == 404:
                    return
                _log.info("%s: address not written: %s", _name(routed.service), e)
            await asyncio.sleep(_RETRY_S)

    def _connected(
        self, routed: _Routed, port: int
    ) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]:
        async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                for backend in self._in_turn(routed, port):
                    try:
                        to = await asyncio.open_connection(*backend)
                    except OSError:
                        continue  # it has just ended
                    await both_ways((reader, writer), to)
                    return
            finally:
                # Without a pod the connection is closed; kube-proxy's is refused.
                writer.close()

        return pass_on

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def both_ways(client: Stream, pod: Stream) -> None:
    """Until the pod ends the connection, or the client has gone."""
    asking = asyncio.create_task(_copy(client[0], pod[1]))
    try:
        await _copy(pod[0], client[1])
    finally:
        asking.cancel()
        pod[1].close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()


def _name(service: JsonObject) -> str:
    return f"Service {service['metadata']['namespace']}/{service['metadata']['name']}"
