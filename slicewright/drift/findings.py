"""What differs, between what, and how it is healed. Pure data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

VERSION = 1
"""Of the JSON; it changes when a key goes or changes."""


class Between(Enum):
    """The two things that should agree."""

    PROGRAM = "program and state"
    """What the stack file makes of the program, and what the last `pulumi up` left in the state."""
    CLOUD = "state and cloud"
    SILICON = "layout and silicon"
    """What the pools declare, and what the agents read of the GPUs."""
    OPERATOR = "declared and installed operator"


@dataclass(frozen=True, kw_only=True)
class Finding:
    between: Between
    where: str
    """The resource, pool, node or object."""
    what: str
    heal: str
    """A command; empty where nothing but `what` can say it."""


@dataclass(frozen=True, kw_only=True)
class Unseen:
    """Could not be compared, so nothing is known: never taken for the absence of drift."""

    between: Between
    why: str
    remedy: str = ""


@dataclass(frozen=True, kw_only=True)
class Drift:
    stack: str
    findings: tuple[Finding, ...]
    unseen: tuple[Unseen, ...]
    compared: tuple[Between, ...]
    """What there is to compare in this stack; without an operator of ours, not OPERATOR."""

    @property
    def state(self) -> str:
        if self.findings:
            return "drift"
        return "unseen" if self.unseen else "none"


def as_json(drift: Drift) -> Mapping[str, Any]:
    """docs/reference/drift.md."""
    return {
        "version": VERSION,
        "stack": drift.stack,
        "state": drift.state,
        "compared": [between.value for between in drift.compared],
        "findings": [
            {"between": f.between.value, "where": f.where, "what": f.what, "heal": f.heal or None}
            for f in drift.findings
        ],
        "unseen": [
            {"between": u.between.value, "why": u.why, "remedy": u.remedy or None}
            for u in drift.unseen
        ],
    }
