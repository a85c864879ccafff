"""When a pod whose eviction was refused is asked again.

The API server answers 429 without Retry-After where a disruption budget has none left. Kept in this
process only: a controller that is restarted asks once too often.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fleet_controller.drain import Refusal, refusal_of
from kubeapi import ApiError

_FIRST_S = 5.0
_LONGEST_S = 60.0


class Refusals:
    def __init__(self) -> None:
        self._known: dict[str, tuple[float, Refusal]] = {}

    def all(self) -> Mapping[str, Refusal]:
        """By the pod's uid."""
        return {uid: refusal for uid, (_, refusal) in self._known.items()}

    def add(self, uid: str, error: ApiError, now: float) -> None:
        """now: seconds since the epoch."""
        before = self._known[uid][0] if uid in self._known else 0.0
        pause = max(min(_LONGEST_S, 2 * before or _FIRST_S), error.retry_after_s or 0.0)
        why = refusal_of(error.body, error.message)
        self._known[uid] = (min(pause, _LONGEST_S), Refusal(why=why, retry_at=now + pause))

    def keep(self, uids: Iterable[str]) -> None:
        """Forgets all other pods."""
        there = set(uids)
        self._known = {uid: one for uid, one in self._known.items() if uid in there}
