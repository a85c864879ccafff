"""The table of allowances: how many violations of each rule a file may still have."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.language.rules import ADVICE, Finding, Rule, file_findings

Allowances = Mapping[str, Mapping[str, int]]
"""By path in the repository, by rule: a number of violations, at least 1."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The lint's answer.

    messages: one line for each problem; none if the files keep to their allowances.
    counts: the violations of today, in the form of the table.
    """

    messages: tuple[str, ...]
    counts: Allowances


def read_table(path: Path) -> Allowances:
    """Returns the table of a TOML file; an absent file allows nothing."""
    return tomllib.loads(path.read_text()) if path.exists() else {}


def table_text(counts: Allowances) -> str:
    """Returns the TOML text of a table, sorted by path."""
    lines = [
        "# Violations that the language lint still allows, by file. The numbers only shrink:",
        "# `python -m tests.language --update` lowers them, and never raises one.",
    ]
    for path in sorted(counts):
        rules = ", ".join(f"{rule} = {number}" for rule, number in sorted(counts[path].items()))
        lines.append(f'"{path}" = {{ {rules} }}')
    return "\n".join(lines) + "\n"


def judge(files: Mapping[str, str], allowances: Allowances) -> Verdict:
    """Compares the files with their allowances.

    files: texts by path in the repository.

    A file with more violations than it may have is a problem, and so is an allowance that is
    larger than the file needs: otherwise new violations could take the place of mended ones.
    """
    messages: list[str] = []
    counts: dict[str, dict[str, int]] = {}
    for path, text in sorted(files.items()):
        in_file = file_findings(path, text)
        numbers = Counter(finding.rule for finding in in_file)
        if numbers:
            counts[path] = {rule.value: numbers[rule] for rule in Rule if numbers[rule]}
        for rule in Rule:
            allowed = allowances.get(path, {}).get(rule.value, 0)
            if numbers[rule] > allowed:
                messages += _excess(path, rule, in_file, allowed)
            elif numbers[rule] < allowed:
                messages.append(_unused(path, rule, numbers[rule], allowed))
    messages += [
        f"{path}: is in the table of allowances, and does not exist: run "
        "`python -m tests.language --update`"
        for path in sorted(set(allowances) - set(files))
    ]
    return Verdict(tuple(messages), counts)


def lowered(counts: Allowances, allowances: Allowances) -> Allowances:
    """Returns the table after an update: the violations of today, where they are fewer."""
    table: dict[str, dict[str, int]] = {}
    for path, rules in counts.items():
        allowed = allowances.get(path, {})
        kept = {rule: min(number, allowed.get(rule, 0)) for rule, number in rules.items()}
        if any(kept.values()):
            table[path] = {rule: number for rule, number in kept.items() if number}
    return table


def _excess(path: str, rule: Rule, in_file: Iterable[Finding], allowed: int) -> list[str]:
    of_rule = [finding for finding in in_file if finding.rule is rule]
    permitted = f" (the file may have {allowed} of them, and has {len(of_rule)})" if allowed else ""
    return [
        f"{path}:{finding.line}: {finding.text!r}: {ADVICE[rule]}{permitted}" for finding in of_rule
    ]


def _unused(path: str, rule: Rule, number: int, allowed: int) -> str:
    return (
        f"{path}: has {number} violations of '{rule}', and may have {allowed}: run "
        "`python -m tests.language --update`"
    )
