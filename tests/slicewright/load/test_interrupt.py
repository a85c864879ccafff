"""An interrupt ends the load at whatever moment it comes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from slicewright.load import engine
from slicewright.load.load import Load, Target

pytestmark = pytest.mark.clouds

_MANY_INTERRUPTS = """
import random
import locust  # replaces the standard library's locks, as in the load engine's process
import gevent
from slicewright.load import locust_process

def send_requests(run):
    try:
        while True:
            run.wait_for_turn()
    except locust_process.StopUser:
        pass

def one_run(number):
    settings = {"rate": None, "users": 5, "duration_s": 100}
    run = locust_process.Run(settings=settings, write=print)
    run.begin()
    users = [gevent.spawn(send_requests, run) for _ in range(run.users)]
    gevent.spawn_later(moments.uniform(0.0005, 0.06), run.interrupt)
    with gevent.Timeout(20, AssertionError(f"interrupt {number} was missed")):
        run.wait_for_end(lambda: len(users))
        gevent.joinall(users)

moments = random.Random(20261128)
for first in range(0, 2000, 40):
    runs = [gevent.spawn(one_run, first + number) for number in range(40)]
    gevent.joinall(runs, raise_error=True)
"""


def test_no_interrupt_is_missed_by_the_users_or_by_the_end_of_the_run() -> None:
    """With gevent's Event, whose wait() has a timeout, two of a hundred were."""
    process = subprocess.run(
        [sys.executable, "-c", _MANY_INTERRUPTS], capture_output=True, text=True, timeout=300
    )
    assert process.returncode == 0, process.stderr[-2000:]


_DEAF_ENGINE = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
from slicewright.load.outcomes import Outcome, encode
outcome = Outcome(target=0, began_s=0.0, ended_s=0.1)
print(encode(outcome), end="", flush=True)
time.sleep(1000)
"""


def test_an_engine_that_ignores_the_interrupt_is_killed_and_the_outcomes_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deaf_engine.py").write_text(_DEAF_ENGINE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(engine, "_MODULE", "deaf_engine")
    monkeypatch.setattr(engine, "_GRACE_S", 0.5)
    load = Load(
        workload="ai/llm",
        api="chat",
        targets=(Target(name="", url="http://127.0.0.1:1"),),
        duration_s=60,
        users=1,
        rate=None,
        model="m",
        tokens=1,
        body=None,
        key=None,
    )
    interrupt = threading.Timer(5.0, os.kill, (os.getpid(), signal.SIGINT))
    interrupt.start()
    ran = engine.run(load, print)
    assert (len(ran.outcomes), ran.signal, ran.complete) == (1, signal.SIGINT, False)
