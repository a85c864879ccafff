from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from node_agent.observed import BROKEN, TIMED_OUT, Observation
from node_agent.prober import Prober, ProberGone


@contextmanager
def looking(look: Callable[[], Observation], *, deadline_s: float = 5.0) -> Iterator[Prober]:
    prober = Prober.start(deadline_s=deadline_s, look=look)
    try:
        yield prober
    finally:
        prober.close()


def test_what_the_worker_sees_comes_back() -> None:
    with looking(lambda: Observation(driver="1.2")) as prober:
        assert [prober.probe() for _ in range(3)] == [Observation(driver="1.2")] * 3


def test_every_look_has_a_process_of_its_own() -> None:
    """So nothing of the driver stays loaded between looks."""
    with looking(lambda: Observation(driver=str(os.getpid()))) as prober:
        assert len({prober.probe().driver for _ in range(3)}) == 3


def test_a_look_that_hangs_ends_with_its_deadline() -> None:
    def hang() -> Observation:
        time.sleep(60)
        return Observation()

    with looking(hang, deadline_s=0.2) as prober:
        started = time.monotonic()
        failure = prober.probe().failure
        assert time.monotonic() - started < 5
        assert failure is not None
        assert (failure.code, failure.text) == (TIMED_OUT, "no answer from the driver within 0.2 s")


def test_a_look_that_hangs_leaves_no_process_behind(tmp_path: Path) -> None:
    def hang() -> Observation:
        (tmp_path / "pid").write_text(str(os.getpid()))
        time.sleep(60)
        return Observation()

    with looking(hang, deadline_s=0.3) as prober:
        prober.probe()
        assert not Path(f"/proc/{(tmp_path / 'pid').read_text()}").exists()


def test_a_look_that_dies_is_an_answer() -> None:
    def die() -> Observation:
        os.kill(os.getpid(), signal.SIGKILL)
        return Observation()

    with looking(die) as prober:
        for _ in range(2):
            failure = prober.probe().failure
            assert failure is not None
            assert (failure.code, failure.text) == (BROKEN, "the look ended with signal 9")


def test_an_exception_is_an_answer() -> None:
    def fail() -> Observation:
        raise OSError("no device nodes")

    with looking(fail) as prober:
        failure = prober.probe().failure
        assert failure is not None
        assert failure.text == "OSError: no device nodes"


def test_a_large_answer_comes_whole() -> None:
    text = "x" * 300_000
    with looking(lambda: Observation(driver=text)) as prober:
        assert prober.probe().driver == text


def test_a_lookout_that_was_killed_is_noticed() -> None:
    with looking(Observation) as prober:
        os.kill(prober.pid, signal.SIGKILL)
        os.waitpid(prober.pid, 0)
        with pytest.raises(ProberGone):
            prober.probe()


def test_the_lookout_ends_with_its_agent() -> None:
    """Closing the pipe is all that an agent that was killed can do."""
    prober = Prober.start(look=Observation)
    os.close(prober._to)
    os.close(prober._from)
    _, status = os.waitpid(prober.pid, 0)
    assert status == 0


def test_many_looks_leave_no_descriptor_and_no_child() -> None:
    with looking(lambda: Observation(driver="d")) as prober:
        prober.probe()
        before = len(list(Path(f"/proc/{prober.pid}/fd").iterdir()))
        for _ in range(200):
            prober.probe()
        assert len(list(Path(f"/proc/{prober.pid}/fd").iterdir())) == before
        assert not Path(f"/proc/{prober.pid}/task/{prober.pid}/children").read_text().split()
