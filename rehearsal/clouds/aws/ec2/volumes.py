"""Volumes of claims and their snapshots, which outlive their cluster.

Those of a cluster that is there are what its API shows; they are put on record when it goes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.ec2.network_interfaces import owned_by, tag_list
from slicewright.rehearsal.clouds.aws.ec2.resources import filtered, key_of
from slicewright.rehearsal.clouds.aws.errors import aws_error
from slicewright.rehearsal.clouds.aws.state import CLUSTERS, SNAPSHOTS, VOLUMES
from slicewright.rehearsal.clouds.core.context import Context, Methods, made_in
from slicewright.rehearsal.clouds.core.node_api import VOLUME_SNAPSHOTS

_DRIVER = "ebs.csi.aws.com"
_ZONE = ("topology.ebs.csi.aws.com/zone", "topology.kubernetes.io/zone")


class Volumes:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._store = context.store

    def methods(self) -> Methods:
        return {
            "DescribeVolumes": self._describe,
            "DeleteVolume": self._delete,
            "DescribeSnapshots": self._describe_snapshots,
            "DeleteSnapshot": self._delete_snapshot,
        }

    def _find(self, params: JsonObject, identity: str) -> JsonObject:
        volume = self._store.get(VOLUMES, key_of(params, identity))
        if volume is None:
            raise aws_error(
                "InvalidVolume.NotFound", f"The volume '{identity}' does not exist.", code=400
            )
        return volume

    def _describe(self, params: JsonObject, body: JsonObject) -> JsonObject:
        ids = body.get("VolumeIds")
        listed = {
            v["VolumeId"]: v for v in self._claimed_resources(params, "/api/v1/persistentvolumes")
        }
        listed |= {
            v["VolumeId"]: v for v in self._store.values(VOLUMES, prefix=f"{params['region']}/")
        }
        volumes = [listed.get(i) or self._find(params, i) for i in ids or listed]
        status = {"status": lambda v: [v["State"]]}
        return {"Volumes": filtered(volumes, body.get("Filters", ()), status)}

    def _delete(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._store.lock:
            self._find(params, body["VolumeId"])
            self._store.delete(VOLUMES, key_of(params, body["VolumeId"]))
        return {}

    def _describe_snapshots(self, params: JsonObject, body: JsonObject) -> JsonObject:
        """All are the account's own; without OwnerIds, EC2 shows everybody's public ones, too."""
        listed = {s["SnapshotId"]: s for s in self._claimed_resources(params, VOLUME_SNAPSHOTS)}
        listed |= {
            s["SnapshotId"]: s for s in self._store.values(SNAPSHOTS, prefix=f"{params['region']}/")
        }
        return {"Snapshots": filtered([*listed.values()], body.get("Filters", ()), {})}

    def _claimed_resources(self, params: JsonObject, path: str) -> Iterator[JsonObject]:
        """What the objects at that path of the region's clusters have in EBS."""
        shape = snapshot_of if path == VOLUME_SNAPSHOTS else volume_of
        for key, item in self._store.items(CLUSTERS, prefix=f"{params['region']}/"):
            for claim in self._context.planes.nodes(key.partition("/")[2]).listed(path):
                if resource := shape(params["region"], claim, item["cluster"]):
                    yield resource

    def _delete_snapshot(self, params: JsonObject, body: JsonObject) -> JsonObject:
        key = key_of(params, body["SnapshotId"])
        with self._store.lock:
            if self._store.get(SNAPSHOTS, key) is None:
                raise aws_error(
                    "InvalidSnapshot.NotFound",
                    f"The snapshot '{body['SnapshotId']}' does not exist.",
                    code=400,
                )
            self._store.delete(SNAPSHOTS, key)
        return {}


def leave_snapshot(context: Context, region: str, content: JsonObject, cluster: JsonObject) -> None:
    """Puts the snapshot of a VolumeSnapshotContent on record, if it is of EBS. Can be repeated."""
    snapshot = snapshot_of(region, content, cluster)
    if (
        snapshot is not None
        and context.store.get(SNAPSHOTS, f"{region}/{snapshot['SnapshotId']}") is None
    ):
        context.store.put(SNAPSHOTS, f"{region}/{snapshot['SnapshotId']}", snapshot)


def leave_volume(context: Context, region: str, volume: JsonObject, cluster: JsonObject) -> None:
    """Puts the volume of a PersistentVolume on record, if it is one of EBS. Can be repeated; one
    that an earlier cluster left is older, and stays as it is.
    """
    disk = volume_of(region, volume, cluster)
    if disk is not None and context.store.get(VOLUMES, f"{region}/{disk['VolumeId']}") is None:
        context.store.put(VOLUMES, f"{region}/{disk['VolumeId']}", disk)


def snapshot_of(region: str, content: JsonObject, cluster: JsonObject) -> JsonObject | None:
    """The EBS snapshot of a VolumeSnapshotContent. Tags: as of volumes."""
    if content["spec"].get("driver") != _DRIVER:
        return None
    tags = {
        "CSIVolumeSnapshotName": content["metadata"]["name"],
        "ebs.csi.aws.com/cluster": "true",
        **owned_by(cluster["name"]),
    }
    return {
        "SnapshotId": content["status"]["snapshotHandle"],
        "VolumeId": content["spec"]["source"].get("volumeHandle", "vol-ffffffff"),
        "State": "completed",
        "StartTime": made_in(content, cluster["createdAt"]),
        "Progress": "100%",
        "Tags": tag_list(tags),
    }


def volume_of(region: str, volume: JsonObject, cluster: JsonObject) -> JsonObject | None:
    """The EBS volume of a PersistentVolume.

    Tags: kubernetes-sigs/aws-ebs-csi-driver, docs/tagging.md, with --k8s-tag-cluster-id.
    """
    spec = volume["spec"]
    source = spec.get("csi") or {}
    if source.get("driver") != _DRIVER:
        return None
    size = re.fullmatch(r"(\d+)Gi", str((spec.get("capacity") or {}).get("storage", "")))
    identity = source["volumeHandle"]
    tags = {
        "CSIVolumeName": volume.get("metadata", {}).get("name", identity),
        "ebs.csi.aws.com/cluster": "true",
        **owned_by(cluster["name"]),
        **_claim(spec),
    }
    return {
        "VolumeId": identity,
        "State": "available",
        "Attachments": [],
        "AvailabilityZone": _zone(spec) or f"{region}a",
        "Size": int(size[1]) if size else 1,
        "VolumeType": "gp3",
        "CreateTime": made_in(volume, cluster["createdAt"]),
        "Tags": tag_list(tags),
    }


def _claim(spec: JsonObject) -> JsonObject:
    claim = spec.get("claimRef")
    if not claim:
        return {}
    made_for = "kubernetes.io/created-for/pvc"
    return {f"{made_for}/{field}": claim[field] for field in ("name", "namespace")}


def _zone(spec: JsonObject) -> str | None:
    required = ((spec.get("nodeAffinity") or {}).get("required") or {}).get("nodeSelectorTerms")
    for term in required or ():
        for expression in term.get("matchExpressions") or ():
            if expression["key"] in _ZONE:
                return str(expression["values"][0])
    return None
