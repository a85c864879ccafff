"""Deletes what a cloud has left of a cluster, in order, until nothing is left or time is over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from slicewright.doctor.findings import NotAnswered
from slicewright.teardown.account import Account, Held, Refused
from slicewright.teardown.leftovers import PROOFS, Leftover, in_order

FIRST_WAIT_S: Final = 2.0
LONGEST_WAIT_S: Final = 30.0
_SETTLED: Final = 2
"""Looks without a finding, one after the other, after which nothing is left: lists of both clouds
lag behind, and the last log lines of a control plane recreate its log group.
"""


@dataclass(frozen=True, kw_only=True)
class Swept:
    deleted: Sequence[Leftover]
    left: Sequence[Leftover]
    """With the reason in `held`."""
    not_asked: Sequence[NotAnswered]

    @property
    def clean(self) -> bool:
        return not (self.left or self.not_asked)


@dataclass
class Sweep:
    """Remembers across passes what was deleted; a new one may go on at any point.

    delete_disks: whether disks of the cluster and their snapshots go, too; else they are only
    reported.
    """

    account: Account
    delete_disks: bool
    dry_run: bool = False
    on_deleted: Callable[[Leftover], None] = lambda _: None
    _deleted: dict[tuple[str, str], Leftover] = field(default_factory=dict)
    _deletions: int = 0
    """Also of what came back."""

    def once(self, networks: frozenset[str]) -> Swept:
        """One look, and one attempt at each that belongs to the cluster. Raises CannotAsk.

        A cluster that is still there uses them: then nothing is deleted.
        """
        there = self.account.cluster_is_there()
        found = self.account.look(networks)
        if there is not False:
            unknown = [there] if isinstance(there, NotAnswered) else []
            left = [replace(one, held=one.held or "its cluster is there") for one in found.left]
            return self._swept(left, [*unknown, *found.not_asked])
        left = []
        for one in in_order(found.left):
            known_by_it = frozenset() if self._kept(one) else PROOFS.get(one.kind, frozenset())
            if known_by_it and (found.not_asked or any(o.kind in known_by_it for o in left)):
                left.append(replace(one, held="deleted last: the rest is known by it"))
                continue
            after = self._handled(one)
            if after is not None:
                left.append(after)
        return self._swept(left, found.not_asked)

    def until_clean(
        self,
        networks: frozenset[str],
        *,
        wait_s: float,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> Swept:
        """wait_s: for how long what is held is tried again. Raises CannotAsk."""
        deadline = clock() + wait_s
        pause_s, settled = FIRST_WAIT_S, 0
        while True:
            before = self._deletions
            swept = self.once(networks)
            moved = self._deletions > before
            settled = settled + 1 if swept.clean and not moved else 0
            if settled >= _SETTLED or self.dry_run:
                return swept
            waits = moved or swept.clean or any(self._may_go(one) for one in swept.left)
            if not waits or clock() >= deadline:
                return swept
            pause_s = FIRST_WAIT_S if moved else min(2 * pause_s, LONGEST_WAIT_S)
            sleep(min(pause_s, max(0.0, deadline - clock())))

    def _handled(self, one: Leftover) -> Leftover | None:
        """What is left of it; None: it has been deleted."""
        if not one.proof:
            return replace(one, held="not known to be this cluster's")
        if self._kept(one):
            return replace(one, held=KEPT)
        if self.dry_run:
            return one
        if one.kind == "network interface" and one.held:
            return one  # its load balancer or instance takes it along
        match self.account.delete(one):
            case None:
                self._deletions += 1
                if (one.kind, one.id) not in self._deleted:
                    self._deleted[one.kind, one.id] = one
                    self.on_deleted(one)
                return None
            case Held(why=why):
                return replace(one, held=why)
            case Refused(why=why):
                return replace(one, held=f"{_REFUSED}{why}")

    def _kept(self, one: Leftover) -> bool:
        return bool(one.proof) and one.kind in ("disk", "snapshot") and not self.delete_disks

    def _may_go(self, one: Leftover) -> bool:
        """Whether it may be different at a later look."""
        return bool(one.proof) and one.held != KEPT and not one.held.startswith(_REFUSED)

    def _swept(self, left: Sequence[Leftover], not_asked: Sequence[NotAnswered]) -> Swept:
        return Swept(deleted=tuple(self._deleted.values()), left=left, not_asked=not_asked)


KEPT: Final = "kept: it may be meant to outlive its cluster; --disks delete takes it"
_REFUSED: Final = "refused: "
