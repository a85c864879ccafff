"""The result of `check` as JSON, and as SARIF for code scanning (docs/reference/check-json.md)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Final

from slicewright.apis.version import VERSION as PROGRAM_VERSION
from slicewright.infra import plan, stack_file
from slicewright.infra.stack_file.problem_codes import UNREADABLE, rules

VERSION: Final = 1
_SARIF_VERSION: Final = "2.1.0"
_SARIF_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"


@dataclass(frozen=True, kw_only=True)
class LocatedProblem:
    """A problem with its place in the file."""

    code: str
    file: str
    """The stack file, or the base file that the value comes from."""
    line: int | None
    """Counted from 1. None: the problem is of the whole file."""
    column: int | None
    key: str
    """`node_pools[0].nodes`. Empty: the file as a whole."""
    reason: str
    instead: str
    """The remedy. Empty: the reason contains it."""
    source: str
    """The source of the rule. Empty for a file that cannot be read."""
    refused: bool = True
    """False for a part of a valid file that `pulumi up` cannot deploy yet."""


@dataclass(frozen=True, kw_only=True)
class CheckedFile:
    name: str
    """The file's name as `check` shows it."""
    problems: tuple[LocatedProblem, ...]
    unlisted: int = 0
    """The number of problems that are only counted."""
    notes: tuple[str, ...] = ()

    @property
    def accepted(self) -> bool:
        return not any(problem.refused for problem in self.problems)


def refused_file(name: str, error: stack_file.SpecError) -> CheckedFile:
    problems = tuple(
        _problem(place.file.name, place.path, place.position, problem)
        for place, problem in error.located()
    )
    return CheckedFile(
        name=name, problems=problems or (_unreadable(name, str(error)),), unlisted=error.unlisted
    )


def accepted_file(name: str, fleet: plan.FleetPlan, today: date) -> CheckedFile:
    return CheckedFile(
        name=name,
        problems=tuple(
            _problem(name, p.path, None, p, refused=False) for p in plan.unbuildable(fleet)
        ),
        notes=tuple(map(stack_file.plain, plan.notes(fleet, today=today))),
    )


def as_json(files: Sequence[CheckedFile]) -> dict[str, Any]:
    return {
        "version": VERSION,
        "files": [
            {
                "file": stack_file.plain(file.name),
                "ok": file.accepted,
                "problems": [
                    {
                        "code": problem.code,
                        "file": stack_file.plain(problem.file),
                        "line": problem.line,
                        "column": problem.column,
                        "key": problem.key,
                        "reason": problem.reason,
                        "instead": problem.instead,
                        "source": problem.source,
                        "level": _level(problem),
                    }
                    for problem in file.problems
                ],
                "unlisted": file.unlisted,
                "notes": list(file.notes),
            }
            for file in files
        ],
    }


def as_sarif(files: Sequence[CheckedFile]) -> dict[str, Any]:
    codes = sorted({problem.code for file in files for problem in file.problems})
    described = rules()
    return {
        "$schema": _SARIF_SCHEMA,
        "version": _SARIF_VERSION,
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "slicewright",
                        "semanticVersion": PROGRAM_VERSION,
                        "rules": [
                            {"id": code, "shortDescription": {"text": described[code]}}
                            for code in codes
                        ],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "results": [
                    _sarif_result(problem, codes.index(problem.code))
                    for file in files
                    for problem in file.problems
                ],
            }
        ],
    }


def _sarif_result(problem: LocatedProblem, rule: int) -> dict[str, Any]:
    remedy = f"; {problem.instead}" if problem.instead else ""
    source = f" [source: {problem.source}]" if problem.source else ""
    key = f"{problem.key}: " if problem.key else ""
    path = Path(problem.file)
    return {
        "ruleId": problem.code,
        "ruleIndex": rule,
        "level": _level(problem),
        "message": {"text": f"{key}{problem.reason}{remedy}{source}"},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {
                        "uri": path.as_uri() if path.is_absolute() else _relative_uri(path)
                    },
                    "region": {
                        "startLine": problem.line or 1,
                        "startColumn": problem.column or 1,
                    },
                }
            }
        ],
    }


def _relative_uri(path: Path) -> str:
    """Returns the path as a URI reference, with the characters escaped that a URI cannot have."""
    root = Path("/")
    return (root / path).as_uri().removeprefix(root.as_uri())


def _level(problem: LocatedProblem) -> str:
    return "error" if problem.refused else "note"


def _problem(
    file: str,
    path: stack_file.Path,
    position: tuple[int, int] | None,
    problem: stack_file.Problem,
    *,
    refused: bool = True,
) -> LocatedProblem:
    line, column = position or (None, None)
    return LocatedProblem(
        code=problem.code,
        file=file,
        line=line,
        column=column,
        key=stack_file.plain(stack_file.format_path(path)),
        reason=stack_file.plain(problem.reason),
        instead=stack_file.plain(problem.instead),
        source=problem.source,
        refused=refused,
    )


def _unreadable(name: str, message: str) -> LocatedProblem:
    """The message of a file that cannot be read begins with its name, line and column."""
    place = re.match(rf"{re.escape(stack_file.plain(name))}(?::(\d+)(?::(\d+))?)?: ", message)
    line, column = place.groups() if place else (None, None)
    return LocatedProblem(
        code=UNREADABLE,
        file=name,
        line=int(line) if line else None,
        column=int(column) if column else None,
        key="",
        reason=message[place.end() :] if place else message,
        instead="",
        source="",
    )
