"""Endpoints of a simulated control plane: which there are, and what GKE refuses of them.

Sources: GKE API, PrivateClusterConfig and ControlPlaneEndpointsConfig; the refusals in Google's
words as in terraform-google-modules/terraform-google-kubernetes-engine #1012 and #153.
"""

from __future__ import annotations

import hashlib
import ipaddress

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.gcp.errors import google_error
from slicewright.rehearsal.clouds.gcp.gke.defaults import region_of
from slicewright.rehearsal.clouds.gcp.projects import project_number

_RESERVED = tuple(
    ipaddress.IPv4Network(block)
    for block in (
        "10.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "100.64.0.0/10",
        "192.0.0.0/24",
        "198.18.0.0/15",
        "240.0.0.0/4",
    )
)


def fill_access(cluster: JsonObject) -> JsonObject:
    """The fields of a new cluster that say how it is reached."""
    private = cluster.get("privateClusterConfig") or {}
    requested = cluster.get("controlPlaneEndpointsConfig") or {}
    dns = {"allowExternalTraffic": False, **(requested.get("dnsEndpointConfig") or {})}
    ip = {
        "enabled": True,
        "enablePublicEndpoint": not private.get("enablePrivateEndpoint"),
        **(requested.get("ipEndpointsConfig") or {}),
    }
    nodes = bool(private.get("enablePrivateNodes"))
    return {
        "privateClusterConfig": {
            "enablePrivateEndpoint": False,
            "enablePrivateNodes": False,
            **private,
        },
        "controlPlaneEndpointsConfig": {
            "dnsEndpointConfig": {**dns, "endpoint": _dns_name(cluster)},
            "ipEndpointsConfig": ip,
        },
        "networkConfig": {**cluster["networkConfig"], "defaultEnablePrivateNodes": nodes},
    }


def changed_access(cluster: JsonObject, field: str, value: JsonObject) -> JsonObject:
    """The fields after an update of one of them, which keeps what it does not name."""
    if field == "controlPlaneEndpointsConfig":
        before = cluster[field]
        merged = {**before, **{k: {**before.get(k, {}), **v} for k, v in value.items()}}
        return {field: merged}
    if field == "privateClusterConfig":
        return fill_access({**cluster, field: value})
    return {field: value}


def check_access(cluster: JsonObject) -> None:
    """Raises CloudError at once."""
    private = (cluster.get("privateClusterConfig") or {}).get("enablePrivateEndpoint")
    if private and not (cluster.get("masterAuthorizedNetworksConfig") or {}).get("enabled"):
        raise google_error(
            400, "Master authorized networks must be enabled if private endpoint is enabled."
        )


def check_addresses(cluster: JsonObject) -> None:
    """Raises CloudError while the cluster is being made or changed: the operation fails."""
    if not (cluster.get("privateClusterConfig") or {}).get("enablePrivateEndpoint"):
        return
    for block in (cluster.get("masterAuthorizedNetworksConfig") or {}).get("cidrBlocks") or ():
        network = ipaddress.ip_network(block["cidrBlock"])
        if not isinstance(network, ipaddress.IPv4Network) or not any(
            network.subnet_of(reserved) for reserved in _RESERVED
        ):
            raise google_error(
                400,
                f'Invalid master authorized networks: network "{block["cidrBlock"]}" is not a '
                "reserved network, which is required for private endpoints.",
            )


def _dns_name(cluster: JsonObject) -> str:
    project, location = cluster["selfLink"].split("/projects/")[1].split("/")[0:3:2]
    digest = hashlib.sha256(cluster["selfLink"].encode()).hexdigest()[:30]
    return f"gke-{digest}-{project_number(project)}.{region_of(location)}.gke.goog"
