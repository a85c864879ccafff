"""The kernel's log, played by a pipe that like the kernel hands out one record per read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewright.node_agent.xids.kernel_log import KMSG, KernelLog, Record, parse


@pytest.fixture
def kernel() -> Iterator[tuple[Path, Callable[[str], None]]]:
    """A path to read, and what the kernel says next."""
    read_end, write_end = os.pipe2(os.O_DIRECT | os.O_NONBLOCK)
    number = 0

    def say(text: str) -> None:
        nonlocal number
        number += 1
        os.write(write_end, f"6,{number},{number * 1_500_000},-;{text}\n SUBSYSTEM=pci\n".encode())

    yield Path(f"/proc/self/fd/{read_end}"), say
    os.close(read_end)
    os.close(write_end)


def test_each_line_is_read_once(kernel: tuple[Path, Callable[[str], None]]) -> None:
    path, say = kernel
    with KernelLog(path) as log:
        say("one")
        say("two; with a semicolon")
        assert log.read() == (
            Record(at_s=1.5, text="one"),
            Record(at_s=3.0, text="two; with a semicolon"),
        )
        assert log.read() == ()
        say("three")
        assert [record.text for record in log.read()] == ["three"]
        assert log.unreadable is None


def test_one_descriptor_is_held_and_given_back(kernel: tuple[Path, Callable[[str], None]]) -> None:
    def held() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = held()
    with KernelLog(kernel[0]) as log:
        for _ in range(5):
            log.read()
        assert held() == before + 1
    assert held() == before


def test_missing_kernel_log_is_reported_and_tried_again(tmp_path: Path) -> None:
    log = KernelLog(tmp_path / "kmsg")
    assert log.read() == ()
    assert log.unreadable == f"{tmp_path / 'kmsg'}: No such file or directory"
    (tmp_path / "kmsg").write_text("6,1,2000000,-;here now\n")
    assert log.read() == (Record(at_s=2.0, text="here now"),)
    assert log.unreadable is None
    log.close()


def test_unreadable_kernel_log_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """As under dmesg_restrict, in a pod without CAP_SYSLOG."""

    def refuse(*_: object) -> int:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "open", refuse)
    log = KernelLog()
    assert (log.read(), log.unreadable) == ((), "/dev/kmsg: Operation not permitted")


def test_lines_that_were_overwritten_do_not_end_the_reading(
    kernel: tuple[Path, Callable[[str], None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, say = kernel
    say("the oldest that is left")
    real, lost = os.read, [BrokenPipeError(32, "Broken pipe")]

    def read(descriptor: int, size: int) -> bytes:
        if lost:
            raise lost.pop()
        return real(descriptor, size)

    with KernelLog(path) as log:
        monkeypatch.setattr(os, "read", read)
        assert [record.text for record in log.read()] == ["the oldest that is left"]


def test_this_machines_own_log_is_read_or_the_error_is_given() -> None:
    with KernelLog() as log:
        found = log.read()
    assert bool(found) == (log.unreadable is None)
    assert log.unreadable is None or log.unreadable.startswith(f"{KMSG}: ")


@given(st.binary(max_size=200))
def test_no_bytes_break_the_reading(raw: bytes) -> None:
    record = parse(raw)
    assert record is None or "\n" not in record.text


@given(
    st.integers(0, 7),
    st.integers(0, 2**63),
    st.integers(0, 2**62),
    st.text().filter(lambda t: "\n" not in t),
)
def test_kernel_records_are_parsed(level: int, sequence: int, usec: int, text: str) -> None:
    text = text.encode(errors="replace").decode()
    assert parse(f"{level},{sequence},{usec},-,caller=T1;{text}\n KEY=x\n".encode()) == Record(
        at_s=usec / 1e6, text=text
    )
