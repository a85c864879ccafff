"""A program's manifest in the normal form that is stored and compared."""

from __future__ import annotations

import base64
from typing import Any, Final

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.plugins.engine.properties import (
    UNKNOWN,
    Secret,
    has_secret,
    has_unknown,
    unwrap,
)
from slicewright.rehearsal.plugins.providers.kubernetes import go_types

READ_ONLY_METADATA: Final = (
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
)


def normalise(manifest: JsonObject) -> JsonObject:
    """The manifest (without Secret marks) as Kubernetes' Go types write it, with no key added.

    Custom resources and manifests with an unknown value are returned unchanged, as are those that
    do not fit their type: the server reports what is wrong with them.
    """
    api_version, kind = str(manifest.get("apiVersion")), str(manifest.get("kind"))
    if has_unknown(manifest):
        return manifest
    if not go_types.is_known(api_version, kind):
        return manifest
    shaped = dict(manifest)
    if kind == "CustomResourceDefinition":
        shaped.pop("status", None)
        shaped = with_dashes(shaped)
    if isinstance(metadata := shaped.get("metadata"), dict):
        shaped["metadata"] = {k: v for k, v in metadata.items() if k not in READ_ONLY_METADATA}
    if kind == "Secret" and api_version == "v1":
        shaped = _encode_string_data(shaped)
    try:
        return go_types.round_trip(api_version, kind, shaped)
    except go_types.Unconvertible:
        return shaped


def copy_marks(value: Any, marked: Any) -> Any:
    """The value, Secret where `marked` is; a list with a secret in it is secret as a whole."""
    if isinstance(value, Secret):
        return value
    if isinstance(marked, Secret):
        return Secret(unwrap(value))
    if isinstance(value, dict) and isinstance(marked, dict):
        return {key: copy_marks(item, marked.get(key)) for key, item in value.items()}
    if isinstance(value, list) and isinstance(marked, list) and has_secret(marked):
        return Secret(unwrap(value))
    return value


def mark_secret_kind(manifest: JsonObject) -> JsonObject:
    """The manifest; the data of a Kubernetes Secret is always marked."""
    if manifest.get("kind") != "Secret" or manifest.get("apiVersion") != "v1":
        return manifest
    return {
        k: Secret(unwrap(v)) if k in ("data", "stringData") and v is not UNKNOWN else v
        for k, v in manifest.items()
    }


def with_dashes(value: Any) -> Any:
    """Renames the SDK's `x_kubernetes_…` keys in CRDs to Kubernetes' `x-kubernetes-…`."""
    return _rename(value, "x_kubernetes_", lambda key: key.replace("_", "-"))


def with_underscores(value: Any) -> Any:
    """The reverse of `with_dashes`."""
    return _rename(value, "x-kubernetes-", lambda key: key.replace("-", "_"))


def _rename(value: Any, prefix: str, rename: Any) -> Any:
    if isinstance(value, dict):
        return {
            rename(k) if k.startswith(prefix) else k: _rename(v, prefix, rename)
            for k, v in value.items()
        }
    if isinstance(value, list):
        return [_rename(item, prefix, rename) for item in value]
    return value


def _encode_string_data(secret: JsonObject) -> JsonObject:
    plain = secret.get("stringData")
    if not isinstance(plain, dict) or not all(isinstance(v, str) for v in plain.values()):
        return secret
    encoded = {key: base64.b64encode(text.encode()).decode() for key, text in plain.items()}
    rest = {key: value for key, value in secret.items() if key != "stringData"}
    return rest | {"data": {**(rest.get("data") or {}), **encoded}}
