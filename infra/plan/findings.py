"""What is wrong, as it is found; all of it is shown at once."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field

from infra.spec import REFERENCE, Path, Problem

CATALOG = "slicewright's catalog, infra/catalog/*.toml"


@dataclass
class Findings:
    """The problems found so far."""

    unknown: frozenset[Path] = frozenset()
    """Places of the fleet that the file does not say rightly; an example or a default stands
    there.
    """
    problems: list[Problem] = field(default_factory=list)
    """All, with those that only follow from what is unknown."""
    _anyway: set[int] = field(default_factory=set)

    def refuse(
        self,
        path: Path,
        reason: str,
        instead: str,
        source: str = REFERENCE,
        *,
        in_key: bool = False,
        anyway: bool = False,
    ) -> None:
        """instead: what would be right; where that cannot be known, what is allowed. source: of a
        fact; else the rule is our own.

        anyway: true whatever an unknown part of it may be, such as a layout that is too large
        already.
        """
        if anyway:
            self._anyway.add(len(self.problems))
        self.problems.append(
            Problem(path=path, reason=reason, instead=instead, source=source, in_key=in_key)
        )

    def knows(self, *paths: Path) -> bool:
        """Whether the file says all of this rightly, so that something may follow from it."""
        return not any(_touch(path, known) for path in paths for known in self.unknown)

    def knows_all(self, pools: Sequence[object], key: str) -> bool:
        """Whether every pool of the fleet says this rightly."""
        return (
            self.knows(*(("node_pools", i, key) for i in range(len(pools))))
            and ("node_pools",) not in self.unknown
        )

    @property
    def told(self) -> tuple[Problem, ...]:
        """What people are told: not what is about a place that the file has wrong anyway."""
        return tuple(
            problem
            for i, problem in enumerate(self.problems)
            if not any(
                problem.path[: len(place)] == place
                if i in self._anyway
                else _touch(problem.path, place)
                for place in self.unknown
            )
        )


def _touch(one: Path, other: Path) -> bool:
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]


def nearest(found: str, known: Sequence[str]) -> str:
    """What was meant, or all that is known."""
    close = difflib.get_close_matches(found, known, n=1, cutoff=0.5)
    return f"did you mean {close[0]}?" if close else f"known: {listed(known)}"


def listed(items: Sequence[object]) -> str:
    return ", ".join(map(str, items))
