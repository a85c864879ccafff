"""How many nodes the range for pods of a cluster has room for.

Sources: GKE docs, "Configure maximum Pods per node"; the refusal in Google's words as in
hashicorp/terraform-cdk #1964.
"""

from __future__ import annotations

import hashlib
import ipaddress

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.node_group import NoCapacity
from slicewright.rehearsal.clouds.core.store import Store
from slicewright.rehearsal.clouds.gcp.gke.networks import network_of
from slicewright.rehearsal.clouds.gcp.gke.records import find_cluster
from slicewright.rehearsal.clouds.gcp.state import NODE_POOLS, SUBNETWORKS, NodePoolRecord


class PodRange:
    """That of a pool's cluster, which other clusters may use as well."""

    def __init__(self, store: Store, key: str) -> None:
        """key: of the pool."""
        self._store = store
        self._key = key
        self._range = _range_of(store, _cluster_key(key))
        self._granted: set[int] = set()

    def check_room(self, index: int, instance: str) -> None:
        """For the pool's node of that number. Raises NoCapacity."""
        addresses = _addresses(self._store, self._range) if self._range else None
        pool = self._store.get(NODE_POOLS, self._key)
        if addresses is None or pool is None or self._range is None:
            return
        # Granted in the same batch, and not on record before all of it is.
        unseen = self._granted - {node["index"] for node in pool["nodes"]}
        block = _block(pool["pool"])
        if self._used() + (len(unseen) + 1) * block > addresses:
            subnetwork, name = self._range
            suffix = hashlib.sha256(subnetwork.encode()).hexdigest()[:16]
            raise NoCapacity(
                "IP_SPACE_EXHAUSTED",
                f"Instance '{instance}' creation failed: IP space of "
                f"'{subnetwork}-{name}-{suffix}' is exhausted.",
            )
        self._granted.add(index)

    def _used(self) -> int:
        return sum(
            len(item["nodes"]) * _block(item["pool"])
            for item in self._store.values(NODE_POOLS)
            if _shares(self._store, item, self._range)
        )


def _shares(store: Store, item: NodePoolRecord, pod_range: tuple[str, str] | None) -> bool:
    return _range_of(store, _cluster_key(item["key"])) == pod_range


def _range_of(store: Store, cluster_key: str) -> tuple[str, str] | None:
    """Path of the subnetwork and name of its range; None: GKE makes one that is large enough."""
    cluster = find_cluster(store, cluster_key)["cluster"]
    name = cluster["ipAllocationPolicy"].get("clusterSecondaryRangeName")
    return (network_of(cluster).subnetwork, name) if name else None


def _addresses(store: Store, pod_range: tuple[str, str]) -> int | None:
    path, name = pod_range
    _, project, _, region, _, subnetwork = path.split("/")
    subnetwork_record = store.get(SUBNETWORKS, f"{project}/{region}/{subnetwork}") or {}
    return next(
        (
            ipaddress.ip_network(secondary_range["ipCidrRange"]).num_addresses
            for secondary_range in subnetwork_record.get("secondaryIpRanges", ())
            if secondary_range["rangeName"] == name
        ),
        None,
    )


def _block(pool: JsonObject) -> int:
    """Addresses of one node: at least twice its pods, in a whole block."""
    pods = int(pool["maxPodsConstraint"]["maxPodsPerNode"])
    return 1 << (2 * pods - 1).bit_length()


def _cluster_key(key: str) -> str:
    return key.rpartition("/nodePools/")[0]
