"""What a program wrote, in the shape in which it is stored and compared, so that the next `up`
finds no change.
"""

from __future__ import annotations

import base64
from typing import Any, Final

from kubeapi import JsonObject
from rehearsal.plugins.engine.properties import UNKNOWN, Secret, has_secret, has_unknown, unwrap
from rehearsal.plugins.providers.kubernetes import go_types

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
    """The manifest (no Secret marks in it) as Kubernetes' own types would write it, with the user's
    keys only.

    Custom resources stay as they are, and so does a manifest with an unknown value, or one that
    does not fit its type: the server will say what is wrong with it.
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
    """The value with Secret around the parts that are secret in `marked`; a list with a secret in
    it is secret as a whole.
    """
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
    """A Secret's data is secret whatever the program said."""
    if manifest.get("kind") != "Secret" or manifest.get("apiVersion") != "v1":
        return manifest
    return {
        k: Secret(unwrap(v)) if k in ("data", "stringData") and v is not UNKNOWN else v
        for k, v in manifest.items()
    }


def with_dashes(value: Any) -> Any:
    """The SDK spells a CRD's `x-kubernetes-…` keys with underscores; Kubernetes with dashes."""
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
