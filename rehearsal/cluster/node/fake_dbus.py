"""The system bus of simulated nodes: the part of D-Bus and systemd that NVIDIA's mig-manager needs.

mig-manager connects to `<host root>/run/dbus/system_bus_socket` at every run, and fails without it.
With WITH_SHUTDOWN_HOST_GPU_CLIENTS it asks systemd for units, stops them, starts them again, and
waits for the signal JobRemoved. One thread serves all nodes; each node has its own units.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

_SYSTEMD = "org.freedesktop.systemd1"
_UNITS = "/org/freedesktop/systemd1/unit/"
_GUID = b"51696365777269676874726568656172"
_CALL, _RETURN, _ERROR, _SIGNAL = 1, 2, 3, 4
_PATH, _INTERFACE, _MEMBER, _ERROR_NAME, _REPLY_SERIAL, _DESTINATION, _SENDER, _SIGNATURE = range(
    1, 9
)
_FIELD_TYPES: Mapping[int, str] = {
    _PATH: "o",
    _INTERFACE: "s",
    _MEMBER: "s",
    _ERROR_NAME: "s",
    _DESTINATION: "s",
    _SENDER: "s",
}


class SystemBus:
    """The buses of all nodes, served by one thread until `close`."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._lock = threading.Lock()
        self._nodes: dict[Path, _Node] = {}
        self._wake_read, self._wake_write = os.pipe()
        self._selector.register(self._wake_read, selectors.EVENT_READ)
        self._closing = False
        self._thread = threading.Thread(target=self._serve, name="rehearsal-dbus", daemon=True)
        self._thread.start()

    def listen(
        self,
        path: Path,
        units: Mapping[str, bool] | None = None,
        changed: Callable[[str, bool], None] = lambda unit, active: None,
        reloaded: Callable[[], None] = lambda: None,
    ) -> None:
        """Serves one node's bus at the socket `path`, which may be of any length.

        units: whether each systemd unit is active. changed: is called in the bus' thread before a
        unit's start or stop is told. reloaded: the same at each `systemctl daemon-reload`. Raises
        OSError.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        # A unix socket's address holds 107 bytes: reach the directory through its descriptor.
        directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
        try:
            listener.bind(f"/proc/self/fd/{directory}/{path.name}")
        except OSError:
            listener.close()
            raise
        finally:
            os.close(directory)
        # Programs of any user may connect, as to the real one.
        path.chmod(0o666)
        listener.listen(16)
        with self._lock:
            self._nodes[path] = _Node(listener, dict(units or {}), changed, reloaded)
            self._selector.register(listener, selectors.EVENT_READ, self._nodes[path])
        os.write(self._wake_write, b".")

    def units(self, path: Path) -> Mapping[str, bool]:
        """The units of the node whose bus is at `path`."""
        with self._lock:
            return dict(self._nodes[path].units)

    def forget(self, path: Path) -> None:
        """Ends one node's bus and its connections."""
        with self._lock:
            node = self._nodes.pop(path, None)
            if node is not None:
                ends: list[_Connection | _Node] = [*node.connections, node]
                for end in ends:
                    self._drop(end)
        path.unlink(missing_ok=True)

    def close(self) -> None:
        """Ends every bus and the thread."""
        for path in tuple(self._nodes):
            self.forget(path)
        self._closing = True
        os.write(self._wake_write, b".")
        self._thread.join()
        self._selector.close()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def _serve(self) -> None:
        while not self._closing:
            for key, _ in self._selector.select():
                with self._lock:
                    if key.fd == self._wake_read:
                        os.read(self._wake_read, 64)
                    elif self._selector.get_map().get(key.fd) is not key:
                        pass  # closed since `select` returned; its number may be another's now
                    elif isinstance(key.data, _Node):
                        self._accept(key.data)
                    else:
                        self._receive(key.data)

    def _accept(self, node: _Node) -> None:
        with contextlib.suppress(BlockingIOError):
            accepted, _ = node.socket.accept()
            accepted.setblocking(True)
            node.accepted += 1
            connection = _Connection(accepted, node, f":1.{node.accepted}")
            node.connections.append(connection)
            self._selector.register(accepted, selectors.EVENT_READ, connection)

    def _receive(self, connection: _Connection) -> None:
        try:
            data = connection.socket.recv(65536)
            if not data:
                raise _Gone
            connection.buffer += data
            connection.advance()
        except (_Gone, OSError, struct.error, UnicodeDecodeError, IndexError):
            connection.node.connections.remove(connection)
            self._drop(connection)

    def _drop(self, end: _Connection | _Node) -> None:
        with contextlib.suppress(KeyError):
            self._selector.unregister(end.socket)
        end.socket.close()


class _Gone(Exception):
    """The client closed the connection, or does not speak D-Bus."""


@dataclass(eq=False)
class _Node:
    socket: socket.socket
    units: dict[str, bool]
    changed: Callable[[str, bool], None]
    reloaded: Callable[[], None]
    connections: list[_Connection] = field(default_factory=list)
    accepted: int = 0
    jobs: int = 0


@dataclass(eq=False)
class _Connection:
    socket: socket.socket
    node: _Node
    name: str
    buffer: bytes = b""
    authenticated: bool = False
    listens: bool = False
    serial: int = 0

    def advance(self) -> None:
        """Answers every complete message that has arrived."""
        while not self.authenticated and b"\r\n" in self.buffer:
            line, self.buffer = self.buffer.split(b"\r\n", 1)
            self._authenticate(line.lstrip(b"\0"))
        while self.authenticated and (message := _take(self)) is not None:
            if message.kind == _CALL:
                self._answer(message)

    def _authenticate(self, line: bytes) -> None:
        if line == b"BEGIN":
            self.authenticated = True
        elif line == b"AUTH EXTERNAL":
            # The client's identity follows in a line of its own.
            self.socket.sendall(b"DATA\r\n")
        elif line.startswith((b"AUTH EXTERNAL ", b"DATA")):
            self.socket.sendall(b"OK " + _GUID + b"\r\n")
        elif line.startswith(b"AUTH"):
            self.socket.sendall(b"REJECTED EXTERNAL\r\n")
        else:
            self.socket.sendall(b"ERROR\r\n")

    def _answer(self, call: _Message) -> None:
        node = self.node
        match call.member:
            case "Hello":
                self._reply(call, "s", _Writer().string(self.name))
            case "Reload":
                node.reloaded()
                self._reply(call)
            case "AddMatch" | "RemoveMatch" | "Subscribe":
                self.listens = self.listens or call.member == "AddMatch"
                self._reply(call)
            case "ListUnitsByNames":
                self._reply(call, "a(ssssssouso)", _unit_list(node, _Reader(call.body).strings()))
            case "GetAll":
                unit = _unescape(call.path.removeprefix(_UNITS))
                self._reply(call, "a{sv}", _properties(node, unit))
            case "StopUnit" | "StartUnit":
                unit = _Reader(call.body).string()
                node.jobs += 1
                job = f"/org/freedesktop/systemd1/job/{node.jobs}"
                node.units[unit] = call.member == "StartUnit"
                node.changed(unit, node.units[unit])
                self._reply(call, "o", _Writer().string(job))
                done = _Writer().uint32(node.jobs).string(job).string(unit).string("done")
                for connection in node.connections:
                    if connection.listens:
                        connection.signal("JobRemoved", "uoss", done)
            case _:
                name = "org.freedesktop.DBus.Error.UnknownMethod"
                text = f"the simulated system bus has no method {call.interface}.{call.member}"
                self._send(
                    _ERROR,
                    {_REPLY_SERIAL: call.serial, _ERROR_NAME: name},
                    "s",
                    _Writer().string(text),
                )

    def signal(self, member: str, signature: str, body: _Writer) -> None:
        fields: dict[int, str | int] = {
            _PATH: "/org/freedesktop/systemd1",
            _INTERFACE: f"{_SYSTEMD}.Manager",
            _MEMBER: member,
        }
        self._send(_SIGNAL, fields, signature, body)

    def _reply(self, call: _Message, signature: str = "", body: _Writer | None = None) -> None:
        self._send(_RETURN, {_REPLY_SERIAL: call.serial}, signature, body or _Writer())

    def _send(
        self, kind: int, fields: Mapping[int, str | int], signature: str, body: _Writer
    ) -> None:
        self.serial += 1
        head = _Writer(struct.pack("<cBBBIII", b"l", kind, 1, 1, len(body.data), self.serial, 0))
        start = len(head.data)
        everything = {**fields, _SENDER: "org.freedesktop.DBus", _DESTINATION: self.name}
        for number, value in everything.items():
            head.pad(8).byte(number)
            if isinstance(value, int):
                head.signature("u").uint32(value)
            else:
                head.signature(_FIELD_TYPES[number]).string(value)
        if signature:
            head.pad(8).byte(_SIGNATURE).signature("g").signature(signature)
        head.data[start - 4 : start] = struct.pack("<I", len(head.data) - start)
        head.pad(8)
        with contextlib.suppress(BrokenPipeError):
            self.socket.sendall(bytes(head.data + body.data))


@dataclass(frozen=True)
class _Message:
    kind: int
    serial: int
    path: str
    interface: str
    member: str
    body: bytes


def _take(connection: _Connection) -> _Message | None:
    """Takes the next complete message off the buffer; None while there is none."""
    buffer = connection.buffer
    if len(buffer) < 16:
        return None
    if buffer[:1] != b"l":
        raise _Gone
    kind, body_length, serial, fields_length = buffer[1], *struct.unpack_from("<III", buffer, 4)
    start = 16 + (fields_length + 7) // 8 * 8
    if len(buffer) < start + body_length:
        return None
    fields: dict[int, str | int] = dict(_header_fields(buffer[: 16 + fields_length]))
    connection.buffer = buffer[start + body_length :]
    body = buffer[start : start + body_length]
    return _Message(
        kind,
        serial,
        str(fields.get(_PATH, "")),
        str(fields.get(_INTERFACE, "")),
        str(fields.get(_MEMBER, "")),
        body,
    )


def _header_fields(head: bytes) -> Iterator[tuple[int, str | int]]:
    reader = _Reader(head, 16)
    while reader.at < len(head):
        number = reader.pad(8).byte()
        kind = reader.signature()
        yield (
            number,
            reader.uint32()
            if kind == "u"
            else reader.signature()
            if kind == "g"
            else reader.string(),
        )


# --- systemd ---


def _unit_list(node: _Node, names: list[str]) -> _Writer:
    body = _Writer().uint32(0).pad(8)
    start = len(body.data)
    for name in names:
        known, runs = name in node.units, node.units.get(name, False)
        body.pad(8).string(name).string(name)
        body.string("loaded" if known else "not-found").string(
            "active" if runs else "inactive"
        ).string("running" if runs else "dead")
        body.string("").string(_UNITS + _escape(name)).uint32(0).string("").string("/")
    body.data[0:4] = struct.pack("<I", len(body.data) - start)
    return body


def _properties(node: _Node, unit: str) -> _Writer:
    known, runs = unit in node.units, node.units.get(unit, False)
    properties = {
        "Id": unit,
        "LoadState": "loaded" if known else "not-found",
        "ActiveState": "active" if runs else "inactive",
        "SubState": "running" if runs else "dead",
        "UnitFileState": "enabled" if known else "",
    }
    body = _Writer().uint32(0).pad(8)
    start = len(body.data)
    for key, value in properties.items():
        body.pad(8).string(key).signature("s").string(value)
    body.data[0:4] = struct.pack("<I", len(body.data) - start)
    return body


def _escape(unit: str) -> str:
    return "".join(c if c.isascii() and c.isalnum() else f"_{ord(c):02x}" for c in unit)


def _unescape(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(chr(int(part[:2], 16)) + part[2:] for part in rest)


# --- D-Bus marshalling, little-endian ---


class _Writer:
    def __init__(self, data: bytes = b"") -> None:
        self.data = bytearray(data)

    def pad(self, boundary: int) -> _Writer:
        self.data += b"\0" * (-len(self.data) % boundary)
        return self

    def byte(self, value: int) -> _Writer:
        self.data.append(value)
        return self

    def uint32(self, value: int) -> _Writer:
        self.pad(4).data += struct.pack("<I", value)
        return self

    def string(self, text: str) -> _Writer:
        encoded = text.encode()
        self.uint32(len(encoded)).data += encoded + b"\0"
        return self

    def signature(self, text: str) -> _Writer:
        self.data += bytes([len(text)]) + text.encode() + b"\0"
        return self


class _Reader:
    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data, self.at = data, at

    def pad(self, boundary: int) -> _Reader:
        self.at += -self.at % boundary
        return self

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def uint32(self) -> int:
        self.pad(4).at += 4
        value: int = struct.unpack_from("<I", self.data, self.at - 4)[0]
        return value

    def string(self) -> str:
        length = self.uint32()
        self.at += length + 1
        return self.data[self.at - length - 1 : self.at - 1].decode()

    def strings(self) -> list[str]:
        length = self.uint32()
        end = self.at + length
        found = []
        while self.at < end:
            found.append(self.string())
        return found

    def signature(self) -> str:
        length = self.byte()
        self.at += length + 1
        return self.data[self.at - length - 1 : self.at - 1].decode()
