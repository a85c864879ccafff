"""Volumes of a workload: the cache of downloads, and the directory of models of an NFS server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from infra.plan import DeploymentPlan
from infra.spec import ClaimedVolume, ModelShare, NewVolume
from infra.values.text import JsonObject, short_hash
from infra.values.workload_heads import head, labels, not_awaited

CACHE: Final = "/cache"
MODELS: Final = "/models"


@dataclass(frozen=True, kw_only=True)
class Mounted:
    """One volume of a pod, and the objects that it needs."""

    volume: JsonObject
    mount: JsonObject
    objects: tuple[JsonObject, ...] = ()


def cache(plan: DeploymentPlan, asked: ClaimedVolume | NewVolume | None) -> Mounted:
    mount = {"name": "cache", "mountPath": CACHE}
    match asked:
        case None:
            return Mounted(volume={"name": "cache", "emptyDir": {}}, mount=mount)
        case ClaimedVolume(claim=claim):
            return Mounted(volume=_claimed("cache", claim), mount=mount)
        case NewVolume():
            # The Deployment waits for it, within its own time. The provider gives a claim five
            # minutes, and network file systems take longer.
            made = not_awaited(head(plan, "v1", "PersistentVolumeClaim", suffix="-cache"))
            spec: JsonObject = {
                "accessModes": [asked.access_mode],
                "resources": {"requests": {"storage": asked.size}},
            }
            if asked.storage_class is not None:
                spec["storageClassName"] = asked.storage_class
            return Mounted(
                volume=_claimed("cache", made["metadata"]["name"]),
                mount=mount,
                objects=({**made, "spec": spec},),
            )


def models(plan: DeploymentPlan, asked: ClaimedVolume | ModelShare) -> Mounted:
    """A volume by way of a claim: restricted pods may not name an NFS server themselves."""
    mount: JsonObject = {"name": "models", "mountPath": MODELS}
    if isinstance(asked, ClaimedVolume):
        return Mounted(volume=_claimed("models", asked.claim), mount={**mount, "readOnly": True})
    # The names contain a hash of the share: a volume cannot be changed to another share, and could
    # not be replaced while its claim, which would stay, is bound to it.
    name = f"-models-{short_hash(f'{asked.server}:{asked.path}:{asked.read_only}')}"
    claim = not_awaited(head(plan, "v1", "PersistentVolumeClaim", suffix=name))
    claim_name = claim["metadata"]["name"]
    volume_name = f"{plan.namespace}-{claim_name}"
    storage = {"storage": "1Gi"}  # of no effect: NFS has no limit to set
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
            "nfs": {"server": asked.server, "path": asked.path, "readOnly": asked.read_only},
        },
    }
    return Mounted(
        volume=_claimed("models", claim_name),
        mount={**mount, "readOnly": True} if asked.read_only else mount,
        objects=(
            not_awaited(volume),
            {
                **claim,
                "spec": {
                    "accessModes": ["ReadWriteMany"],
                    "storageClassName": "",
                    "volumeName": volume_name,
                    "resources": {"requests": storage},
                },
            },
        ),
    )


def _claimed(name: str, claim: str) -> JsonObject:
    return {"name": name, "persistentVolumeClaim": {"claimName": claim}}
