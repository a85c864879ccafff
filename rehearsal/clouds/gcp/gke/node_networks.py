"""Additional networks of a pool's nodes, and what a cluster needs for them.

Sources: GKE API, AdditionalNodeNetworkConfig and NetworkConfig.enableMultiNetworking; GKE docs, set
up multi-network support for Pods (Dataplane V2, Container-Optimized OS); Compute Engine docs,
multiple network interfaces (a VPC for each interface, how many a machine takes). The words are the
rehearsal's. What gives the interfaces to pods is not simulated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.node_api import NodeApi
from slicewright.rehearsal.clouds.core.store import Store
from slicewright.rehearsal.clouds.gcp.errors import google_error
from slicewright.rehearsal.clouds.gcp.gke.defaults import region_of
from slicewright.rehearsal.clouds.gcp.state import NETWORKS, NODE_POOLS, SUBNETWORKS, NodePoolRecord

_MOST: Final[Mapping[str, int]] = {"a3-highgpu-8g": 4, "a3-megagpu-8g": 8, "a3-ultragpu-8g": 9}
_ORDINARY: Final = 7
"""Interfaces beyond the first."""


def check_multi_networking(cluster: JsonObject) -> None:
    """Raises CloudError. cluster: as requested, or as it would be."""
    config = cluster.get("networkConfig") or {}
    if config.get("enableMultiNetworking") and config.get("datapathProvider") != (
        "ADVANCED_DATAPATH"
    ):
        raise google_error(400, "Multi-networking requires GKE Dataplane V2 (ADVANCED_DATAPATH).")


def check_multi_networking_used(cluster: JsonObject, pools: Iterable[NodePoolRecord]) -> None:
    """Raises CloudError. cluster: as it would be."""
    if cluster["networkConfig"].get("enableMultiNetworking"):
        return
    for item in pools:
        if (item["pool"].get("networkConfig") or {}).get("additionalNodeNetworkConfigs"):
            raise google_error(
                400,
                "Multi-networking cannot be disabled while node pool "
                f"{item['pool']['name']} has additional node networks.",
            )


def check_node_networks(
    store: Store, project: str, location: str, cluster: JsonObject, pool: JsonObject
) -> None:
    """Raises CloudError. pool: as requested."""
    requested = (pool.get("networkConfig") or {}).get("additionalNodeNetworkConfigs") or []
    if not requested:
        return
    config = pool.get("config") or {}
    machine = config.get("machineType") or "e2-medium"
    if not cluster["networkConfig"].get("enableMultiNetworking"):
        raise google_error(
            400, "Additional node networks need a cluster with multi-networking enabled."
        )
    if str(config.get("imageType") or "COS_CONTAINERD").upper() != "COS_CONTAINERD":
        raise google_error(
            400, f"Multi-networking is not supported on image type {config['imageType']}."
        )
    most = _MOST.get(machine, _ORDINARY)
    if len(requested) > most:
        raise google_error(
            400,
            f"Machine type {machine} takes {most} additional networks, {len(requested)} were asked "
            "for.",
        )
    owner, cluster_network = str(cluster["networkConfig"]["network"]).split("/")[1::3]
    used = {cluster_network} if owner == project else set()
    for node_network in requested:
        network, subnetwork = (_last(node_network.get(key)) for key in ("network", "subnetwork"))
        if network in used:
            raise google_error(
                400, f'Network "{network}" is the network of more than one interface.'
            )
        used.add(network)
        network_record = store.get(NETWORKS, f"{project}/{network}")
        subnet_record = store.get(SUBNETWORKS, f"{project}/{region_of(location)}/{subnetwork}")
        if (
            network_record is None
            or subnet_record is None
            or subnet_record["network"] != network_record["selfLink"]
        ):
            raise google_error(
                400,
                f'Subnetwork "{subnetwork}" of network "{network}" does not exist in region '
                f"{region_of(location)}.",
            )


def pools_in(store: Store, project: str, field: str, name: str) -> Iterator[JsonObject]:
    """Pools with an interface in this network or subnetwork. field: which of them."""
    for key, item in store.items(NODE_POOLS):
        networks = (item["pool"].get("networkConfig") or {}).get("additionalNodeNetworkConfigs")
        if key.split("/")[1] == project and name in (_last(n.get(field)) for n in networks or ()):
            yield item["pool"]


def install_kinds(api: NodeApi, cluster: JsonObject) -> None:
    """The kinds of the objects by which pods name networks."""
    if not cluster["networkConfig"].get("enableMultiNetworking"):
        return
    for kind, plural, properties in (
        ("GKENetworkParamSet", "gkenetworkparamsets", _PARAMETERS),
        ("Network", "networks", _NETWORK),
    ):
        api.install(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            _definition(kind, plural, properties),
        )


def _definition(kind: str, plural: str, of_spec: JsonObject) -> JsonObject:
    schema = {
        "type": "object",
        "properties": {
            "spec": of_spec,
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.networking.gke.io"},
        "spec": {
            "group": "networking.gke.io",
            "scope": "Cluster",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
            },
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                }
            ],
        },
    }


_TEXT: Final = {"type": "string"}
_PARAMETERS: Final[JsonObject] = {
    "type": "object",
    "required": ["vpc", "vpcSubnet"],
    "properties": {
        "vpc": _TEXT,
        "vpcSubnet": _TEXT,
        "deviceMode": {"type": "string", "enum": ["DPDK-VFIO", "NetDevice", "RDMA"]},
        "podIPv4Ranges": {
            "type": "object",
            "properties": {"rangeNames": {"type": "array", "items": _TEXT}},
        },
    },
}
_NETWORK: Final[JsonObject] = {
    "type": "object",
    "required": ["type"],
    "properties": {
        "type": {"type": "string", "enum": ["L2", "L3", "Device"]},
        "parametersRef": {
            "type": "object",
            "required": ["group", "kind", "name"],
            "properties": {"group": _TEXT, "kind": _TEXT, "name": _TEXT, "namespace": _TEXT},
        },
    },
}


def _last(path: object) -> str:
    return str(path or "").rpartition("/")[2]
