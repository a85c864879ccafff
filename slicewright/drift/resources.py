"""Pulumi's findings: the program against the state, and the state against the cloud. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from slicewright.drift.findings import Comparison, FailedComparison, Finding
from slicewright.preview.steps import Outcome, Preview, Step

_MOST_FIELDS: Final = 6
_MOST_TEXT: Final = 60
_BY_PROGRAM: Final[Mapping[Outcome, str]] = {
    Outcome.CREATED: "is declared, but was not created",
    Outcome.ADOPTED: "is declared, but was not adopted",
    Outcome.DELETED: "is no longer declared, but still exists",
    Outcome.FORGOTTEN: "is no longer declared, but is still in the state",
}
_PART: Final = re.compile(r'\["(?P<quoted>[^"]*)"\]|\[(?P<index>\d+)\]|(?P<name>[^.\[\]]+)')
"""One part of a property path. Source: Pulumi docs, property paths."""


def program_drift(preview: Preview, stack: str) -> tuple[list[Finding], list[FailedComparison]]:
    """preview: the result of `pulumi preview` without a refresh."""
    return _drift(preview, Comparison.PROGRAM, f"pulumi up --stack {stack}")


def cloud_drift(refresh: Preview, stack: str) -> tuple[list[Finding], list[FailedComparison]]:
    """refresh: the changes of `pulumi refresh --preview-only` to the state.

    Values that the program leaves to others, such as an autoscaler's number of nodes, are no drift.
    """
    declared = (replace(step, fields=_not_ignored(step)) for step in refresh.steps)
    steps = tuple(
        step
        for step, before in zip(declared, refresh.steps, strict=True)
        if step.fields or not before.fields
    )
    # Without the refresh, `up` compares with the state, which shows no difference yet.
    heal = f"pulumi up --refresh --stack {stack}"
    return _drift(replace(refresh, steps=steps), Comparison.CLOUD, heal)


def _not_ignored(step: Step) -> tuple[str, ...]:
    return tuple(
        field
        for field in step.fields
        if not any(
            field == path or field.startswith((f"{path}.", f"{path}[")) for path in step.ignored
        )
    )


def pending_creations(urns: Sequence[str], stack: str) -> list[FailedComparison]:
    """Reports cut-off creations: a refresh cannot find a resource without an ID."""
    return [
        FailedComparison(
            comparison=Comparison.CLOUD,
            why=f"the creation of {urn} was interrupted: it may exist in the cloud, but is not in "
            "the state",
            remedy=f"slicewright recover --stack {stack}",
        )
        for urn in urns
    ]


def _drift(
    preview: Preview, comparison: Comparison, heal: str
) -> tuple[list[Finding], list[FailedComparison]]:
    findings = [
        Finding(
            comparison=comparison,
            where=f"{step.type} {step.name}",
            difference=_difference(step, comparison),
            heal=heal,
        )
        for step in preview.steps
    ]
    unseen = [
        FailedComparison(comparison=comparison, why=" ".join(error.split()))
        for error in preview.errors
    ]
    return findings, unseen


def _difference(step: Step, comparison: Comparison) -> str:
    if comparison is Comparison.CLOUD and step.outcome is Outcome.DELETED:
        return "is in the state, but not in the cloud"
    if comparison is Comparison.PROGRAM and step.outcome in _BY_PROGRAM:
        return _BY_PROGRAM[step.outcome]
    changes = [_change(step, name) for name in step.fields[:_MOST_FIELDS]]
    if len(step.fields) > _MOST_FIELDS:
        changes.append(f"and {len(step.fields) - _MOST_FIELDS} more")
    text = "; ".join(changes) or "differs"
    return f"{text} (would be replaced)" if step.outcome is Outcome.REPLACED else text


def _change(step: Step, path: str) -> str:
    before, after = value_at(step.before, path), value_at(step.after, path)
    if before == after:
        return path
    return f"{path}: {_value_text(before)} → {_value_text(after)}"


def value_at(value: Any, path: str) -> Any:
    """The value at a property path, such as `nodeConfig.taints[0].key`, or None."""
    for part in _PART.finditer(path):
        if part["index"] is not None:
            in_range = isinstance(value, list) and int(part["index"]) < len(value)
            value = value[int(part["index"])] if in_range else None
        else:
            key = part["quoted"] if part["quoted"] is not None else part["name"]
            value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _value_text(value: Any) -> str:
    """Shows only values that fit on a line. A secret is a map of ciphertext here."""
    if value is None:
        return "nothing"
    if isinstance(value, Mapping | list):
        return "…"
    text = " ".join(str(value).split())
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}…"
