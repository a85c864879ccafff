"""The findings and actions of `slicewright destroy`, and their text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from slicewright.teardown.inventory import Inventory
from slicewright.teardown.leftovers import THERE, Leftover

_SHOWN = 12
"""The number of names shown per kind. More names are only counted."""


@dataclass(frozen=True, kw_only=True)
class Report:
    stack: str
    cluster: str
    dry_run: bool
    state: Mapping[str, int] = field(default_factory=dict)
    """Type -> number of resources in Pulumi's state."""
    inventory: Inventory | None = None
    inventory_unknown: str = ""
    """The reason why the cluster's contents are unknown."""
    obstacles: Sequence[str] = ()
    """Decisions that are required first, with instructions."""
    stuck: Sequence[str] = ()
    """Objects that did not leave the cluster in time."""
    deleted: Sequence[Leftover] = ()
    """Resources that the sweep deleted."""
    left: Sequence[Leftover] = ()
    unknown: Sequence[str] = ()
    """Questions that the account did not answer."""
    notes: Sequence[str] = ()
    """Other leftovers, and failures."""

    @property
    def resources(self) -> int:
        return sum(self.state.values())

    @property
    def clean(self) -> bool:
        """True if nothing is left, as far as can be known, and every question was answered."""
        return not (self.state or self.left or self.unknown or self.notes)


def lines_of(report: Report) -> Iterator[str]:
    yield f"stack {report.stack}, cluster {report.cluster}"
    if report.state:
        yield f"  resources in Pulumi's state: {report.resources}"
        if report.dry_run:
            for kind, count in sorted(report.state.items()):
                yield f"    {count} {kind}"
    else:
        yield "  resources in Pulumi's state: none"
    if report.inventory is not None:
        yield from _inventory(report.inventory)
    if report.inventory_unknown:
        yield f"  in the cluster: not known: {report.inventory_unknown}"
    yield from _some("  did not leave the cluster in time", report.stuck)
    yield from _some("  deleted of what the cloud left", [_named(one) for one in report.deleted])
    yield from _left(report.left)
    for problem in report.unknown:
        yield f"  could not be asked: {problem}"
    for note in report.notes:
        yield f"  {note}"
    for obstacle in report.obstacles:
        yield f"  in the way: {obstacle}"
    if report.clean:
        yield "  nothing is left"


def _left(left: Sequence[Leftover]) -> Iterator[str]:
    """Reports leftovers that only wait for the end of the cluster by kind, since they are many."""
    waiting = Counter(one.kind for one in left if one.held == THERE)
    for kind in sorted(waiting):
        names = [f"{o.id}: {o.proof or o.mark}" for o in left if o.held == THERE and o.kind == kind]
        limit = len(names) if kind in ("disk", "snapshot") else _SHOWN
        title = f"  deleted once the cluster is gone, of the kind {kind}"
        yield from _some(title, names, limit=limit)
    for one in left:
        if one.held == THERE:
            continue
        yield f"  left: {_named(one)}"
        yield f"    known by: {one.proof or one.mark or 'nothing'}"
        if one.created:
            yield f"    created: {one.created}"
        if one.held:
            yield f"    {one.held}"


def _inventory(inventory: Inventory) -> Iterator[str]:
    yield from _some("  pods with GPUs on its nodes", inventory.gpu_pods)
    if inventory.others:
        others = [f"{count} in {name}" for name, count in sorted(inventory.others.items())]
        yield from _some("  namespaces with pods that are not the stack's", others)
    yield from _some("  not the stack's, and would go with it", inventory.foreign)
    yield from _some("  load balancers, made for", inventory.balancers)
    yield from _some("  claims that are deleted with their data", inventory.claims)
    yield from _some("  machines that Karpenter ends", inventory.machines)
    kept = [" ".join(filter(None, (v.name, v.size, v.claim, v.handle))) for v in inventory.retained]
    yield from _some(
        "  volumes whose disks are to outlive them (policy Retain)", kept, limit=len(kept)
    )
    copies = [f"{name} {handle}" for name, handle in inventory.retained_snapshots.items()]
    yield from _some(
        "  snapshots that are to outlive their volumes (policy Retain)", copies, limit=len(copies)
    )
    yield from _some("  disruption budgets that let no pod leave", inventory.budgets)


def _some(what: str, names: Sequence[str], *, limit: int = _SHOWN) -> Iterator[str]:
    """limit: the number of names shown. For kinds that hold data, all names are shown."""
    if names:
        yield f"{what}: {len(names)}"
        yield from (f"    {name}" for name in names[:limit])
        if len(names) > limit:
            yield f"    and {len(names) - limit} more"


def _named(one: Leftover) -> str:
    return f"{one.kind} {one.id}"
