"""A Pulumi program as somebody would write it who knows every value: resource after resource, in
the SDKs' own classes. Run by `preview.py`, with `resources.json`: states of a preview.
"""

import json
import re
from pathlib import Path
from typing import Any

import pulumi
import pulumi_gcp as gcp
import pulumi_kubernetes as k8s

_UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
"""What the engine shows for a value that no preview knows. Source: pulumi/pulumi, plugin/rpc.go."""
_INTERNAL = ("__defaults", "__internal", "version")


def main() -> None:
    made: dict[str, pulumi.Resource] = {}
    for state in json.loads(Path("resources.json").read_text()):
        name = state["urn"].rpartition("::")[2]
        given = {
            key: _with_outputs(value, _source(state, key, made))
            for key, value in state.get("inputs", {}).items()
            if key not in _INTERNAL
        }
        made[state["urn"]] = _declare(name, state, given, _options(state, made))


def _declare(
    name: str, state: dict[str, Any], given: dict[str, Any], options: pulumi.ResourceOptions
) -> pulumi.Resource:
    package, module, kind = state["type"].split(":")
    if package == "pulumi":
        provider: Any = gcp.Provider if kind == "gcp" else k8s.Provider
        return provider(name, **_snake(given), opts=options)
    if module == "slicewright.io/v1alpha1":
        custom = k8s.apiextensions.CustomResource
        if state.get("external"):
            return custom.get(name, "slicewright.io/v1alpha1", kind, _id(options), options)
        return custom(name, **_snake(given), opts=options)
    if package == "gcp":
        declared = getattr(getattr(gcp, module.partition("/")[0]), kind)
    else:
        group, _, version = module.partition("/")
        declared = getattr(getattr(getattr(k8s, group.partition(".")[0]), version), kind)
    if state.get("external"):
        return declared.get(name, _id(options), options)
    return declared(name, **_snake(given), opts=options)


def _options(state: dict[str, Any], made: dict[str, pulumi.Resource]) -> pulumi.ResourceOptions:
    provider = made.get(state.get("provider", "").rpartition("::")[0])
    return pulumi.ResourceOptions(
        provider=provider,
        depends_on=[made[urn] for urn in state.get("dependencies") or () if urn in made],
    )


def _id(options: pulumi.ResourceOptions) -> pulumi.Output[str]:
    """Of a resource that is read: known once what it depends on is there."""
    (first, *_) = options.depends_on
    return first.id


def _source(state: dict[str, Any], key: str, made: dict[str, pulumi.Resource]) -> Any:
    """The output of which an unknown value is made."""
    urns = (state.get("propertyDependencies") or {}).get(key) or state.get("dependencies") or ()
    found = [made[urn] for urn in urns if urn in made]
    return found[0].id if found else None


def _with_outputs(value: Any, source: Any) -> Any:
    if value == _UNKNOWN:
        return source
    if isinstance(value, dict):
        return {key: _with_outputs(inner, source) for key, inner in value.items()}
    return [_with_outputs(inner, source) for inner in value] if isinstance(value, list) else value


def _snake(given: dict[str, Any]) -> dict[str, Any]:
    return {re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", key).lower(): v for key, v in given.items()}


main()
