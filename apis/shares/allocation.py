"""The shares that an engine's scheduler has given to a pod, read from its annotation of the Pod.

Both engines write `UUID,TYPE,MIB,PERCENT:` for each card of a container, and `;` after each
container.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from slicewright.apis.shares.engines import ENGINES, EngineName

_LONGEST: Final = 256 * 1024
_FIELDS: Final = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class CardShare:
    """A container's part of one card."""

    uuid: str
    memory_units: int
    """Memory in MiB, or in the engine's larger unit."""
    compute_percent: int


def read_allocation(text: str) -> tuple[CardShare, ...]:
    """The shares of all containers. Raises ValueError if the text has another format."""
    if len(text) > _LONGEST:
        raise ValueError("the allocation is too long")
    entries = [
        entry for container in text.split(";") for entry in container.split(":") if entry.strip()
    ]
    return tuple(map(_read_share, entries))


def _read_share(entry: str) -> CardShare:
    fields = [field.strip() for field in entry.split(",")]
    if len(fields) != _FIELDS or not fields[0]:
        raise ValueError("a share does not have four fields")
    uuid, _, memory, percent = fields
    return CardShare(uuid=uuid, memory_units=_amount(memory), compute_percent=_amount(percent))


def _amount(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 12:
        raise ValueError("an amount of a share is not a whole number")
    return int(text)


def engine_of(annotations: Mapping[str, str]) -> EngineName | None:
    """The engine that has allocated shares to a pod with these annotations."""
    return next((name for name, e in ENGINES.items() if e.allocation in annotations), None)
