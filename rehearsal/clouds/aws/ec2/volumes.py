"""Volumes of claims and their snapshots, which outlive their cluster."""

from __future__ import annotations

import re

from kubeapi import JsonObject
from rehearsal.clouds.aws.ec2.network_interfaces import owned_by, tag_list
from rehearsal.clouds.aws.ec2.resources import filtered, key_of
from rehearsal.clouds.aws.errors import aws_error
from rehearsal.clouds.aws.state import SNAPSHOTS, VOLUMES
from rehearsal.clouds.core.context import Context, Methods, now

_DRIVER = "ebs.csi.aws.com"
_ZONE = ("topology.ebs.csi.aws.com/zone", "topology.kubernetes.io/zone")


class Volumes:
    def __init__(self, context: Context) -> None:
        self._store = context.store

    def methods(self) -> Methods:
        return {
            "DescribeVolumes": self._describe,
            "DeleteVolume": self._delete,
            "DescribeSnapshots": self._describe_snapshots,
            "DeleteSnapshot": self._delete_snapshot,
        }

    def _find(self, params: JsonObject, identity: str) -> JsonObject:
        found = self._store.get(VOLUMES, key_of(params, identity))
        if found is None:
            raise aws_error(
                "InvalidVolume.NotFound", f"The volume '{identity}' does not exist.", code=400
            )
        return found

    def _describe(self, params: JsonObject, body: JsonObject) -> JsonObject:
        ids = body.get("VolumeIds")
        found = [self._find(params, i) for i in ids] if ids else None
        listed = self._store.values(VOLUMES, prefix=f"{params['region']}/")
        found = listed if found is None else found
        status = {"status": lambda v: [v["State"]]}
        return {"Volumes": filtered(found, body.get("Filters", ()), status)}

    def _delete(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._store.lock:
            self._find(params, body["VolumeId"])
            self._store.delete(VOLUMES, key_of(params, body["VolumeId"]))
        return {}

    def _describe_snapshots(self, params: JsonObject, body: JsonObject) -> JsonObject:
        """All are the account's own; without OwnerIds, EC2 shows everybody's public ones, too."""
        found = self._store.values(SNAPSHOTS, prefix=f"{params['region']}/")
        return {"Snapshots": filtered(found, body.get("Filters", ()), {})}

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


def leave_snapshot(context: Context, region: str, content: JsonObject, *, cluster: str) -> None:
    """Puts the snapshot of a VolumeSnapshotContent on record, if it is one of EBS. Can be repeated.

    Tags: as of volumes.
    """
    if content["spec"].get("driver") != _DRIVER:
        return
    identity = content["status"]["snapshotHandle"]
    tags = {
        "CSIVolumeSnapshotName": content["metadata"]["name"],
        "ebs.csi.aws.com/cluster": "true",
        **owned_by(cluster),
    }
    found: JsonObject = {
        "SnapshotId": identity,
        "VolumeId": content["spec"]["source"]["volumeHandle"],
        "State": "completed",
        "StartTime": now(),
        "Progress": "100%",
        "Tags": tag_list(tags),
    }
    context.store.put(SNAPSHOTS, f"{region}/{identity}", found)


def leave_volume(context: Context, region: str, volume: JsonObject, *, cluster: str) -> None:
    """Puts the volume of a PersistentVolume on record, if it is one of EBS. Can be repeated.

    Tags: kubernetes-sigs/aws-ebs-csi-driver, docs/tagging.md, with --k8s-tag-cluster-id.
    """
    spec = volume["spec"]
    source = spec.get("csi") or {}
    if source.get("driver") != _DRIVER:
        return
    size = re.fullmatch(r"(\d+)Gi", str((spec.get("capacity") or {}).get("storage", "")))
    identity = source["volumeHandle"]
    found: JsonObject = {
        "VolumeId": identity,
        "State": "available",
        "Attachments": [],
        "AvailabilityZone": _zone(spec) or f"{region}a",
        "Size": int(size[1]) if size else 1,
        "VolumeType": "gp3",
        "CreateTime": now(),
        "Tags": tag_list(
            {
                "CSIVolumeName": volume.get("metadata", {}).get("name", identity),
                "ebs.csi.aws.com/cluster": "true",
                **owned_by(cluster),
                **_claim(spec),
            }
        ),
    }
    context.store.put(VOLUMES, f"{region}/{identity}", found)


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
