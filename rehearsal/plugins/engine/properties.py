"""Resource properties: decoded from the engine's protobuf Structs into Python values, and encoded.

None, bool, str, int, float, list, dict; UNKNOWN for a value that a preview does not know yet;
Secret(x) around a value that must not be shown. The wire has one kind of number: whole ones arrive
as int, others as float. Assets and archives stay maps. Source of the markers: pulumi/pulumi
`sdk/go/common/resource/plugin/rpc.go`, `sdk/go/common/resource/properties.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from google.protobuf import struct_pb2

_SIGNATURE: Final = "4dabf18193072939515e22adb298388d"
_SECRET: Final = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105 - a marker
_OUTPUT: Final = "d0e6a833031e9bbcd3f4e8bde6ca49a4"
_UNKNOWN_ON_WIRE: Final = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
_UNKNOWNS: Final = frozenset(
    {
        _UNKNOWN_ON_WIRE,
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",  # bool
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",  # number
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",  # array
        "030794c1-ac77-496b-92df-f27374a8bd58",  # asset
        "e48ece36-62e2-4504-bad9-02848725956a",  # archive
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",  # object
    }
)
_LARGEST_EXACT: Final = 2**53


class Unknown(Enum):
    """The type of UNKNOWN; compare with `is`."""

    UNKNOWN = "unknown"

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = Unknown.UNKNOWN


@dataclass(frozen=True)
class Secret:
    """A value that the engine encrypts in its state and hides from its output."""

    value: Any = field(repr=False)


Properties = dict[str, Any]
"""A resource's inputs or outputs as the engine has them: UNKNOWN and Secret may occur in them.

`unwrap` takes the Secrets off. Where no UNKNOWN is left either, the same value is a kubeapi
JsonObject: plain JSON, as an API takes and returns it.
"""


def decode(struct: struct_pb2.Struct) -> Properties:
    """The properties of a request. A map that is secret as a whole loses its mark."""
    properties: Properties = unwrap_here(_decode_fields(struct))
    return properties


def decode_value(value: struct_pb2.Value) -> Any:
    """One value, with its Secret marks."""
    kind = value.WhichOneof("kind")
    if kind == "struct_value":
        return _decode_fields(value.struct_value)
    if kind == "list_value":
        return [decode_value(item) for item in value.list_value.values]
    if kind == "string_value":
        text = value.string_value
        return UNKNOWN if text in _UNKNOWNS else text
    if kind == "number_value":
        number = value.number_value
        return int(number) if number.is_integer() and abs(number) <= _LARGEST_EXACT else number
    if kind == "bool_value":
        return value.bool_value
    return None


def encode(properties: Mapping[str, Any]) -> struct_pb2.Struct:
    """Raises TypeError for a value that cannot be encoded."""
    struct = struct_pb2.Struct()
    for key, value in properties.items():
        _encode_into(struct.fields[key], value)
    return struct


def unwrap(value: Any) -> Any:
    """The value without any Secret around its parts."""
    if isinstance(value, Secret):
        return unwrap(value.value)
    if isinstance(value, dict):
        return {k: unwrap(v) for k, v in value.items()}
    if isinstance(value, list):
        return [unwrap(v) for v in value]
    return value


def unwrap_here(value: Any) -> Any:
    """The value without the Secret around itself; those around its parts stay."""
    while isinstance(value, Secret):
        value = value.value
    return value


def has_unknown(value: Any) -> bool:
    """Whether any part of the value is UNKNOWN."""
    if value is UNKNOWN:
        return True
    if isinstance(value, Secret):
        return has_unknown(value.value)
    return any(has_unknown(v) for v in _parts(value))


def has_secret(value: Any) -> bool:
    """Whether the value or any part of it is a Secret."""
    return isinstance(value, Secret) or any(has_secret(v) for v in _parts(value))


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _decode_fields(struct: struct_pb2.Struct) -> Any:
    marker = struct.fields[_SIGNATURE].string_value if _SIGNATURE in struct.fields else ""
    if marker == _SECRET:
        return Secret(decode_value(struct.fields["value"]))
    if marker == _OUTPUT:
        inner = decode_value(struct.fields["value"]) if "value" in struct.fields else UNKNOWN
        return (
            Secret(inner)
            if "secret" in struct.fields and struct.fields["secret"].bool_value
            else inner
        )
    return {key: decode_value(value) for key, value in struct.fields.items()}


def _encode_into(target: struct_pb2.Value, value: Any) -> None:
    if value is None:
        target.null_value = struct_pb2.NULL_VALUE
    elif value is UNKNOWN:
        target.string_value = _UNKNOWN_ON_WIRE
    elif isinstance(value, Secret):
        target.struct_value.fields[_SIGNATURE].string_value = _SECRET
        _encode_into(target.struct_value.fields["value"], value.value)
    elif isinstance(value, bool):
        target.bool_value = value
    elif isinstance(value, (int, float)):
        target.number_value = value
    elif isinstance(value, str):
        target.string_value = value
    elif isinstance(value, Mapping):
        target.struct_value.SetInParent()
        for key, item in value.items():
            _encode_into(target.struct_value.fields[key], item)
    elif isinstance(value, (list, tuple)):
        target.list_value.SetInParent()
        for item in value:
            _encode_into(target.list_value.values.add(), item)
    else:
        raise TypeError(f"cannot encode a {type(value).__name__} for the engine")
