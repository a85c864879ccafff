"""Disks of claims and their snapshots in Compute Engine, as the CSI driver of a cluster makes them.

Those of a cluster that is there are what its API shows; they are put on record when it goes.
"""

from __future__ import annotations

from collections.abc import Iterator

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.context import Context, made_in
from slicewright.rehearsal.clouds.core.node_api import VOLUME_SNAPSHOTS
from slicewright.rehearsal.clouds.core.store import Kind
from slicewright.rehearsal.clouds.gcp.compute_answers import API, common
from slicewright.rehearsal.clouds.gcp.state import CLUSTERS, DISKS, SNAPSHOTS

_DRIVER = "pd.csi.storage.gke.io"
Keyed = tuple[str, JsonObject]
"""A resource with its key in the store."""


def in_use(context: Context, kind: Kind[JsonObject], *, prefix: str) -> Iterator[Keyed]:
    """What the clusters of a project have of disks or snapshots. prefix: of keys."""
    if kind not in (DISKS, SNAPSHOTS):
        return
    path = "/api/v1/persistentvolumes" if kind == DISKS else VOLUME_SNAPSHOTS
    shape = disk_of if kind == DISKS else snapshot_of
    for key, item in context.store.items(CLUSTERS):
        _, project, *_, name = key.split("/")
        for claim in context.planes.nodes(name).listed(path):
            disk = shape(project, claim, item["cluster"])
            if disk is not None and disk[0].startswith(prefix):
                yield disk


def disk_of(project: str, volume: JsonObject, cluster: JsonObject) -> Keyed | None:
    """The disk of a PersistentVolume, if it is one of Compute Engine."""
    source = volume["spec"].get("csi") or {}
    # projects/PROJECT/zones/ZONE/disks/NAME
    parts = str(source.get("volumeHandle", "")).split("/")
    if source.get("driver") != _DRIVER or parts[4:5] != ["disks"]:
        return None
    size = str((volume["spec"].get("capacity") or {}).get("storage", "0"))
    zone, name = parts[3], parts[5]
    where = f"{API}/projects/{project}/zones/{zone}"
    disk = {
        "name": name,
        **common(f"{where}/disks/{name}", "compute#disk"),
        "creationTimestamp": made_in(volume, cluster["createTime"]),
        "zone": where,
        "status": "READY",
        "sizeGb": size.removesuffix("Gi"),
        "description": "Disk created by GKE-PD CSI Driver",
        "labels": {
            "goog-gke-volume": "",
            "goog-k8s-cluster-location": cluster["location"],
            "goog-k8s-cluster-name": cluster["name"],
        },
    }
    return f"{project}/{zone}/{name}", disk


def snapshot_of(project: str, content: JsonObject, cluster: JsonObject) -> Keyed | None:
    """The snapshot of a VolumeSnapshotContent. It has no label of its cluster, only its disk.
    Source: gcp-compute-persistent-disk-csi-driver, pkg/common/parameters.go,
    ExtractAndDefaultSnapshotParameters.
    """
    # projects/PROJECT/global/snapshots/NAME
    parts = str((content.get("status") or {}).get("snapshotHandle", "")).split("/")
    if content["spec"].get("driver") != _DRIVER or parts[3:4] != ["snapshots"]:
        return None
    snapshot = {
        "name": parts[4],
        **common(f"{API}/projects/{project}/global/snapshots/{parts[4]}", "compute#snapshot"),
        "creationTimestamp": made_in(content, cluster["createTime"]),
        "status": "READY",
        "description": "Snapshot created by GCE-PD CSI Driver",
        "sourceDisk": f"{API}/{content['spec']['source'].get('volumeHandle', '')}",
    }
    return f"{project}/{parts[4]}", snapshot
