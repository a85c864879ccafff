"""A process that has a GPU open is in the way of a change of MIG mode, and keeps the GPU warm."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slicewright.rehearsal.cluster.silicon import device_nodes, device_rules, state

SUCCESS, UNKNOWN, IN_USE, RESET_REQUIRED = 0, 999, 19, 16
HOLD = """
import ctypes, sys, time
library = ctypes.CDLL(sys.argv[1])
handle = ctypes.c_void_p()
assert library.nvmlInit_v2() == 0
assert library.nvmlDeviceGetHandleByIndex_v2(int(sys.argv[2]), ctypes.byref(handle)) == 0
print("open", flush=True)
time.sleep(600)
"""


class Client:
    """A copy of the library: a client of its own, in this process."""

    def __init__(self, library: Path) -> None:
        self._nvml = ctypes.CDLL(str(library))
        assert self._nvml.nvmlInit_v2() == SUCCESS

    def open(self, index: int) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        assert self._nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)) == SUCCESS
        return handle

    def set_mig_mode(self, index: int, mode: int = 1) -> int:
        """The status of the activation."""
        activation = ctypes.c_int(-1)
        called = self._nvml.nvmlDeviceSetMigMode(
            self.open(index), ctypes.c_uint(mode), ctypes.byref(activation)
        )
        assert called == SUCCESS
        return activation.value

    def close(self) -> None:
        """May be repeated."""
        self._nvml.nvmlShutdown()


MakeClient = Callable[[], Client]


@pytest.fixture
def path(make_state: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    found: Path = make_state("H100-80", 2)
    monkeypatch.setenv(state.VARIABLE, str(found))
    return found


@pytest.fixture
def client(library: Path, path: Path, tmp_path: Path) -> Iterator[MakeClient]:
    made: list[Client] = []

    def make() -> Client:
        copy = tmp_path / f"copy{len(made)}.so"
        shutil.copy(library, copy)
        made.append(Client(copy))
        return made[-1]

    yield make
    for one in made:
        one.close()


def modes(path: Path) -> list[tuple[bool, bool]]:
    return [(gpu.mig, gpu.mig_pending) for gpu in state.load(path).gpus]


def test_an_open_handle_of_another_client_makes_the_mode_wait(
    client: MakeClient, path: Path
) -> None:
    watcher, partitioner = client(), client()
    watcher.open(1)
    assert [partitioner.set_mig_mode(index) for index in range(2)] == [SUCCESS, IN_USE]
    assert modes(path) == [(True, True), (False, True)]
    # Nothing happens when it closes: somebody has to ask again.
    watcher.close()
    assert modes(path) == [(True, True), (False, True)]
    assert partitioner.set_mig_mode(1) == SUCCESS
    assert modes(path) == [(True, True), (True, True)]


def test_a_client_that_has_no_handle_and_its_own_handles_are_in_nobodys_way(
    client: MakeClient, path: Path
) -> None:
    client()
    partitioner = client()
    partitioner.open(0)
    partitioner.open(0)
    assert partitioner.set_mig_mode(0) == SUCCESS


def test_an_ampere_gpu_in_use_says_so_and_its_mode_changes_by_the_reboot(
    client: MakeClient, path: Path, make_state: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ampere = make_state("A100-40", 1)
    monkeypatch.setenv(state.VARIABLE, str(ampere))
    watcher, partitioner = client(), client()
    watcher.open(0)
    assert partitioner.set_mig_mode(0) == IN_USE
    watcher.close()
    assert partitioner.set_mig_mode(0) == RESET_REQUIRED
    assert modes(ampere) == [(False, True)]
    state.reboot(ampere)
    assert modes(ampere) == [(True, True)]


def test_a_client_that_is_killed_holds_nothing(
    client: MakeClient, path: Path, library: Path
) -> None:
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(library), "0"], stdout=subprocess.PIPE, text=True
    )
    with other:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        partitioner = client()
        assert partitioner.set_mig_mode(0) == IN_USE
        other.send_signal(signal.SIGKILL)
    assert partitioner.set_mig_mode(0) == SUCCESS


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_a_client_of_an_ordinary_user_counts(
    client: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory() as name:
        # pytest keeps its own directories from other users.
        Path(name).chmod(0o755)
        path = Path(name) / "state"
        state.create(path, "H100-80", 1, "580.65.06", "n")
        monkeypatch.setenv(state.VARIABLE, str(path))
        partitioner, watcher = client(), client()
        os.seteuid(65534)
        try:
            watcher.open(0)
        finally:
            os.seteuid(0)
        assert partitioner.set_mig_mode(0) == IN_USE


def test_a_gpu_that_another_client_has_open_is_warm(client: MakeClient, path: Path) -> None:
    state.set_health(path, 0, persistence=0, start_ms=300)
    first, second = client(), client()
    began = time.monotonic()
    first.open(0)
    cold_s = time.monotonic() - began
    began = time.monotonic()
    second.open(0)
    assert cold_s >= 0.3 > time.monotonic() - began
    first.close()
    second.close()
    third = client()
    began = time.monotonic()
    third.open(0)
    assert time.monotonic() - began >= 0.3


def test_a_container_whose_rules_systemd_has_rewritten_opens_nothing(
    path: Path, library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml = ctypes.CDLL(str(library))

    def init_in(container: str, *nodes: str) -> int:
        dev = tmp_path / container
        dev.mkdir(exist_ok=True)
        for name in nodes:
            (dev / name).touch()
        monkeypatch.setenv(device_nodes.VARIABLE, str(dev))
        result = int(nvml.nvmlInit_v2())
        if result == SUCCESS:
            nvml.nvmlShutdown()
        return result

    def marker() -> str:
        return device_rules.marker(device_rules.times_written(path))

    assert init_in("hooked", "nvidiactl", marker()) == SUCCESS
    assert init_in("by-cdi", "nvidiactl") == SUCCESS
    device_rules.reload_daemon(path)
    assert init_in("hooked") == UNKNOWN
    assert init_in("by-cdi") == SUCCESS
    assert init_in("later", "nvidiactl", marker()) == SUCCESS
    device_rules.reload_daemon(path)
    assert (init_in("later"), init_in("by-cdi")) == (UNKNOWN, SUCCESS)
