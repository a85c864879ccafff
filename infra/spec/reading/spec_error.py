"""The error with all problems of a stack file."""

from __future__ import annotations

from collections.abc import Sequence

from infra.spec.problem import Path, Problem
from infra.spec.reading.formatting import format_path
from infra.spec.reading.recovery import RecoveredFleet
from infra.spec.reading.source import Source


class SpecError(Exception):
    """A refused stack file. The message has file, line, key, reason and remedy of every problem."""

    def __init__(
        self, source: Source, problems: Sequence[Problem], recovered: RecoveredFleet | None = None
    ) -> None:
        self.source = source
        self.problems = tuple(problems)
        self.recovered = recovered
        """The fleet after error recovery, to look for more problems; never to be deployed."""
        super().__init__(_message(source, self.problems))


def _message(source: Source, problems: Sequence[Problem]) -> str:
    # In the order of the file. A problem without a line of its own has that of its closest parent.
    located = sorted(
        ((source.line(p.path, key=p.in_key), p) for p in problems),
        key=lambda at: (at[0] or 0, tuple(map(str, at[1].path))),
    )
    lines = [
        f"{source.name}: {len(problems)} problem{'s' if len(problems) != 1 else ''}, "
        "nothing was created or changed"
    ]
    for line, problem in located:
        text = f"  {source.name}:{line}: " if line else "  "
        text += f"{format_path(problem.path)}{_pool(source, problem.path)}: {problem.reason}"
        lines.append(f"{text}; {problem.instead} [source: {problem.source}]")
    return "\n".join(lines)


def _pool(source: Source, path: Path) -> str:
    """` (pool NAME)`, since `node_pools[3]` does not tell which pool it is."""
    if len(path) < 2 or path[0] != "node_pools":
        return ""
    pool = source.value(path[:2])
    name = pool.get("name") if isinstance(pool, dict) else None
    return f" (pool {name})" if isinstance(name, str) else ""
