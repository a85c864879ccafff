from __future__ import annotations

import _ctypes
import ctypes
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from slicewright.node_agent.nvml.observed import (
    BROKEN,
    TIMED_OUT,
    Failure,
    Observation,
    ObservedGpu,
)
from slicewright.node_agent.nvml.prober import ForkServerEnded, Prober
from slicewright.node_agent.nvml.worker import LOOKS


@contextmanager
def probing(probe: Callable[[], Observation], *, deadline_s: float = 60.0) -> Iterator[Prober]:
    prober = Prober.start(deadline_s=deadline_s, probe=probe)
    try:
        yield prober
    finally:
        prober.close()


def test_prober_returns_the_observation_of_the_worker() -> None:
    with probing(lambda: Observation(driver="1.2")) as prober:
        assert [prober.probe() for _ in range(3)] == [Observation(driver="1.2")] * 3


def test_a_worker_is_kept_for_so_many_looks_and_no_more() -> None:
    with probing(lambda: Observation(driver=str(os.getpid()))) as prober:
        asked = [prober.probe().driver for _ in range(2 * LOOKS)]
    assert asked == [asked[0]] * LOOKS + [asked[-1]] * LOOKS
    assert asked[0] != asked[-1]


def _lost() -> Observation:
    failure = Failure(call="nvmlDeviceGetUUID", code=15, text="GPU is lost")
    return Observation(driver=str(os.getpid()), gpus=(ObservedGpu(index=0, failure=failure),))


def _broken() -> Observation:
    raise OSError("no device nodes")


def _dead() -> Observation:
    os.kill(os.getpid(), signal.SIGKILL)
    return Observation()


@pytest.mark.parametrize("fails", [_lost, _broken, _dead])
def test_a_failure_is_reported_only_by_a_worker_that_was_asked_for_the_first_time(
    fails: Callable[[], Observation],
) -> None:
    """What the one before it met may be of its own making: a driver upgraded under it."""
    looks: list[int] = []

    def fails_later() -> Observation:
        looks.append(os.getpid())
        return fails() if len(looks) > 1 else Observation(driver=str(os.getpid()))

    with probing(fails_later) as prober:
        first, second = prober.probe(), prober.probe()
        assert (first.failure, second.failure, second.gpus) == (None, None, ())
        assert first.driver != second.driver


def test_a_failure_is_reported_by_a_new_worker_each_time() -> None:
    with probing(_lost) as prober:
        assert len({prober.probe().driver for _ in range(3)}) == 3


def _open(path: Path) -> None:
    os.open(path, os.O_RDONLY)


def _start_thread(_: Path) -> None:
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()


def _load(path: Path) -> None:
    shutil.copy(_ctypes.__file__, path)
    ctypes.CDLL(str(path))


@pytest.mark.parametrize("hold", [_open, _start_thread, _load])
def test_a_worker_that_holds_anything_after_a_look_is_replaced(
    hold: Callable[[Path], None], tmp_path: Path
) -> None:
    """A device that stays open lets changes of MIG mode fail."""
    path = tmp_path / "libnvidia-ml.so.1"
    path.write_text("a library")

    def holds() -> Observation:
        hold(path)
        return Observation(driver=str(os.getpid()))

    with probing(holds) as prober:
        assert len({prober.probe().driver for _ in range(3)}) == 3


@pytest.mark.parametrize("hold", [_open, _start_thread, _load])
def test_worker_that_holds_a_resource_after_a_later_look_is_replaced(
    hold: Callable[[Path], None], tmp_path: Path
) -> None:
    """When its memory no longer grows, and mappings are looked at only because of that."""
    path = tmp_path / "libnvidia-ml.so.1"
    path.write_text("a library")
    looks: list[int] = []

    def holds_later() -> Observation:
        looks.append(len(looks))
        if len(looks) == 12:
            hold(path)
        return Observation(driver=str(os.getpid()))

    with probing(holds_later) as prober:
        asked = [prober.probe().driver for _ in range(14)]
    assert asked == [asked[0]] * 12 + [asked[-1]] * 2
    assert asked[0] != asked[-1]


def test_a_hung_probe_ends_at_its_deadline() -> None:
    def hang() -> Observation:
        time.sleep(3600)
        return Observation()

    with probing(hang, deadline_s=0.2) as prober:
        failure = prober.probe().failure
        assert failure is not None
        assert (failure.code, failure.text) == (TIMED_OUT, "no answer from the driver within 0.2 s")


def test_a_hung_probe_leaves_no_process_behind() -> None:
    def hang() -> Observation:
        time.sleep(3600)
        return Observation()

    with probing(hang, deadline_s=0.2) as prober:
        hung = Path(f"/proc/{_waiting(prober)}")
        prober.probe()
        # One that takes its time to end when it is killed is reaped with a later probe.
        for _ in range(100):
            if hung.exists():
                prober.probe()
        assert not hung.exists()


def test_a_probe_that_dies_is_a_failure_with_its_exit() -> None:
    def die() -> Observation:
        os.kill(os.getpid(), signal.SIGKILL)
        return Observation()

    with probing(die) as prober:
        for _ in range(2):
            failure = prober.probe().failure
            assert failure is not None
            assert (failure.code, failure.text) == (
                BROKEN,
                "the probe's process ended with signal 9",
            )


def test_an_exception_is_an_answer() -> None:
    def fail() -> Observation:
        raise OSError("no device nodes")

    with probing(fail) as prober:
        failure = prober.probe().failure
        assert failure is not None
        assert failure.text == "OSError: no device nodes"


def test_a_large_answer_comes_whole() -> None:
    text = "x" * 300_000
    with probing(lambda: Observation(driver=text)) as prober:
        assert prober.probe().driver == text


def test_a_killed_fork_server_raises() -> None:
    with probing(Observation) as prober:
        os.kill(prober.pid, signal.SIGKILL)
        os.waitpid(prober.pid, 0)
        with pytest.raises(ForkServerEnded):
            prober.probe()


def test_the_fork_server_ends_with_its_agent() -> None:
    """Closing the pipe is all that an agent that was killed can do."""
    prober = Prober.start(probe=Observation)
    os.close(prober._to)
    os.close(prober._from)
    _, status = os.waitpid(prober.pid, 0)
    assert status == 0


@pytest.mark.soak
def test_many_probes_leave_no_descriptor_and_at_most_one_child() -> None:
    with probing(lambda: Observation(driver="d")) as prober:
        _waiting(prober)
        before = _descriptors(prober.pid)
        for _ in range(200):
            prober.probe()
        assert _soon(lambda: _descriptors(prober.pid) <= before)
        assert len(_children(prober.pid)) <= 1, "only the next worker may wait"


def _children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def _descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def _waiting(prober: Prober) -> int:
    """The pid of the worker that stands ready, once it does."""
    end = time.monotonic() + 60
    while not (found := _children(prober.pid)):
        assert time.monotonic() < end, "no worker stands ready"
        time.sleep(0.005)
    return int(found[0])


def _gone(pid: int) -> bool:
    """Ended, and at most waiting to be collected by whoever adopted it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def _soon(holds: Callable[[], bool]) -> bool:
    end = time.monotonic() + 60
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


def test_the_next_worker_is_forked_ahead() -> None:
    with probing(_lost) as prober:
        first = _waiting(prober)
        assert prober.probe().driver == str(first)
        assert _soon(lambda: bool(_children(prober.pid)) and _waiting(prober) != first)
        second = _waiting(prober)
        assert prober.probe().driver == str(second)


def test_waiting_does_not_count_against_the_deadline() -> None:
    def after_a_wait(prober: Prober) -> Observation:
        time.sleep(0.6)
        return prober.probe()

    with probing(lambda: Observation(driver="1.2"), deadline_s=0.3) as prober:
        # A busy machine may take longer than the deadline for a probe, but not for each of many.
        assert any(after_a_wait(prober) == Observation(driver="1.2") for _ in range(30))


def test_a_worker_that_was_killed_while_it_waited_is_no_news() -> None:
    with probing(lambda: Observation(driver="1.2")) as prober:
        for _ in range(2):
            waiting = _waiting(prober)
            os.kill(waiting, signal.SIGKILL)
            assert _soon(lambda pid=waiting: _gone(pid))  # type: ignore[misc]
            assert prober.probe() == Observation(driver="1.2")


def test_the_waiting_worker_ends_with_a_killed_fork_server() -> None:
    with probing(Observation) as prober:
        waiting = _waiting(prober)
        os.kill(prober.pid, signal.SIGKILL)
        os.waitpid(prober.pid, 0)
        assert _soon(lambda: _gone(waiting))


def test_the_waiting_worker_ends_with_its_agent() -> None:
    prober = Prober.start(probe=Observation)
    waiting = _waiting(prober)
    prober.close()
    assert _soon(lambda: _gone(waiting))


def test_half_an_answer_is_none() -> None:
    """Killed in the middle of writing: more than a pipe holds has begun to come."""

    def die_while_it_tells() -> Observation:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGKILL)).start()
        os.kill(os.getppid(), signal.SIGSTOP)
        return Observation(driver="x" * 300_000)

    with probing(die_while_it_tells) as prober:
        worker = _waiting(prober)

        def read_on_when_it_is_dead() -> None:
            _soon(lambda: _gone(worker))
            os.kill(prober.pid, signal.SIGCONT)

        threading.Thread(target=read_on_when_it_is_dead).start()
        failure = prober.probe().failure
        assert failure is not None
        assert (failure.code, failure.text) == (BROKEN, "the probe's process ended with signal 9")


def test_beside_a_worker_that_cannot_be_killed_no_second_one_is_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A signal that does nothing stands for SIGKILL to a worker stuck in the kernel."""
    monkeypatch.setattr(os, "kill", lambda pid, number: None)

    def hang() -> Observation:
        time.sleep(3600)
        return Observation()

    with probing(hang, deadline_s=0.2) as prober:
        (stuck,) = {_waiting(prober)}
        first, second = prober.probe().failure, prober.probe().failure
        assert first is not None
        assert first.text == "no answer from the driver within 0.2 s"
        assert second is not None
        assert (
            second.text
            == f"an earlier probe (process {stuck}) still hangs in the driver and cannot be killed"
        )
        assert _children(prober.pid) == [str(stuck)]
        monkeypatch.undo()
        os.kill(stuck, signal.SIGKILL)
        assert _soon(lambda: _gone(stuck))
