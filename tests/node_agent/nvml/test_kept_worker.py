"""What a worker that is kept sees when GPUs and driver change between two of its looks: what a new
process would.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slicewright import node_agent
from slicewright.node_agent.nvml.observed import Observation
from slicewright.node_agent.nvml.prober import Prober
from slicewright.rehearsal.cluster.silicon import state
from slicewright.rehearsal.cluster.silicon.node_silicon import Injection

LIBRARY_NOT_FOUND, FUNCTION_NOT_FOUND, GPU_IS_LOST, VERSION_MISMATCH = 12, 13, 15, 18


@pytest.fixture
def probing(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """`with probing(node, libraries)`: a prober as the agent starts it."""

    @contextmanager
    def start(node: Any, libraries: Path | None = None) -> Iterator[Prober]:
        monkeypatch.setenv("LD_LIBRARY_PATH", str(libraries or node.library.parent))
        monkeypatch.setenv(state.VARIABLE, str(node.path))
        prober = Prober.start(deadline_s=60)
        try:
            yield prober
        finally:
            prober.close()

    return start


def _worker(prober: Prober) -> str:
    return Path(f"/proc/{prober.pid}/task/{prober.pid}/children").read_text()


def _profiles(observation: Observation) -> list[Counter[int]]:
    """Instances of each GPU by their slices."""
    return [Counter(device.gpu_slices for device in gpu.devices) for gpu in observation.gpus]


def _code(observation: Observation) -> int | None:
    failure = observation.failure or next((g.failure for g in observation.gpus if g.failure), None)
    return failure.code if failure else None


def test_partitions_made_and_destroyed_and_a_gpu_added(
    silicon: Callable[..., Any], probing: Callable[..., Any]
) -> None:
    node, more = silicon("H100-80", 2), silicon("H100-80", 3)
    with probing(node) as prober:
        assert _profiles(prober.probe()) == [{}, {}]
        worker = _worker(prober)
        state.repartition(node.path, 1, ["1g.10gb"] * 7)
        assert _profiles(prober.probe()) == [{}, {1: 7}]
        state.repartition(node.path, 1, ["3g.40gb"] * 2)
        assert _profiles(prober.probe()) == [{}, {3: 2}]
        added = state.load(more.path).gpus[2]
        state.change(node.path, lambda found: replace(found, gpus=(*found.gpus, added)))
        assert _profiles(prober.probe()) == [{}, {3: 2}, {}]
        assert _worker(prober) == worker, "one worker saw it all"


def test_a_gpu_lost_and_found(silicon: Callable[..., Any], probing: Callable[..., Any]) -> None:
    node = silicon("H100-80", 2)
    with probing(node) as prober:
        well = prober.probe()
        state.lose(node.path, 1)
        lost = prober.probe()
        assert [gpu.failure and gpu.failure.code for gpu in lost.gpus] == [None, GPU_IS_LOST]
        state.heal(node.path)
        assert prober.probe() == well


def test_a_driver_upgraded_in_place(
    silicon: Callable[..., Any], probing: Callable[..., Any]
) -> None:
    """New kernel module: the version that the library reports; while the two differ, an error."""
    node = silicon("H100-80", 1)
    with probing(node) as prober:
        assert prober.probe().driver == "550.90.07"
        worker = _worker(prober)
        state.inject(node.path, Injection(call="nvmlInit", code=VERSION_MISMATCH))
        assert _code(prober.probe()) == VERSION_MISMATCH
        assert _worker(prober) != worker
        state.heal(node.path)
        state.change(node.path, lambda found: replace(found, driver_version="580.65.06"))
        assert prober.probe().driver == "580.65.06"


_HEAD = """
import _ctypes, shutil, sys
from pathlib import Path
from slicewright.node_agent.nvml.prober import Prober
prober, real, directory = Prober.start(), sys.argv[1], Path(sys.argv[2])
library = directory / "libnvidia-ml.so.1"
def probe():
    failure = prober.probe().failure
    print(failure.code if failure else 0)
"""


def _codes(node: Any, directory: Path, script: str) -> list[int]:
    """What `script` prints. In a process that has never loaded another libnvidia-ml.so.1: the
    dynamic loader takes what is loaded under a name for what is asked for by that name.
    """
    done = subprocess.run(
        [sys.executable, "-c", f"{_HEAD}{script}prober.close()\n", node.library, directory],
        env={"LD_LIBRARY_PATH": str(directory), state.VARIABLE: str(node.path)},
        cwd=Path(node_agent.__file__).resolve().parents[1],
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    return [int(code) for code in done.stdout.split()]


_REPLACED = """
library.symlink_to(real)
probe()
library.unlink()
probe()
shutil.copy(_ctypes.__file__, library)
probe()
library.unlink()
shutil.copy(real, library)
probe()
"""


def test_a_library_replaced_while_its_worker_waits_is_not_used_again(
    silicon: Callable[..., Any], tmp_path: Path
) -> None:
    """New library, old kernel module: a pod that starts now meets the new one."""
    codes = _codes(silicon("H100-80", 1), tmp_path, _REPLACED)
    assert codes == [0, LIBRARY_NOT_FOUND, FUNCTION_NOT_FOUND, 0]


_LATE = """
probe()
directory.mkdir()
shutil.copy(real, library)
probe()
"""


def test_a_library_whose_directory_comes_after_the_agent_is_found(
    silicon: Callable[..., Any], tmp_path: Path
) -> None:
    """As on GKE. The dynamic loader itself never looks again into a directory that was not there
    when its process started.
    """
    codes = _codes(silicon("H100-80", 1), tmp_path / "lib64", _LATE)
    assert codes == [LIBRARY_NOT_FOUND, 0]
