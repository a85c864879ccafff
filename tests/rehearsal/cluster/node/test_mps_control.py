"""NVIDIA's MPS control daemon, unchanged, over a stand-in for CUDA's control program."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slicewright.rehearsal.cluster.kubelet.containers import stand_ins
from slicewright.rehearsal.cluster.node import mps_control
from slicewright.rehearsal.cluster.node.launcher import Bind
from slicewright.rehearsal.cluster.node.source_tree import SOURCE
from slicewright.rehearsal.cluster.silicon import state

REPLICAS = 4
_SHARED = {
    "version": "v1",
    "sharing": {"mps": {"resources": [{"name": "nvidia.com/gpu", "replicas": REPLICAS}]}},
}
_EXCLUSIVE_PROCESS = 3


def until(holds: Callable[[], object], log: Path) -> None:
    deadline = time.monotonic() + 180
    while not holds():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)


class Control:
    """The program, in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.pipes, self.logs = directory / "pipe", directory / "log"
        for made in (self.pipes, self.logs):
            made.mkdir(parents=True)
        stand_ins.write(directory / "shims")
        self._program = directory / "shims" / "nvidia-cuda-mps-control"
        # Stands for the first process of a container, with which the daemon ends.
        self._first = subprocess.Popen(["sleep", "600"], process_group=0)

    def ask(self, commands: str = "", *arguments: str) -> tuple[int, str]:
        """Exit code and output, of both kinds."""
        done = subprocess.run(
            [self._program, *arguments],
            input=commands,
            process_group=self._first.pid,
            # As from NVIDIA's programs: nothing else.
            env={
                "CUDA_MPS_PIPE_DIRECTORY": str(self.pipes),
                "CUDA_MPS_LOG_DIRECTORY": str(self.logs),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=180,
        )
        return done.returncode, done.stdout

    def end(self) -> None:
        self.ask("quit")
        self._first.kill()
        self._first.wait()


@pytest.fixture
def control(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    made = Control(tmp_path)
    yield made
    made.end()


def test_without_a_daemon_a_command_fails_as_the_real_one_does(control: Control) -> None:
    found = control.ask("get_default_active_thread_percentage")
    assert found == (1, "Cannot find MPS control daemon process\n")


def test_a_daemon_keeps_its_limits_until_it_quits(control: Control) -> None:
    assert control.ask("", "-d") == (0, "")
    assert control.ask("get_default_active_thread_percentage") == (0, "100.0\n")
    assert control.ask("set_default_active_thread_percentage 25")[0] == 0
    control.ask("set_default_device_pinned_mem_limit 0 5757M")
    asked = "get_default_active_thread_percentage\nget_default_device_pinned_mem_limit 0\n"
    assert control.ask(asked) == (0, "25.0\n5757M\n")
    assert control.ask("quit") == (0, "")
    assert control.ask("get_default_active_thread_percentage")[0] == 1
    assert control.ask("", "-d") == (0, "")
    assert control.ask("get_default_active_thread_percentage") == (0, "100.0\n")


def test_one_daemon_runs_per_directory(control: Control) -> None:
    control.ask("", "-d")
    assert control.ask("", "-d") == (1, "An instance of this daemon is already running\n")


def test_unknown_command_is_refused_by_name(control: Control) -> None:
    control.ask("", "-d")
    code, text = control.ask("start_server -uid 0")
    assert code == 1
    assert "does not know: start_server -uid 0" in text
    assert control.ask("", "-f")[0] == 2


def test_a_percentage_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="half"):
        mps_control.Limits().answer("set_default_active_thread_percentage half")


class Shared:
    """A node whose GPUs are shared by NVIDIA's own daemon."""

    def __init__(self, node: Any, directory: Path) -> None:
        self.node, self.root = node, directory / "mps"
        self._shims = directory / "shims"
        config = directory / "config"
        for made in (self.root, config):
            made.mkdir()
        (config / "config.yaml").write_text(json.dumps(_SHARED))
        stand_ins.write(self._shims)
        self._binds = (
            Bind(source=self.root, target=Path("/mps"), read_only=False),
            Bind(source=config, target=Path("/config")),
        )

    def start(self, *arguments: str) -> tuple[Any, Path]:
        """The daemon."""
        return self._start(self.node.toolchain.mps_control_daemon, *arguments)

    def start_plugin(self) -> tuple[Any, Path]:
        """The device plugin, which waits for the daemon."""
        return self._start(
            self.node.toolchain.device_plugin, "--mig-strategy=none", "--mps-root=/mps"
        )

    def _start(self, program: Path, *arguments: str) -> tuple[Any, Path]:
        workloads = stand_ins.of_workloads(self._shims)
        process, log = self.node.start(
            program,
            *arguments,
            env={
                "PATH": f"{self._shims}:{workloads}:/usr/bin:/bin",
                "PYTHONPATH": str(SOURCE),
                "CONFIG_FILE": "/config/config.yaml",
            },
            binds=self._binds,
            host_paths=(
                self._shims,
                Path(sys.base_prefix),
                Path(sys.prefix),
                SOURCE,
            ),
        )
        return process, log

    def modes(self) -> list[int]:
        """Compute modes of the GPUs, as NVML numbers them."""
        gpus = state.load(self.node.files.silicon).gpus
        return [gpu.health.get("compute_mode", 0) for gpu in gpus]


@pytest.fixture
def shared(make_node: Any, tmp_path: Path) -> Shared:
    return Shared(make_node("A10G", 2, "580.95.05"), tmp_path)


def test_each_replica_gets_its_part_and_the_gpus_are_exclusive(shared: Shared) -> None:
    process, log = shared.start()
    until((shared.root / ".ready").exists, log)
    assert (shared.root / "nvidia.com/gpu/.started").exists()
    assert shared.modes() == [_EXCLUSIVE_PROCESS] * 2
    told = (shared.root / "nvidia.com/gpu/log/control.log").read_text()
    assert "set_default_active_thread_percentage 25" in told
    # 23028 MiB of each GPU, in four parts.
    for index in (0, 1):
        assert f"set_default_device_pinned_mem_limit {index} 5757M" in told
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=180) == 0, log.read_text()
    assert shared.modes() == [0, 0]
    assert not (shared.root / ".ready").exists()


def test_a_daemon_that_is_killed_takes_the_control_program_with_it(shared: Shared) -> None:
    process, log = shared.start()
    until((shared.root / ".ready").exists, log)
    pipes = shared.root / "nvidia.com/gpu/pipe"
    assert (pipes / "control").exists()
    process.kill()
    process.wait(timeout=180)
    until(lambda: not (pipes / "control").exists(), log)


def test_the_shared_memory_is_mounted_where_the_pods_look(shared: Shared) -> None:
    process, log = shared.start("mount-shm")
    assert process.wait(timeout=180) == 0, log.read_text()
    assert (shared.root / "shm").is_dir()
    again, log = shared.start("mount-shm")
    assert again.wait(timeout=180) == 0, log.read_text()
