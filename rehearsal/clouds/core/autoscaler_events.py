"""The Events of cluster-autoscaler on the pods that make it add nodes.

Source: kubernetes/autoscaler, cluster-autoscaler/processors/status/eventing_scale_up_processor.go
and processors/nodegroupset (ScaleUpInfo).
"""

from __future__ import annotations

import contextlib
import hashlib

from slicewright.kubeapi import ApiError, JsonObject, Unreachable
from slicewright.kubeapi.client import path_of
from slicewright.rehearsal.clouds.core.context import now
from slicewright.rehearsal.clouds.core.node_api import NodeApi
from slicewright.rehearsal.clouds.core.scaling import ScaleUp

_COMPONENT = "cluster-autoscaler"


def tell_pods(api: NodeApi, scale_up: ScaleUp, *, group: str) -> None:
    """Creates an Event on each pod that is to run on the added nodes. One that the API server
    refuses is left out, as in a namespace that is being deleted.

    group: the autoscaler's name for the group of nodes.
    """
    sizes = f"{scale_up.size}->{scale_up.size + scale_up.added} (max: {scale_up.limit})"
    message = f"pod triggered scale-up: [{{{group} {sizes}}}]"
    for pod in scale_up.pods:
        namespace = pod["metadata"]["namespace"]
        with contextlib.suppress(ApiError, Unreachable):
            api.create(path_of("v1", "events", None, namespace), _event(pod, message))


def _event(pod: JsonObject, message: str) -> JsonObject:
    metadata, at = pod["metadata"], now()
    digest = hashlib.sha256(f"{at} {message}".encode()).hexdigest()
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{metadata['name']}.{digest[:16]}",
            "namespace": metadata["namespace"],
        },
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata.get("uid", ""),
        },
        "type": "Normal",
        "reason": "TriggeredScaleUp",
        "message": message,
        "source": {"component": _COMPONENT},
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    }
