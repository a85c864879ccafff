"""The order of a pass's actions, and the actions that run side by side.

    nodes that must be held → nodes that are released → other nodes → pools → Events

Actions on one object are carried out one after the other. Those on different objects run at the
same time, a few at once and not more than `Pace` allows a second. A pass ends after a while even if
something is left: the next one decides again with the latest facts, so that a node that must be
held does not wait for thousands that are released.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from slicewright.apis.names import SETTLED
from slicewright.fleet_controller.decision.actions import (
    Action,
    AddStartupTaint,
    EmitEvent,
    EndUndo,
    RemoveStartupTaint,
    RetractEvent,
    SetPoolStatus,
)
from slicewright.fleet_controller.membership.release import RemoveFinalizer

WORKERS: Final = 16
"""Number of workers. With 50 ms a request, they make as many requests as `PER_SECOND` allows. By
default an API server works on 600 requests at a time. Source: kube-apiserver,
--max-requests-inflight and --max-mutating-requests-inflight.
"""
PER_SECOND: Final = 250.0
"""Requests a second. 2,000 nodes that join take three each and their pools some hundreds, which is
half a minute at this pace. Twice the pace would shorten that by a quarter of a minute, and leave
others less of the API server.
"""
SLICE_S: Final = 2.0
"""Length of a pass whose decision took no time to speak of."""
LONGEST_SLICE_S: Final = 5.0


class Pace:
    """A token bucket: `per_second` on average, at most as many at once. Thread-safe."""

    def __init__(
        self, per_second: float = PER_SECOND, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_second = per_second
        self._clock = clock
        self._lock = threading.Lock()
        self._tokens = per_second
        self._at = clock()

    def take(self) -> float:
        """Takes a token. Returns the seconds to wait before it may be used."""
        with self._lock:
            now = self._clock()
            gained = (now - self._at) * self._per_second
            self._tokens = min(self._per_second, self._tokens + gained) - 1
            self._at = now
            return max(0.0, -self._tokens / self._per_second)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    failed: dict[str, str]
    """`subject` -> why."""
    postponed: int
    """Number of actions that were not begun, without an earlier failure."""


class Lanes:
    """Carries out the actions of passes.

    do: carries out one action, and returns why it failed, or None.
    go_on: returns whether another action may begin.
    wait: waits for a number of seconds.
    """

    def __init__(
        self,
        do: Callable[[Action], str | None],
        *,
        go_on: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], object] = time.sleep,
    ) -> None:
        self._do = do
        self._go_on = go_on
        self._pace = Pace(clock=clock)
        self._clock = clock
        self._wait = wait
        self._workers = ThreadPoolExecutor(WORKERS, thread_name_prefix="lane")

    def close(self) -> None:
        self._workers.shutdown()

    def carry_out(self, actions: Sequence[Action], *, slice_s: float = SLICE_S) -> Outcome:
        """Carries out actions. slice_s: seconds after which no further action begins."""
        end = self._clock() + slice_s
        failed: dict[str, str] = {}
        postponed = 0
        for stage in _stages(actions):
            lanes = deque(
                sorted(
                    _lanes(a for a in stage if not (postponed and _says_settled(a))), key=_can_wait
                )
            )
            if len(lanes) <= 1:
                outcomes = [self._work(lanes, end)]
            else:
                # Not one task per lane: if there are thousands, most wait for the next pass.
                count = min(WORKERS, len(lanes))
                workers = [self._workers.submit(self._work, lanes, end) for _ in range(count)]
                outcomes = [worker.result() for worker in workers]
            for outcome in outcomes:
                failed |= outcome.failed
                postponed += outcome.postponed
        return Outcome(failed=failed, postponed=postponed)

    def _work(self, lanes: deque[list[Action]], end: float) -> Outcome:
        """Runs one worker, which takes lanes until there are no more."""
        failed: dict[str, str] = {}
        postponed = 0
        while True:
            try:
                lane = lanes.popleft()
            except IndexError:
                return Outcome(failed=failed, postponed=postponed)
            outcome = self._lane(lane, end)
            failed |= outcome.failed
            postponed += outcome.postponed

    def _lane(self, actions: Sequence[Action], end: float) -> Outcome:
        failed: dict[str, str] = {}
        # The actions on pools are few, and report the work so far.
        limited = not isinstance(
            actions[0], AddStartupTaint | SetPoolStatus | EndUndo | RemoveFinalizer
        )
        for place, action in enumerate(actions):
            about = action.subject
            if about in failed:
                continue
            if not self._go_on() or (limited and self._clock() >= end):
                return Outcome(failed=failed, postponed=len(actions) - place)
            if pause := self._pace.take():
                self._wait(pause)
                # The signal that stops them all may have come meanwhile.
                if not self._go_on():
                    return Outcome(failed=failed, postponed=len(actions) - place)
            if error := self._do(action):
                failed[about] = error
        return Outcome(failed=failed, postponed=0)


def _stages(actions: Iterable[Action]) -> list[list[Action]]:
    stages: list[list[Action]] = [[], [], [], []]
    for action in actions:
        stages[_stage(action)].append(action)
    return stages


def _stage(action: Action) -> int:
    match action:
        case AddStartupTaint():
            return 0
        case SetPoolStatus() | EndUndo() | RemoveFinalizer():
            return 2
        case EmitEvent() | RetractEvent():
            return 3
        case _:
            return 1


def _lanes(actions: Iterable[Action]) -> list[list[Action]]:
    """Groups actions by the object that must see them in order: evictions belong to the node."""
    lanes: dict[str, list[Action]] = {}
    for action in actions:
        lanes.setdefault(action.lane, []).append(action)
    return list(lanes.values())


def _can_wait(lane: Sequence[Action]) -> bool:
    """True if nothing waits for the lane. Pods wait for a node that is released, while the message
    that a node is not verified yet can come later.
    """
    return not any(isinstance(action, RemoveStartupTaint) for action in lane)


def _says_settled(action: Action) -> bool:
    """True if a waiting `pulumi up` would return, though nodes of the pool may not be released."""
    return isinstance(action, SetPoolStatus) and any(
        condition["type"] == SETTLED and condition["status"] == "True"
        for condition in action.status.get("conditions", ())
    )
