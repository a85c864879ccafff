"""The error with all problems of a stack file.

Names, keys and values of a file may have any length and contain control characters, but the message
is for a terminal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from slicewright.infra.stack_file.problem import Path, Problem
from slicewright.infra.stack_file.reading.formatting import format_path, plain, shorten
from slicewright.infra.stack_file.reading.recovery import RecoveredFleet
from slicewright.infra.stack_file.reading.source import Source

_MAX_PROBLEMS = 50
"""Problems of a file that are shown. Nobody would read more before fixing the first."""
_LENGTH = 700
"""Characters of a reason or remedy. The longest text of slicewright itself is shorter."""


class SpecError(Exception):
    """A refused stack file. The message has file, line and column, key, reason and remedy of the
    first 50 problems.
    """

    def __init__(
        self, source: Source, problems: Sequence[Problem], recovered: RecoveredFleet | None = None
    ) -> None:
        self.source = source
        self.problems = tuple(problems)
        self.recovered = recovered
        """The fleet after error recovery, used to find more problems. It is never deployed."""
        self.unlisted = recovered.unlisted if recovered is not None else 0
        """The number of problems that are only counted."""
        super().__init__(_message(source, self.located(), self.unlisted))

    def located(self) -> list[tuple[Place, Problem]]:
        """Returns the problems in the order of the file, those of its base files last."""
        located = [(_place(self.source, problem), problem) for problem in self.problems]
        return sorted(located, key=lambda at: _order(self.source, at[0]))


class Place(NamedTuple):
    """The place of a problem in the file that its value comes from."""

    file: Source
    """The stack file, or one of its bases."""
    path: Path
    position: tuple[int, int] | None
    """Line and column. A problem without a line has the line of its closest parent."""


def _place(source: Source, problem: Problem) -> Place:
    file, path = source.origin(problem.path, file=problem.file)
    return Place(file, path, file.position(path, key=problem.in_key))


def _order(source: Source, place: Place) -> tuple[Any, ...]:
    name = place.file.name
    return name != source.name, name, place.position or (0, 0), tuple(map(str, place.path))


def _message(source: Source, located: Sequence[tuple[Place, Problem]], unlisted: int) -> str:
    count = len(located) + unlisted
    lines = [
        f"{source.name}: {count} problem{'s' if count != 1 else ''}, nothing was created or changed"
    ]
    for (file, path, position), problem in located[:_MAX_PROBLEMS]:
        where = f"{file.name}:{position[0]}:{position[1]}: " if position else ""
        key = f"{format_path(path)}{_pool(file, path)}"
        reason, instead = shorten(problem.reason, _LENGTH), shorten(problem.instead, _LENGTH)
        lines.append(plain(f"  {where}{key}: {reason}; {instead} [source: {problem.source}]"))
    if count > _MAX_PROBLEMS:
        lines.append(f"  and {count - _MAX_PROBLEMS} more; they are shown once these are fixed")
    return "\n".join(lines)


def _pool(source: Source, path: Path) -> str:
    """` (pool NAME)`, since `node_pools[3]` does not tell which pool it is."""
    if len(path) < 2 or path[0] != "node_pools":
        return ""
    pool = source.value(path[:2])
    name = pool.get("name") if isinstance(pool, dict) else None
    return f" (pool {shorten(name, 60)})" if isinstance(name, str) else ""
