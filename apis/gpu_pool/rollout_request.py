"""User requests for a pool's rollout, made by an annotation. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SUSPENDED: Final = ("paused", "aborted")
UNDO: Final = "undo:"
"""Prefix of the layout whose change is undone, in the annotation."""


@dataclass(frozen=True, kw_only=True)
class RolloutRequest:
    """A user request for a pool's rollout, made by annotation."""

    suspended: str = ""
    """`paused` or `aborted`, or empty for neither."""
    undoes: str = ""
    """The layout whose rollout is to be undone, or empty for none."""

    def dump(self) -> str:
        """Returns the annotation's value: `paused`, `undo:all-balanced` or
        `undo:all-balanced,paused`. An empty value means no annotation.
        """
        parts = (f"{UNDO}{self.undoes}" if self.undoes else "", self.suspended)
        return ",".join(part for part in parts if part)


def read_rollout_request(text: str) -> RolloutRequest | None:
    """Parses the annotation. Returns None if the text means nothing."""
    first, _, rest = text.partition(",")
    undoes = first.removeprefix(UNDO) if first.startswith(UNDO) else ""
    request = RolloutRequest(suspended=rest if undoes else first, undoes=undoes)
    valid = request.suspended in ("", *SUSPENDED) and request.dump() == text
    return request if valid else None
