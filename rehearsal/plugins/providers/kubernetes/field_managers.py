"""The managers of an object's fields (metadata.managedFields), and adopting other tools' fields."""

from __future__ import annotations

import copy
import secrets
from collections.abc import Sequence
from typing import Any, Final

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.plugins.engine.properties import Properties, unwrap
from slicewright.rehearsal.plugins.providers.kubernetes import pulumi_annotations

_ADOPTED: Final = (
    "kubectl",
    "before-first-apply",
    "pulumi-kubernetes",
    "pulumi-resource-kubernetes",
)
"""Managers, by prefix, whose Update entries become our Apply entries: otherwise an apply could not
remove the fields that they set.
"""
CREATOR: Final = "pulumi-kubernetes"
"""The manager of every create."""


def field_manager(manifest: JsonObject, old_outputs: Properties) -> str:
    """The manager to apply with: the annotation's, else the stored one, else a new one."""
    named = pulumi_annotations.annotation(manifest, pulumi_annotations.FIELD_MANAGER)
    stored = unwrap(old_outputs.get("__fieldManager"))
    return str(named or stored or f"pulumi-kubernetes-{secrets.token_hex(4)}")


def adopt(live: JsonObject, manager: str) -> list[JsonObject] | None:
    """A JSON patch that makes the entries to adopt Apply entries of `manager`; None without any."""
    entries = live["metadata"].get("managedFields") or []
    adopted = [entry for entry in entries if _is_adopted(entry)]
    if not adopted:
        return None
    rest = [entry for entry in entries if not _is_adopted(entry)]
    ours = next((entry for entry in rest if _is_ours(entry, manager)), None)
    if ours is None:
        ours = {**copy.deepcopy(adopted.pop(0)), "manager": manager, "operation": "Apply"}
        rest = [ours, *rest]
    else:
        index = rest.index(ours)
        ours = rest[index] = copy.deepcopy(ours)
    for entry in adopted:
        _merge(ours.setdefault("fieldsV1", {}), entry.get("fieldsV1") or {})
    return [
        {"op": "replace", "path": "/metadata/managedFields", "value": rest},
        # Fails if the object has changed since it was read.
        {
            "op": "replace",
            "path": "/metadata/resourceVersion",
            "value": live["metadata"]["resourceVersion"],
        },
    ]


def is_fresh_from_create(live: JsonObject) -> bool:
    """Whether the creator's entry is not adopted yet: a preview never adopts, so it must force."""
    return any(
        entry.get("manager") == CREATOR and entry.get("operation") == "Update"
        for entry in _entries(live)
    )


def without_ignored(
    manifest: JsonObject, live: JsonObject, manager: str, paths: Sequence[str]
) -> JsonObject:
    """What to apply where paths are ignored: a field that only others manage is left to them, and
    any other is sent as it is now. As `handleSSAIgnoreFields` of pulumi-kubernetes' await.go.

    paths: as `spec.replicas`; the provider knows no lists in them either.
    """
    entries = _entries(live)
    ours = [entry for entry in entries if entry.get("manager") == manager]
    theirs = [entry for entry in entries if entry.get("manager") != manager]
    applied = copy.deepcopy(manifest)
    for path in paths:
        steps = path.split(".")
        if _manage(theirs, steps) and not _manage(ours, steps):
            _set(applied, steps, None)
        elif (live_value := _value_at(live, steps)) is not None:
            _set(applied, steps, live_value)
    return applied


def _manage(entries: Sequence[JsonObject], steps: Sequence[str]) -> bool:
    return any(
        _value_at(entry.get("fieldsV1") or {}, [f"f:{step}" for step in steps]) is not None
        for entry in entries
    )


def _value_at(value: Any, steps: Sequence[str]) -> Any:
    for step in steps:
        if not isinstance(value, dict) or step not in value:
            return None
        value = value[step]
    return value


def _set(manifest: JsonObject, steps: Sequence[str], value: Any) -> None:
    """value: None takes the field away."""
    *way, last = steps
    at = manifest
    for step in way:
        at = at.setdefault(step, {})
    if value is None:
        at.pop(last, None)
    else:
        at[last] = value


def has_entries(live: JsonObject) -> bool:
    """Whether the object has any managedFields."""
    return bool(_entries(live))


def _entries(live: JsonObject) -> list[JsonObject]:
    return live["metadata"].get("managedFields") or []


def _is_adopted(entry: JsonObject) -> bool:
    return (
        entry.get("operation") == "Update"
        and not entry.get("subresource")
        and str(entry.get("manager", "")).startswith(_ADOPTED)
    )


def _is_ours(entry: JsonObject, manager: str) -> bool:
    return (
        entry.get("operation") == "Apply"
        and entry.get("manager") == manager
        and not entry.get("subresource")
    )


def _merge(into: JsonObject, other: JsonObject) -> None:
    for key, value in other.items():
        _merge(into.setdefault(key, {}), value)
