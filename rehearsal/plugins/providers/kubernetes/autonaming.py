"""Automatic names, as in the official provider."""

from __future__ import annotations

import hashlib
import secrets
from typing import Final

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.plugins.engine.plugin import CheckFailure
from slicewright.rehearsal.plugins.engine.properties import unwrap
from slicewright.rehearsal.plugins.engine.requests import CheckRequest

AUTONAMED: Final = "pulumi.com/autonamed"


def is_autonamed(manifest: JsonObject) -> bool:
    """Whether the provider chose the object's name."""
    annotations = (manifest.get("metadata") or {}).get("annotations") or {}
    return isinstance(annotations, dict) and annotations.get(AUTONAMED) == "true"


def fill_name(manifest: JsonObject, request: CheckRequest) -> CheckFailure | None:
    """Puts a name into `manifest` if it has none: the old automatic name, else a new one.

    Returns why no name may be chosen.
    """
    old, autonaming = unwrap(request.old_inputs), request.autonaming
    metadata = manifest.get("metadata")
    if metadata is None:
        metadata = manifest["metadata"] = {}
    if not isinstance(metadata, dict):
        return None  # unknown as a whole
    if metadata.get("name"):
        return None
    if metadata.get("generateName"):
        return CheckFailure(
            "metadata.generateName",
            "is not supported; leave out the name too, and Pulumi generates a unique one",
        )
    old_metadata = old.get("metadata") or {}
    if is_autonamed(old) and old_metadata.get("name"):
        name = old_metadata["name"]
    elif autonaming is not None and autonaming.mode == "disable":
        return CheckFailure(
            "metadata.name",
            "must be set: the project disables automatic names (pulumi:autonaming)",
        )
    elif autonaming is not None:
        name = autonaming.name
    else:
        name = f"{request.name}-{_hex(request.random_seed)}"
    metadata["name"] = name
    annotations = metadata.get("annotations")
    if annotations is None:
        annotations = metadata["annotations"] = {}
    if isinstance(annotations, dict):
        annotations[AUTONAMED] = "true"
    return None


def _hex(seed: bytes) -> str:
    return hashlib.sha256(seed).hexdigest()[:8] if seed else secrets.token_hex(4)
