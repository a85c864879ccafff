"""The error with all problems of a stack file.

Names, keys and values of a file may have any length and contain control characters, but the message
is for a terminal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slicewright.infra.stack_file.problem import Path, Problem
from slicewright.infra.stack_file.reading.formatting import format_path, plain, shorten
from slicewright.infra.stack_file.reading.recovery import RecoveredFleet
from slicewright.infra.stack_file.reading.source import Origin, Source

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
        unlisted = recovered.unlisted if recovered is not None else 0
        super().__init__(_message(source, self.problems, unlisted))


def _message(source: Source, problems: Sequence[Problem], unlisted: int) -> str:
    """unlisted: the number of problems that are only counted."""
    located = sorted(
        ((source.origin(p.path, file=p.file), p) for p in problems),
        key=lambda at: _order(source, *at),
    )
    count = len(problems) + unlisted
    lines = [
        f"{source.name}: {count} problem{'s' if count != 1 else ''}, nothing was created or changed"
    ]
    for (file, path), problem in located[:_MAX_PROBLEMS]:
        position = file.position(path, key=problem.in_key)
        where = f"{file.name}:{position[0]}:{position[1]}: " if position else ""
        key = f"{format_path(path)}{_pool(file, path)}"
        reason, instead = shorten(problem.reason, _LENGTH), shorten(problem.instead, _LENGTH)
        lines.append(plain(f"  {where}{key}: {reason}; {instead} [source: {problem.source}]"))
    if count > _MAX_PROBLEMS:
        lines.append(f"  and {count - _MAX_PROBLEMS} more; they are shown once these are fixed")
    return "\n".join(lines)


def _order(source: Source, origin: Origin, problem: Problem) -> tuple[Any, ...]:
    """Sorts by position in a file, the stack file first. A problem without a line has the line of
    its closest parent.
    """
    name = origin.source.name
    position = origin.source.position(origin.path, key=problem.in_key) or (0, 0)
    return name != source.name, name, position, tuple(map(str, origin.path))


def _pool(source: Source, path: Path) -> str:
    """` (pool NAME)`, since `node_pools[3]` does not tell which pool it is."""
    if len(path) < 2 or path[0] != "node_pools":
        return ""
    pool = source.value(path[:2])
    name = pool.get("name") if isinstance(pool, dict) else None
    return f" (pool {shorten(name, 60)})" if isinstance(name, str) else ""
