"""Unknown keys: misspelled, another tool's name, a level too deep, or none of these."""

from __future__ import annotations

import re
from typing import Any

from slicewright.infra.stack_file.nearest import nearest_names
from slicewright.infra.stack_file.problem import Path, Problem
from slicewright.infra.stack_file.reading.annotations import SIMILAR, example, type_at
from slicewright.infra.stack_file.reading.diagnosis import Diagnosis, DropValue, Fix, RenameKey
from slicewright.infra.stack_file.reading.formatting import comma_separated, format_value
from slicewright.infra.stack_file.reading.source import Source
from slicewright.infra.stack_file.reading.synonyms import KEY_SYNONYMS, NEEDLESS


def diagnose_unknown_key(
    loc: tuple[str | int, ...], path: Path, parent: type[Any], source: Source
) -> Diagnosis:
    if (successor := parent.replaced_keys.get(str(path[-1]))) is not None:
        return _diagnose_replaced_key(loc, path, successor, source)
    instead, fix = _remedy(path, parent, source.value(path[:-1]))
    problem = Problem(path=path, reason="unknown key", instead=instead, in_key=True)
    return Diagnosis(problem=problem, loc=loc, fix=fix)


def _diagnose_replaced_key(
    loc: tuple[str | int, ...], path: Path, successor: str, source: Source
) -> Diagnosis:
    key, value = path[-1], source.value(path)
    text = successor.replace("{value}", format_value(value))
    problem = Problem(path=path, reason=f"{key} is now {text}", instead="replace it", in_key=True)
    replaced = (*path[:-1], successor.partition(":")[0])
    return Diagnosis(problem=problem, loc=loc, fix=DropValue(unknown=(replaced,)))


def _remedy(path: Path, parent: Any, holder: dict[str, Any]) -> tuple[str, Fix]:
    keys, key = tuple(parent.model_fields), str(path[-1])
    value = holder[key]
    # machineType and machine-type are machine_type.
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|-", "_", key).casefold()
    if (needless := NEEDLESS.get((parent.__name__, snake))) is not None:
        return needless, DropValue()
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
    inner = [k for k in value if k in keys] if isinstance(value, dict) else []
    if inner:
        return f"write its keys ({comma_separated(inner)}) one level up", DropValue()
    return f"known keys: {comma_separated(keys)}", DropValue()
