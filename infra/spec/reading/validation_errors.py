"""pydantic's validation errors as problems of the file, each with a fix for reading on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from infra.spec.problem import Path, Problem
from infra.spec.reading.annotations import example, is_required, locate, type_at
from infra.spec.reading.coercion import EXPECTED_TYPES, coerce
from infra.spec.reading.diagnosis import (
    MISSING,
    Diagnosis,
    DropValue,
    Fix,
    RenameKey,
    ReplaceValue,
)
from infra.spec.reading.formatting import comma_separated, flow_style, format_value
from infra.spec.reading.source import Source
from infra.spec.reading.synonyms import closest_word
from infra.spec.reading.union_tags import MODES, diagnose_tag
from infra.spec.reading.unknown_keys import diagnose_unknown_key
from infra.spec.schema.constraints import ConstraintError


def diagnose(error: ValidationError, source: Source) -> tuple[Diagnosis, ...]:
    found = [_diagnose(e, source) for e in error.errors(include_url=False)]
    # A missing key with a misspelling of it beside it is one problem, not two.
    renamed = {(*d.problem.path[:-1], d.fix.key) for d in found if isinstance(d.fix, RenameKey)}
    return tuple(d for d in found if d.problem.reason != MISSING or d.problem.path not in renamed)


def _diagnose(error: Any, source: Source) -> Diagnosis:
    loc, kind, context, found = error["loc"], error["type"], error.get("ctx", {}), error["input"]
    path, parent = locate(loc)
    if kind == "extra_forbidden":
        return diagnose_unknown_key(loc, path, parent, source)
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        return diagnose_tag(loc, path, parent, context, found, source)
    problem, fix = _wrong_value(kind, context, found, path, parent, source)
    return Diagnosis(problem=problem, loc=loc if loc[-1:] != ("[key]",) else loc[:-1], fix=fix)


def _wrong_value(
    kind: str, context: Mapping[str, Any], found: Any, path: Path, parent: Any, source: Source
) -> tuple[Problem, Fix]:
    wanted = type_at(parent, path[-1]) if path else None
    if kind == "missing":
        instead = f"write {path[-1]}: {flow_style(example(wanted))}"
        return Problem(path=path, reason=MISSING, instead=instead), DropValue()
    if kind == "literal_error":
        return _not_one_of(context["expected"], found, path)
    if kind == "value_error":
        return _violated(context["error"], found, path), DropValue()
    if kind in EXPECTED_TYPES:
        return _wrong_type(EXPECTED_TYPES[kind], found, path, parent, source)
    reason, instead = f"{format_value(found)}: {kind}", f"for example {flow_style(example(wanted))}"
    return Problem(path=path, reason=reason, instead=instead), DropValue()


def _not_one_of(expected: str, found: Any, path: Path) -> tuple[Problem, Fix]:
    """expected: as pydantic writes the values of a Literal: `'a', 'b' or 'c'`."""
    allowed = [a.strip("'\"") for a in expected.replace(" or ", ", ").split(", ")]
    closest = closest_word(found, allowed) if isinstance(found, str) else ""
    problem = Problem(
        path=path,
        reason=f"{format_value(found)} is not one of {comma_separated(allowed)}",
        instead=f"did you mean {closest}?"
        if closest
        else f"write {' or '.join(a or chr(34) * 2 for a in allowed)}",
    )
    return problem, ReplaceValue(value=closest) if closest else DropValue()


def _violated(error: Any, found: Any, path: Path) -> Problem:
    assert isinstance(error, ConstraintError), f"constraints raise ConstraintError: {error!r}"
    return Problem(
        path=path,
        reason=str(error).replace("{value}", format_value(found)),
        instead=error.instead,
        source=error.source,
        in_key=path[-1:] == (found,) and isinstance(found, str),
    )


def _wrong_type(
    expected: str, found: Any, path: Path, parent: Any, source: Source
) -> tuple[Problem, Fix]:
    wanted, as_written = type_at(parent, path[-1]) if path else None, source.as_written(path)
    value, instead = coerce(expected, found, wanted, as_written)
    if value is None and path[-1:] and path[-1] in MODES:
        instead = f"write {MODES[str(path[-1])]}"
    if found is None and not is_required(parent, path):
        instead = f"leave {path[-1] if isinstance(path[-1], str) else 'the item'} out, or {instead}"
    reason = f"{as_written or format_value(found)} is not {expected}"
    problem = Problem(path=path, reason=reason, instead=instead)
    return problem, DropValue() if value is None else ReplaceValue(value=value)
