"""Converts pydantic's validation errors into problems of the file, each with a fix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from slicewright.infra.stack_file.problem import Path, Problem
from slicewright.infra.stack_file.reading.annotations import example, is_required, locate, type_at
from slicewright.infra.stack_file.reading.coercion import EXPECTED_TYPES, coerce
from slicewright.infra.stack_file.reading.diagnosis import (
    MISSING,
    Diagnosis,
    DropValue,
    Fix,
    RenameKey,
    ReplaceValue,
)
from slicewright.infra.stack_file.reading.formatting import (
    comma_separated,
    flow_style,
    format_value,
)
from slicewright.infra.stack_file.reading.other_systems import answer_for
from slicewright.infra.stack_file.reading.source import Source
from slicewright.infra.stack_file.reading.synonyms import closest_word, is_misspelling
from slicewright.infra.stack_file.reading.union_tags import MODES, diagnose_tag
from slicewright.infra.stack_file.reading.unknown_keys import diagnose_unknown_key
from slicewright.infra.stack_file.schema.constraints import ConstraintError


def diagnose(error: ValidationError, source: Source, most: int) -> tuple[Diagnosis, ...]:
    """most: the number of errors that are described, from the first."""
    diagnoses = [_diagnose(e, source) for e in error.errors(include_url=False)[:most]]
    # A missing key and its misspelling next to it are a single problem.
    renamed = {(*d.problem.path[:-1], d.fix.key) for d in diagnoses if isinstance(d.fix, RenameKey)}
    return tuple(
        d for d in diagnoses if d.problem.reason != MISSING or d.problem.path not in renamed
    )


def _diagnose(error: Any, source: Source) -> Diagnosis:
    loc, kind, context, actual = error["loc"], error["type"], error.get("ctx", {}), error["input"]
    path, parent = locate(loc)
    if kind == "extra_forbidden":
        return diagnose_unknown_key(loc, path, parent, source)
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        return diagnose_tag(loc, path, parent, context, actual, source)
    problem, fix = _value_problem(kind, context, actual, path, parent, source)
    return Diagnosis(problem=problem, loc=loc if loc[-1:] != ("[key]",) else loc[:-1], fix=fix)


def _value_problem(
    kind: str, context: Mapping[str, Any], actual: Any, path: Path, parent: Any, source: Source
) -> tuple[Problem, Fix]:
    annotation = type_at(parent, path[-1]) if path else None
    if kind == "missing":
        instead = f"write {path[-1]}: {flow_style(example(annotation))}"
        return Problem(code="missing-key", path=path, reason=MISSING, instead=instead), DropValue()
    if kind == "literal_error":
        return _literal_problem(context["expected"], actual, path)
    if kind == "value_error":
        return _constraint_problem(context["error"], actual, path), DropValue()
    if kind in EXPECTED_TYPES:
        return _type_problem(EXPECTED_TYPES[kind], actual, path, parent, source)
    reason, instead = (
        f"{format_value(actual)}: {kind}",
        f"for example {flow_style(example(annotation))}",
    )
    return Problem(code="invalid-value", path=path, reason=reason, instead=instead), DropValue()


def _literal_problem(expected: str, actual: Any, path: Path) -> tuple[Problem, Fix]:
    """The problem of a value outside a Literal. pydantic's `expected`: `'a', 'b' or 'c'`."""
    allowed = [a.strip("'\"") for a in expected.replace(" or ", ", ").split(", ")]
    answer = answer_for(actual) if isinstance(actual, str) else ""
    closest = closest_word(actual, allowed) if isinstance(actual, str) and not answer else ""
    problem = Problem(
        code="not-an-allowed-value",
        path=path,
        reason=f"{format_value(actual)} is not one of {comma_separated(allowed)}",
        instead=answer
        or (
            f"did you mean {closest}?"
            if closest
            else f"write {' or '.join(a or chr(34) * 2 for a in allowed)}"
        ),
    )
    if closest and is_misspelling(actual, closest):
        return problem, ReplaceValue(value=closest)
    return problem, DropValue()


def _constraint_problem(error: Any, actual: Any, path: Path) -> Problem:
    assert isinstance(error, ConstraintError), f"constraints raise ConstraintError: {error!r}"
    return Problem(
        code="invalid-value",
        path=path,
        reason=str(error).replace("{value}", format_value(actual)),
        instead=error.instead,
        source=error.source,
        in_key=path[-1:] == (actual,) and isinstance(actual, str),
    )


def _type_problem(
    expected: str, actual: Any, path: Path, parent: Any, source: Source
) -> tuple[Problem, Fix]:
    annotation, as_written = type_at(parent, path[-1]) if path else None, source.as_written(path)
    value, instead = coerce(expected, actual, annotation, as_written)
    if isinstance(actual, list) and path[-1:] == ("gpu",):
        instead = (
            "give nodes with one GPU model each: neither slicewright nor NVIDIA's GPU operator "
            "has layouts for two models in one node"
        )
    if value is None and path[-1:] and path[-1] in MODES:
        instead = f"write {MODES[str(path[-1])]}"
    if actual is None and not is_required(parent, path):
        instead = f"leave {path[-1] if isinstance(path[-1], str) else 'the item'} out, or {instead}"
    is_mode = expected == "a mapping" and path[-1:] and path[-1] in MODES
    kind = "is neither a mode nor" if is_mode else "is not"
    reason = f"{as_written or format_value(actual)} {kind} {expected}"
    problem = Problem(code="wrong-type", path=path, reason=reason, instead=instead)
    return problem, DropValue() if value is None else ReplaceValue(value=value)
