"""What IAM policies allow: the part of their language that SimulatePrincipalPolicy needs here.

Source: IAM user guide, policy evaluation logic for requests within a single account, and IAM JSON
policy elements. A policy with anything else is refused rather than misread.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from slicewright.rehearsal.clouds.core.errors import not_simulated

Decision = Literal["allowed", "explicitDeny", "implicitDeny"]
Policy = Mapping[str, Any]
Context = Mapping[str, Sequence[str]]
"""Key in lower case -> its values."""

_ELEMENTS = {"Sid", "Effect", "Action", "NotAction", "Resource", "NotResource", "Condition"}


@dataclass(frozen=True)
class Evaluation:
    decision: Decision
    missing: frozenset[str]
    """Context keys of statements for the action and resource that the request does not have."""


def evaluate(policies: Sequence[Policy], action: str, arn: str, context: Context) -> Evaluation:
    """Of one kind of policies, such as those attached to a role. Raises CloudError."""
    effects, missing = set(), set()
    for policy in policies:
        for statement in _several(policy["Statement"]):
            if not _concerns(statement, action, arn):
                continue
            conditions = statement.get("Condition", {})
            missing |= {
                key
                for operator, keys in conditions.items()
                for key in keys
                if key.lower() not in context and not operator.endswith("IfExists")
            }
            if all(
                _holds(operator, context.get(key.lower()), _several(patterns))
                for operator, keys in conditions.items()
                for key, patterns in keys.items()
            ):
                effects.add(statement["Effect"])
    decision: Decision = (
        "explicitDeny" if "Deny" in effects else "allowed" if effects else "implicitDeny"
    )
    return Evaluation(decision, frozenset(missing))


def _concerns(statement: Mapping[str, Any], action: str, arn: str) -> bool:
    unknown = set(statement) - _ELEMENTS
    if unknown:
        raise not_simulated(f"The rehearsal's IAM does not know {', '.join(sorted(unknown))}.")
    return _names(statement, "Action", action.lower(), str.lower) and _names(
        statement, "Resource", arn, str
    )


def _names(
    statement: Mapping[str, Any], element: str, value: str, form: Callable[[str], str]
) -> bool:
    def matches(patterns: Any) -> bool:
        return any(_like(value, form(pattern)) for pattern in _several(patterns))

    if element in statement:
        return matches(statement[element])
    return not matches(statement[f"Not{element}"])


def _holds(operator: str, values: Sequence[str] | None, patterns: Sequence[str]) -> bool:
    for prefix, quantifier in (("ForAllValues:", all), ("ForAnyValue:", any)):
        if operator.startswith(prefix):
            plain = operator.removeprefix(prefix)
            return quantifier(_holds(plain, [value], patterns) for value in values or ())
    base = operator.removesuffix("IfExists")
    if values is None:
        return base != operator or base in ("StringNotEquals", "StringNotLike", "ArnNotLike")
    compare = _OPERATORS.get(base)
    if compare is None:
        raise not_simulated(f"The rehearsal's IAM does not know the condition {operator}.")
    matches = any(compare(value, pattern) for value in values for pattern in patterns)
    return not matches if "Not" in base else matches


def _equal(value: str, pattern: str) -> bool:
    return value == pattern


def _like(value: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(value, pattern.replace("[", "[[]"))


def _same_flag(value: str, pattern: str) -> bool:
    return value.lower() == str(pattern).lower()


_OPERATORS: Mapping[str, Callable[[str, str], bool]] = {
    "StringEquals": _equal,
    "StringNotEquals": _equal,
    "StringLike": _like,
    "StringNotLike": _like,
    "ArnEquals": _like,
    "ArnLike": _like,
    "ArnNotLike": _like,
    "Bool": _same_flag,
}


def _several(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]
