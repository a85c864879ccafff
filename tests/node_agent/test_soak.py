"""Ten thousand looks; a killed agent; a clock that jumps."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import node_agent
from rehearsal.silicon import state

LOOKS = 10_000
PROJECT = Path(node_agent.__file__).parents[1]


@pytest.mark.soak
def test_ten_thousand_looks_leave_nothing_behind(silicon: Callable[..., Any]) -> None:
    node = silicon("H100-80", 1)
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("many_looks.py"), node.path, str(LOOKS)],
        env=_environment(node) | {"PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    held = json.loads(done.stdout)
    assert held["workers left"] == []
    for before, after in zip(held["before"], held["after"], strict=True):
        assert (after["threads"], after["descriptors"]) == (before["threads"], before["descriptors"])
        assert after["resident KiB"] - before["resident KiB"] < 2048


def _environment(node: Any) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": str(node.library.parent), state.VARIABLE: str(node.path)}


@contextmanager
def _watching(node: Any, log: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The agent as a process on a host, and its port."""
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "node_agent", "watch", "--port", "0", "--interval", "0.1", "all:3g.40gb*2"],
            env=_environment(node),
            cwd=PROJECT,
            stderr=stderr,
        )
    try:
        _until(lambda: "watching http=127.0.0.1:" in log.read_text(), "it listens")
        yield process, int(log.read_text().partition("watching http=127.0.0.1:")[2].split()[0])
    finally:
        process.kill()
        process.wait()


def _until(holds: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def _metrics(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        text: str = answer.read().decode()
        return text


@pytest.fixture
def halves(silicon: Callable[..., Any]) -> Any:
    node = silicon("H100-80", 2)
    for index in range(2):
        state.recut(node.path, index, ["3g.40gb", "3g.40gb"])
    return node


def test_on_a_host_it_watches_without_a_cluster(halves: Any, tmp_path: Path) -> None:
    log = tmp_path / "log"
    state.set_health(halves.path, 1, temperature_c=71, ecc_corrected_volatile=5)
    with _watching(halves, log) as (_, port):
        _until(lambda: 'slicewright_verdict{verdict="Match"} 1' in _metrics(port), "a match")
        text = _metrics(port)
        assert 'slicewright_gpu_temperature_celsius{gpu="1"} 71' in text
        assert 'slicewright_gpu_ecc_errors_total{gpu="1",kind="corrected"} 5' in text
        assert 'slicewright_partitions_desired{gpu="1",profile="3g.40gb"} 2' in text
        where = 'gpu="0",gpu_instance="1",compute_instance="0",profile="3g.40gb"'
        assert f"slicewright_partition_memory_bytes{{{where}}} {40448 * 2**20}" in text
        assert f"slicewright_partition_memory_used_bytes{{{where}}}" in text
        assert 'slicewright_driver_info{driver="550.90.07",cuda="12.4"} 1' in text
        state.recut(halves.path, 1, ["1g.10gb"] * 7)
        _until(lambda: 'slicewright_mismatch{reason="WrongLayout"} 1' in _metrics(port), "a mismatch")
        state.lose(halves.path, 0)
        _until(lambda: 'slicewright_mismatch{reason="GpuLost"} 1' in _metrics(port), "a lost GPU")
    assert "GPU 1 wanted 3g.40gb x2, found 1g.10gb x7" in log.read_text()


def test_killed_it_leaves_no_process_and_starts_anew(halves: Any, tmp_path: Path) -> None:
    with _watching(halves, tmp_path / "first") as (process, port):
        _until(lambda: 'slicewright_verdict{verdict="Match"} 1' in _metrics(port), "a match")
        lookouts = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        assert len(lookouts) == 1
        process.send_signal(signal.SIGKILL)
        process.wait()
        _until(lambda: not Path(f"/proc/{lookouts[0]}/exe").exists() or _is_zombie(lookouts[0]), "the lookout ends, too")
    with _watching(halves, tmp_path / "second") as (_, port):
        _until(lambda: 'slicewright_verdict{verdict="Match"} 1' in _metrics(port), "a match again")


def _is_zombie(pid: str) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_host_layout_of_a_gpu_that_never_was_is_refused(halves: Any, command: Any) -> None:
    refused = command(halves, "watch", "--port", "0", "7:off")
    assert (refused.returncode, "7: no such GPU; this machine has GPU 0, 1" in refused.stderr) == (2, True)


def test_json_of_show_is_whole(halves: Any, command: Any) -> None:
    raw = json.loads(command(halves, "show", "--json").stdout)
    assert raw["gpus"][0]["vitals"]["temperature_c"] == 34
    assert raw["gpus"][0]["memory_slices"] == 8
