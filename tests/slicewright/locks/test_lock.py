"""What a lock says, and when it may go."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from slicewright.locks.lock import Holder, Lock, Unreadable, judge, lock_prefix, read_lock

WRITTEN = {
    "pid": 4711,
    "username": "ci",
    "hostname": "runner-7",
    "timestamp": "2026-01-02T03:04:05.123456789Z",
}
LOCK = Lock(
    key="k.json", pid=4711, user="ci", host="runner-7", since=datetime(2026, 1, 2, tzinfo=UTC)
)


@pytest.mark.parametrize(
    "timestamp", ["2026-01-02T03:04:05.123456789Z", "2026-01-02T04:04:05.1+01:00"]
)
def test_a_lock_as_go_writes_it_is_read(timestamp: str) -> None:
    lock = read_lock("k.json", json.dumps({**WRITTEN, "timestamp": timestamp}))
    assert (lock.pid, lock.user, lock.host) == (4711, "ci", "runner-7")
    assert lock.since.astimezone(UTC).replace(microsecond=0) == datetime(
        2026, 1, 2, 3, 4, 5, tzinfo=UTC
    )


@pytest.mark.parametrize(
    "change",
    [
        {"pid": 0},
        {"pid": "x"},
        {"pid": None},
        {"hostname": ""},
        {"timestamp": "yesterday"},
        {"timestamp": "2026-01-02T03:04:05"},
    ],
)
def test_an_incomplete_lock_is_not_judged(change: dict[str, Any]) -> None:
    with pytest.raises(Unreadable, match=r"k\.json"):
        read_lock("k.json", json.dumps({**WRITTEN, **change}))


@pytest.mark.parametrize("text", ["", "[]", "{", "null", b"\xff"])
def test_an_invalid_lock_is_unreadable(text: str | bytes) -> None:
    with pytest.raises(Unreadable):
        read_lock("k.json", text)


@pytest.mark.parametrize(
    ("holder", "vouched", "stale"),
    [
        (Holder.GONE, {}, True),
        (Holder.LIVES, {}, False),
        (Holder.LIVES, {"runner-7": "I looked"}, False),
        (Holder.ELSEWHERE, {}, False),
        (Holder.ELSEWHERE, {"runner-8": "I looked"}, False),
        (Holder.ELSEWHERE, {"runner-7": "I looked"}, True),
    ],
)
def test_only_the_lock_of_a_process_known_to_have_ended_is_stale(
    holder: Holder, vouched: dict[str, str], stale: bool
) -> None:
    judged = judge(LOCK, holder, vouched)
    assert judged.stale is stale
    assert bool(judged.remedy) is not stale


@pytest.mark.parametrize("stack", ["prod", "organization/fleet/prod"])
def test_the_locks_of_a_stack_lie_below_its_project(stack: str) -> None:
    assert lock_prefix("fleet", stack) == ".pulumi/locks/organization/fleet/prod/"
