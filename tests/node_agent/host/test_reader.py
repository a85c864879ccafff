"""The child process that reads the GPUs: however the reading ends, none stays behind."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from slicewright.node_agent.host import reader
from slicewright.node_agent.host.reader import Reader


def test_ctrl_c_just_after_the_fork_leaves_no_child_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    forked: list[int] = []
    fork = os.fork

    def interrupted_fork() -> int:
        pid = fork()
        if pid:
            forked.append(pid)
            signal.raise_signal(signal.SIGINT)
        return pid

    def hang() -> Any:
        signal.pause()

    monkeypatch.setattr(os, "fork", interrupted_fork)
    monkeypatch.setattr(reader, "_answer", hang)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            Reader(deadline_s=60).read()
        with pytest.raises(ProcessLookupError):
            os.kill(forked[0], signal.SIGKILL)
    finally:
        signal.signal(signal.SIGINT, before)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) & set(reader.STOPPING) == set()
