"""The change from one layout of a GPU to another: instances to keep, destroy and create."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from infra.catalog import Gpu
from infra.geometry.fitting import Fit, check
from infra.geometry.table import Layout, LayoutError, Placement, table_of


@dataclass(frozen=True, kw_only=True)
class Change:
    """First destroy, then create, in order and at these placements.

    Not for mig-parted and GKE, which destroy all instances first.
    """

    keep: tuple[Placement, ...]
    destroy: tuple[Placement, ...]
    create: tuple[Placement, ...]


def change(gpu: Gpu, placed: Iterable[Placement], target: Layout) -> Change:
    """The change that keeps the most instances, then the most compute and memory slices.

    Raises LayoutError if `placed` is impossible or `target` does not fit.
    """
    table = table_of(gpu)
    there, weights = table.set_of(placed), table.states.weights
    match check(gpu, target):
        case Fit():
            wanted = table.pack(target)
        case misfit:
            raise LayoutError(f"the new layout does not fit on {gpu.name}: {misfit.reason}")
    sets = table.states.realizations[wanted]
    kept = [weights[placements & there] for placements in sets]
    best = sets[kept.index(max(kept))]
    return Change(
        keep=table.placed(best & there),
        destroy=table.placed(there & ~best),
        create=table.placed(best & ~there),
    )
