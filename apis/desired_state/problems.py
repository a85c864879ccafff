"""Problems of a desired state as one message."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

_MOST_PROBLEMS: Final = 20


_LONGEST_PROBLEM: Final = 300


def describe_problems(source: str, problems: Sequence[str]) -> str:
    lines = [f"  {_plain(problem)}" for problem in problems[:_MOST_PROBLEMS]]
    if (more := len(problems) - _MOST_PROBLEMS) > 0:
        lines.append(f"  and {more} more")
    count = f"{len(problems)} problem{'s' if len(problems) != 1 else ''}"
    return "\n".join([f"{source}: {count}", *lines])


def _plain(text: str) -> str:
    """Shortens the text and escapes characters that a terminal would obey.

    This module imports nothing of the project, so it cannot use `slicewright.telemetry.plain`.
    """
    shortened = text if len(text) <= _LONGEST_PROBLEM else f"{text[:_LONGEST_PROBLEM]}…"
    if shortened.isprintable():
        return shortened
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shortened)


def abbreviate(raw: Any) -> str:
    text = json.dumps(raw)
    return text if len(text) <= 40 else f"{text[:37]}..."
