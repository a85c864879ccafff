"""The time when a refused eviction is tried again.

If a disruption budget has none left, the API server answers 429 without Retry-After, and nothing
tells when it has some again. So one of the pods that a budget holds is tried every few seconds.
They take turns, as there may be thousands. The state is kept in this process only: a restarted
controller tries once too often.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from slicewright.fleet_controller.rollout.drain import (
    Refusal,
    explain_refusal,
    is_refused_by_budget,
)
from slicewright.kubeapi import ApiError

_FIRST_S = 5.0
"""Delay before a pod that a budget has held is tried again. Also the first delay after a refusal
that no budget has made.
"""
_LONGEST_S = 60.0
"""Longest delay after a refusal that no budget has made: by a webhook, or for want of a right. A
server that asks for a longer rest gets it.
"""
_LONGEST_OF_A_BUDGET_S = 10.0
_PER_SECOND = 25.0
"""Upper limit of tries a second for pods that all budgets hold: a tenth of the controller's
requests (`lanes.PER_SECOND`). The first turns of a budget's pods come together after `_FIRST_S`.
"""
_BUDGET = re.compile(r"disruption budget (\S+) ")
"""The API server's words. Source: kubernetes/kubernetes, pkg/registry/core/pod/storage/eviction.go
(checkAndDecrement).
"""


@dataclass(frozen=True, kw_only=True)
class _Refused:
    why: str
    budget: str
    """Identifies the pods that wait for the same budget. Empty if no budget has refused it."""
    at: float
    pause_s: float
    """Delay before the next try, if its turn has come."""


class Refusals:
    """Evictions that were refused, by the pod's uid, with the oldest refusal first."""

    def __init__(self) -> None:
        self._refusals: dict[str, _Refused] = {}

    def all(self) -> Mapping[str, Refusal]:
        """Returns the refusals by the pod's uid."""
        by_budget: dict[str, list[tuple[str, _Refused]]] = {}
        refusals: dict[str, Refusal] = {}
        for uid, refused in self._refusals.items():
            if refused.budget:
                by_budget.setdefault(refused.budget, []).append((uid, refused))
            else:
                refusals[uid] = Refusal(why=refused.why, retry_at=refused.at + refused.pause_s)
        for held in by_budget.values():
            refusals |= _turns(held, _PER_SECOND / len(by_budget))
        return refusals

    def add(self, uid: str, error: ApiError, now: float) -> None:
        """Records a refusal. now: seconds since the epoch."""
        why = explain_refusal(error.body, error.message)
        budget = _budget_of(error, why)
        before = self._refusals.pop(uid, None)
        doubled = 2 * before.pause_s if before is not None and not before.budget else 0.0
        asked_for = error.retry_after_s or 0.0
        if budget:
            # The server is not busy: it has not counted the budget again since that has changed.
            asked_for = min(_LONGEST_OF_A_BUDGET_S, asked_for)
        pause_s = max(min(_LONGEST_S, doubled or _FIRST_S), asked_for)
        self._refusals[uid] = _Refused(why=why, budget=budget, at=now, pause_s=pause_s)

    def keep(self, uids: Iterable[str]) -> None:
        """Forgets all other pods."""
        kept_uids = set(uids)
        self._refusals = {
            uid: refused for uid, refused in self._refusals.items() if uid in kept_uids
        }


def _turns(
    held: Sequence[tuple[str, _Refused]], per_second: float
) -> Iterator[tuple[str, Refusal]]:
    """Yields when each of the pods that one budget holds is tried again.

    held: the oldest refusal first.
    per_second: most tries a second. One pod is tried in any case after `_FIRST_S`, to notice when
    the budget allows evictions again.
    """
    last = held[-1][1].at
    for place, (uid, refused) in enumerate(held):
        turn = last + (place / per_second if place else 0.0)
        yield uid, Refusal(why=refused.why, retry_at=max(refused.at + refused.pause_s, turn))


def _budget_of(error: ApiError, why: str) -> str:
    """Returns the budget's name, as far as the answer has it. Empty if no budget has refused."""
    if not is_refused_by_budget(error.body):
        return ""
    named = _BUDGET.search(why)
    return named[1] if named else why
