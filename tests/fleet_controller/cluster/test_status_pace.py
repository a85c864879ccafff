"""Counts of a pool are written at a pace, everything else of its status at once."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slicewright.fleet_controller.cluster.status_pace import (
    COUNTED_A_SECOND,
    COUNTED_EVERY_S,
    PacedActions,
    StatusPace,
    only_counts,
)
from slicewright.fleet_controller.decision.actions import Action, RecordBoot, SetPoolStatus
from slicewright.fleet_controller.objects.pool import Pool
from tests.fleet_controller.builders import build_pool
from tests.properties import examples

_NODE = RecordBoot(node="n", boot_id="b", layout=None)


def _status(verified: int, **facts: Any) -> dict[str, Any]:
    said = {"type": "Verified", "status": "False", "reason": "NodesNotProven"}
    return {
        "observedGeneration": 3,
        "waitingSince": "2026-11-23T10:00:00Z",
        "nodes": {"total": 20, "verified": verified},
        "conditions": [{**said, "message": f"{20 - verified} of 20 nodes not verified"}],
        **facts,
    }


@dataclass
class Time:
    now: float = 100.0
    pace: StatusPace = field(init=False)

    def __post_init__(self) -> None:
        self.pace = StatusPace(clock=lambda: self.now)

    def select_due(self, pools: dict[str, Pool], *actions: Action) -> PacedActions:
        return self.pace.select_due(actions, pools)


def _named(pool: Pool, count: int) -> dict[str, Pool]:
    return {f"p{i}": replace(pool, name=f"p{i}", status=_status(0)) for i in range(count)}


def test_what_counts_on_is_written_once_a_second(pool: Pool) -> None:
    time, pools, counted = Time(), _named(pool, 1), SetPoolStatus(pool="p0", status=_status(1))
    assert time.select_due(pools, _NODE, counted) == PacedActions(
        now=(_NODE, counted), put_off_s=None
    )
    time.now += 0.25
    assert time.select_due(pools, _NODE, counted) == PacedActions(
        now=(_NODE,), put_off_s=COUNTED_EVERY_S - 0.25
    )
    time.now += COUNTED_EVERY_S - 0.25
    assert time.select_due(pools, counted).now == (counted,)


@pytest.mark.parametrize(
    "more",
    [
        {"observedGeneration": 4},
        {"waitingSince": None},
        {"conditions": [{"type": "Verified", "status": "True", "reason": "NodesNotProven"}]},
        {"conditions": [{"type": "Verified", "status": "False", "reason": "NodesFailing"}]},
        {"conditions": []},
    ],
)
def test_what_says_more_is_written_at_once(more: dict[str, Any], pool: Pool) -> None:
    time, pools = Time(), _named(pool, 1)
    time.select_due(pools, SetPoolStatus(pool="p0", status=_status(1)))
    says = SetPoolStatus(pool="p0", status=_status(2, **more))
    assert not only_counts(pools["p0"].status, says)
    assert time.select_due(pools, says) == PacedActions(now=(says,), put_off_s=None)


def test_the_first_status_of_a_pool_is_no_mere_count(pool: Pool) -> None:
    assert not only_counts(pool.status, SetPoolStatus(pool="halves", status=_status(0)))


def test_a_pool_that_is_gone_is_forgotten(pool: Pool) -> None:
    time, pools, counted = Time(), _named(pool, 1), SetPoolStatus(pool="p0", status=_status(1))
    time.select_due(pools, counted)
    time.select_due({})
    assert time.select_due(pools, counted).now == (counted,), "another one of its name"


@settings(max_examples=examples(50), deadline=None)
@given(pools=st.integers(1, 60), steps=st.lists(st.floats(0.05, 3.0), min_size=1, max_size=40))
def test_no_more_than_so_many_a_second_and_each_pool_in_its_turn(
    pools: int, steps: list[float]
) -> None:
    """Whatever the times of the passes: all pools count on in each of them."""
    time = Time()
    one = build_pool(name="", uid="", generation=3, created=0.0, layout_hash="", mig_config=None)
    known = _named(one, pools)
    actions = [SetPoolStatus(pool=name, status=_status(1)) for name in known]
    written = {name: [time.now] for name in known}
    time.select_due(known, *actions)
    every = max(COUNTED_EVERY_S, pools / COUNTED_A_SECOND)
    for step in steps:
        time.now += step
        paced = time.select_due(known, *actions)
        for action in paced.now:
            assert isinstance(action, SetPoolStatus)
            written[action.pool].append(time.now)
        left = pools - len(paced.now)
        assert (paced.put_off_s is None) == (left == 0)
    for times in written.values():
        assert all(b - a >= every - 1e-9 for a, b in itertools.pairwise(times))
        assert time.now - times[-1] < every + 1e-9, "none is put off for longer"
