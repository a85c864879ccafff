"""Ten thousand probes; 200 restarts; a killed agent; `watch` as a process."""

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

from slicewright import node_agent
from slicewright.rehearsal.cluster.silicon import state

PROBES, RESTARTS = 10_000, 200
PROJECT = Path(node_agent.__file__).resolve().parents[1]


@pytest.mark.soak
def test_ten_thousand_probes_leave_nothing_behind(silicon: Callable[..., Any]) -> None:
    node = silicon("H100-80", 1)
    held = _soak("looks", node, PROBES)
    assert [len(held[when]) for when in ("before", "after")] == [3, 3], (
        "the agent, its fork server, and one worker that waits"
    )
    for before, after in zip(held["before"], held["after"], strict=True):
        assert (after["threads"], after["descriptors"]) == (
            before["threads"],
            before["descriptors"],
        )
        assert after["resident KiB"] - before["resident KiB"] < 2048


@pytest.mark.soak
def test_restarts_leave_neither_processes_nor_files_behind(silicon: Callable[..., Any]) -> None:
    left = _soak("restarts", silicon("H100-80", 1), RESTARTS)
    assert left.pop("bytes in the emptyDir") < 4096
    assert left == {"processes": 0, "files in the emptyDir": 1, "temporary files": 0}


def _soak(what: str, node: Any, number: int) -> Any:
    done = subprocess.run(
        [sys.executable, PROJECT / "benchmarks/agent_soak.py", what, node.path, str(number)],
        env=_environment(node) | {"PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    print(what, number, done.stdout)
    return json.loads(done.stdout)


def _environment(node: Any) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "LD_LIBRARY_PATH": str(node.library.parent),
        state.VARIABLE: str(node.path),
    }


@contextmanager
def _watching(node: Any, log: Path, *more: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The agent as a process on a host, and its port."""
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "slicewright.node_agent",
                "watch",
                "--port",
                "0",
                "--interval",
                "0.1",
                *more,
                "all:3g.40gb*2",
            ],
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
    end = time.monotonic() + 180
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def _metrics(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=120) as answer:
        text: str = answer.read().decode()
        return text


def test_on_a_host_it_watches_without_a_cluster(halves: Any, tmp_path: Path) -> None:
    log = tmp_path / "log"
    state.set_health(halves.path, 1, temperature_c=71, ecc_corrected_volatile=5)
    with _watching(halves, log) as (_, port):
        first, second = state.load(halves.path).gpus
        own = f'gpu="1",minor="1",uuid="{second.uuid}"'
        (device,) = first.instances[0].compute_instances
        instance = f'gpu_instance="{first.instances[0].id}",compute_instance="0",profile="3g.40gb"'
        where = f'gpu="0",minor="0",uuid="{device.uuid}",{instance}'
        for told in (
            'slicewright_verdict{verdict="Match"} 1',
            f"slicewright_gpu_temperature_celsius{{{own}}} 71",
            f'slicewright_gpu_ecc_errors_total{{{own},kind="corrected"}} 5',
            'slicewright_partitions_desired{gpu="1",profile="3g.40gb"} 2',
            f"slicewright_partition_memory_bytes{{{where}}} {40448 * 2**20}",
            f"slicewright_partition_memory_used_bytes{{{where}}}",
            'slicewright_driver_info{driver="550.90.07",cuda="12.4"} 1',
        ):
            _until(lambda told=told: told in _metrics(port), told)  # type: ignore[misc]
        state.repartition(halves.path, 1, ["1g.10gb"] * 7)
        _until(
            lambda: 'slicewright_mismatch{reason="WrongLayout"} 1' in _metrics(port), "a mismatch"
        )
        state.lose(halves.path, 0)
        _until(lambda: 'slicewright_mismatch{reason="GpuLost"} 1' in _metrics(port), "a lost GPU")
    assert "GPU 1 wanted 3g.40gb x2, found 1g.10gb x7" in log.read_text()


def test_a_killed_agent_leaves_no_process_and_can_start_again(halves: Any, tmp_path: Path) -> None:
    with _watching(halves, tmp_path / "first") as (process, port):
        _until(lambda: 'slicewright_verdict{verdict="Match"} 1' in _metrics(port), "a match")
        servers = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        assert len(servers) == 1
        process.send_signal(signal.SIGKILL)
        process.wait()
        _until(lambda: _has_ended(servers[0]), "the fork server ends, too")
    with _watching(halves, tmp_path / "second") as (_, port):
        _until(lambda: 'slicewright_verdict{verdict="Match"} 1' in _metrics(port), "a match again")


def test_between_probes_no_process_holds_anything_of_the_driver(
    halves: Any, tmp_path: Path
) -> None:
    """The driver is held while a probe measures utilization, or this test could not fail."""

    def held(pid: str) -> bool:
        try:
            loaded = "libnvidia-ml" in Path(f"/proc/{pid}/maps").read_text()
            files = [str(file.readlink()) for file in Path(f"/proc/{pid}/fd").iterdir()]
        except OSError:
            return False  # it has just ended
        return loaded or str(halves.path) in files

    def processes(agent: int) -> list[str]:
        servers = _children(str(agent))
        return [
            str(agent),
            *servers,
            *(worker for server in servers for worker in _children(server)),
        ]

    with _watching(halves, tmp_path / "log", "--interval", "5", "--utilization") as (process, port):
        _until(
            lambda: any(held(pid) for pid in processes(process.pid)),
            "a probe, which takes 0.12 s, holds the library",
        )
        _until(
            lambda: "slicewright_partition_utilization_ratio{" in _metrics(port),
            "the probe has ended, and measured",
        )
        # The next probe may have begun meanwhile.
        _until(
            lambda: [held(pid) for pid in processes(process.pid)] == [False] * 3,
            "the next worker waits, and none of the three holds anything",
        )


def test_unmeasured_utilization_is_logged_once_and_has_no_metric(
    silicon: Callable[..., Any], tmp_path: Path
) -> None:
    node, log = silicon("A100-80", 1), tmp_path / "log"
    state.repartition(node.path, 0, ["3g.40gb", "3g.40gb"])
    with _watching(node, log, "--utilization") as (_, port):
        _until(lambda: "slicewright_utilization_source_up{" in _metrics(port), "a thorough probe")
        _until(
            lambda: float(_value(_metrics(port), "slicewright_probe_duration_seconds_count")) >= 5,
            "more probes",
        )
        text = _metrics(port)
    assert _value(text, "slicewright_utilization_source_up") == "0"
    assert "utilization_ratio{" not in text
    assert log.read_text().count("utilization not measured gpu=0") == 1


def _value(text: str, metric: str) -> str:
    return next(line.rpartition(" ")[2] for line in text.splitlines() if line.startswith(metric))


def _children(pid: str) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def _has_ended(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_a_host_layout_of_a_gpu_that_never_was_is_refused(halves: Any, command: Any) -> None:
    refused = command(halves, "watch", "--port", "0", "7:off")
    assert (refused.returncode, "7: no such GPU; this machine has GPU 0, 1" in refused.stderr) == (
        2,
        True,
    )


def test_json_of_show_is_whole(halves: Any, command: Any) -> None:
    raw = json.loads(command(halves, "show", "--json").stdout)
    assert raw["gpus"][0]["vitals"]["temperature_c"] == 34
    assert raw["gpus"][0]["memory_slices"] == 8
