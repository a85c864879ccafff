"""What is wrong, as it is found; all of it is shown at once."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field

from infra.spec import Path, Problem


@dataclass
class Findings:
    """The problems found so far."""

    problems: list[Problem] = field(default_factory=list)

    def refuse(self, path: Path, reason: str, instead: str = "", source: str = "", *, in_key: bool = False) -> None:
        self.problems.append(Problem(path=path, reason=reason, instead=instead, source=source, in_key=in_key))


def nearest(found: str, known: Sequence[str]) -> str:
    """What was meant, or all that is known."""
    close = difflib.get_close_matches(found, known, n=1, cutoff=0.5)
    return f"did you mean {close[0]}?" if close else f"known: {listed(known)}"


def listed(items: Sequence[object]) -> str:
    return ", ".join(map(str, items))
