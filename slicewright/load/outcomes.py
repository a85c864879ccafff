"""The lines that the load engine's process writes: one per request, one per second, a last one."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """One request that was answered or failed. All times are in seconds, from the same clock."""

    target: int
    began_s: float
    ended_s: float
    failure: str | None = None
    """The reason of the failure. None: the request was answered."""
    tokens: int | None = None
    first_token_s: float | None = None
    """The time to the first token. None: the answer was not a stream, or had no text."""
    inter_token_s: float | None = None
    longest_gap_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class Progress:
    """The progress, written once a second."""

    under_way: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Ended:
    """The last line."""

    not_sent: int
    interrupted: bool


Line = Outcome | Progress | Ended
_KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in (Outcome, Progress, Ended)}


def encode(line: Line) -> str:
    return json.dumps({"kind": type(line).__name__, **asdict(line)}) + "\n"


def decode(text: str) -> Line | None:
    """Returns None for an incomplete line: the process was killed while it wrote."""
    try:
        fields = json.loads(text)
        line: Line = _KINDS[fields.pop("kind")](**fields)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return line
