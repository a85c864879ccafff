"""How the plan's checks report: each yields the problems it finds and returns its result.

A check is a generator without side effects. `result = yield from check(...)` runs one inside
another, so that findings come in the order of the checks in the code. `collect` runs the outermost.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import CodeType, GeneratorType
from typing import Any, Final, TypeVar, cast

from slicewright.infra.stack_file import REFERENCE, Path, Problem
from slicewright.infra.stack_file.nearest import nearest_names

CATALOG = "slicewright's catalog, infra/catalog/data/*.toml"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem, and whether it holds for any values of the file's invalid parts.

    Example: a layout that is too large even without its invalid entries.
    """

    problem: Problem
    certain: bool = False
    dated: bool = False
    """Follows from a cloud's offer as recorded on a date: `allow_unlisted` waives it."""


Checked = Generator[Finding, None, T]
"""A check that returns a T. Calling it does nothing: it runs under `yield from` or `collect`."""
C = TypeVar("C", bound=Callable[..., Checked[Any]])


@dataclass(frozen=True)
class Stated:
    """The valid part of the stack file."""

    invalid: frozenset[Path] = frozenset()
    """Places of the fleet whose value in the file is invalid. An example or a default stands in."""

    def has(self, *paths: Path) -> bool:
        """Whether the file states all of this validly, so that something may follow from it."""
        if not self.invalid:
            return True
        return not any(path in self._above or self._is_within_invalid(path) for path in paths)

    def has_for_all(self, pools: Sequence[object], key: str) -> bool:
        """Whether the file states the key validly in every pool."""
        return (
            self.has(*(("node_pools", i, key) for i in range(len(pools))))
            and ("node_pools",) not in self.invalid
        )

    def reportable(self, findings: Iterable[Finding]) -> tuple[Problem, ...]:
        """The findings without those about a place that is invalid in the file anyway."""
        return tuple(
            finding.problem
            for finding in findings
            if not self._is_within_invalid(finding.problem.path)
            and (finding.certain or finding.problem.path not in self._above)
        )

    @cached_property
    def _above(self) -> frozenset[Path]:
        """Every place that an invalid place is in, or is."""
        return frozenset(
            place[:length] for place in self.invalid for length in range(len(place) + 1)
        )

    def _is_within_invalid(self, path: Path) -> bool:
        return any(path[:length] in self.invalid for length in range(len(path) + 1))


def refuse(
    path: Path,
    reason: str,
    instead: str,
    source: str = REFERENCE,
    *,
    in_key: bool = False,
    certain: bool = False,
    dated: bool = False,
) -> Finding:
    """A finding to yield.

    instead: the right value, or all allowed values if that cannot be known. source: of a fact. The
    default is for slicewright's own rules.
    """
    if dated:
        instead += " (or allow_unlisted: true, if it is new)"
    problem = Problem(path=path, reason=reason, instead=instead, source=source, in_key=in_key)
    return Finding(problem, certain, dated)


def rule(code: str) -> Callable[[C], C]:
    """Gives the problems that a check finds their code in problem_codes.toml.

    The checks that run inside it give theirs first. `collect` looks the code up for each finding,
    so that checks without findings, which are most, take no time for it.
    """

    def register(check: C) -> C:
        _CODES[check.__code__] = code
        return check

    return register


_CODES: Final[dict[CodeType, str]] = {}
"""Checks -> the codes of their problems."""


def _with_code(finding: Finding, check: Checked[Any]) -> Finding:
    """Returns the finding with the code of the innermost running check that has one."""
    code, running = finding.problem.code, cast(object, check)
    while not finding.problem.code and isinstance(running, GeneratorType):
        code = _CODES.get(running.gi_code, code)
        running = running.gi_yieldfrom
    problem = dataclasses.replace(finding.problem, code=code)
    return dataclasses.replace(finding, problem=problem)


def each(checks: Iterable[Checked[T]]) -> Checked[list[T]]:
    """Runs one check after the other: their results."""
    results = []
    for check in checks:
        results.append((yield from check))
    return results


def collect(check: Checked[T]) -> tuple[T, tuple[Finding, ...]]:
    """Runs a check: its result and everything it found."""
    findings = []
    while True:
        try:
            findings.append(_with_code(next(check), check))
        except StopIteration as end:
            return end.value, tuple(findings)


def nearest(name: str, names: Sequence[str]) -> str:
    """Text with the known name that was probably meant, or with all known names."""
    close = nearest_names(name, tuple(names), count=1, similarity=0.5)
    return f"did you mean {close[0]}?" if close else f"known: {listed(names)}"


def listed(items: Sequence[object]) -> str:
    return ", ".join(map(str, items))
