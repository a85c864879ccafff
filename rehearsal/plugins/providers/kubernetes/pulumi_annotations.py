"""The `pulumi.com/…` annotations of a manifest, which configure the provider."""

from __future__ import annotations

from typing import Final

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.plugins.providers.kubernetes.wait_for_annotation import (
    ANNOTATION as WAIT_FOR,
)

SKIP_AWAIT: Final = "pulumi.com/skipAwait"
TIMEOUT: Final = "pulumi.com/timeoutSeconds"
PATCH_FORCE: Final = "pulumi.com/patchForce"
FIELD_MANAGER: Final = "pulumi.com/patchFieldManager"
DELETION_POLICY: Final = "pulumi.com/deletionPropagationPolicy"
DEFAULT_TIMEOUT_S: Final = 600.0


def annotation(manifest: JsonObject, key: str) -> str | None:
    """The annotation's value; None if it is absent or not known yet."""
    metadata = manifest.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    value = annotations.get(key) if isinstance(annotations, dict) else None
    return value if isinstance(value, str) else None


def skips_await(manifest: JsonObject) -> bool:
    """Whether not to wait for the object; takes precedence over waitFor."""
    return annotation(manifest, SKIP_AWAIT) == "true"


def wait_for(manifest: JsonObject) -> str | None:
    """The program's own readiness rule."""
    return annotation(manifest, WAIT_FOR)


def timeout_s(manifest: JsonObject, custom_s: float) -> float:
    """The resource's custom timeout, else the annotation's, else 10 minutes."""
    if custom_s > 0:
        return custom_s
    text = annotation(manifest, TIMEOUT)
    try:
        return float(text) if text else DEFAULT_TIMEOUT_S
    except ValueError:
        return DEFAULT_TIMEOUT_S


def propagation_policy(manifest: JsonObject) -> str:
    """The API's propagationPolicy for the deletion."""
    return {"background": "Background", "orphan": "Orphan"}.get(
        (annotation(manifest, DELETION_POLICY) or "").lower(), "Foreground"
    )
