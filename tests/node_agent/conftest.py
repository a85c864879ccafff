"""Desired states and observations to start from, and the fake NVML library over a state file."""

from __future__ import annotations

import importlib
import itertools
import os
import pkgutil
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from slicewright import node_agent
from slicewright.apis.desired_state import Desired, DesiredGpu
from slicewright.node_agent import cli
from slicewright.node_agent.cluster.node import NodeState
from slicewright.node_agent.nvml.observed import Engines, MigDevice, Observation, ObservedGpu
from slicewright.node_agent.nvml.prober import Prober
from slicewright.rehearsal.cluster.silicon import models, state
from slicewright.rehearsal.host.toolchain.builders import sources
from slicewright.rehearsal.host.toolchain.tools import TOOLS, CLibrary
from tests.node_agent.clocks import Clocks

H100 = "NVIDIA H100 80GB HBM3"


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


@pytest.fixture
def desired() -> Desired:
    """Two H100, each cut in two halves, GKE's way."""
    return Desired(
        pool="halves",
        partitioner="gke",
        gpu_count=2,
        gpu_models=(H100,),
        gpus=(DesiredGpu(index="all", mig=True, instances={"3g.40gb": 2}),),
        resources={"nvidia.com/gpu": 4},
    )


@pytest.fixture
def half() -> Callable[[int], MigDevice]:
    def make(instance: int) -> MigDevice:
        return MigDevice(
            uuid=f"MIG-{instance}",
            gpu_instance=instance,
            compute_instance=0,
            gpu_slices=3,
            compute_slices=3,
            memory_mib=40448,
            multiprocessors=60,
            engines=Engines(decoders=3, encoders=0, jpeg=3, ofa=0),
            name=f"{H100} MIG 3g.40gb",
        )

    return make


@pytest.fixture
def right(half: Callable[[int], MigDevice]) -> Observation:
    """What `desired` looks like on the silicon, to an unprivileged agent."""
    gpus = tuple(
        ObservedGpu(
            index=index,
            uuid=f"GPU-{index}",
            model=H100,
            memory_mib=81559,
            mig="enabled",
            mig_pending="enabled",
            devices=(half(1), half(2)),
        )
        for index in range(2)
    )
    return Observation(driver="550.90.07", gpus=gpus)


@pytest.fixture
def node() -> NodeState:
    return NodeState(
        name="n1",
        uid="u1",
        boot_id="b1",
        capacity={"nvidia.com/gpu": 4},
        allocatable={"nvidia.com/gpu": 4},
    )


@pytest.fixture(scope="session")
def fake_library() -> Iterator[Path]:
    """The fake NVML, compiled."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler: the fake NVML library cannot be built")
    sources = sorted(str(source) for source in models.LIBRARY.glob("*.c"))
    flags = ["-shared", "-fPIC", "-O2", "-pthread", "-Wl,-soname,libnvidia-ml.so.1"]
    # Not in pytest's directory, which it keeps from other users: some tests probe as one.
    with tempfile.TemporaryDirectory(prefix="nvml-") as directory:
        Path(directory).chmod(0o755)
        library = Path(directory) / "libnvidia-ml.so.1"
        subprocess.run([compiler, *flags, *sources, "-o", str(library)], check=True)
        yield library


@pytest.fixture(scope="session")
def driver_libraries(fake_library: Path) -> Iterator[Path]:
    """A directory with libnvidia-ml.so.1 and libcuda.so.1."""
    (tool,) = (tool for tool in TOOLS if tool.name == "fake-cuda")
    assert isinstance(tool.source, CLibrary)
    files = [str(file) for file in sources(tool) if file.suffix == ".c"]
    with tempfile.TemporaryDirectory(prefix="driver-") as name:
        directory = Path(name)
        directory.chmod(0o755)
        shutil.copy(fake_library, directory / "libnvidia-ml.so.1")
        output = directory / "libcuda.so.1"
        subprocess.run(["cc", *tool.source.flags, "-Werror", *files, "-o", output], check=True)
        yield directory


@dataclass(frozen=True)
class Silicon:
    """A node's fake GPUs: `path` for `slicewright.rehearsal.cluster.silicon.state`, and probes of
    them through the real NVML binding.
    """

    path: Path
    library: Path

    def prober(
        self,
        *,
        deadline_s: float = 60.0,
        user: int | None = None,
        thorough: bool = False,
        utilization: bool = False,
    ) -> Prober:
        return Prober.start(
            deadline_s=deadline_s, probe=lambda: self._probe(user, thorough, utilization)
        )

    def observe(
        self, *, user: int | None = None, thorough: bool = False, utilization: bool = False
    ) -> Observation:
        prober = self.prober(user=user, thorough=thorough, utilization=utilization)
        try:
            return prober.probe()
        finally:
            prober.close()

    def _probe(self, user: int | None, thorough: bool, utilization: bool) -> Observation:
        """In the worker's process, which ends afterwards."""
        os.environ["LD_LIBRARY_PATH"] = str(self.library.parent)
        os.environ[state.VARIABLE] = str(self.path)
        from slicewright.node_agent.nvml import probe as nvml

        if user is not None:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
        return nvml.probe(thorough=thorough, with_utilization=utilization)


@pytest.fixture
def silicon(fake_library: Path) -> Iterator[Callable[..., Silicon]]:
    """`silicon("H100-80", 8)`: that many GPUs, MIG off."""
    # Not tmp_path: pytest keeps that from other users, as which some tests probe.
    with tempfile.TemporaryDirectory(prefix="silicon-") as directory:
        Path(directory).chmod(0o755)
        made = itertools.count()

        def make(model: str, count: int, driver: str = "550.90.07") -> Silicon:
            path = Path(directory) / f"node-{next(made)}"
            state.create(path, model, count, driver, path.name)
            return Silicon(path, fake_library)

        yield make


@pytest.fixture
def halves(silicon: Callable[..., Silicon]) -> Silicon:
    """Two GPUs, each cut in two halves."""
    node = silicon("H100-80", 2)
    for index in range(2):
        state.repartition(node.path, index, ["3g.40gb", "3g.40gb"])
    return node


@pytest.fixture
def in_this_process(fake_library: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """`in_this_process(path)`: from here on a probe asks the simulated GPUs of that state file,
    without a child process.
    """
    monkeypatch.setenv("LD_LIBRARY_PATH", str(fake_library.parent))
    # Set here, so that it is put back afterwards; the library reads it at every init.
    monkeypatch.setenv(state.VARIABLE, "")

    def on(path: Path) -> None:
        os.environ[state.VARIABLE] = str(path)

    return on


@pytest.fixture
def command() -> Callable[..., subprocess.CompletedProcess[str]]:
    """`command(silicon, "show", user=65534)`: the agent as a process on that silicon, here or as
    another user.
    """

    def run(
        node: Silicon, *arguments: str, user: int | None = None
    ) -> subprocess.CompletedProcess[str]:
        if user is not None:
            return _as_user(node, user, arguments)
        variables = {
            "PATH": os.environ["PATH"],
            "LD_LIBRARY_PATH": str(node.library.parent),
            state.VARIABLE: str(node.path),
        }
        return subprocess.run(
            [sys.executable, "-m", "slicewright.node_agent", *arguments],
            env=variables,
            cwd=Path(node_agent.__file__).resolve().parents[1],
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )

    return run


def _as_user(
    node: Silicon, user: int, arguments: tuple[str, ...]
) -> subprocess.CompletedProcess[str]:
    """In a fork of this process: another user may not be able to start its Python. All modules are
    loaded before.
    """
    for module in pkgutil.walk_packages(node_agent.__path__, "slicewright.node_agent."):
        if module.name != "slicewright.node_agent.__main__":
            importlib.import_module(module.name)
    streams = [tempfile.TemporaryFile("w+") for _ in range(2)]  # noqa: SIM115 - closed below
    pid = os.fork()
    if pid == 0:
        status = 99
        try:
            for number, stream in enumerate(streams, start=1):
                os.dup2(stream.fileno(), number)
            sys.stdout, sys.stderr = open(1, "w"), open(2, "w")  # noqa: SIM115 - descriptors
            os.environ["LD_LIBRARY_PATH"] = str(node.library.parent)
            os.environ[state.VARIABLE] = str(node.path)
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
            status = cli.main(arguments)
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(status)
    _, ended = os.waitpid(pid, 0)
    said = []
    for stream in streams:
        stream.seek(0)
        said.append(stream.read())
        stream.close()
    return subprocess.CompletedProcess(arguments, os.waitstatus_to_exitcode(ended), *said)
