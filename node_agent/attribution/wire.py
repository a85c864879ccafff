"""Reads the part of protobuf's wire format that the kubelet's answer needs.

Written by hand, because protobuf's runtime is megabytes of compiled code and the agent is pure
Python of a few hundred kilobytes. Stricter than the runtime: it refuses obsolete forms (groups).
Source: https://protobuf.dev/programming-guides/encoding
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED: Final = {_FIXED64: 8, _FIXED32: 4}
_MOST_NUMBER: Final = 2**29 - 1
_VARINT_BYTES: Final = 10


class NotProtobuf(ValueError):
    """The bytes are not a message. The exception has the cause and the byte."""


def messages(data: bytes, number: int) -> Iterator[bytes]:
    """The values of a length-delimited field (message, string) in order. Skips other fields.

    Raises NotProtobuf, even for errors in other fields.
    """
    at = 0
    while at < len(data):
        tag, value_at = _varint(data, at)
        field, kind = tag >> 3, tag & 7
        if not 0 < field <= _MOST_NUMBER or value_at - at > 5:
            raise NotProtobuf(f"no field number at byte {at}")
        if kind == _VARINT:
            _, at = _varint(data, value_at)
        elif kind == _BYTES:
            size, begin = _varint(data, value_at)
            at = begin + size
            if field == number and at <= len(data):
                yield data[begin:at]
        elif kind in _FIXED:
            at = value_at + _FIXED[kind]
        else:
            raise NotProtobuf(f"wire type {kind} at byte {at}")
    if at > len(data):
        raise NotProtobuf(f"a field of {at} bytes in a message of {len(data)}")


def text(data: bytes, number: int) -> str:
    """A string field: empty if absent, the last if repeated. Raises NotProtobuf."""
    return (texts(data, number) or ("",))[-1]


def texts(data: bytes, number: int) -> tuple[str, ...]:
    """A repeated string field. Raises NotProtobuf."""
    try:
        return tuple(value.decode() for value in messages(data, number))
    except UnicodeDecodeError as e:
        raise NotProtobuf(f"field {number} is not UTF-8 text: {e.reason}") from None


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at `at`, and the offset after it."""
    number = 0
    for shift, byte in enumerate(data[at : at + _VARINT_BYTES]):
        number |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            if number >= 2**64:
                break
            return number, at + shift + 1
    raise NotProtobuf(f"no number at byte {at}")
