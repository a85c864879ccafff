"""From one layout to another on the same GPU: what can stay, what goes, what comes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from infra.catalog import Gpu
from infra.geometry.fitting import Fit, check
from infra.geometry.table import Layout, LayoutError, Placement, Table, table_of


@dataclass(frozen=True, kw_only=True)
class Change:
    """`keep` stays untouched; `destroy`, then `create` in that order and at those places.

    Only for who creates instances with a placement: mig-parted and GKE destroy all first.
    """

    keep: tuple[Placement, ...]
    destroy: tuple[Placement, ...]
    create: tuple[Placement, ...]


def change(gpu: Gpu, placed: Iterable[Placement], target: Layout) -> Change:
    """The change that keeps the most instances; of equals the one that keeps the most compute and memory, then moves the least.

    Raises LayoutError where `placed` cannot be, or `target` does not fit.
    """
    table = table_of(gpu)
    there = table.set_of(placed)
    match check(gpu, target):
        case Fit():
            wanted = table.pack(target)
            assert wanted is not None
        case misfit:
            raise LayoutError(f"the new layout does not fit on {gpu.name}: {misfit.reason}")
    best = max(table.realisations[wanted], key=lambda places: _worth(table, places & there, places))
    return Change(
        keep=table.placed(best & there),
        destroy=table.placed(there & ~best),
        create=table.placed(best & ~there),
    )


def _worth(table: Table, kept: int, places: int) -> tuple[int, int, int, int]:
    count = kept.bit_count()
    if not count:
        return 0, 0, 0, -places
    kinds = [table.gpu.profiles[p.profile].kind for p in table.placed(kept)]
    return count, sum(k.compute for k in kinds), sum(k.size for k in kinds), -places
