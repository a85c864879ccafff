"""A problem of a stack file, and the one error that carries all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from infra.spec.models import Fleet
from infra.spec.source import Path, Source, shown


@dataclass(frozen=True, kw_only=True)
class Problem:
    path: Path
    """Keys and list positions below `slicewright:fleet`."""
    reason: str
    """What is wrong, and why."""
    instead: str = ""
    """What to write."""
    source: str = ""
    """Where the fact behind the refusal comes from, if it is one."""
    in_key: bool = False
    """The key is wrong, not its value."""


@dataclass(frozen=True)
class Salvage:
    """What is left of a broken file without its broken parts: good enough to look for more problems, never to deploy."""

    fleet: Fleet
    pools: tuple[int, ...]
    """Position in the file of each pool that is left."""


class SpecError(Exception):
    """The stack file cannot be deployed. The message names file, line, key, reason and remedy of every problem."""

    def __init__(self, source: Source, problems: Sequence[Problem], salvage: Salvage | None = None) -> None:
        self.source = source
        self.problems = tuple(problems)
        self.salvage = salvage
        super().__init__(_message(source, self.problems))


def _message(source: Source, problems: Sequence[Problem]) -> str:
    # A problem without a line of its own stands where its nearest parent does, so the order is that of the file.
    located = sorted(
        ((source.line(p.path, key=p.in_key), p) for p in problems), key=lambda at: (at[0] or 0, at[1].path and str(at[1].path))
    )
    lines = [f"{source.name}: {len(problems)} problem{'s' if len(problems) != 1 else ''}, nothing was created or changed"]
    for line, problem in located:
        text = f"  {source.name}:{line}: " if line else "  "
        text += f"{shown(problem.path)}{_pool(source, problem.path)}: {problem.reason}"
        if problem.instead:
            text += f"; {problem.instead}"
        if problem.source:
            text += f" [source: {problem.source}]"
        lines.append(text)
    return "\n".join(lines)


def _pool(source: Source, path: Path) -> str:
    """` (pool NAME)`: people know their pools by name, not by position."""
    if len(path) < 2 or path[0] != "node_pools":
        return ""
    pool = source.value(path[:2])
    name = pool.get("name") if isinstance(pool, dict) else None
    return f" (pool {name})" if isinstance(name, str) else ""
