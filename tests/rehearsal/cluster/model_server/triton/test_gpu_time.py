"""Simulated time on a device, without waiting for it."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewright.rehearsal.cluster.model_server.triton import gpu_time
from slicewright.rehearsal.cluster.model_server.triton.gpu_time import GpuTime
from slicewright.rehearsal.cluster.model_server.turns import Turns

_HOLD = """
import fcntl, sys
with open(sys.argv[1], "w") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds, instead of waiting."""
    found: list[float] = []
    monkeypatch.setattr(gpu_time.time, "sleep", found.append)
    return found


@contextmanager
def computing(turns: Path, name: str) -> Iterator[None]:
    with (turns / name).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@given(
    share=st.floats(min_value=0.01, max_value=1), seconds=st.floats(min_value=0.001, max_value=0.1)
)
def test_alone_it_takes_as_much_longer_as_the_device_is_smaller(
    tmp_path_factory: pytest.TempPathFactory, share: float, seconds: float
) -> None:
    slept: list[float] = []
    device = GpuTime(share=share, turns=tmp_path_factory.mktemp("turns"), name="a")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpu_time.time, "sleep", slept.append)
        device.compute(seconds)
    assert sum(slept) == pytest.approx(seconds / share)


def test_request_takes_three_times_as_long_with_two_other_servers(
    tmp_path: Path, slept: list[float]
) -> None:
    device = GpuTime(share=0.5, turns=tmp_path, name="a")
    with computing(tmp_path, "b"), computing(tmp_path, "c"):
        device.compute(0.02)
    assert sum(slept) == pytest.approx(3 * 0.02 / 0.5)


def test_who_waits_for_requests_takes_no_turns(tmp_path: Path, slept: list[float]) -> None:
    for name in ("b", "c"):
        GpuTime(share=1, turns=tmp_path, name=name).compute(0.01)
    slept.clear()
    GpuTime(share=1, turns=tmp_path, name="a").compute(0.01)
    assert sum(slept) == pytest.approx(0.01)


def test_a_killed_process_takes_no_more_turns(tmp_path: Path) -> None:
    turns = Turns(tmp_path, "a")
    other = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(tmp_path / "b")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert other.stdout is not None
    assert other.stdout.readline() == b"held\n"
    assert turns.sharers() == 1
    other.kill()
    other.communicate()
    assert turns.sharers() == 0


@pytest.mark.parametrize("share", [0.0, -1.0, 1.01])
def test_no_device_has_such_a_share(tmp_path: Path, share: float) -> None:
    with pytest.raises(ValueError, match="above 0 and at most 1"):
        GpuTime(share=share, turns=tmp_path, name="a")


def test_servers_of_other_users_may_take_turns_too(tmp_path: Path) -> None:
    GpuTime(share=1, turns=tmp_path / "new", name="a")
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o777
