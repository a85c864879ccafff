"""The system bus of simulated nodes, tested with raw messages and with systemd's own client."""

from __future__ import annotations

import os
import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slicewright.rehearsal.cluster.node.fake_dbus import SystemBus


@pytest.fixture
def bus() -> Iterator[SystemBus]:
    made = SystemBus()
    yield made
    made.close()


class Client:
    """A connection that has authenticated as the specification says."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(30)
        self.socket.connect(str(path))
        self.serial = 0
        assert self.line(b"\0AUTH\r\n").startswith(b"REJECTED EXTERNAL")
        assert self.line(b"AUTH EXTERNAL 30\r\n").startswith(b"OK ")
        assert self.line(b"NEGOTIATE_UNIX_FD\r\n").startswith(b"ERROR")
        self.socket.sendall(b"BEGIN\r\n")

    def line(self, sent: bytes) -> bytes:
        self.socket.sendall(sent)
        return self.socket.recv(200)

    def call(self, member: str, *arguments: str, path: str = "/org/freedesktop/systemd1") -> None:
        """Arguments are strings."""
        self.serial += 1
        body = b""
        for argument in arguments:
            body += (
                b"\0" * (-len(body) % 4)
                + struct.pack("<I", len(argument))
                + argument.encode()
                + b"\0"
            )
        fields = b""
        for number, kind, value in (
            (1, "o", path),
            (2, "s", "org.freedesktop.systemd1.Manager"),
            (3, "s", member),
        ):
            fields += b"\0" * (-len(fields) % 8) + bytes([number, 1]) + kind.encode() + b"\0"
            fields += struct.pack("<I", len(value)) + value.encode() + b"\0"
        if arguments:
            fields += (
                b"\0" * (-len(fields) % 8)
                + bytes([8, 1])
                + b"g\0"
                + bytes([len(arguments)])
                + b"s" * len(arguments)
                + b"\0"
            )
        head = struct.pack("<cBBBIII", b"l", 1, 0, 1, len(body), self.serial, len(fields)) + fields
        self.socket.sendall(head + b"\0" * (-len(head) % 8) + body)

    def receive(self) -> tuple[int, bytes]:
        """Kind and everything of the next message."""
        head = self._exactly(16)
        kind, body, fields = (
            head[1],
            *struct.unpack_from("<II", head, 4)[:1],
            struct.unpack_from("<I", head, 12)[0],
        )
        return kind, head + self._exactly((fields + 7) // 8 * 8 + body)

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            got = self.socket.recv(count - len(data))
            assert got, "the bus closed the connection"
            data += got
        return data


def test_stopping_a_unit_signals_the_listening_connection(bus: SystemBus, tmp_path: Path) -> None:
    path = tmp_path / "bus"
    bus.listen(path, {"kubelet.service": True})
    listening, asking = Client(path), Client(path)
    listening.call("Hello")
    assert b":1.1\0" in listening.receive()[1]
    listening.call("AddMatch", "type='signal'")
    assert listening.receive()[0] == 2
    asking.call("StopUnit", "kubelet.service", "replace")
    kind, answer = asking.receive()
    assert (kind, b"/org/freedesktop/systemd1/job/1\0" in answer) == (2, True)
    kind, signal = listening.receive()
    assert kind == 4
    assert b"JobRemoved\0" in signal
    assert signal.endswith(b"done\0")
    assert bus.units(path) == {"kubelet.service": False}


def test_a_connection_closed_between_select_and_its_event_ends_nothing_else(
    bus: SystemBus, tmp_path: Path
) -> None:
    bus.listen(tmp_path / "one")
    bus.listen(tmp_path / "other")
    client = Client(tmp_path / "one")
    with bus._lock:
        client.socket.sendall(b"an event that the thread takes from select")
        time.sleep(0.1)  # it now waits for the lock, or the event is gone: both must be harmless
        connection = bus._nodes[tmp_path / "one"].connections.pop()
        bus._drop(connection)
    other = Client(tmp_path / "other")
    other.call("Hello")
    assert b":1.1\0" in other.receive()[1]


def test_an_unknown_method_returns_an_error(bus: SystemBus, tmp_path: Path) -> None:
    bus.listen(tmp_path / "bus")
    client = Client(tmp_path / "bus")
    client.call("Reboot")
    kind, answer = client.receive()
    assert kind == 3
    assert b"UnknownMethod" in answer


def test_a_message_may_arrive_in_pieces(bus: SystemBus, tmp_path: Path) -> None:
    bus.listen(tmp_path / "bus")
    client = Client(tmp_path / "bus")
    whole: list[bytes] = []
    real = client.socket
    client.socket = type("Pieces", (), {"sendall": lambda _, data: whole.append(data)})()  # type: ignore[assignment]
    client.call("Hello")
    client.socket = real
    for i in range(0, len(whole[0]), 7):
        real.sendall(whole[0][i : i + 7])
    assert b":1.1\0" in client.receive()[1]


def test_invalid_data_closes_that_connection_only(bus: SystemBus, tmp_path: Path) -> None:
    bus.listen(tmp_path / "bus")
    bad, good = Client(tmp_path / "bus"), Client(tmp_path / "bus")
    bad.socket.sendall(b"x" * 64)
    assert bad.socket.recv(10) == b""
    good.call("Hello")
    assert good.receive()[0] == 2


def test_every_node_has_its_own_units_on_paths_of_any_length(
    bus: SystemBus, tmp_path: Path
) -> None:
    deep = tmp_path / ("d" * 120) / "system_bus_socket"
    bus.listen(deep, {"kubelet.service": True})
    bus.listen(tmp_path / "bus", {"nvsm.service": True})
    assert deep.is_socket()
    assert bus.units(deep) == {"kubelet.service": True}
    bus.forget(deep)
    assert not deep.exists()
    Client(tmp_path / "bus")


def test_listening_again_replaces_a_dead_socket(bus: SystemBus, tmp_path: Path) -> None:
    path = tmp_path / "bus"
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(path))
    stale.close()
    bus.listen(path)
    Client(path)


@pytest.mark.skipif(
    shutil.which("busctl") is None,
    reason="systemd's busctl is not installed; an independent client of the bus is missing",
)
def test_systemds_own_client_reads_the_units(bus: SystemBus, tmp_path: Path) -> None:
    path = tmp_path / "bus"
    bus.listen(path, {"kubelet.service": True})
    systemd = (
        "org.freedesktop.systemd1",
        "/org/freedesktop/systemd1",
        "org.freedesktop.systemd1.Manager",
    )
    shown = subprocess.run(
        [
            "busctl",
            f"--address=unix:path={path}",
            "call",
            *systemd,
            "ListUnitsByNames",
            "as",
            "2",
            "kubelet.service",
            "x.service",
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PATH": os.environ["PATH"]},
    )
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith(
        'a(ssssssouso) 2 "kubelet.service" "kubelet.service" "loaded" "active" "running"'
    )
    assert '"x.service" "x.service" "not-found" "inactive" "dead"' in shown.stdout
