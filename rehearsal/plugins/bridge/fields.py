"""How a resource's inputs become the cloud's request, and the cloud's answer becomes inputs.

Fields are declared once for both directions, so that requested and live values can be compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.plugins.engine.plugin import ProviderError


@dataclass(frozen=True, kw_only=True)
class Field:
    """One property. `api` is its name in the cloud's API where it differs."""

    api: str | None = None
    """With dots where the API nests it deeper: loggingConfig.variantConfig.variant."""
    of: Mapping[str, Field] | None = None
    """Fields of the nested object."""
    many: bool = False
    """Whether it is a list of such objects."""
    keyed: str | None = None
    """Where the API has a map instead of the list: the property that is the key."""
    text: bool = False
    """A number that the API writes as a string (64-bit integers)."""
    default: Any = None
    """The API's value for an unset property, which is then no input."""
    computed: bool = False
    """The cloud chooses a value for an unset property, which is then no input."""
    unordered: bool = False
    """A set: the API may return another order."""


Fields = Mapping[str, Field]


def same(*names: str, computed: bool = False) -> dict[str, Field]:
    """Properties with the same name and value in Pulumi and in the API."""
    return {name: Field(computed=computed) for name in names}


def to_api(fields: Fields, inputs: Mapping[str, Any], path: str = "") -> JsonObject:
    """The request's body. Raises ProviderError for a property that is not simulated."""
    request: JsonObject = {}
    for name, value in inputs.items():
        if name.startswith("__") or value is None:
            continue
        at = f"{path}.{name}" if path else name
        field = fields.get(name)
        if field is None:
            raise ProviderError(
                f"{at}: the rehearsal does not simulate this property; here it simulates "
                f"{', '.join(sorted(fields))}"
            )
        _put(request, field.api or name, _to_api(field, value, at))
    return request


def _put(request: JsonObject, path: str, value: Any) -> None:
    *parents, last = path.split(".")
    for parent in parents:
        request = request.setdefault(parent, {})
    request[last] = value


def _get(answer: Mapping[str, Any], path: str) -> Any:
    value: Any = answer
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _to_api(field: Field, value: Any, at: str) -> Any:
    if field.of is None:
        return str(int(value)) if field.text else value
    if field.keyed is not None:
        return {
            item[field.keyed]: to_api(
                field.of, {k: v for k, v in item.items() if k != field.keyed}, f"{at}[{index}]"
            )
            for index, item in enumerate(value)
        }
    if field.many:
        return [to_api(field.of, item, f"{at}[{index}]") for index, item in enumerate(value)]
    return to_api(field.of, value, at)


def from_api(
    fields: Fields, answer: Mapping[str, Any], prior: Mapping[str, Any] | None
) -> JsonObject:
    """The API's answer as inputs.

    prior: the inputs as requested. What the cloud chose or added is left out, so that a refresh
    without drift shows no change. None: everything, as outputs show it.
    """
    inputs: JsonObject = {}
    for name, field in fields.items():
        prior_value = None if prior is None else prior.get(name)
        value = _from_api(
            field, _get(answer, field.api or name), prior_value, everything=prior is None
        )
        if prior is None:
            if value not in (None, {}, []):
                inputs[name] = value
        elif prior_value is None:
            if (
                not field.computed
                and value != field.default
                and value not in (None, {}, [], "", False)
            ):
                inputs[name] = value
        elif value is not None or not _is_empty(field, prior_value):
            if value is not None:
                inputs[name] = value
        else:
            inputs[name] = prior_value
    return inputs


def _from_api(field: Field, value: Any, prior: Any, *, everything: bool) -> Any:
    if value is None:
        return None
    if field.text and not isinstance(value, list):
        return int(value)
    if field.unordered and isinstance(value, list):
        return _in_order(value, prior if isinstance(prior, list) else [])
    if field.of is None:
        return value
    if field.keyed is not None:
        return _from_map(field, field.keyed, value, prior, everything=everything)
    if field.many:
        priors = prior if isinstance(prior, list) else []
        fill: JsonObject | None = None if everything else {}
        return [
            from_api(field.of, v, priors[i] if i < len(priors) and not everything else fill)
            for i, v in enumerate(value)
        ]
    return from_api(
        field.of, value, None if everything else (prior if isinstance(prior, dict) else {})
    )


def _from_map(field: Field, key: str, value: Any, prior: Any, *, everything: bool) -> Any:
    """The items that were asked for first, in their order, then the others."""
    assert field.of is not None
    priors = {item[key]: item for item in prior} if isinstance(prior, list) else {}
    return [
        {key: name, **from_api(field.of, value[name], None if everything else priors.get(name, {}))}
        for name in _in_order(list(value), list(priors))
    ]


def _in_order(value: list[Any], prior: list[Any]) -> list[Any]:
    """The requested items first, in their order, then the others."""
    return [a for a in prior if a in value] + [v for v in value if v not in prior]


def _is_empty(field: Field, prior: Any) -> bool:
    """Whether the requested value is the same as leaving the property unset."""
    if isinstance(prior, dict) and field.of is not None:
        return all(_is_empty(field.of.get(k, Field()), v) for k, v in prior.items())
    return prior in (None, {}, [], "", False, 0) or prior == field.default
