"""Placement of GPU instances when the rehearsal itself partitions a GPU; as in the C library."""

from __future__ import annotations

from collections.abc import Sequence

from slicewright.rehearsal.cluster.silicon.models import Model, Slice

Placed = tuple[Slice, int]
"""A profile and its first memory slot."""


class NoRoom(Exception):
    """The profiles do not fit on one GPU together, in any order."""


def place(model: Model, slices: Sequence[Slice]) -> tuple[Placed, ...]:
    """A valid placement of all `slices`: largest first, each at the highest slot that lets the
    others fit. Raises NoRoom.
    """
    order = sorted(slices, key=lambda s: (-s.size, -s.compute_slices))
    found = _search(model, order, ())
    if found is None:
        raise NoRoom(f"{', '.join(s.name for s in slices)} do not fit on one {model.name} together")
    return found


def tree_id(model: Model, slice_: Slice, start: int) -> int:
    """The GPU instance id: 0 for the whole GPU, 1 and 2 its halves (upper first), and so on."""
    parts = model.slots // slice_.size
    if parts < 2:
        return 0
    return parts - 1 + (1 - start // slice_.size if parts == 2 else start // slice_.size)


def _search(
    model: Model, rest: Sequence[Slice], placed: tuple[Placed, ...]
) -> tuple[Placed, ...] | None:
    if not rest:
        return placed
    for start in reversed(rest[0].starts):
        if _fits(model, rest[0], start, placed):
            found = _search(model, rest[1:], (*placed, (rest[0], start)))
            if found is not None:
                return found
    return None


def _fits(model: Model, slice_: Slice, start: int, placed: tuple[Placed, ...]) -> bool:
    whole = next(s for s in model.slices if s.id == 0)
    taken = {slot for other, at in placed for slot in range(at, at + other.size)}
    together = [slice_, *(other for other, _ in placed)]
    return (
        taken.isdisjoint(range(start, start + slice_.size))
        and sum(s.id == slice_.id for s in together) <= slice_.most
        and sum(s.compute_slices for s in together) <= whole.compute_slices
        and sum(s.decoders for s in together) <= whole.decoders
        and sum(s.encoders for s in together) <= whole.encoders
        and sum(s.jpegs for s in together) <= whole.jpegs
        and sum(s.ofas for s in together) <= whole.ofas
    )
