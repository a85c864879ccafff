"""The server's side of a WebSocket, as far as remote commands need it. Source: RFC 6455."""

from __future__ import annotations

import base64
import hashlib
import struct
from io import BufferedIOBase
from typing import Final

BINARY: Final = 2
CLOSE: Final = 8
PING: Final = 9
PONG: Final = 10
_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_LONGEST: Final = 1 << 20
"""Bytes of a client's frame: what clients send here is input of a terminal."""


class Ended(Exception):
    """The other side has gone, or sends what is not a frame."""


def accept(key: str) -> str:
    """The answer to a client's Sec-WebSocket-Key."""
    return base64.b64encode(hashlib.sha1(key.encode() + _GUID).digest()).decode()  # noqa: S324


def frame(opcode: int, payload: bytes) -> bytes:
    """A whole message. A server's frames are not masked."""
    first = 0x80 | opcode
    if len(payload) < 126:
        return struct.pack("!BB", first, len(payload)) + payload
    if len(payload) < 1 << 16:
        return struct.pack("!BBH", first, 126, len(payload)) + payload
    return struct.pack("!BBQ", first, 127, len(payload)) + payload


def read_frame(stream: BufferedIOBase) -> tuple[int, bytes]:
    """Opcode and payload of a client's next frame. Raises Ended."""
    first, second = _read(stream, 2)
    length = second & 0x7F
    if length == 126:
        (length,) = struct.unpack("!H", _read(stream, 2))
    elif length == 127:
        (length,) = struct.unpack("!Q", _read(stream, 8))
    if not second & 0x80 or length > _LONGEST:
        raise Ended
    mask = _read(stream, 4)
    payload = bytes(byte ^ mask[i % 4] for i, byte in enumerate(_read(stream, length)))
    return first & 0x0F, payload


def _read(stream: BufferedIOBase, count: int) -> bytes:
    try:
        found = stream.read(count)
    except OSError as e:
        raise Ended from e
    if len(found) < count:
        raise Ended
    return found
