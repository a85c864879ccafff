"""A comparison, and the verdict on all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slicewright.apis.reasons.agent import REASONS
from slicewright.apis.reasons.agent_reason import Outcome
from slicewright.node_agent.nvml.errors import REASON_OF
from slicewright.node_agent.nvml.observed import Failure


@dataclass(frozen=True, kw_only=True)
class Check:
    """A single comparison."""

    reason: str
    """PartitionsMatch, or the reason for the difference."""
    where: str
    """`GPU 3`, `node`, or the resource's name."""
    expected: str
    observed: str

    @property
    def verdict(self) -> Outcome:
        return REASONS[self.reason].verdict


@dataclass(frozen=True, kw_only=True)
class Verdict:
    verdict: Outcome
    reason: str
    message: str
    """A sentence: place, expected, observed, likely cause, next step. Equal findings give equal
    messages.
    """
    checks: tuple[Check, ...]
    instances: tuple[Mapping[str, int], ...] = ()
    """Per observed GPU, the result of `observed_instances`: profile -> number of MIG devices."""


def failure_check(where: str, expected: str, failure: Failure) -> Check:
    return Check(
        reason=REASON_OF.get(failure.code, "DriverError"),
        where=where,
        expected=expected,
        observed=failure.text if failure.call == "probe" else f"{failure.call}: {failure.text}",
    )


def quantity(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
