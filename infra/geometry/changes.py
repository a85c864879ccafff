"""From one layout to another on the same GPU: what can stay, what goes, what comes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from infra.catalog import Gpu
from infra.geometry.fitting import Fit, check
from infra.geometry.table import Layout, LayoutError, Placement, table_of


@dataclass(frozen=True, kw_only=True)
class Change:
    """`keep` stays untouched; `destroy`, then `create` in that order and at those places.

    Only for who creates instances with a placement: mig-parted and GKE destroy all first.
    """

    keep: tuple[Placement, ...]
    destroy: tuple[Placement, ...]
    create: tuple[Placement, ...]


def change(gpu: Gpu, placed: Iterable[Placement], target: Layout) -> Change:
    """The change that keeps the most instances; of equals the one that keeps the most compute and
    memory, then that with the highest starts.

    Raises LayoutError where `placed` cannot be, or `target` does not fit.
    """
    table = table_of(gpu)
    there, worths = table.set_of(placed), table.states.worths
    match check(gpu, target):
        case Fit():
            wanted = table.pack(target)
            assert wanted is not None
        case misfit:
            raise LayoutError(f"the new layout does not fit on {gpu.name}: {misfit.reason}")
    sets = table.states.realisations[wanted]
    kept = [worths[places & there] for places in sets]
    best = sets[kept.index(max(kept))]
    return Change(
        keep=table.placed(best & there),
        destroy=table.placed(there & ~best),
        create=table.placed(best & ~there),
    )
