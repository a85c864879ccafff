"""Unknown keys: misspelled, another tool's name, a level too deep, or none of these."""

from __future__ import annotations

import re
import types
from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, Union, get_args, get_origin

from slicewright.infra.stack_file.nearest import nearest_names
from slicewright.infra.stack_file.problem import Path, Problem
from slicewright.infra.stack_file.reading.annotations import SIMILAR, example, is_model, type_at
from slicewright.infra.stack_file.reading.diagnosis import Diagnosis, DropValue, Fix, RenameKey
from slicewright.infra.stack_file.reading.formatting import comma_separated, format_value
from slicewright.infra.stack_file.reading.other_systems import answer_for
from slicewright.infra.stack_file.reading.source import Source
from slicewright.infra.stack_file.reading.synonyms import KEY_SYNONYMS, NEEDLESS
from slicewright.infra.stack_file.schema.fleet import Fleet


def diagnose_unknown_key(
    loc: tuple[str | int, ...], path: Path, parent: type[Any], source: Source
) -> Diagnosis:
    if (successor := parent.replaced_keys.get(str(path[-1]))) is not None:
        return _diagnose_replaced_key(loc, path, successor, source)
    instead, fix = _remedy(path, parent, source.value(path[:-1]))
    problem = Problem(
        code="unknown-key", path=path, reason="unknown key", instead=instead, in_key=True
    )
    return Diagnosis(problem=problem, loc=loc, fix=fix)


def _diagnose_replaced_key(
    loc: tuple[str | int, ...], path: Path, successor: str, source: Source
) -> Diagnosis:
    key, value = path[-1], source.value(path)
    text = successor.replace("{value}", format_value(value))
    problem = Problem(
        code="renamed-key",
        path=path,
        reason=f"{key} is now {text}",
        instead="replace it",
        in_key=True,
    )
    replaced = (*path[:-1], successor.partition(":")[0])
    return Diagnosis(problem=problem, loc=loc, fix=DropValue(unknown=(replaced,)))


def _remedy(path: Path, parent: Any, holder: dict[str, Any]) -> tuple[str, Fix]:
    keys, key = tuple(parent.model_fields), str(path[-1])
    value = holder[key]
    # machineType and machine-type are machine_type.
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|-", "_", key).casefold()
    if (needless := NEEDLESS.get((parent.__name__, snake))) is not None:
        return needless, DropValue()
    if answer := answer_for(key):
        return answer, DropValue()
    synonym = KEY_SYNONYMS.get(snake, "")
    target = synonym.partition(":")[0].partition(",")[0]
    if target in keys and target != synonym:
        return f"use {synonym}", DropValue(unknown=((*path[:-1], target),))
    similar = nearest_names(snake, keys, count=1, similarity=SIMILAR)
    if target in keys or similar:
        closest = target if target in keys else similar[0]
        readable = similar or isinstance(value, type(example(type_at(parent, closest))))
        rename = closest not in holder and readable
        return f"did you mean {closest}?", RenameKey(key=closest) if rename else DropValue()
    if place := _place_elsewhere(snake):
        return f"write it as {place}, counted from the fleet's own keys", DropValue()
    inner = [k for k in value if k in keys] if isinstance(value, dict) else []
    if inner:
        return f"write its keys ({comma_separated(inner)}) one level up", DropValue()
    return f"known keys: {comma_separated(keys)}", DropValue()


def _place_elsewhere(key: str) -> str:
    """The only place of a stack file that has the key. Empty if there is none, or several."""
    places = [place for place in _places() if place[-1] == key]
    return ".".join(places[0]) if len(places) == 1 else ""


@cache
def _places() -> frozenset[tuple[str, ...]]:
    """The places of keys at the top of a fleet, and one level below, in any cloud."""
    top = {(name,): annotation for fleet in get_args(Fleet) for name, annotation in _keys(fleet)}
    below = {
        (*place, name)
        for place, annotation in top.items()
        for model in _models(annotation)
        for name, _ in _keys(model)
    }
    return frozenset({*top, *below})


def _keys(model: Any) -> Iterator[tuple[str, Any]]:
    yield from ((name, field.annotation) for name, field in model.model_fields.items())


def _models(annotation: Any) -> Iterator[Any]:
    """The models of a type: itself, or those of its union. Not of a list's items."""
    if is_model(annotation):
        yield annotation
    elif get_origin(annotation) in (Union, types.UnionType, Annotated):
        for part in get_args(annotation):
            yield from _models(part)
