"""Volumes of a workload: the cache of downloads, and the models on a claimed volume or by NFS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from slicewright.infra.manifests.text import JsonObject, short_hash
from slicewright.infra.manifests.workloads.heads import head, labels, not_awaited
from slicewright.infra.plan import DeploymentPlan
from slicewright.infra.stack_file import ClaimedVolume, ModelShare, NewVolume

CACHE: Final = "/cache"
MODELS: Final = "/models"


@dataclass(frozen=True, kw_only=True)
class MountedVolume:
    """One volume of a pod, and the objects that it needs."""

    volume: JsonObject
    mount: JsonObject
    objects: tuple[JsonObject, ...] = ()


def cache(plan: DeploymentPlan, volume: ClaimedVolume | NewVolume | None) -> MountedVolume:
    mount = {"name": "cache", "mountPath": CACHE}
    match volume:
        case None:
            return MountedVolume(volume={"name": "cache", "emptyDir": {}}, mount=mount)
        case ClaimedVolume(claim=claim):
            return MountedVolume(volume=_claimed("cache", claim), mount=mount)
        case NewVolume():
            claim_object = _cache_claim(plan, volume)
            return MountedVolume(
                volume=_claimed("cache", claim_object["metadata"]["name"]),
                mount=mount,
                objects=(claim_object,),
            )


def _cache_claim(plan: DeploymentPlan, volume: NewVolume) -> JsonObject:
    spec: JsonObject = {
        "accessModes": [volume.access_mode],
        "resources": {"requests": {"storage": volume.size}},
    }
    if volume.storage_class is not None:
        spec["storageClassName"] = volume.storage_class
    # The Deployment waits for it, within its own time. The provider gives a claim five minutes, and
    # network file systems take longer.
    claim = not_awaited(head(plan, "v1", "PersistentVolumeClaim", suffix="-cache"))
    return {**claim, "spec": spec}


def models(plan: DeploymentPlan, repository: ClaimedVolume | ModelShare) -> MountedVolume:
    """A volume by way of a claim: restricted pods may not name an NFS server themselves."""
    mount: JsonObject = {"name": "models", "mountPath": MODELS}
    if isinstance(repository, ClaimedVolume):
        claimed = _claimed("models", repository.claim)
        return MountedVolume(volume=claimed, mount={**mount, "readOnly": True})
    objects = _share_objects(plan, repository)
    return MountedVolume(
        volume=_claimed("models", objects[1]["metadata"]["name"]),
        mount={**mount, "readOnly": True} if repository.read_only else mount,
        objects=objects,
    )


def _share_objects(plan: DeploymentPlan, share: ModelShare) -> tuple[JsonObject, JsonObject]:
    """The persistent volume of an NFS share, and its claim."""
    # The names contain a hash of the share: a volume cannot be changed to another share, and could
    # not be replaced while its claim, which would stay, is bound to it.
    suffix = f"-models-{short_hash(f'{share.server}:{share.path}:{share.read_only}')}"
    claim = not_awaited(head(plan, "v1", "PersistentVolumeClaim", suffix=suffix))
    claim_name = claim["metadata"]["name"]
    volume_name = f"{plan.namespace}-{claim_name}"
    storage = {"storage": "1Gi"}  # without effect: NFS enforces no size
    volume: JsonObject = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": volume_name, "labels": labels(plan)},
        "spec": {
            "capacity": storage,
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "",
            "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {"namespace": plan.namespace, "name": claim_name},
            "nfs": {"server": share.server, "path": share.path, "readOnly": share.read_only},
        },
    }
    claim["spec"] = {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "",
        "volumeName": volume_name,
        "resources": {"requests": storage},
    }
    return not_awaited(volume), claim


def _claimed(name: str, claim: str) -> JsonObject:
    return {"name": name, "persistentVolumeClaim": {"claimName": claim}}
