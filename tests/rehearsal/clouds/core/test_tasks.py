"""Work that outlives a request."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core import tasks as module
from slicewright.rehearsal.clouds.core.store import Store
from slicewright.rehearsal.clouds.core.tasks import Tasks


@pytest.fixture
def delays() -> dict[str, float]:
    return {}


@pytest.fixture
def tasks(tmp_path: Path, delays: dict[str, float]) -> Tasks:
    return Tasks(Store(tmp_path), lambda kind: delays.get(kind, 0.0))


def test_tasks_begun_by_a_task_are_waited_for(tasks: Tasks) -> None:
    done: list[int] = []
    may_end = threading.Event()

    def chain(arguments: JsonObject) -> None:
        may_end.wait(60)
        done.append(arguments["left"])
        if arguments["left"]:
            tasks.begin("chain", left=arguments["left"] - 1)

    tasks.register({"chain": chain})
    tasks.begin("chain", left=3)
    assert not tasks.wait(0.01)
    may_end.set()
    assert tasks.wait(120)
    assert done == [3, 2, 1, 0]


def test_it_can_be_waited_for_while_others_begin_and_end(tasks: Tasks) -> None:
    tasks.register({"brief": lambda _: None})
    over = threading.Event()
    problems: list[Exception] = []

    def wait() -> None:
        try:
            while not over.is_set():
                tasks.wait(0)
        except Exception as e:
            problems.append(e)

    waiting = threading.Thread(target=wait)
    waiting.start()
    # Without the lock 25 were enough in each of five runs.
    for _ in range(50):
        tasks.begin("brief")
    over.set()
    waiting.join()
    assert tasks.wait(120)
    assert problems == []


def test_a_delay_ends_when_it_is_taken_back(
    tasks: Tasks, delays: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LOOK_AGAIN_S", 0.01)
    done = threading.Event()
    tasks.register({"slow": lambda _: done.set()})
    delays["slow"] = 3600.0
    tasks.begin("slow")
    assert not done.wait(0.2)
    delays.clear()
    assert done.wait(120)
    assert tasks.wait(120)
