"""The requests that people make of a pool's rollout, by its annotation. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SUSPENDED: Final = ("paused", "aborted")
UNDO: Final = "undo:"
"""In the annotation before the layout whose change is undone."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What people ask of a pool's rollout, by annotation."""

    suspended: str = ""
    """`paused` or `aborted`; empty: neither."""
    undoes: str = ""
    """The layout, the change to which is to be undone; empty: none."""

    def dump(self) -> str:
        """The annotation's value: `paused`, `undo:all-balanced`, `undo:all-balanced,paused`; empty
        for no annotation.
        """
        parts = (f"{UNDO}{self.undoes}" if self.undoes else "", self.suspended)
        return ",".join(part for part in parts if part)


def read_asked(text: str) -> Asked | None:
    """None for what means nothing."""
    first, _, rest = text.partition(",")
    undoes = first.removeprefix(UNDO) if first.startswith(UNDO) else ""
    found = Asked(suspended=rest if undoes else first, undoes=undoes)
    known = found.suspended in ("", *SUSPENDED) and found.dump() == text
    return found if known else None
