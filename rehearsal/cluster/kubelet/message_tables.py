"""Protobuf messages from a table of their fields, instead of generated code.

Generated code must match the installed protobuf version; descriptors made at run time do not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

Table = Mapping[str, Mapping[str, tuple[str, int]]]
"""Message -> field -> (type, number).

"[]" marks a repeated field, "<>" a map from string to string; other types are messages.
"""

# FieldDescriptorProto.Type and .Label, by number.
_BOOL, _STRING, _INT32, _INT64, _UINT64 = 8, 9, 5, 3, 4
_MESSAGE = 11
_OPTIONAL, _REPEATED = 1, 3
_SCALARS: Mapping[str, int] = {
    "bool": _BOOL,
    "string": _STRING,
    "int32": _INT32,
    "int64": _INT64,
    "uint64": _UINT64,
}


def classes(package: str, file_name: str, table: Table) -> dict[str, Any]:
    """The proto3 message classes by name, in a descriptor pool of their own."""
    file = descriptor_pb2.FileDescriptorProto(name=file_name, package=package, syntax="proto3")
    for name, fields in table.items():
        file.message_type.append(_describe(package, name, fields))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))
        for name in table
    }


def _describe(package: str, name: str, fields: Mapping[str, tuple[str, int]]) -> Any:
    # Any: the type stubs want enum values instead of numbers.
    message: Any = descriptor_pb2.DescriptorProto(name=name)
    for field_name, (kind, number) in fields.items():
        field = message.field.add(name=field_name, number=number, label=_OPTIONAL)
        if kind == "<>":
            # A map is a repeated nested message with the fields key and value, by the protobuf
            # specification.
            entry_name = "".join(part.capitalize() for part in field_name.split("_")) + "Entry"
            entry = message.nested_type.add(name=entry_name)
            entry.options.map_entry = True
            entry.field.add(name="key", number=1, label=_OPTIONAL, type=_STRING)
            entry.field.add(name="value", number=2, label=_OPTIONAL, type=_STRING)
            field.label, field.type, field.type_name = (
                _REPEATED,
                _MESSAGE,
                f".{package}.{name}.{entry_name}",
            )
            continue
        if kind.endswith("[]"):
            field.label = _REPEATED
        element = kind.removesuffix("[]")
        if element in _SCALARS:
            field.type = _SCALARS[element]
        else:
            field.type, field.type_name = _MESSAGE, f".{package}.{element}"
    return message
