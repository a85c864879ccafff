"""The pace for writing a pool's status when only its counts have changed.

While nodes join, every released node changes the counts of its pool and with them its status: that
would be one request per node. Other changes of a status, for example of a condition, are written at
once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from slicewright.fleet_controller.decision.actions import Action, SetPoolStatus
from slicewright.fleet_controller.objects.pool import Pool

COUNTED_EVERY_S: Final = 1.0
"""Least time between two such writes for one pool."""
COUNTED_A_SECOND: Final = 10.0
"""Upper limit of such writes a second for all pools together. 2,000 nodes in 100 pools that join
within a minute take 600 of them, a third of a request per node.
"""


@dataclass(frozen=True, kw_only=True)
class PacedActions:
    now: tuple[Action, ...]
    put_off_s: float | None
    """Seconds until a status that is left out is due, or None."""


@dataclass
class StatusPace:
    """Kept in memory only: a controller that is restarted writes a status once more often."""

    clock: Callable[[], float] = time.monotonic
    _written: dict[str, float] = field(default_factory=dict)
    """Pool -> when its status was written last."""

    def select_due(self, actions: Sequence[Action], pools: Mapping[str, Pool]) -> PacedActions:
        """Returns the actions of a pass without the status writes that can wait.

        pools: by name, as when the pass was decided.
        """
        now = self.clock()
        self._written = {name: at for name, at in self._written.items() if name in pools}
        counting = {
            action.pool
            for action in actions
            if isinstance(action, SetPoolStatus) and only_counts(pools[action.pool].status, action)
        }
        every = max(COUNTED_EVERY_S, len(counting) / COUNTED_A_SECOND)
        due = {name: self._written.get(name, now - every) + every for name in counting}
        later = {name: at for name, at in due.items() if at > now}
        for action in actions:
            if isinstance(action, SetPoolStatus) and action.pool not in later:
                self._written[action.pool] = now
        return PacedActions(
            now=tuple(
                action
                for action in actions
                if not (isinstance(action, SetPoolStatus) and action.pool in later)
            ),
            put_off_s=min(later.values()) - now if later else None,
        )


def only_counts(old: Mapping[str, Any], new: SetPoolStatus) -> bool:
    """True if only counts, names and messages of a status have changed."""
    return _without_counts(old) == _without_counts(new.status)


def _without_counts(status: Mapping[str, Any]) -> object:
    return (
        status.get("observedGeneration"),
        status.get("waitingSince"),
        [
            (condition["type"], condition["status"], condition["reason"])
            for condition in status.get("conditions") or ()
        ],
    )
