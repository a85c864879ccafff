"""The cards that an engine's device plugin has registered, read from its annotation of the Node.

HAMi writes JSON. Volcano's plugin writes `UUID,SPLIT,MIB,TYPE,HEALTHY,MODE` for each card, with a
colon after each. The scheduler drops a node without the sixth field.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from slicewright.apis.shares.engines import EngineName

_LONGEST: Final = 256 * 1024
"""All annotations of an object together are no longer."""
_MOST_CARDS: Final = 64
_FIELDS: Final = 6
BY_LIBRARY: Final = "hami-core"
"""HAMi-core limits the containers of such a card. The mode `mig` would repartition the GPU."""


class UnreadableRegistration(ValueError):
    """The annotation does not have the engine's format."""


@dataclass(frozen=True, kw_only=True)
class RegisteredCard:
    uuid: str
    slots: int
    """Most containers on the card."""
    memory_units: int
    """Memory in MiB, or in the engine's larger unit."""
    compute_percent: int
    healthy: bool
    mode: str


def read_registration(engine: EngineName, text: str) -> tuple[RegisteredCard, ...]:
    """Raises UnreadableRegistration."""
    if len(text) > _LONGEST:
        raise UnreadableRegistration("it is too long")
    cards = _hami_cards(text) if engine == "hami" else _volcano_cards(text)
    if len(cards) > _MOST_CARDS:
        raise UnreadableRegistration(f"it has {len(cards)} cards")
    return cards


def _hami_cards(text: str) -> tuple[RegisteredCard, ...]:
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError):
        raise UnreadableRegistration("it is not JSON") from None
    if not isinstance(entries, list):
        raise UnreadableRegistration("it is not a list of cards")
    return tuple(_hami_card(entry) for entry in entries)


def _hami_card(entry: Any) -> RegisteredCard:
    """HAMi leaves out fields that are zero or false."""
    if not isinstance(entry, dict) or not isinstance(entry.get("id"), str):
        raise UnreadableRegistration("a card has no id")
    return RegisteredCard(
        uuid=entry["id"],
        slots=_whole(entry.get("count", 0)),
        memory_units=_whole(entry.get("devmem", 0)),
        compute_percent=_whole(entry.get("devcore", 0)),
        healthy=entry.get("health", False) is True,
        mode=str(entry.get("mode") or BY_LIBRARY),
    )


def _volcano_cards(text: str) -> tuple[RegisteredCard, ...]:
    return tuple(_volcano_card(entry) for entry in text.split(":") if entry)


def _volcano_card(entry: str) -> RegisteredCard:
    fields = entry.split(",")
    if len(fields) != _FIELDS:
        raise UnreadableRegistration(
            f"a card has {len(fields)} fields instead of {_FIELDS}, so the scheduler ignores the "
            "node"
        )
    uuid, slots, memory, _, healthy, mode = fields
    return RegisteredCard(
        uuid=uuid,
        slots=_digits(slots),
        memory_units=_digits(memory),
        compute_percent=100,
        healthy=healthy == "true",
        mode=mode,
    )


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise UnreadableRegistration("a card has an amount that is not a whole number")
    return value


def _digits(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 12:
        raise UnreadableRegistration("a card has an amount that is not a whole number")
    return int(text)
