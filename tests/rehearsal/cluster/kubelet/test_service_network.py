"""What stands in for DNS, and for the API server's way into the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from slicewright.rehearsal.cluster.kubelet.services import aggregation, tunnels
from slicewright.rehearsal.cluster.kubelet.services.names import HostsFiles

SERVICE = {
    "metadata": {"namespace": "keda", "name": "server", "uid": "u"},
    "spec": {
        "clusterIP": "10.96.0.9",
        "ports": [{"name": "https", "port": 443, "targetPort": 6443}],
    },
}


def addresses(file: Path, name: str) -> list[str]:
    lines = (line.partition("#")[0].split() for line in file.read_text().splitlines())
    return [words[0] for words in lines if name in words[1:]]


def test_a_service_is_found_by_each_of_its_names_and_briefly_in_its_own_namespace(
    tmp_path: Path,
) -> None:
    hosts = HostsFiles(tmp_path / "hosts")
    own, other = hosts.of("monitoring"), hosts.of("default")
    hosts.tell({("monitoring", "prom"): "127.30.0.2"})
    for name in ("prom.monitoring", "prom.monitoring.svc", "prom.monitoring.svc.cluster.local"):
        assert addresses(own, name) == addresses(other, name) == ["127.30.0.2"]
    assert addresses(own, "prom") == ["127.30.0.2"]
    assert addresses(other, "prom") == []
    assert addresses(other, "localhost")


def test_running_containers_see_a_name_come_and_go_in_the_file_that_they_have(
    tmp_path: Path,
) -> None:
    hosts = HostsFiles(tmp_path / "hosts")
    hosts.tell({("a", "one"): "127.30.0.2", ("a", "two"): "127.30.0.3"})
    file = hosts.of("a")
    mounted = file.stat().st_ino
    hosts.tell({("a", "two"): "127.30.0.4"})
    assert addresses(file, "one") == []
    assert addresses(file, "two.a.svc") == ["127.30.0.4"]
    assert file.stat().st_ino == mounted


async def connected(directory: Path, leads: tunnels.Leads, head: bytes) -> tuple[bytes, bytes]:
    """What the proxy answers, and what then comes through it after saying hello."""

    async def pod(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"pod has " + await reader.readexactly(5))
        writer.close()

    backend = await asyncio.start_server(pod, "127.0.0.1", 0)
    port = backend.sockets[0].getsockname()[1]
    server = await tunnels.serve(directory / "egress.sock", leads)
    try:
        reader, writer = await asyncio.open_unix_connection(directory / "egress.sock")
        writer.write(head.replace(b"PORT", str(port).encode()))
        answer = await reader.readuntil(b"\r\n\r\n")
        if not answer.startswith(b"HTTP/1.1 200"):
            return answer, await reader.read()
        writer.write(b"hello")
        return answer, await reader.read()
    finally:
        server.close()
        backend.close()


def test_a_connection_to_this_machine_goes_where_it_says(tmp_path: Path) -> None:
    head = b"CONNECT 127.0.0.1:PORT HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    answer, said = asyncio.run(connected(tmp_path, lambda *_: None, head))
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert said == b"pod has hello"


def test_a_connection_to_a_cluster_ip_goes_to_a_pod_that_answers(tmp_path: Path) -> None:
    async def run() -> tuple[bytes, bytes]:
        async def pod(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"pod has " + await reader.readexactly(5))
            writer.close()

        backend = await asyncio.start_server(pod, "127.0.0.1", 0)
        port = backend.sockets[0].getsockname()[1]
        # The first has just ended.
        found = (("127.0.0.1", 1), ("127.0.0.1", port))
        asked: list[tuple[str, int]] = []

        def leads(host: str, number: int) -> tuple[tuple[str, int], ...]:
            asked.append((host, number))
            return found

        head = b"CONNECT 10.96.0.9:443 HTTP/1.1\r\n\r\n"
        made = await connected(tmp_path, leads, head)
        assert asked == [("10.96.0.9", 443)]
        backend.close()
        return made

    answer, said = asyncio.run(run())
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert said == b"pod has hello"


@pytest.mark.parametrize(
    ("head", "leads"),
    [
        (b"CONNECT 192.0.2.1:443 HTTP/1.1\r\n\r\n", lambda *_: None),
        (b"CONNECT 10.96.0.9:443 HTTP/1.1\r\n\r\n", lambda *_: ()),
        (b"GET / HTTP/1.1\r\n\r\n", lambda *_: None),
        (b"CONNECT nowhere HTTP/1.1\r\n\r\n", lambda *_: None),
    ],
    ids=["elsewhere", "a Service without pods", "no CONNECT", "no port"],
)
def test_other_connections_are_refused(
    tmp_path: Path, head: bytes, leads: Callable[..., Awaitable[None]]
) -> None:
    answer, _ = asyncio.run(connected(tmp_path, leads, head))  # type: ignore[arg-type]
    assert answer.startswith(b"HTTP/1.1 502 ")


def test_the_socket_may_lie_deeper_than_a_unix_sockets_address_is_long(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 120)
    deep.mkdir()

    async def run() -> None:
        server = await tunnels.serve(deep / "egress.sock", lambda *_: None)
        server.close()

    asyncio.run(run())
    assert (deep / "egress.sock").is_socket()


def test_the_service_of_an_aggregated_api_has_an_endpoint_with_what_is_dialled() -> None:
    local = {"spec": {"group": "apps"}}
    aggregated = {"spec": {"service": {"namespace": "keda", "name": "server", "port": 443}}}
    assert aggregation.services_of([local, aggregated]) == {("keda", "server")}
    made = aggregation.endpoint_slice(SERVICE, ready=True)
    (endpoint,) = made["endpoints"]
    assert endpoint == {"addresses": ["10.96.0.9"], "conditions": {"ready": True}}
    # The API server looks for the port by the name that it has in the Service.
    assert made["ports"] == [{"name": "https", "port": 443, "protocol": "TCP"}]
    assert made["metadata"]["labels"]["kubernetes.io/service-name"] == "server"
    assert made["metadata"]["ownerReferences"][0]["uid"] == "u"
    (endpoint,) = aggregation.endpoint_slice(SERVICE, ready=False)["endpoints"]
    assert endpoint["conditions"] == {"ready": False}
