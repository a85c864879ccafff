"""Deletes a cluster's leftovers in the cloud, in order, until none is left or time is over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from slicewright.doctor.findings import NotAnswered
from slicewright.teardown.sweep.account import Account, DeletionPostponed, DeletionRefused
from slicewright.teardown.sweep.leftovers import CLUSTER_EXISTS, PROOFS, Leftover, in_order
from slicewright.teardown.sweep.life import Key, Life, key_of
from slicewright.teardown.sweep.permission import Permission

FIRST_WAIT_S: Final = 2.0
LONGEST_WAIT_S: Final = 30.0
_SETTLED: Final = 2
"""The number of consecutive looks without a finding that prove that nothing is left.

The lists of both clouds lag behind, and the last log lines of a control plane recreate its log
group.
"""


@dataclass(frozen=True, kw_only=True)
class SweepReport:
    deleted: Sequence[Leftover]
    leftovers: Sequence[Leftover]
    """Leftovers, with the reason in `held`."""
    not_asked: Sequence[NotAnswered]

    @property
    def clean(self) -> bool:
        return not (self.leftovers or self.not_asked)


@dataclass
class Sweep:
    """Remembers the deleted and the proven leftovers across passes.

    The proof of one resource may be another resource, which is deleted before it. A new sweep may
    continue at any point.
    """

    account: Account
    permission: Permission
    dry_run: bool = False
    on_deleted: Callable[[Leftover], None] = lambda _: None
    _deleted: dict[tuple[str, str], Leftover] = field(default_factory=dict)
    _proofs: dict[Key, str] = field(default_factory=dict)
    _deletions: int = 0
    """The number of deletions, including those of resources that came back."""

    def once(self, life: Life) -> SweepReport:
        """Looks once, and tries once to delete each of the cluster's leftovers. Raises CannotAsk.

        An existing cluster still uses them, so nothing is deleted then.
        """
        cluster_exists = self.account.cluster_exists()
        listing = self.account.look(life)
        listed = [self._remembered(leftover) for leftover in listing.leftovers]
        if cluster_exists is not False:
            unknown = [cluster_exists] if isinstance(cluster_exists, NotAnswered) else []
            leftovers = [self._waiting(leftover) for leftover in listed]
            return self._swept(leftovers, [*unknown, *listing.not_asked])
        leftovers = []
        for leftover in in_order(listed):
            known_by_it = PROOFS.get(leftover.kind, frozenset())
            if self.permission.why_kept(leftover):
                known_by_it = frozenset()
            waits_for = any(o.kind in known_by_it and self._may_go(o) for o in leftovers)
            if known_by_it and (listing.not_asked or waits_for):
                leftovers.append(replace(leftover, held="deleted last: it identifies the others"))
                continue
            after = self._handled(leftover)
            if after is not None:
                leftovers.append(after)
        return self._swept(leftovers, listing.not_asked)

    def until_clean(
        self,
        life: Life,
        *,
        wait_s: float,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> SweepReport:
        """wait_s: the limit for retries of held resources. Raises CannotAsk."""
        deadline = clock() + wait_s
        pause_s, settled = FIRST_WAIT_S, 0
        while True:
            before = self._deletions
            swept = self.once(life)
            moved = self._deletions > before
            settled = settled + 1 if swept.clean and not moved else 0
            if settled >= _SETTLED or self.dry_run:
                return swept
            waits = (
                moved or swept.clean or any(self._may_go(leftover) for leftover in swept.leftovers)
            )
            if not waits or clock() >= deadline:
                return swept
            pause_s = FIRST_WAIT_S if moved else min(2 * pause_s, LONGEST_WAIT_S)
            sleep(min(pause_s, max(0.0, deadline - clock())))

    def _handled(self, leftover: Leftover) -> Leftover | None:
        """Returns the leftover with the reason why it is still there. None: it has been deleted."""
        if reason := self.permission.why_kept(leftover):
            return replace(leftover, held=reason)
        if self.dry_run:
            return leftover
        if leftover.kind == "network interface" and leftover.held:
            return leftover  # its load balancer or instance takes it along
        match self.account.delete(leftover):
            case None:
                self._deletions += 1
                if (leftover.kind, leftover.id) not in self._deleted:
                    self._deleted[leftover.kind, leftover.id] = leftover
                    self.on_deleted(leftover)
                return None
            case DeletionPostponed(why=why):
                return replace(leftover, held=why)
            case DeletionRefused(why=why):
                return replace(leftover, held=f"{_REFUSED}{why}")

    def has_more_to_do(self, swept: SweepReport) -> bool:
        """True if a later sweep may delete more of this life, or cannot know yet."""
        more = any(
            leftover.proof and not self.permission.why_kept(leftover)
            for leftover in swept.leftovers
        )
        return more or bool(swept.not_asked)

    def _may_go(self, leftover: Leftover) -> bool:
        """True if a later look may find it changed."""
        return not self.permission.why_kept(leftover) and not leftover.held.startswith(_REFUSED)

    def _waiting(self, leftover: Leftover) -> Leftover:
        """Marks a leftover as waiting while its cluster exists, or may exist."""
        return replace(leftover, held=self.permission.why_kept(leftover) or CLUSTER_EXISTS)

    def _remembered(self, leftover: Leftover) -> Leftover:
        if leftover.proof:
            self._proofs[key_of(leftover)] = leftover.proof
        return replace(leftover, proof=self._proofs.get(key_of(leftover), ""))

    def _swept(
        self, leftovers: Sequence[Leftover], not_asked: Sequence[NotAnswered]
    ) -> SweepReport:
        return SweepReport(
            deleted=tuple(self._deleted.values()), leftovers=leftovers, not_asked=not_asked
        )


_REFUSED: Final = "refused: "
