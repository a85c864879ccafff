"""The messages of the device-plugin API v1beta1, built from a table instead of generated code.

Field names and numbers: k8s.io/kubelet v0.36.2, pkg/apis/deviceplugin/v1beta1/api.proto. Generated code would have to match
the installed protobuf version; descriptors made at run time work with every one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

VERSION = "v1beta1"
REGISTRATION = "v1beta1.Registration"
DEVICE_PLUGIN = "v1beta1.DevicePlugin"
HEALTHY = "Healthy"

# FieldDescriptorProto.Type and .Label, by number.
_BOOL, _STRING, _INT32, _INT64 = 8, 9, 5, 3
_MESSAGE = 11
_OPTIONAL, _REPEATED = 1, 3
_SCALARS: Mapping[str, int] = {"bool": _BOOL, "string": _STRING, "int32": _INT32, "int64": _INT64}

# name -> (type, number); "[]" marks a repeated field, "<>" a map from string to string; other words are messages.
_MESSAGES: Mapping[str, Mapping[str, tuple[str, int]]] = {
    "Empty": {},
    "DevicePluginOptions": {"pre_start_required": ("bool", 1), "get_preferred_allocation_available": ("bool", 2)},
    "RegisterRequest": {
        "version": ("string", 1),
        "endpoint": ("string", 2),
        "resource_name": ("string", 3),
        "options": ("DevicePluginOptions", 4),
    },
    "NUMANode": {"ID": ("int64", 1)},
    "TopologyInfo": {"nodes": ("NUMANode[]", 1)},
    "Device": {"ID": ("string", 1), "health": ("string", 2), "topology": ("TopologyInfo", 3)},
    "ListAndWatchResponse": {"devices": ("Device[]", 1)},
    "ContainerPreferredAllocationRequest": {
        "available_deviceIDs": ("string[]", 1),
        "must_include_deviceIDs": ("string[]", 2),
        "allocation_size": ("int32", 3),
    },
    "PreferredAllocationRequest": {"container_requests": ("ContainerPreferredAllocationRequest[]", 1)},
    "ContainerPreferredAllocationResponse": {"deviceIDs": ("string[]", 1)},
    "PreferredAllocationResponse": {"container_responses": ("ContainerPreferredAllocationResponse[]", 1)},
    "ContainerAllocateRequest": {"devices_ids": ("string[]", 1)},
    "AllocateRequest": {"container_requests": ("ContainerAllocateRequest[]", 1)},
    "CDIDevice": {"name": ("string", 1)},
    "Mount": {"container_path": ("string", 1), "host_path": ("string", 2), "read_only": ("bool", 3)},
    "DeviceSpec": {"container_path": ("string", 1), "host_path": ("string", 2), "permissions": ("string", 3)},
    "ContainerAllocateResponse": {
        "envs": ("<>", 1),
        "mounts": ("Mount[]", 2),
        "devices": ("DeviceSpec[]", 3),
        "annotations": ("<>", 4),
        "cdi_devices": ("CDIDevice[]", 5),
    },
    "AllocateResponse": {"container_responses": ("ContainerAllocateResponse[]", 1)},
}


def _describe(name: str, fields: Mapping[str, tuple[str, int]]) -> Any:
    # Any: the stubs want enum values where plain numbers do as well.
    message: Any = descriptor_pb2.DescriptorProto(name=name)
    for field_name, (kind, number) in fields.items():
        field = message.field.add(name=field_name, number=number, label=_OPTIONAL)
        if kind == "<>":
            # A map is a repeated nested message with the fields key and value, by the protobuf specification.
            entry_name = "".join(part.capitalize() for part in field_name.split("_")) + "Entry"
            entry = message.nested_type.add(name=entry_name)
            entry.options.map_entry = True
            entry.field.add(name="key", number=1, label=_OPTIONAL, type=_STRING)
            entry.field.add(name="value", number=2, label=_OPTIONAL, type=_STRING)
            field.label, field.type, field.type_name = _REPEATED, _MESSAGE, f".v1beta1.{name}.{entry_name}"
            continue
        if kind.endswith("[]"):
            field.label = _REPEATED
        element = kind.removesuffix("[]")
        if element in _SCALARS:
            field.type = _SCALARS[element]
        else:
            field.type, field.type_name = _MESSAGE, f".v1beta1.{element}"
    return message


def _build() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="slicewright/deviceplugin_v1beta1.proto", package=VERSION, syntax="proto3")
    for name, fields in _MESSAGES.items():
        file.message_type.append(_describe(name, fields))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"v1beta1.{name}")) for name in _MESSAGES}


_CLASSES = _build()

Empty = _CLASSES["Empty"]
DevicePluginOptions = _CLASSES["DevicePluginOptions"]
RegisterRequest = _CLASSES["RegisterRequest"]
Device = _CLASSES["Device"]
ListAndWatchResponse = _CLASSES["ListAndWatchResponse"]
ContainerPreferredAllocationRequest = _CLASSES["ContainerPreferredAllocationRequest"]
PreferredAllocationRequest = _CLASSES["PreferredAllocationRequest"]
PreferredAllocationResponse = _CLASSES["PreferredAllocationResponse"]
ContainerAllocateRequest = _CLASSES["ContainerAllocateRequest"]
AllocateRequest = _CLASSES["AllocateRequest"]
ContainerAllocateResponse = _CLASSES["ContainerAllocateResponse"]
AllocateResponse = _CLASSES["AllocateResponse"]
