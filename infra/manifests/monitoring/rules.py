"""Rules of Prometheus as typed data, and the objects that carry them.

Source of the format: Prometheus docs, recording rules, alerting rules, template examples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal

from slicewright.infra.manifests.text import JsonObject


class Source(Enum):
    """The program that exports the metrics of an expression."""

    AGENT = "node agent"
    CONTROLLER = "fleet controller"
    DCGM = "dcgm-exporter"
    OBJECTS = "kube-state-metrics"
    TRITON = "Triton"
    VLLM = "vLLM"


RUNBOOKS: Final = "reference/alerts.md"
"""The page below docs/ that has a heading for each alert."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """A recording rule: `level:metric:operation`."""

    name: str
    expr: str
    needs: frozenset[Source]


@dataclass(frozen=True, kw_only=True)
class Alert:
    """An alerting rule."""

    name: str
    expr: str
    minutes: int
    """How long `expr` must hold before the alert fires."""
    severity: Literal["warning", "critical"]
    summary: str
    """One line, which names the subject by its labels."""
    description: str
    """The meaning of the alert, and the consequence if nothing is done."""
    needs: frozenset[Source]
    """The sources without which it could not fire, or would fire wrongly."""


@dataclass(frozen=True, kw_only=True)
class Group:
    name: str
    rules: Sequence[Record | Alert]


def available(groups: Sequence[Group], sources: frozenset[Source]) -> list[Group]:
    """The groups with the rules whose sources exist, without empty groups."""
    usable = [
        Group(name=group.name, rules=[rule for rule in group.rules if rule.needs <= sources])
        for group in groups
    ]
    return [group for group in usable if group.rules]


def as_groups(groups: Sequence[Group], *, runbooks: str) -> list[JsonObject]:
    """The groups of a rule file. runbooks: the URL of docs/. Empty: links are paths below docs/."""
    return [
        {"name": group.name, "rules": [_rule(rule, runbooks) for rule in group.rules]}
        for group in groups
    ]


def _rule(rule: Record | Alert, runbooks: str) -> JsonObject:
    match rule:
        case Record():
            return {"record": rule.name, "expr": rule.expr}
        case Alert():
            return {
                "alert": rule.name,
                "expr": rule.expr,
                **({"for": f"{rule.minutes}m"} if rule.minutes else {}),
                "labels": {"severity": rule.severity},
                "annotations": {
                    "summary": rule.summary,
                    "description": rule.description,
                    "runbook_url": runbook(rule, runbooks),
                },
            }


def runbook(alert: Alert, runbooks: str) -> str:
    page = f"{runbooks.rstrip('/')}/{RUNBOOKS}" if runbooks else f"docs/{RUNBOOKS}"
    return f"{page}#{alert.name.casefold()}"
