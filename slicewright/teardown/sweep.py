"""Deletes a cluster's leftovers in the cloud, in order, until none is left or time is over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from slicewright.doctor.findings import NotAnswered
from slicewright.teardown.account import Account, Held, Refused
from slicewright.teardown.leftovers import PROOFS, THERE, Leftover, in_order
from slicewright.teardown.life import Key, Life, key_of
from slicewright.teardown.permission import Permission

FIRST_WAIT_S: Final = 2.0
LONGEST_WAIT_S: Final = 30.0
_SETTLED: Final = 2
"""The number of consecutive looks without a finding that prove that nothing is left.

The lists of both clouds lag behind, and the last log lines of a control plane recreate its log
group.
"""


@dataclass(frozen=True, kw_only=True)
class Swept:
    deleted: Sequence[Leftover]
    left: Sequence[Leftover]
    """Leftovers, with the reason in `held`."""
    not_asked: Sequence[NotAnswered]

    @property
    def clean(self) -> bool:
        return not (self.left or self.not_asked)


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

    def once(self, life: Life) -> Swept:
        """Looks once, and tries once to delete each of the cluster's leftovers. Raises CannotAsk.

        An existing cluster still uses them, so nothing is deleted then.
        """
        there = self.account.cluster_is_there()
        found = self.account.look(life)
        listed = [self._remembered(one) for one in found.left]
        if there is not False:
            unknown = [there] if isinstance(there, NotAnswered) else []
            left = [self._waiting(one) for one in listed]
            return self._swept(left, [*unknown, *found.not_asked])
        left = []
        for one in in_order(listed):
            known_by_it = PROOFS.get(one.kind, frozenset())
            if self.permission.why_kept(one):
                known_by_it = frozenset()
            waits_for = any(o.kind in known_by_it and self._may_go(o) for o in left)
            if known_by_it and (found.not_asked or waits_for):
                left.append(replace(one, held="deleted last: the rest is known by it"))
                continue
            after = self._handled(one)
            if after is not None:
                left.append(after)
        return self._swept(left, found.not_asked)

    def until_clean(
        self,
        life: Life,
        *,
        wait_s: float,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> Swept:
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
            waits = moved or swept.clean or any(self._may_go(one) for one in swept.left)
            if not waits or clock() >= deadline:
                return swept
            pause_s = FIRST_WAIT_S if moved else min(2 * pause_s, LONGEST_WAIT_S)
            sleep(min(pause_s, max(0.0, deadline - clock())))

    def _handled(self, one: Leftover) -> Leftover | None:
        """Returns the leftover with the reason why it is still there. None: it has been deleted."""
        if kept := self.permission.why_kept(one):
            return replace(one, held=kept)
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

    def has_more_to_do(self, swept: Swept) -> bool:
        """True if a later sweep may delete more of this life, or cannot know yet."""
        more = any(one.proof and not self.permission.why_kept(one) for one in swept.left)
        return more or bool(swept.not_asked)

    def _may_go(self, one: Leftover) -> bool:
        """True if a later look may find it changed."""
        return not self.permission.why_kept(one) and not one.held.startswith(_REFUSED)

    def _waiting(self, one: Leftover) -> Leftover:
        """Marks a leftover as waiting while its cluster exists, or may exist."""
        return replace(one, held=self.permission.why_kept(one) or THERE)

    def _remembered(self, one: Leftover) -> Leftover:
        if one.proof:
            self._proofs[key_of(one)] = one.proof
        return replace(one, proof=self._proofs.get(key_of(one), ""))

    def _swept(self, left: Sequence[Leftover], not_asked: Sequence[NotAnswered]) -> Swept:
        return Swept(deleted=tuple(self._deleted.values()), left=left, not_asked=not_asked)


_REFUSED: Final = "refused: "
