"""Walks the fleet's type annotations along an error's path, and makes an example of a type."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, Field, Tag

from infra.spec.nearest import nearest_names
from infra.spec.problem import Path
from infra.spec.schema.fleet import Fleet
from infra.spec.schema.model import MAPPING_TAG, WORD_TAG

SIMILAR = 0.7
"""Similarity (0 to 1, difflib) from which one key is taken for a misspelling of another."""
_R = TypeVar("_R")
FLEET_TYPE: Any = Annotated[Fleet, Field(discriminator="cloud")]


def locate(loc: Sequence[str | int]) -> tuple[Path, Any]:
    """The path in the file, without pydantic's union tags, and the type of its last holder."""
    kept, parent = _located(tuple(0 if isinstance(step, int) else step for step in loc))
    return tuple(loc[i] for i in kept), parent


@lru_cache(maxsize=4096)  # the same for every item of a list
def _located(loc: tuple[str | int, ...]) -> tuple[tuple[int, ...], Any]:
    """Which steps are of the path in the file, and the type of its last holder."""
    kept: list[int] = []
    at: Any = FLEET_TYPE
    parent: Any = None
    for i, step in enumerate(loc):
        if step in (WORD_TAG, MAPPING_TAG):
            continue
        at = _unwrapped(at)
        members = _union_members(at)
        while len(members) == 1 and (only := next(iter(members.values()))) is not at:
            at, members = only, _union_members(only)  # an optional one, perhaps of a union
        if len(members) > 1:
            at = members.get(str(step))
            continue
        if step == "[key]":
            break
        parent, at = at, type_at(at, step)
        kept.append(i)
    return tuple(kept), parent


def type_at(annotation: Any, step: str | int) -> Any:
    """The type of a key or item with its metadata; None for an unknown key."""
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
    """The keys of a model with their types; of a union, those of its first model."""
    members = list(_union_members(_unwrapped(annotation)).values())
    model = _unwrapped(members[0])
    return {name: type_at(model, name) for name in model.model_fields} if is_model(model) else {}


def tag_for_keys(annotation: Any, keys: set[str], tag_key: str) -> str:
    """The tag of the first union member that has all these keys or similar ones, and asks for no
    others; empty for none.

    tag_key: the key that has the tag; a union inside the union may be the one that it is of.
    """

    def has(model: Any) -> bool:
        if tag_key not in model.model_fields:
            return False
        meant = {tag_key}
        for key in keys:
            near = nearest_names(key, tuple(model.model_fields), count=1, similarity=SIMILAR)
            if not near:
                return False
            meant.add(near[0])
        return all(name in meant for name, one in model.model_fields.items() if one.is_required())

    for tag, member in _union_members(_unwrapped(annotation)).items():
        if is_model(member) and keys and has(member):
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
    """The constraints of these kinds on a type, also on an optional one."""
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
        given = next((m.example for m in arguments[1:] if hasattr(m, "example")), None)
        return example(arguments[0]) if given is None else given
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


def _unwrapped(annotation: Any) -> Any:
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    return annotation


def _union_members(annotation: Any) -> dict[str, Any]:
    """Tag -> member of a union, without None; a type that is not a union, under its own name."""
    if get_origin(annotation) not in (Union, types.UnionType):
        return {str(annotation): annotation}
    found = {}
    for member in get_args(annotation):
        if member is type(None):
            continue
        tag = next((m.tag for m in getattr(member, "__metadata__", ()) if isinstance(m, Tag)), None)
        found[tag or _tag_of(_unwrapped(member))] = _unwrapped(member)
    return found


def _tag_of(model: Any) -> str:
    if is_model(model):
        for name in ("mode", "cloud", "kind", "prometheus"):
            if (
                name in model.model_fields
                and get_origin(model.model_fields[name].annotation) is Literal
            ):
                return str(get_args(model.model_fields[name].annotation)[0])
    return str(model)
