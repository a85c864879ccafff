"""The data of a drift: the difference, the two sides, and the remedy. Pure data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

VERSION = 1
"""The version of the JSON. It changes when a key is removed or changed."""


class Between(Enum):
    """The two things that should agree."""

    PROGRAM = "program and state"
    """The program's resources from the stack file, and the state that the last `pulumi up` left."""
    CLOUD = "state and cloud"
    SILICON = "layout and silicon"
    """The layouts that the pools declare, and the readings of the GPUs by the agents."""
    OPERATOR = "declared and installed operator"
    ENGINE = "plan and scheduler of shares"
    """The placement of shares of GPUs in the plan, and the configuration of Volcano's scheduler."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    between: Between
    where: str
    """The resource, pool, node or object."""
    difference: str
    heal: str
    """A command. Empty if there is no command beyond the advice in `what`."""


@dataclass(frozen=True, kw_only=True)
class Unseen:
    """A failed comparison, so nothing is known. This never counts as the absence of drift."""

    between: Between
    why: str
    remedy: str = ""


@dataclass(frozen=True, kw_only=True)
class Drift:
    stack: str
    findings: tuple[Finding, ...]
    unseen: tuple[Unseen, ...]
    compared: tuple[Between, ...]
    """The comparisons that apply to this stack: OPERATOR only with an operator of ours, ENGINE only
    with Volcano.
    """

    @property
    def state(self) -> str:
        if self.findings:
            return "drift"
        return "unseen" if self.unseen else "none"


def as_json(drift: Drift) -> Mapping[str, Any]:
    """Returns the JSON that docs/reference/drift.md describes."""
    return {
        "version": VERSION,
        "stack": drift.stack,
        "state": drift.state,
        "compared": [between.value for between in drift.compared],
        "findings": [
            {
                "between": f.between.value,
                "where": f.where,
                "what": f.difference,
                "heal": f.heal or None,
            }
            for f in drift.findings
        ],
        "unseen": [
            {"between": u.between.value, "why": u.why, "remedy": u.remedy or None}
            for u in drift.unseen
        ],
    }
