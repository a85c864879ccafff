"""Walks the fleet's type annotations along an error's path, and makes an example of a type."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, Field, Tag

from slicewright.infra.stack_file.nearest import nearest_names
from slicewright.infra.stack_file.problem import Path
from slicewright.infra.stack_file.schema.fleet import Fleet
from slicewright.infra.stack_file.schema.model import MAPPING_TAG, WORD_TAG

SIMILAR = 0.7
"""Similarity (0 to 1, difflib) that makes a key count as a misspelling of another key."""
_R = TypeVar("_R")
FLEET_TYPE: Any = Annotated[Fleet, Field(discriminator="cloud")]


def locate(loc: Sequence[str | int]) -> tuple[Path, Any]:
    """The path in the file, without pydantic's union tags, and the type of its last parent."""
    indices, parent = _locate(tuple(0 if isinstance(step, int) else step for step in loc))
    return tuple(loc[i] for i in indices), parent


@lru_cache(maxsize=4096)  # the result is the same for every item of a list
def _locate(loc: tuple[str | int, ...]) -> tuple[tuple[int, ...], Any]:
    """The indices of the steps that the path in the file has, and the type of its last parent."""
    indices: list[int] = []
    at: Any = FLEET_TYPE
    parent: Any = None
    for i, step in enumerate(loc):
        if step in (WORD_TAG, MAPPING_TAG):
            continue
        at = _unwrap(at)
        members = _union_members(at)
        while len(members) == 1 and (only := next(iter(members.values()))) is not at:
            at, members = only, _union_members(only)  # an optional type, perhaps of a union
        if len(members) > 1:
            at = members.get(str(step))
            continue
        if step == "[key]":
            break
        parent, at = at, type_at(at, step)
        indices.append(i)
    return tuple(indices), parent


def type_at(annotation: Any, step: str | int) -> Any:
    """The type of a key or item with its metadata, None for an unknown key."""
    if is_model(annotation):
        field = annotation.model_fields.get(str(step))
        if field is None:
            return None
        return Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
    arguments = get_args(annotation)
    if not arguments:
        return None
    return arguments[0] if isinstance(step, int) else arguments[-1]


def keys_of(annotation: Any) -> dict[str, Any]:
    """The keys of a model with their types. For a union, the keys of its first model."""
    members = list(_union_members(_unwrap(annotation)).values())
    model = _unwrap(members[0])
    return {name: type_at(model, name) for name in model.model_fields} if is_model(model) else {}


def tag_for_keys(annotation: Any, keys: set[str], tag_key: str) -> str:
    """The tag of the first union member that has all these keys or similar keys, and requires no
    others. Empty if no member matches.

    tag_key: the key with the tag, of this union or of a union inside it.
    """

    def matches(model: Any) -> bool:
        if tag_key not in model.model_fields:
            return False
        matched = {tag_key}
        for key in keys:
            near = nearest_names(key, tuple(model.model_fields), count=1, similarity=SIMILAR)
            if not near:
                return False
            matched.add(near[0])
        return all(
            name in matched
            for name, model_field in model.model_fields.items()
            if model_field.is_required()
        )

    for tag, member in _union_members(_unwrap(annotation)).items():
        if is_model(member) and keys and matches(member):
            return tag
        if member is not annotation and len(_union_members(member)) > 1:
            inner = tag_for_keys(member, keys, tag_key)
            if inner:
                return inner
    return ""


def is_required(parent: Any, path: Path) -> bool:
    field = parent.model_fields.get(str(path[-1])) if path and is_model(parent) else None
    return field is not None and field.is_required()


def constraints_of(annotation: Any, *kinds: type[_R]) -> Iterator[_R]:
    """The constraints of these kinds on a type, which may be optional."""
    for metadata in get_args(annotation)[1:] if get_origin(annotation) is Annotated else ():
        if isinstance(metadata, kinds):
            yield metadata
    if get_origin(annotation) in (Union, types.UnionType):
        for member in get_args(annotation):
            yield from constraints_of(member, *kinds)


def is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def example(annotation: Any) -> Any:
    """A small valid JSON value of the type, with required keys only."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        stated = next((m.example for m in arguments[1:] if hasattr(m, "example")), None)
        return example(arguments[0]) if stated is None else stated
    if origin in (Union, types.UnionType):
        return example(next(member for member in arguments if member is not type(None)))
    if is_model(annotation):
        return {
            name: example(type_at(annotation, name))
            for name, f in annotation.model_fields.items()
            if f.is_required()
        }
    if origin is Literal:
        return arguments[0]
    if origin is tuple:
        return [example(arguments[0])]
    if origin is not None and issubclass(origin, Mapping):
        return {example(arguments[0]): example(arguments[1])}
    return {bool: False, int: 1}.get(annotation, "text")


def example_list(annotation: Any) -> list[Any]:
    """A small valid list of the type. For a union, of its first member that is a list."""
    value = example(annotation)
    if isinstance(value, list):
        return value
    members = _union_members(_unwrap(annotation)).values()
    lists = (member for member in map(_unwrap, members) if get_origin(member) is tuple)
    return list(example(next(lists)))


def _unwrap(annotation: Any) -> Any:
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    return annotation


def _union_members(annotation: Any) -> dict[str, Any]:
    """Tag -> member of a union, without None. A type that is not a union is its only member."""
    if get_origin(annotation) not in (Union, types.UnionType):
        return {str(annotation): annotation}
    by_tag = {}
    for member in get_args(annotation):
        if member is type(None):
            continue
        tag = next((m.tag for m in getattr(member, "__metadata__", ()) if isinstance(m, Tag)), None)
        by_tag[tag or _tag_of(_unwrap(member))] = _unwrap(member)
    return by_tag


def _tag_of(model: Any) -> str:
    if is_model(model):
        for name in ("mode", "cloud", "kind", "prometheus"):
            if (
                name in model.model_fields
                and get_origin(model.model_fields[name].annotation) is Literal
            ):
                return str(get_args(model.model_fields[name].annotation)[0])
    return str(model)
