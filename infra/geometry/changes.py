"""The change from one layout of a GPU to another: instances to keep, destroy and create."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from slicewright.infra.catalog import Gpu
from slicewright.infra.geometry.fitting import Fit, check
from slicewright.infra.geometry.table import Layout, LayoutError, Placement, table_of


@dataclass(frozen=True, kw_only=True)
class Change:
    """A plan: first destroy, then create, in this order and at these placements.

    It does not apply to mig-parted and GKE, which destroy all instances first.
    """

    keep: tuple[Placement, ...]
    destroy: tuple[Placement, ...]
    create: tuple[Placement, ...]


def change(gpu: Gpu, placed: Iterable[Placement], target: Layout) -> Change:
    """The change that keeps the most instances, then the most compute and memory slices.

    Raises LayoutError if `placed` is impossible or `target` does not fit.
    """
    table = table_of(gpu)
    existing, weights = table.set_of(placed), table.states.weights
    match check(gpu, target):
        case Fit():
            packed = table.pack(target)
        case misfit:
            raise LayoutError(f"the new layout does not fit on {gpu.name}: {misfit.reason}")
    sets = table.states.realizations[packed]
    preserved = [weights[placements & existing] for placements in sets]
    best = sets[preserved.index(max(preserved))]
    return Change(
        keep=table.placed(best & existing),
        destroy=table.placed(existing & ~best),
        create=table.placed(best & ~existing),
    )
