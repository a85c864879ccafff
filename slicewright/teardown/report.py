"""The findings and actions of `slicewright destroy`, and their text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from slicewright.teardown.inventory import Inventory
from slicewright.teardown.sweep.leftovers import CLUSTER_EXISTS, Leftover

_VERSION: Final = 1
_MOST_NAMES = 12
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
    leftovers: Sequence[Leftover] = ()
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
        return not (self.state or self.leftovers or self.unknown or self.notes)


def as_json(report: Report) -> dict[str, Any]:
    """Returns the JSON of `slicewright destroy --json`. Its keys are part of the interface."""
    fields = asdict(report)
    fields["left"] = fields.pop("leftovers")
    if fields["inventory"] is not None:
        fields["inventory"]["others"] = fields["inventory"].pop("other_pods")
    return {"version": _VERSION, **fields}


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
        yield f"  contents of the cluster: unknown: {report.inventory_unknown}"
    yield from _titled_lines("  still in the cluster after the time limit", report.stuck)
    yield from _titled_lines(
        "  leftovers deleted in the cloud", [_named(leftover) for leftover in report.deleted]
    )
    yield from _leftover_lines(report.leftovers)
    for problem in report.unknown:
        yield f"  could not be checked: {problem}"
    for note in report.notes:
        yield f"  {note}"
    for obstacle in report.obstacles:
        yield f"  blocked: {obstacle}"
    if report.clean:
        yield "  nothing is left"


def _leftover_lines(leftovers: Sequence[Leftover]) -> Iterator[str]:
    """Reports leftovers that only wait for the end of the cluster by kind, since they are many."""
    waiting = Counter(leftover.kind for leftover in leftovers if leftover.held == CLUSTER_EXISTS)
    for kind in sorted(waiting):
        names = [
            f"{o.id}: {o.proof or o.mark}"
            for o in leftovers
            if o.held == CLUSTER_EXISTS and o.kind == kind
        ]
        limit = len(names) if kind in ("disk", "snapshot") else _MOST_NAMES
        title = f"  deleted once the cluster is gone (kind {kind})"
        yield from _titled_lines(title, names, limit=limit)
    for leftover in leftovers:
        if leftover.held == CLUSTER_EXISTS:
            continue
        yield f"  left: {_named(leftover)}"
        yield f"    identified by: {leftover.proof or leftover.mark or 'nothing'}"
        if leftover.created:
            yield f"    created: {leftover.created}"
        if leftover.held:
            yield f"    {leftover.held}"


def _inventory(inventory: Inventory) -> Iterator[str]:
    yield from _titled_lines("  pods with GPUs on its nodes", inventory.gpu_pods)
    if inventory.other_pods:
        namespaces = [f"{count} in {name}" for name, count in sorted(inventory.other_pods.items())]
        yield from _titled_lines("  pods of others, by namespace", namespaces)
    yield from _titled_lines("  objects of others that would be deleted, too", inventory.foreign)
    yield from _titled_lines("  load balancers, created for", inventory.balancers)
    yield from _titled_lines("  claims that are deleted with their data", inventory.claims)
    yield from _titled_lines("  machines that Karpenter ends", inventory.machines)
    volumes = [
        " ".join(filter(None, (v.name, v.size, v.claim, v.handle))) for v in inventory.retained
    ]
    yield from _titled_lines(
        "  volumes whose disks are retained (policy Retain)", volumes, limit=len(volumes)
    )
    copies = [f"{name} {handle}" for name, handle in inventory.retained_snapshots.items()]
    yield from _titled_lines(
        "  snapshots that are retained (policy Retain)", copies, limit=len(copies)
    )
    yield from _titled_lines("  disruption budgets that allow no eviction", inventory.budgets)


def _titled_lines(title: str, names: Sequence[str], *, limit: int = _MOST_NAMES) -> Iterator[str]:
    """limit: the number of names shown. For kinds that hold data, all names are shown."""
    if names:
        yield f"{title}: {len(names)}"
        yield from (f"    {name}" for name in names[:limit])
        if len(names) > limit:
            yield f"    and {len(names) - limit} more"


def _named(leftover: Leftover) -> str:
    return f"{leftover.kind} {leftover.id}"
