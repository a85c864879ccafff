"""The outputs that the engine stores for an object: the live object, and its inputs."""

from __future__ import annotations

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.plugins.engine.properties import UNKNOWN, Properties, unwrap, unwrap_here
from slicewright.rehearsal.plugins.providers.kubernetes.normalise import (
    READ_ONLY_METADATA,
    copy_marks,
    mark_secret_kind,
    with_dashes,
    with_underscores,
)

_INPUTS, _INITIAL_API_VERSION, _FIELD_MANAGER = "__inputs", "__initialApiVersion", "__fieldManager"


def outputs_of(
    live: JsonObject,
    inputs: JsonObject,
    marked: Properties,
    *,
    initial_api_version: str,
    manager: str,
) -> Properties:
    """The outputs to store. `marked`: the inputs with their Secret marks, which both get."""
    live_object = with_underscores(live) if live.get("kind") == "CustomResourceDefinition" else live
    return {
        **mark_secret_kind(copy_marks(live_object, marked)),
        _INPUTS: mark_secret_kind(copy_marks(inputs, marked)),
        _INITIAL_API_VERSION: initial_api_version,
        _FIELD_MANAGER: manager,
    }


def live_of(outputs: Properties) -> JsonObject:
    """The live object in stored outputs, without Secret marks, with the API's keys."""
    plain = {key: value for key, value in unwrap(outputs).items() if not key.startswith("__")}
    return dict(with_dashes(plain)) if plain.get("kind") == "CustomResourceDefinition" else plain


def inputs_of(outputs: Properties, fallback: Properties) -> JsonObject:
    """The inputs in stored outputs, else `fallback`; without Secret marks."""
    stored = unwrap_here(outputs.get(_INPUTS))
    plain: JsonObject = unwrap(stored if isinstance(stored, dict) and stored else fallback)
    return plain


def initial_api_version_of(outputs: Properties) -> str:
    """The version that the object was created with."""
    return str(unwrap(outputs.get(_INITIAL_API_VERSION)) or unwrap(outputs.get("apiVersion")) or "")


def inputs_from_live(live: JsonObject) -> JsonObject:
    """Inputs of an object for get and import: everything but what only the server sets."""
    metadata = {
        key: value for key, value in live["metadata"].items() if key not in READ_ONLY_METADATA
    }
    return {key: value for key, value in live.items() if key != "status"} | {"metadata": metadata}


def id_of(manifest: JsonObject) -> str:
    """`namespace/name`, or `name`."""
    metadata = manifest["metadata"]
    namespace = metadata.get("namespace")
    return (
        f"{namespace}/{metadata['name']}"
        if namespace and namespace is not UNKNOWN
        else str(metadata["name"])
    )


def identity(type_token: str, object_id: str, outputs: Properties) -> JsonObject:
    """apiVersion, kind, name and namespace, from the type and id if there are no outputs."""
    namespace, _, name = object_id.rpartition("/")
    api_version, kind = unwrap(outputs.get("apiVersion")), unwrap(outputs.get("kind"))
    if not api_version or not kind:
        _, module, kind = type_token.split(":")
        api_version = module.removeprefix("core/")
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, **({"namespace": namespace} if namespace else {})},
    }
