"""The types of a fleet, walked along the path of a validation error; and a valid example of
each.
"""

from __future__ import annotations

import difflib
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, Field, Tag

from infra.spec.problem import Path
from infra.spec.schema.base import SPELLED_OUT, WORD
from infra.spec.schema.fleet import Fleet

NEAR = 0.7
"""How alike two keys are (0 to 1, difflib) where one is a slip for the other."""
_R = TypeVar("_R")
FLEET: Any = Annotated[Fleet, Field(discriminator="cloud")]


def locate(loc: Sequence[str | int]) -> tuple[Path, Any]:
    """The path as people know it, without the unions' tags that pydantic puts in, and the type that
    holds its last step.
    """
    path: list[str | int] = []
    at: Any = FLEET
    parent: Any = None
    for step in loc:
        if step in (WORD, SPELLED_OUT):
            continue
        at = _plain(at)
        members = _members(at)
        if len(members) > 1:
            at = members.get(str(step))
            continue
        at = next(iter(members.values()), at)
        if step == "[key]":
            break
        parent, at = at, inside(at, step)
        path.append(step)
    return tuple(path), parent


def inside(annotation: Any, step: str | int) -> Any:
    """The type of a key or item, with what is said of it; None where it has no such key."""
    if is_model(annotation):
        field = annotation.model_fields.get(str(step))
        return (
            Annotated[field.annotation, *field.metadata]
            if field and field.metadata
            else field.annotation
            if field
            else None
        )
    arguments = get_args(annotation)
    return (
        arguments[0]
        if isinstance(step, int) and arguments
        else arguments[-1]
        if arguments
        else None
    )


def keys_of(annotation: Any) -> dict[str, Any]:
    """The keys of a model, of the first of several, with their types; nothing for what has free
    keys.
    """
    members = list(_members(_plain(annotation)).values())
    model = _plain(members[0])
    return {name: inside(model, name) for name in model.model_fields} if is_model(model) else {}


def tag_with(annotation: Any, keys: set[str]) -> str:
    """Of a union, the tag of the first member that has all these keys, or nearly; empty where none
    has, or there are none.
    """

    def has(model: Any) -> bool:
        return all(
            difflib.get_close_matches(key, model.model_fields, n=1, cutoff=NEAR) for key in keys
        )

    members = _members(_plain(annotation)).items()
    return next((tag for tag, model in members if keys and is_model(model) and has(model)), "")


def is_required(parent: Any, path: Path) -> bool:
    field = parent.model_fields.get(str(path[-1])) if path and is_model(parent) else None
    return field is not None and field.is_required()


def rules(annotation: Any, *kinds: type[_R]) -> Iterator[_R]:
    """What is said of a type, also where it may be left out."""
    for said in get_args(annotation)[1:] if get_origin(annotation) is Annotated else ():
        if isinstance(said, kinds):
            yield said
    if get_origin(annotation) in (Union, types.UnionType):
        for member in get_args(annotation):
            yield from rules(member, *kinds)


def is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def example(annotation: Any) -> Any:
    """A small JSON value of the type, with required keys only."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        given = next((m.example for m in arguments[1:] if hasattr(m, "example")), None)
        return example(arguments[0]) if given is None else given
    if origin in (Union, types.UnionType):
        return example(next(member for member in arguments if member is not type(None)))
    if is_model(annotation):
        return {
            name: example(inside(annotation, name))
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


def _plain(annotation: Any) -> Any:
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    return annotation


def _members(annotation: Any) -> dict[str, Any]:
    """Tag -> member of a union, None left out; a single type under its own name."""
    if get_origin(annotation) not in (Union, types.UnionType):
        return {str(annotation): annotation}
    found = {}
    for member in get_args(annotation):
        if member is type(None):
            continue
        tag = next((m.tag for m in getattr(member, "__metadata__", ()) if isinstance(m, Tag)), None)
        found[tag or _mode_of(_plain(member))] = _plain(member)
    return found


def _mode_of(model: Any) -> str:
    if is_model(model):
        for name in ("mode", "cloud"):
            if (
                name in model.model_fields
                and get_origin(model.model_fields[name].annotation) is Literal
            ):
                return str(get_args(model.model_fields[name].annotation)[0])
    return str(model)
