"""Where connections to a Service go: to its ready pods, in turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from slicewright.kubeapi import ApiError, JsonObject
from slicewright.rehearsal.cluster.kubelet.services import routing
from slicewright.rehearsal.cluster.kubelet.services.proxy import ServiceProxy

SERVICE: JsonObject = {
    "metadata": {"name": "llm", "namespace": "ai", "uid": "eks-a100"},
    "spec": {
        "type": "ClusterIP",
        "clusterIP": "10.96.0.7",
        "selector": {"app": "llm"},
        "ports": [{"name": "http", "port": 80, "targetPort": "http", "protocol": "TCP"}],
    },
}


def pod(name: str, address: str = "127.0.0.1", port: int = 8000, **other: Any) -> JsonObject:
    ready = other.get("ready", True)
    return {
        "metadata": {
            "name": name,
            "namespace": other.get("namespace", "ai"),
            "labels": {"app": "llm", "x": "y"} | other.get("labels", {}),
        },
        "spec": {"containers": [{"ports": [{"name": "http", "containerPort": port}]}]},
        "status": {
            "podIP": address,
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }


def of(service: JsonObject = SERVICE, **changes: Any) -> JsonObject:
    return {**service, "spec": {**service["spec"], **changes}}


def test_a_port_leads_to_the_ready_pods_that_the_selector_names() -> None:
    leaving = pod("leaving", "127.0.0.9")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    pods = [
        pod("b", "127.0.0.3"),
        pod("a", "127.0.0.2", port=9000),
        pod("starting", "127.0.0.4", ready=False),
        pod("other", "127.0.0.5", labels={"app": "other"}),
        pod("elsewhere", "127.0.0.6", namespace="default"),
        leaving,
    ]
    assert routing.backends(SERVICE, 80, pods) == (("127.0.0.2", 9000), ("127.0.0.3", 8000))


@pytest.mark.parametrize(
    ("port", "number"),
    [({"port": 80}, 80), ({"port": 80, "targetPort": 8001}, 8001)],
)
def test_a_target_port_may_be_a_number_or_left_out(port: JsonObject, number: int) -> None:
    service = of(ports=[port])
    assert routing.backends(service, 80, [pod("a")]) == (("127.0.0.1", number),)


def test_a_name_that_a_pod_does_not_have_leads_nowhere() -> None:
    service = of(ports=[{"port": 80, "targetPort": "grpc"}])
    assert routing.backends(service, 80, [pod("a")]) == ()


@pytest.mark.parametrize(
    "changes",
    [{"clusterIP": "None"}, {"type": "ExternalName"}, {"selector": None}],
)
def test_headless_and_external_services_and_those_without_pods_are_not_routed(
    changes: JsonObject,
) -> None:
    assert routing.is_routed(SERVICE)
    assert not routing.is_routed(of(**changes))


class Block:
    """Addresses 127.0.0.1 only: ports tell the Services apart."""

    def take_service(self, preferred: str | None = None) -> str:
        return "127.0.0.1"

    def give_back(self, address: str) -> None:
        pass


async def echo(name: bytes) -> asyncio.Server:
    """A pod that answers a line with its name and the line."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(name + b": " + await reader.readline())
        writer.close()

    return await asyncio.start_server(answer, "127.0.0.1", 0)


def number(server: asyncio.Server) -> int:
    found: int = server.sockets[0].getsockname()[1]
    return found


async def free_port() -> int:
    server = await echo(b"")
    found = number(server)
    server.close()
    await server.wait_closed()
    return found


async def asked(port: int) -> str:
    """What a connection to the Service brings; empty where it is closed without an answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with suppress(ConnectionError):
        writer.write(b"hello\n")
        await writer.drain()
        writer.write_eof()
    try:
        return (await reader.read()).decode()
    except ConnectionError:
        return ""
    finally:
        writer.close()


async def soon(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.01)


async def listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


def test_connections_go_to_the_pods_in_turn_and_never_to_one_that_has_ended() -> None:
    async def run() -> None:
        servers = [await echo(b"one"), await echo(b"two")]
        pods = [pod("a", port=number(servers[0])), pod("b", port=number(servers[1]))]
        port, told = await free_port(), list[str]()

        async def publish(service: JsonObject, address: str) -> None:
            told.append(address)

        proxy = ServiceProxy(Block(), lambda: pods, publish)
        service = of(ports=[{"port": port, "targetPort": "http"}])
        proxy.see(service)
        await soon(lambda: told == ["127.0.0.1"])
        assert [await asked(port) for _ in range(4)] == ["one: hello\n", "two: hello\n"] * 2
        servers[0].close()
        await servers[0].wait_closed()
        assert [await asked(port) for _ in range(4)] == ["two: hello\n"] * 4
        pods.clear()
        assert await asked(port) == ""
        proxy.see(service)
        assert told == ["127.0.0.1"], "told once"
        proxy.drop("eks-a100")
        assert not await listens(port)
        proxy.close()
        servers[1].close()

    asyncio.run(run())


def test_another_port_takes_the_place_of_the_first() -> None:
    async def run() -> None:
        server, first, second = await echo(b"one"), await free_port(), await free_port()
        told = list[str]()

        async def publish(service: JsonObject, address: str) -> None:
            told.append(address)

        proxy = ServiceProxy(Block(), lambda: [pod("a", port=number(server))], publish)
        proxy.see(of(ports=[{"port": first, "targetPort": "http"}]))
        await soon(lambda: bool(told))
        proxy.see(of(ports=[{"port": second, "targetPort": "http"}]))
        async with asyncio.timeout(60):
            while not await listens(second):
                await asyncio.sleep(0.01)
        assert await asked(second) == "one: hello\n"
        assert not await listens(first)
        proxy.close()
        server.close()

    asyncio.run(run())


def test_an_address_that_could_not_be_written_is_written_later() -> None:
    async def run() -> None:
        port, tries = await free_port(), list[str]()

        async def publish(service: JsonObject, address: str) -> None:
            tries.append(address)
            if len(tries) == 1:
                raise ApiError(500, {"message": "etcd is away"})

        proxy = ServiceProxy(Block(), list, publish)
        proxy.see(of(ports=[{"port": port}]))
        await soon(lambda: len(tries) == 2)
        proxy.close()

    asyncio.run(run())
