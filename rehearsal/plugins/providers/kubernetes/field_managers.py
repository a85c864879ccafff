"""Who owns an object's fields (metadata.managedFields), and taking over what earlier tools left."""

from __future__ import annotations

import copy
from typing import Any, Final

_ADOPTED: Final = (
    "kubectl",
    "before-first-apply",
    "pulumi-kubernetes",
    "pulumi-resource-kubernetes",
)
"""Managers, by prefix, whose plain updates become ours before an apply: else fields set with them
could never be removed.
"""
CREATOR: Final = "pulumi-kubernetes"
"""The manager of every create."""


def adopt(live: dict[str, Any], manager: str) -> list[dict[str, Any]] | None:
    """A JSON patch that turns such entries into applied ones of `manager`; None where there is
    nothing to adopt.
    """
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
        # Fails if somebody else wrote in between.
        {
            "op": "replace",
            "path": "/metadata/resourceVersion",
            "value": live["metadata"]["resourceVersion"],
        },
    ]


def is_fresh_from_create(live: dict[str, Any]) -> bool:
    """Whether the creator's entry has not been adopted yet: a preview must then force, because it
    adopts nothing.
    """
    return any(
        entry.get("manager") == CREATOR and entry.get("operation") == "Update"
        for entry in _entries(live)
    )


def has_entries(live: dict[str, Any]) -> bool:
    """Whether the server keeps track of owners at all."""
    return bool(_entries(live))


def _entries(live: dict[str, Any]) -> list[dict[str, Any]]:
    return live["metadata"].get("managedFields") or []


def _is_adopted(entry: dict[str, Any]) -> bool:
    return (
        entry.get("operation") == "Update"
        and not entry.get("subresource")
        and str(entry.get("manager", "")).startswith(_ADOPTED)
    )


def _is_ours(entry: dict[str, Any], manager: str) -> bool:
    return (
        entry.get("operation") == "Apply"
        and entry.get("manager") == manager
        and not entry.get("subresource")
    )


def _merge(into: dict[str, Any], other: dict[str, Any]) -> None:
    for key, value in other.items():
        _merge(into.setdefault(key, {}), value)
