"""Stored clusters and node pools, found or refused as GKE refuses them."""

from __future__ import annotations

from slicewright.rehearsal.clouds.core.store import Store
from slicewright.rehearsal.clouds.gcp.errors import google_error
from slicewright.rehearsal.clouds.gcp.state import (
    CLUSTERS,
    NODE_POOLS,
    ClusterRecord,
    NodePoolRecord,
)


def find_cluster(store: Store, name: str) -> ClusterRecord:
    """name: the full resource name. Raises CloudError when there is none."""
    item = store.get(CLUSTERS, name)
    if item is None:
        raise google_error(404, f"Not found: {name}.")
    return item


def find_pool(store: Store, name: str) -> NodePoolRecord:
    """name: the full resource name. Raises CloudError when there is none."""
    item = store.get(NODE_POOLS, name)
    if item is None:
        raise google_error(404, f"Not found: {name}.")
    return item


def pools_of(store: Store, cluster: str) -> list[NodePoolRecord]:
    """cluster: the full resource name."""
    return store.values(NODE_POOLS, prefix=f"{cluster}/nodePools/")
