"""Diff: the stored live object against the new inputs, and which changes replace the object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.plugins.engine.plugin import Difference, Kind
from slicewright.rehearsal.plugins.providers.kubernetes.autonaming import is_autonamed
from slicewright.rehearsal.plugins.providers.kubernetes.comparison import Path, compare, prune, show
from slicewright.rehearsal.plugins.providers.kubernetes.normalise import with_dashes

_EVERY_KIND: Final = (("metadata", "name"), ("metadata", "namespace"))
_REPLACES: Final[Mapping[tuple[str, str], tuple[Path, ...]]] = {
    ("v1", "ConfigMap"): (("data",), ("binaryData",)),
    ("v1", "Secret"): (("data",), ("stringData",), ("type",)),
    ("apps/v1", "Deployment"): (("spec", "selector"),),
    ("apps/v1", "DaemonSet"): (("spec", "selector"),),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"): (("roleRef",),),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"): (("roleRef",),),
    ("storage.k8s.io/v1", "StorageClass"): (("parameters",), ("provisioner",)),
    ("v1", "PersistentVolumeClaim"): tuple(
        ("spec", field) for field in ("accessModes", "selector", "storageClassName", "volumeName")
    ),
    ("v1", "PersistentVolume"): tuple(
        ("spec", source)
        for source in (
            "csi",
            "fc",
            "gcePersistentDisk",
            "awsElasticBlockStore",
            "hostPath",
            "iscsi",
            "local",
            "nfs",
        )
    ),
    ("v1", "Service"): (("spec", "clusterIP"),),
    ("v1", "ResourceQuota"): (("spec", "scopes"),),
    ("batch/v1", "Job"): tuple(
        ("spec", field) for field in ("completions", "parallelism", "selector", "template")
    ),
}
"""Paths whose change replaces the object; the official provider's table for these kinds."""


def difference(
    live: JsonObject,
    old_inputs: JsonObject,
    new_inputs: JsonObject,
    *,
    config_maps_mutable: bool,
    secrets_mutable: bool,
) -> Difference:
    """All three without Secret marks; new_inputs normalised, UNKNOWN allowed."""
    old = prune(with_dashes(live), with_dashes(old_inputs))
    new = dict(new_inputs)
    new_metadata = new.get("metadata")
    if isinstance(new_metadata, dict) and "namespace" not in (live.get("metadata") or {}):
        # A cluster-scoped object of a kind that Check took for namespaced.
        new["metadata"] = {k: v for k, v in new_metadata.items() if k != "namespace"}
        if isinstance(old_metadata := old.get("metadata"), dict):
            old = {**old, "metadata": {k: v for k, v in old_metadata.items() if k != "namespace"}}
    changes = compare(old, new)
    forcing = _forcing(
        old, new, config_maps_mutable=config_maps_mutable, secrets_mutable=secrets_mutable
    )
    detailed: dict[str, Kind] = {}
    replaces = []
    for path, change in changes.items():
        name = show(path)
        if any(_touches(path, forced) for forced in forcing):
            # Of the six kinds, three are the others with `-replace`.
            detailed[name] = f"{change}-replace"  # type: ignore[assignment]
            replaces.append(name)
        else:
            detailed[name] = change
    return Difference(
        changes=bool(changes),
        detailed=detailed,
        replaces=replaces,
        delete_before_replace=bool(replaces) and _same_identity(old, new) and not is_autonamed(new),
        input_paths=frozenset(show(path) for path, change in changes.items() if change == "delete"),
    )


def _forcing(
    old: JsonObject, new: JsonObject, *, config_maps_mutable: bool, secrets_mutable: bool
) -> tuple[Path, ...]:
    kind = (str(new.get("apiVersion")), str(new.get("kind")))
    paths = _REPLACES.get(kind, ())
    immutable = old.get("immutable") is True
    if kind == ("v1", "ConfigMap") and config_maps_mutable and not immutable:
        paths = ()
    if kind == ("v1", "Secret") and secrets_mutable and not immutable:
        paths = (("type",),)
    return _EVERY_KIND + paths


def _touches(changed: Path, forcing: Path) -> bool:
    shorter = min(len(changed), len(forcing))
    return changed[:shorter] == forcing[:shorter]


def _same_identity(old: JsonObject, new: JsonObject) -> bool:
    before, after = old.get("metadata") or {}, new.get("metadata") or {}
    if not isinstance(after, dict) or not isinstance(after.get("name"), str):
        return False
    return before.get("name") == after.get("name") and before.get("namespace") == after.get(
        "namespace"
    )
