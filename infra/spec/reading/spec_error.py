"""The one error that carries all problems of a stack file."""

from __future__ import annotations

from collections.abc import Sequence

from infra.spec.problem import Path, Problem
from infra.spec.reading.meaning import Reading
from infra.spec.reading.source import Source, shown


class SpecError(Exception):
    """The stack file cannot be deployed. The message names file, line, key, reason and remedy of
    every problem.
    """

    def __init__(
        self, source: Source, problems: Sequence[Problem], reading: Reading | None = None
    ) -> None:
        self.source = source
        self.problems = tuple(problems)
        self.reading = reading
        """What the file was probably meant to say: good enough to look for more problems, never to
        deploy.
        """
        super().__init__(_message(source, self.problems))


def _message(source: Source, problems: Sequence[Problem]) -> str:
    # A problem without a line of its own stands where its nearest parent does, so the order is that
    # of the file.
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
        text += f"{shown(problem.path)}{_pool(source, problem.path)}: {problem.reason}"
        lines.append(f"{text}; {problem.instead} [source: {problem.source}]")
    return "\n".join(lines)


def _pool(source: Source, path: Path) -> str:
    """` (pool NAME)`: people know their pools by name, not by position."""
    if len(path) < 2 or path[0] != "node_pools":
        return ""
    pool = source.value(path[:2])
    name = pool.get("name") if isinstance(pool, dict) else None
    return f" (pool {name})" if isinstance(name, str) else ""
