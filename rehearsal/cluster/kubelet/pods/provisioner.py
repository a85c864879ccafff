"""Volumes for claims, as the driver of a network file system makes them: a directory for each,
which pods of all nodes share (`volumes.py`).

Source: Kubernetes docs, dynamic volume provisioning; kubernetes-sigs/sig-storage-lib-external-
provisioner, for the annotations and the names.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Coroutine
from pathlib import Path
from typing import Final

from slicewright.kubeapi.client import ApiError, JsonObject, Unreachable
from slicewright.kubeapi.watch import Event
from slicewright.rehearsal.cluster.kubelet.api import Api

_log = logging.getLogger(__name__)
NAME: Final = "directories.rehearsal.slicewright.io"
"""Of StorageClasses."""
_WANTED: Final = "volume.kubernetes.io/storage-provisioner"
_MADE_BY: Final = "pv.kubernetes.io/provisioned-by"
_VOLUMES: Final = "/api/v1/persistentvolumes"


class Provisioner:
    """For the event loop only."""

    def __init__(self, directory: Path, api: Api) -> None:
        """directory: of all claims' contents, by uid."""
        self._directory = directory
        self._api = api
        self._tasks: set[asyncio.Task[None]] = set()
        self._made: set[str] = set()
        """Uids of claims."""

    def on_claim(self, event: Event) -> None:
        if event.type == "LISTED":
            for claim in event.items:
                self._see(claim)
        elif event.type == "DELETED":
            if _is_ours(event.object):
                self._start(self._remove(event.object["metadata"]["uid"]))
        elif event.type in ("ADDED", "MODIFIED"):
            self._see(event.object)

    def _see(self, claim: JsonObject) -> None:
        uid = claim["metadata"]["uid"]
        pending = (claim.get("status") or {}).get("phase") == "Pending"
        if not _is_ours(claim) or not pending or uid in self._made:
            return
        self._made.add(uid)
        self._start(self._make(claim))

    async def _make(self, claim: JsonObject) -> None:
        """Kubernetes' own controller binds it then."""
        try:
            await self._api.run(self._api.client.create, _VOLUMES, volume_of(claim))
        except (ApiError, Unreachable) as e:
            if isinstance(e, ApiError) and e.status == 409:
                return
            _log.warning("claim %s: %s", claim["metadata"]["name"], e)
            self._made.discard(claim["metadata"]["uid"])  # again at its next event

    async def _remove(self, uid: str) -> None:
        """With what it has: the reclaim policy is Delete."""
        try:
            await self._api.run(self._api.client.delete, f"{_VOLUMES}/{_name(uid)}")
        except (ApiError, Unreachable) as e:
            if not isinstance(e, ApiError) or e.status != 404:
                _log.warning("volume of the claim %s: %s", uid, e)
        await asyncio.to_thread(shutil.rmtree, self._directory / uid, ignore_errors=True)

    def _start(self, what: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(what)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def volume_of(claim: JsonObject) -> JsonObject:
    """For the claim and no other."""
    of, spec = claim["metadata"], claim["spec"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": _name(of["uid"]), "annotations": {_MADE_BY: NAME}},
        "spec": {
            "accessModes": list(spec["accessModes"]),
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "storageClassName": spec["storageClassName"],
            "persistentVolumeReclaimPolicy": "Delete",
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": of["namespace"],
                "name": of["name"],
                "uid": of["uid"],
            },
            "csi": {"driver": NAME, "volumeHandle": of["uid"]},
        },
    }


def _is_ours(claim: JsonObject) -> bool:
    """Kubernetes' controller writes whose it is, by the claim's class."""
    return (claim["metadata"].get("annotations") or {}).get(_WANTED) == NAME


def _name(uid: str) -> str:
    return f"pvc-{uid}"
