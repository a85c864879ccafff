"""Draws the verdict from all checks: the most serious reason names it. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from slicewright.apis.desired_state import Desired
from slicewright.apis.reasons.agent import MATCH, RANK, REASONS
from slicewright.apis.reasons.agent_reason import Reason
from slicewright.node_agent.verdict.findings import Check, Verdict
from slicewright.node_agent.verdict.message import fit_into_report, match_message, problem_message


def judge(
    desired: Desired,
    checks: Sequence[Check],
    observed: tuple[Mapping[str, int], ...],
    *,
    on_host: bool,
) -> Verdict:
    assert checks, "a verdict needs at least one check"
    findings = sorted(
        (check for check in checks if check.reason != MATCH),
        key=lambda check: _rank(REASONS[check.reason]),
    )
    if not findings:
        return Verdict(
            verdict="Match",
            reason=MATCH,
            message=match_message(desired, resources=not on_host),
            checks=tuple(checks),
            instances=observed,
        )
    first = REASONS[findings[0].reason]
    return Verdict(
        verdict=first.verdict,
        reason=first.code,
        message=_message(desired, first, findings, on_host=on_host),
        checks=tuple(checks),
        instances=observed,
    )


def _message(desired: Desired, first: Reason, findings: Sequence[Check], *, on_host: bool) -> str:
    """The sentence about the first reason's findings, then the codes of the other reasons."""
    of_first = [check for check in findings if check.reason == first.code]
    message = problem_message(desired, first, of_first, on_host=on_host)
    other_reasons = {check.reason for check in findings} - {first.code}
    if other_reasons:
        message += f" Also: {', '.join(sorted(other_reasons, key=lambda code: RANK[code]))}."
    return fit_into_report(message)


def replace_reason(verdict: Verdict, code: str, desired: Desired) -> Verdict:
    """The verdict with the same findings but another reason."""
    findings = [check for check in verdict.checks if check.reason == verdict.reason]
    reason = REASONS[code]
    return replace(
        verdict,
        verdict=reason.verdict,
        reason=code,
        message=fit_into_report(problem_message(desired, reason, findings, on_host=False)),
        checks=tuple(
            replace(check, reason=code) if check in findings else check for check in verdict.checks
        ),
    )


def _rank(reason: Reason) -> tuple[bool, bool, int]:
    return reason.verdict == "Unknown", reason.settles, RANK[reason.code]
