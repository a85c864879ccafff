"""The messages of the device-plugin API v1beta1.

Field names and numbers: k8s.io/kubelet v0.36.2, pkg/apis/deviceplugin/v1beta1/api.proto.
"""

from __future__ import annotations

from slicewright.rehearsal.cluster.kubelet.message_tables import Table, classes

VERSION = "v1beta1"
REGISTRATION = "v1beta1.Registration"
DEVICE_PLUGIN = "v1beta1.DevicePlugin"
HEALTHY = "Healthy"

_MESSAGES: Table = {
    "Empty": {},
    "DevicePluginOptions": {
        "pre_start_required": ("bool", 1),
        "get_preferred_allocation_available": ("bool", 2),
    },
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
    "PreferredAllocationRequest": {
        "container_requests": ("ContainerPreferredAllocationRequest[]", 1)
    },
    "ContainerPreferredAllocationResponse": {"deviceIDs": ("string[]", 1)},
    "PreferredAllocationResponse": {
        "container_responses": ("ContainerPreferredAllocationResponse[]", 1)
    },
    "ContainerAllocateRequest": {"devices_ids": ("string[]", 1)},
    "AllocateRequest": {"container_requests": ("ContainerAllocateRequest[]", 1)},
    "CDIDevice": {"name": ("string", 1)},
    "Mount": {
        "container_path": ("string", 1),
        "host_path": ("string", 2),
        "read_only": ("bool", 3),
    },
    "DeviceSpec": {
        "container_path": ("string", 1),
        "host_path": ("string", 2),
        "permissions": ("string", 3),
    },
    "ContainerAllocateResponse": {
        "envs": ("<>", 1),
        "mounts": ("Mount[]", 2),
        "devices": ("DeviceSpec[]", 3),
        "annotations": ("<>", 4),
        "cdi_devices": ("CDIDevice[]", 5),
    },
    "AllocateResponse": {"container_responses": ("ContainerAllocateResponse[]", 1)},
}

_CLASSES = classes(VERSION, "slicewright/deviceplugin_v1beta1.proto", _MESSAGES)

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
CDIDevice = _CLASSES["CDIDevice"]
Mount = _CLASSES["Mount"]
AllocateResponse = _CLASSES["AllocateResponse"]
