"""`slicewright doctor`: checks the cloud account or cluster of a stack before `pulumi up`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from slicewright.doctor.findings import CannotAsk, Finding
from slicewright.exit_codes import BAD_INPUT, CANNOT_RUN, NOT_VERIFIED, VERIFIED
from slicewright.infra import plan, stack_file
from slicewright.options import stack_files

_STYLES: Final = {"fails": "red", "not asked": "yellow", "not seen": "yellow", "ok": "green"}
"""Verdict -> style, in the order of the output."""


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "doctor",
        description="Checks the account of a stack for everything `pulumi up` needs: region and "
        "zones, machine types, quotas, versions, reservations, keys, networks, APIs, names, and "
        "the rights to create them. For an existing cluster (cloud: byo), checks nodes, rights and "
        "installed software. Only reads. Prints the checks that fail, and the command that fixes "
        "each (docs/how-to/ask-the-account.md).",
    )
    stack_files.add_arguments(parser)
    parser.add_argument(
        "--json",
        action="store_true",
        help="as JSON, with a stable code for each finding (docs/reference/doctor-json.md)",
    )
    parser.set_defaults(run=_run)


def _run(parsed: argparse.Namespace, console: Console) -> int:
    names = stack_files.named(parsed)
    if len(names) != 1:
        return _say("name exactly one stack (-s gke-h100) or FILE", BAD_INPUT)
    file = stack_files.path_of(names[0])
    stack = parsed.stack[0] if parsed.stack else None
    try:
        fleet = stack_files.read_plan(file)
    except stack_file.SpecError as e:
        print(e, file=sys.stderr)
        return BAD_INPUT
    from slicewright.doctor import preflight

    try:
        match fleet:
            case plan.EksFleetPlan():
                findings = preflight.check_eks(fleet, file, stack)
            case plan.GkeFleetPlan():
                findings = preflight.check_gke(fleet, file, stack)
            case plan.ExistingFleetPlan(cluster=None):
                return _say(f"{names[0]} has hosts only: no account or cluster to check", BAD_INPUT)
            case plan.ExistingFleetPlan():
                findings = preflight.check_cluster(fleet, stack)
    except CannotAsk as e:
        return _say(str(e), CANNOT_RUN)
    if parsed.json:
        print(json.dumps(_as_json(findings), indent=2))
    else:
        _show(findings, console)
    verdicts = {finding.verdict for finding in findings}
    if "fails" in verdicts:
        return NOT_VERIFIED
    return CANNOT_RUN if "not asked" in verdicts else VERIFIED


def _say(problem: str, code: int) -> int:
    print(f"slicewright doctor: {stack_file.plain(problem)}", file=sys.stderr)
    return code


def _as_json(findings: Sequence[Finding]) -> dict[str, Any]:
    """Returns the findings in the order of the text: failures first."""
    return {
        "version": 1,
        "findings": [
            {
                "code": finding.code,
                "verdict": verdict,
                "subject": stack_file.plain(finding.subject),
                "detail": stack_file.plain(finding.detail),
                "remedy": stack_file.plain(finding.remedy) or None,
            }
            for verdict in _STYLES
            for finding in findings
            if finding.verdict == verdict
        ],
    }


def _show(findings: Sequence[Finding], console: Console) -> None:
    """Prints failures first, and strips control characters from the texts of an account."""
    for verdict in _STYLES:
        for finding in findings:
            if finding.verdict != verdict:
                continue
            line = Text(f"{verdict:<9}", _STYLES[verdict])
            line.append(stack_file.plain(f"  {finding.subject}: {finding.detail}"), "default")
            console.print(line, soft_wrap=True, highlight=False)
            if finding.remedy:
                console.print(
                    Text(f"{'':<9}  → {stack_file.plain(finding.remedy)}"), soft_wrap=True
                )
    count = {v: sum(f.verdict == v for f in findings) for v in _STYLES}
    not_seen = f"{count['not seen']} not seen, " if count["not seen"] else ""
    console.print(
        f"{count['fails']} would fail, {count['not asked']} could not be checked, {not_seen}"
        f"{count['ok']} ok",
        highlight=False,
    )
