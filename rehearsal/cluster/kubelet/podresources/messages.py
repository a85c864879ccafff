"""The messages of the pod-resources API v1 that are served here.

Field names and numbers: k8s.io/kubelet v0.36.2, pkg/apis/podresources/v1/api.proto; without
processors, memory and DRA.
"""

from __future__ import annotations

from slicewright.rehearsal.cluster.kubelet.message_tables import Table, classes

LISTER = "v1.PodResourcesLister"

_MESSAGES: Table = {
    "ListPodResourcesRequest": {},
    "ListPodResourcesResponse": {"pod_resources": ("PodResources[]", 1)},
    "PodResources": {
        "name": ("string", 1),
        "namespace": ("string", 2),
        "containers": ("ContainerResources[]", 3),
    },
    "ContainerResources": {"name": ("string", 1), "devices": ("ContainerDevices[]", 2)},
    "ContainerDevices": {
        "resource_name": ("string", 1),
        "device_ids": ("string[]", 2),
        "topology": ("TopologyInfo", 3),
    },
    "TopologyInfo": {"nodes": ("NUMANode[]", 1)},
    "NUMANode": {"ID": ("int64", 1)},
}

_CLASSES = classes("v1", "slicewright/podresources_v1.proto", _MESSAGES)

ContainerDevices = _CLASSES["ContainerDevices"]
ContainerResources = _CLASSES["ContainerResources"]
ListPodResourcesRequest = _CLASSES["ListPodResourcesRequest"]
ListPodResourcesResponse = _CLASSES["ListPodResourcesResponse"]
PodResources = _CLASSES["PodResources"]
