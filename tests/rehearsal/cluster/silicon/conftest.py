"""The fake library, built from its sources, and state files for it."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pynvml
import pytest

from slicewright.rehearsal.cluster.silicon import state
from slicewright.rehearsal.cluster.silicon.models import LIBRARY

BUILD = (
    "cc",
    "-shared",
    "-fPIC",
    "-O2",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-pthread",
    "-Wl,-soname,libnvidia-ml.so.1",
)


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """libnvidia-ml.so.1, built without a warning."""
    built = tmp_path_factory.mktemp("fake-nvml") / "libnvidia-ml.so.1"
    subprocess.run([*BUILD, "-o", str(built), *map(str, sorted(LIBRARY.glob("*.c")))], check=True)
    return built


MakeState = Callable[..., Path]


@pytest.fixture
def make_state(tmp_path: Path) -> MakeState:
    """State files of new nodes."""
    made: list[Path] = []

    def make(model: str = "H100-80", count: int = 2, driver_version: str = "580.65.06") -> Path:
        path = tmp_path / f"node{len(made)}" / "state"
        state.create(path, model, count, driver_version, f"node{len(made)}")
        made.append(path)
        return path

    return make


@pytest.fixture(scope="session")
def bound(library: Path) -> Any:
    # nvidia-ml-py has no setting for the library's path; it loads by name only while it has none.
    pynvml.nvmlLib = ctypes.CDLL(str(library))
    return pynvml


class Nvml:
    """nvidia-ml-py on the state file of one node after another."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.open = False

    def on(self, path: Path) -> Any:
        """The module, initialised on the node with this state file."""
        self.close()
        os.environ[state.VARIABLE] = str(path)
        self.module.nvmlInit()
        self.open = True
        return self.module

    def close(self) -> None:
        if self.open:
            self.module.nvmlShutdown()
            self.open = False


@pytest.fixture
def nvml(bound: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Nvml]:
    monkeypatch.setenv(state.VARIABLE, "")
    made = Nvml(bound)
    yield made
    made.close()


@pytest.fixture
def nobody() -> Iterator[Callable[[], None]]:
    """A function that makes this process an ordinary user's until the test is over."""
    if os.geteuid() != 0:
        yield lambda: None
        return
    yield lambda: os.seteuid(65534)
    os.seteuid(0)
