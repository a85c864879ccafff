"""Automatic names, as the official provider gives and keeps them."""

from __future__ import annotations

import hashlib
import secrets
from typing import Any, Final

from rehearsal.plugins.engine.plugin import Autonaming, CheckFailure

AUTONAMED: Final = "pulumi.com/autonamed"


def is_autonamed(manifest: dict[str, Any]) -> bool:
    """Whether the provider chose the object's name."""
    annotations = (manifest.get("metadata") or {}).get("annotations") or {}
    return isinstance(annotations, dict) and annotations.get(AUTONAMED) == "true"


def fill_name(
    manifest: dict[str, Any],
    old: dict[str, Any],
    resource_name: str,
    seed: bytes,
    autonaming: Autonaming | None,
) -> CheckFailure | None:
    """Puts a name into `manifest` if it has none: the automatic one of `old`, else a new one.
    Returns why none may be made up.
    """
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
            "not supported; leave the name out and Pulumi makes a unique one",
        )
    old_metadata = old.get("metadata") or {}
    if is_autonamed(old) and old_metadata.get("name"):
        name = old_metadata["name"]
    elif autonaming is not None and autonaming.mode == "disable":
        return CheckFailure(
            "metadata.name",
            "a name is needed: automatic naming is disabled (config `pulumi:autonaming`)",
        )
    elif autonaming is not None:
        name = autonaming.name
    else:
        name = f"{resource_name}-{_hex(seed)}"
    metadata["name"] = name
    annotations = metadata.get("annotations")
    if annotations is None:
        annotations = metadata["annotations"] = {}
    if isinstance(annotations, dict):
        annotations[AUTONAMED] = "true"
    return None


def _hex(seed: bytes) -> str:
    return hashlib.sha256(seed).hexdigest()[:8] if seed else secrets.token_hex(4)


def field_manager(manifest: dict[str, Any], old_outputs: dict[str, Any]) -> str:
    """Under which name the object's fields are applied: the annotation's, else the one kept in
    state, else a new one.
    """
    annotations = (manifest.get("metadata") or {}).get("annotations") or {}
    named = (
        annotations.get("pulumi.com/patchFieldManager") if isinstance(annotations, dict) else None
    )
    return str(
        named or old_outputs.get("__fieldManager") or f"pulumi-kubernetes-{secrets.token_hex(4)}"
    )
