"""What the API server needs to find the servers of aggregated APIs. Pure functions.

It calls an API available only while its Service has a ready endpoint. Kubernetes' own controller
makes none for pods on loopback addresses, which the API refuses, so for these Services the kubelet
stand-in does, with the Service's clusterIP as the address: that is what the API server dials.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from slicewright.kubeapi import JsonObject

Key = tuple[str, str]
"""Namespace and name of a Service."""
_MANAGED_BY: Final = "rehearsal.slicewright.io"


def services_of(api_services: Iterable[JsonObject]) -> frozenset[Key]:
    """The Services that serve aggregated APIs."""
    found = (one["spec"].get("service") for one in api_services)
    return frozenset((one["namespace"], one["name"]) for one in found if one)


def endpoint_slice(service: JsonObject, *, ready: bool) -> JsonObject:
    metadata, spec = service["metadata"], service["spec"]
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": f"{metadata['name']}-rehearsal",
            "namespace": metadata["namespace"],
            "labels": {
                "kubernetes.io/service-name": metadata["name"],
                "endpointslice.kubernetes.io/managed-by": _MANAGED_BY,
            },
            # It goes with the Service.
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "Service",
                    "name": metadata["name"],
                    "uid": metadata["uid"],
                }
            ],
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": [spec["clusterIP"]], "conditions": {"ready": ready}}],
        "ports": [
            {
                "name": port.get("name", ""),
                "port": port["port"],
                "protocol": port.get("protocol", "TCP"),
            }
            for port in spec.get("ports") or ()
        ],
    }
