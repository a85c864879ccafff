"""The objects of a GKE cluster that name networks for pods. Source: GKE docs, set up multi-network
support for Pods.
"""

from __future__ import annotations

from typing import Any, Final

from slicewright.infra.manifests.text import JsonObject

NETWORKING_API: Final = "networking.gke.io/v1"


def network_parameters(vpc: Any, subnet: Any) -> JsonObject:
    """The spec of a GKENetworkParamSet. Each pod gets a whole interface of its node."""
    return {"vpc": vpc, "vpcSubnet": subnet, "deviceMode": "NetDevice"}


def network_of_devices(parameters: str) -> JsonObject:
    """The spec of a Network. parameters: the name of its GKENetworkParamSet."""
    return {
        "type": "Device",
        "parametersRef": {
            "group": NETWORKING_API.partition("/")[0],
            "kind": "GKENetworkParamSet",
            "name": parameters,
        },
    }
