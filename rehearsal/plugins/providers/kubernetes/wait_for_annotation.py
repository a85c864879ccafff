"""The annotation `pulumi.com/waitFor`: a program's own readiness rule.

Forms: `condition=Type`, `condition=Type=Status`, `jsonpath={.path}` (exists),
`jsonpath={.path}=value` (also !=, >=, <=), or a JSON list of these, all of which must hold. Source:
pulumi-kubernetes `await/condition`, `jsonpath`.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.plugins.engine.plugin import Severity
from slicewright.rehearsal.plugins.providers.kubernetes.json_paths import BadPath, JsonPath, parse
from slicewright.rehearsal.plugins.providers.kubernetes.related_objects import RelatedObjects
from slicewright.rehearsal.plugins.providers.kubernetes.waiting import ObjectRule, Rule, Verdict

ANNOTATION: Final = "pulumi.com/waitFor"

_JSONPATH: Final = re.compile(
    r"^jsonpath=\{(?P<path>.*)\}(?:(?P<op>!=|>=|<=|=)(?P<value>.*))?$", re.DOTALL
)
_COMPARE: Final[Mapping[str, Callable[[Any, Any], bool]]] = {">=": operator.ge, "<=": operator.le}


class InvalidWaitFor(Exception):
    """The annotation is invalid; detected only after the object is stored, as officially."""


@dataclass(frozen=True)
class Condition(ObjectRule):
    """`status.conditions` has this type with this status, for the current generation."""

    type: str
    status: str

    def judge(self, live: JsonObject, related: RelatedObjects) -> Verdict:
        status = live.get("status") or {}
        conditions = status.get("conditions") if isinstance(status, dict) else None
        if not isinstance(conditions, list):
            return Verdict(False, "Has no .status.conditions", Severity.WARNING)
        for condition in conditions:
            if (
                str(condition.get("type", "")).lower() != self.type.lower()
                or "status" not in condition
            ):
                continue
            generation = live["metadata"].get("generation")
            observed = condition.get("observedGeneration", status.get("observedGeneration"))
            # Without observedGeneration a stale True passes, as with the official provider.
            if generation is not None and observed is not None and observed < generation:
                return Verdict(False, f"Generation {observed} is less than expected {generation}")
            if str(condition["status"]).lower() == self.status.lower():
                return Verdict(True)
            actual = f"{condition['type']}={condition['status']}"
            return Verdict(False, f"Resource has condition {actual} (want {self.status})")
        return Verdict(False)


@dataclass(frozen=True)
class Expression(ObjectRule):
    """A JSONPath matches, or it matches one value that compares as given."""

    path: JsonPath
    operator: str | None
    value: str

    def judge(self, live: JsonObject, related: RelatedObjects) -> Verdict:
        waiting = f"Waiting for {{{self.path.text}}}{self.operator or ''}{self.value}"
        values = self.path.find(live)
        if not values:
            return Verdict(self.operator == "!=", waiting)
        if self.operator is None:
            return Verdict(True)
        if len(values) > 1:
            return Verdict(
                False, f"{waiting} (the path matches {len(values)} values, one is needed)"
            )
        if isinstance(values[0], (dict, list)):
            return Verdict(
                False,
                f"{waiting} (the path leads to a "
                f"{'map' if isinstance(values[0], dict) else 'list'}, not a value)",
            )
        text = _text(values[0])
        if self._holds(text):
            return Verdict(True)
        return Verdict(False, f'{waiting} (found "{text}")')

    def _holds(self, text: str) -> bool:
        if self.operator in ("=", "!="):
            return (text == self.value) == (self.operator == "=")
        try:
            return _COMPARE[str(self.operator)](float(text), float(self.value))
        except ValueError:
            return False


@dataclass(frozen=True)
class AllOf(ObjectRule):
    """All rules hold at the same time."""

    rules: tuple[Rule, ...]

    def judge(self, live: JsonObject, related: RelatedObjects) -> Verdict:
        for rule in self.rules:
            verdict = rule.judge(live, related)
            if not verdict.done:
                return verdict
        return Verdict(True)


def parse_annotation(text: str) -> Rule:
    """Raises InvalidWaitFor."""
    forms: Any = [text]
    if text.lstrip().startswith("["):
        try:
            forms = json.loads(text)
        except ValueError as e:
            raise InvalidWaitFor(
                f"{ANNOTATION}: {text!r} looks like a list but is not JSON: {e}"
            ) from e
        if not forms or not all(isinstance(form, str) for form in forms):
            raise InvalidWaitFor(f"{ANNOTATION}: {text!r} must be a list of one or more strings")
    rules = tuple(_parse_form(form) for form in forms)
    return rules[0] if len(rules) == 1 else AllOf(rules)


def _parse_form(form: str) -> Rule:
    if form.startswith("condition="):
        name, _, status = form.removeprefix("condition=").partition("=")
        if not name:
            raise InvalidWaitFor(
                f"{ANNOTATION}: {form!r} has no condition type; write condition=Ready or "
                "condition=Ready=False"
            )
        return Condition(name, status or "True")
    if form.startswith("jsonpath="):
        match = _JSONPATH.match(form)
        if match is None:
            raise InvalidWaitFor(
                f"{ANNOTATION}: {form!r}: the path must be in braces, as in "
                f"jsonpath={{.status.phase}}=Running"
            )
        try:
            return Expression(parse(match["path"]), match["op"], match["value"] or "")
        except BadPath as e:
            raise InvalidWaitFor(f"{ANNOTATION}: {e}") from e
    raise InvalidWaitFor(
        f'{ANNOTATION}: expected a "jsonpath=" or "condition=" prefix, got {form!r}'
    )


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "null" if value is None else str(value)
