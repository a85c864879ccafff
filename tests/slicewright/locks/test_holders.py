"""Whether a lock's process lives, by real processes of this machine."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from slicewright.locks.holders import holder_of
from slicewright.locks.lock import Holder, Lock


def lock(pid: int, *, host: str = "", since: datetime | None = None) -> Lock:
    return Lock(
        key="k",
        pid=pid,
        user="me",
        host=host or socket.gethostname(),
        since=since or datetime.now(UTC),
    )


def test_a_process_that_took_the_lock_lives() -> None:
    assert holder_of(lock(os.getpid())) is Holder.LIVES


def test_a_process_that_has_ended_is_gone() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert holder_of(lock(ended.pid)) is Holder.GONE


def test_a_killed_process_that_its_parent_has_not_waited_for_is_gone() -> None:
    killed = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert holder_of(lock(killed.pid)) is Holder.LIVES
    killed.kill()
    state = Path(f"/proc/{killed.pid}/stat")
    while state.read_text().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.01)
    assert holder_of(lock(killed.pid)) is Holder.GONE
    killed.communicate()


def test_another_process_with_the_same_number_is_not_the_one_that_took_the_lock() -> None:
    long_ago = datetime.now(UTC) - timedelta(days=4000)
    assert holder_of(lock(os.getpid(), since=long_ago)) is Holder.GONE


def test_a_process_on_another_host_is_unknown() -> None:
    assert holder_of(lock(os.getpid(), host="runner-7")) is Holder.ELSEWHERE


def host(directory: Path, *, processes: str = "pid:[4026531836]") -> Path:
    """A /proc with process 900, which is 17 in its container, and started 100 s after the boot."""
    (directory / "self/ns").mkdir(parents=True)
    (directory / "self/ns/pid").symlink_to(processes)
    (directory / "self/ns/uts").symlink_to("uts:[4026531838]")
    (directory / "stat").write_text("cpu 1\nbtime 1700000000\n")
    (directory / "900").mkdir()
    (directory / "900/status").write_text("Name:\tpulumi\nNSpid:\t900\t17\n")
    ticks = 100 * os.sysconf("SC_CLK_TCK")
    after = " ".join(["S", *["0"] * 18, str(ticks), "0"])
    (directory / "900/stat").write_text(f"900 (a ) b) {after}")
    return directory


@pytest.mark.parametrize("pid", [900, 17])
def test_a_process_in_a_container_with_the_hosts_name_lives(tmp_path: Path, pid: int) -> None:
    since = datetime.fromtimestamp(1700000200, UTC)
    assert holder_of(lock(pid, since=since), host(tmp_path)) is Holder.LIVES


def test_a_lock_from_before_its_numbers_process_began_is_of_one_that_is_gone(
    tmp_path: Path,
) -> None:
    since = datetime.fromtimestamp(1700000050, UTC)
    assert holder_of(lock(17, since=since), host(tmp_path)) is Holder.GONE


def test_from_within_such_a_container_nothing_is_known_of_the_host(tmp_path: Path) -> None:
    proc = host(tmp_path, processes="pid:[4026532000]")
    assert holder_of(lock(5), proc) is Holder.ELSEWHERE
