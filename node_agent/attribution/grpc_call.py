"""One gRPC call over a unix socket: an empty request, one answer, a deadline for all of it.

It uses `h2` for HTTP/2, which is pure Python, while grpcio is many megabytes of compiled code.
Nothing is kept between calls, because a restarted kubelet has a new socket. Source:
https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
"""

from __future__ import annotations

import socket
import time
from typing import Final
from urllib.parse import unquote

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.exceptions import H2Error

from slicewright.telemetry.plain import shortened

MAX_BYTES: Final = 16 * 1024 * 1024
"""Limit of an answer, as in the kubelet's client. Source: defaultPodResourcesMaxSize in
pkg/kubelet/apis/podresources of Kubernetes 1.36.
"""
_LONGEST_MESSAGE: Final = 300
_CHUNK: Final = 64 * 1024
_HEAD: Final = 5
_EMPTY_MESSAGE: Final = bytes(_HEAD)
_STATUS: Final = (
    "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND",
    "ALREADY_EXISTS", "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
    "INTERNAL", "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED",
)  # fmt: skip


class CallFailed(Exception):
    """The call failed. The message names the socket and the cause."""


def call(path: str, method: str, *, deadline_s: float) -> bytes:
    """The response message's bytes. method: `/package.Service/Method`. Raises CallFailed."""
    deadline = time.monotonic() + deadline_s
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(deadline_s)
            connection.connect(path)
            return _Exchange(connection, deadline).call(method)
    except TimeoutError:
        raise CallFailed(f"{path}: no answer within {deadline_s:g} s") from None
    except OSError as e:
        raise CallFailed(f"{path}: {e.strerror or e}") from None
    except H2Error as e:
        raise CallFailed(f"{path}: the answer is not HTTP/2: {e}") from None
    except _BadAnswer as e:
        raise CallFailed(f"{path}: {e}") from None


class _BadAnswer(Exception):
    """The answer is invalid. The message does not name the socket."""


class _Exchange:
    def __init__(self, connection: socket.socket, deadline: float) -> None:
        self._connection = connection
        self._deadline = deadline
        # Headers stay bytes: a header that is not text must give a clear message, not a decoding
        # error.
        self._http = H2Connection(H2Configuration(client_side=True, header_encoding=False))
        self._headers: dict[bytes, bytes] = {}
        self._body = bytearray()

    def call(self, method: str) -> bytes:
        http = self._http
        http.initiate_connection()
        stream = http.get_next_available_stream_id()
        http.send_headers(
            stream,
            [
                (":method", "POST"),
                (":scheme", "http"),
                (":path", method),
                (":authority", "localhost"),
                ("te", "trailers"),
                ("content-type", "application/grpc"),
                ("user-agent", "slicewright"),
            ],
        )
        http.send_data(stream, _EMPTY_MESSAGE, end_stream=True)
        ended = False
        while not ended:
            self._send(http.data_to_send())
            self._connection.settimeout(self._remaining_s())
            for event in http.receive_data(self._receive()):
                ended |= self._take(event, stream)
        return self._message()

    def _send(self, data: bytes) -> None:
        self._connection.settimeout(self._remaining_s())
        try:
            self._connection.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the peer has closed, but its earlier data can still be read

    def _receive(self) -> bytes:
        try:
            received = self._connection.recv(_CHUNK)
        except ConnectionResetError:
            received = b""  # closed before it had read the whole request
        if not received:
            raise _BadAnswer("closed in the middle of the answer")
        return received

    def _remaining_s(self) -> float:
        remaining_s = self._deadline - time.monotonic()
        # 0 would mean "do not block". The timeout is set for each read: a peer that sends single
        # bytes must not extend the deadline.
        if remaining_s <= 0:
            raise TimeoutError
        return remaining_s

    def _take(self, event: Event, stream: int) -> bool:
        """Processes an event. True at the end of the answer."""
        match event:
            case ResponseReceived() | TrailersReceived():
                self._headers.update(
                    (bytes(name), bytes(value)) for name, value in event.headers or ()
                )
            case DataReceived():
                self._body += event.data or b""
                if len(self._body) > MAX_BYTES + _HEAD:
                    raise _BadAnswer(f"the answer is larger than {MAX_BYTES} bytes")
                # Reopens the flow-control window. Without it the peer stops after 64 KiB.
                self._http.acknowledge_received_data(event.flow_controlled_length or 0, stream)
            case StreamReset() | ConnectionTerminated():
                raise _BadAnswer(f"the call was cut off, HTTP/2 error {int(event.error_code or 0)}")
            case StreamEnded():
                return True
            case _:
                pass  # settings, pings and windows: h2 has answered them
        return False

    def _message(self) -> bytes:
        status = self._header(b"grpc-status")
        if not status.isdecimal():
            raise _BadAnswer(
                f"HTTP status {self._header(b':status') or 'none'} without a gRPC status: "
                "not a gRPC server"
            )
        if status != "0":
            name = (
                _STATUS[int(status)] if len(status) < 3 and int(status) < len(_STATUS) else status
            )
            message = shortened(unquote(self._header(b"grpc-message")), _LONGEST_MESSAGE)
            raise _BadAnswer(f"gRPC status {name[:_LONGEST_MESSAGE]}: {message}")
        size = int.from_bytes(self._body[1:_HEAD], "big")
        if len(self._body) < _HEAD or self._body[0] or len(self._body) != _HEAD + size:
            # One uncompressed message, because compression was not offered.
            raise _BadAnswer(f"the answer of {len(self._body)} bytes is not one plain message")
        return bytes(self._body[_HEAD:])

    def _header(self, name: bytes) -> str:
        return self._headers.get(name, b"").decode(errors="replace")
