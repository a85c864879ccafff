"""The agent's probes against GKE's partitioner: both as they are, on one simulated clock.

The agent is its real loop, and each of the two opens the GPUs through a copy of the fake library of
its own, so that the simulated driver sees two clients.
"""

from __future__ import annotations

import ctypes
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from slicewright.apis.desired_state import Desired
from slicewright.kubeapi import Client
from slicewright.node_agent.cluster.restart_memory import RestartMemory
from slicewright.node_agent.nvml.observed import Failure, MigDevice, Observation, ObservedGpu
from slicewright.node_agent.nvml.prober import Prober
from slicewright.node_agent.reporting.health import Health
from slicewright.node_agent.reporting.metrics import Metrics
from slicewright.node_agent.verdict.partitioning import GKE_PATIENCE_S, Partitioning
from slicewright.node_agent.verdict.renewal import Renewal
from slicewright.node_agent.watch import NodeWatch, Pace
from slicewright.rehearsal.cluster.silicon import state
from tests.node_agent.clocks import Clocks
from tests.node_agent.conftest import H100
from tests.node_agent.one_node import Api

GPUS = 8
HALVES = ("3g.40gb", "3g.40gb")
BACKOFF_S = (10.0, 20.0, 40.0, 80.0, 160.0)
Steps = Iterator[float]
"""Each value: seconds of the simulated clock until the next step."""


class NvmlClient:
    """Opens GPUs through a library of its own."""

    def __init__(self, library: Path) -> None:
        self._nvml = ctypes.CDLL(str(library))
        self.has_open: set[int] = set()

    def open(self, index: int) -> ctypes.c_void_p:
        self.has_open.add(index)
        handle = ctypes.c_void_p()
        assert self._nvml.nvmlInit_v2() == 0
        assert self._nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)) == 0
        return handle

    def enable_mig(self, handle: ctypes.c_void_p) -> None:
        """Ignores "In use by another client", as `nvidia-smi -mig 1` does."""
        activation = ctypes.c_int()
        on = ctypes.c_uint(1)
        assert self._nvml.nvmlDeviceSetMigMode(handle, on, ctypes.byref(activation)) == 0

    def close(self) -> None:
        self.has_open.clear()
        while self._nvml.nvmlShutdown() == 0:
            pass


@dataclass
class Machine:
    """A node from the load of its driver at second 0 on."""

    path: Path
    random: random.Random
    nvml: NvmlClient
    """The partitioner's."""
    of_agent: NvmlClient
    clocks: Clocks
    api: Api
    steps: Steps = field(init=False)
    next_step: float = 0.0
    partitioned_at: float = float("inf")

    def __post_init__(self) -> None:
        self.epoch = self.clocks.monotonic_s + 60.0
        self.next_step = self.epoch + self.random.uniform(1.0, 90.0)
        self.steps = self._partition()

    @property
    def driver_loaded(self) -> bool:
        return self.clocks.monotonic_s >= self.epoch

    @property
    def modes(self) -> list[bool]:
        return [gpu.mig for gpu in state.load(self.path).gpus]

    def start_s(self, index: int, *, other: NvmlClient) -> float:
        """The time that a client needs to open a GPU: a cold one starts, without persistence."""
        return 0.01 if index in other.has_open else self.random.uniform(0.3, 3.0)

    def sleep(self, seconds: float) -> None:
        """The clock goes on, and the partitioner with it."""
        until = self.clocks.monotonic_s + seconds
        while self.next_step <= until:
            self.clocks.sleep(max(0.0, self.next_step - self.clocks.monotonic_s))
            self.next_step = self.clocks.monotonic_s + next(self.steps)
        self.clocks.sleep(until - self.clocks.monotonic_s)

    def _partition(self) -> Steps:
        """GKE's partition_gpu.go: its container starts again, ever later, after each failure."""
        for backoff_s in (*BACKOFF_S, float("inf")):
            yield from self._look()
            if not self.modes[0]:
                yield from self._enable_mig()
            yield from self._look()
            if all(self.modes):
                break
            yield backoff_s
        for index in range(GPUS):
            state.repartition(self.path, index, HALVES)
            yield self.random.uniform(0.1, 1.0)
        self.partitioned_at = self.clocks.monotonic_s
        self.api.resources = {"nvidia.com/gpu": str(GPUS * len(HALVES))}
        yield float("inf")

    def _look(self) -> Steps:
        """`nvidia-smi`, of which only the line of GPU 0 counts."""
        for index in range(GPUS):
            self.nvml.open(index)
            yield self.start_s(index, other=self.of_agent)
        self.nvml.close()

    def _enable_mig(self) -> Steps:
        """`nvidia-smi -mig 1`, once for all."""
        handles = []
        for index in range(GPUS):
            handles.append(self.nvml.open(index))
            yield self.start_s(index, other=self.of_agent)
        for handle in handles:
            self.nvml.enable_mig(handle)
            yield self.random.uniform(0.1, 1.0)
        self.nvml.close()


@dataclass
class ColdProber:
    """Probes of a container: each opens the GPUs one after the other, and at its end closes all."""

    machine: Machine
    device: Callable[[int], MigDevice]
    created: float

    def probe(self, *, thorough: bool = False) -> Observation:
        if self.created < self.machine.epoch:
            code, text = (9, "Driver Not Loaded") if self.machine.driver_loaded else (12, "none")
            return Observation(failure=Failure(call="nvmlInit", code=code, text=text))
        machine, nvml = self.machine, self.machine.of_agent
        for index in range(GPUS):
            nvml.open(index)
            machine.sleep(machine.start_s(index, other=machine.nvml))
        nvml.close()
        devices = (self.device(1), self.device(2))
        sees_devices = self.created >= self.machine.partitioned_at
        gpus = tuple(
            ObservedGpu(
                index=index,
                uuid=f"GPU-{index}",
                model=H100,
                memory_mib=81559,
                mig="enabled" if on else "disabled",
                mig_pending="enabled" if on else "disabled",
                devices=devices if on and sees_devices else (),
            )
            for index, on in enumerate(self.machine.modes)
        )
        return Observation(driver="550.90.07", gpus=gpus)

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class Start:
    """The outcome of a start of the node."""

    modes: tuple[bool, ...]
    reports: tuple[str, ...]
    verified_s: float | None
    """Seconds from the device plugin's first list; None: not verified."""


@pytest.fixture
def start(
    fake_library: Path,
    tmp_path: Path,
    desired: Desired,
    half: Callable[[int], MigDevice],
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., Start]:
    clients = []
    for name in ("agent", "partitioner"):
        copy = tmp_path / f"{name}.so"
        shutil.copy(fake_library, copy)
        clients.append(NvmlClient(copy))
    of_agent, of_partitioner = clients
    wanted = replace(desired, gpu_count=GPUS, resources={"nvidia.com/gpu": GPUS * len(HALVES)})

    def run(seed: int, *, waits: bool, for_s: float = 700.0) -> Start:
        directory = tmp_path / f"{seed}-{waits}"
        path = directory / "state"
        state.create(path, "H100-80", GPUS, "550.90.07", "n")
        monkeypatch.setenv(state.VARIABLE, str(path))
        clocks, api = Clocks(), Api()
        machine = Machine(path, random.Random(seed), of_partitioner, of_agent, clocks, api)
        end = clocks.monotonic_s + for_s
        # The first container is as old as the boot, or newer than the driver.
        machine.sleep(machine.random.choice([0.0, machine.random.uniform(60.0, 100.0)]))
        while clocks.monotonic_s < end and api.reports[-1:] != ["PartitionsMatch"]:
            _run_container(
                machine,
                ColdProber(machine, half, clocks.monotonic_s),
                wanted,
                directory,
                end,
                waits=waits,
            )
            machine.sleep(10.0)
        of_partitioner.close()
        verified = api.reports[-1:] == ["PartitionsMatch"]
        return Start(
            tuple(machine.modes),
            tuple(api.reports),
            clocks.monotonic_s - 10.0 - machine.partitioned_at if verified else None,
        )

    return run


def _run_container(
    machine: Machine,
    prober: ColdProber,
    desired: Desired,
    memory: Path,
    end: float,
    *,
    waits: bool,
) -> None:
    """The agent in one container, until it ends or matches."""
    clocks, ends = machine.clocks, [False]

    def stop() -> None:
        ends[0] = True

    driver_loaded = lambda: machine.driver_loaded  # noqa: E731
    loop = NodeWatch(
        desired,
        cast(Prober, prober),
        cast(Client, machine.api),
        "n1",
        metrics=Metrics(desired),
        health=Health(stall_after_s=30, stale_after_s=30, clock=clocks.monotonic),
        pace=Pace(),
        renewal=Renewal(
            desired, end=stop, memory=RestartMemory(memory), driver_loaded=driver_loaded
        ),
        partitioning=Partitioning(driver_loaded) if waits else None,
        clock=clocks.clock(),
        kernel_log=memory / "no kernel log",
    )
    while not ends[0] and clocks.monotonic_s < end:
        machine.sleep(loop.turn())
        if machine.api.reports[-1:] == ["PartitionsMatch"]:
            return


def test_an_agent_that_probes_at_once_can_leave_a_gpu_without_mig(
    start: Callable[..., Start],
) -> None:
    """As the agent did before it waited. The partitioner looks at GPU 0 only, and so never asks
    again.
    """
    starts = (start(seed, waits=False) for seed in range(200))
    broken = next(one for one in starts if one.modes[0] and not all(one.modes))
    assert (broken.reports[-1], broken.verified_s) == ("NotPartitioned", None)


def test_the_agent_is_in_nobodys_way_in_200_starts(start: Callable[..., Start]) -> None:
    starts = [start(seed, waits=True) for seed in range(200)]
    assert [one for one in starts if one.verified_s is None or not all(one.modes)] == []
    # A new container that sees the partitions, and a cold probe.
    assert max(one.verified_s or 0.0 for one in starts) < 60
    assert {one.reports[-1] for one in starts} == {"PartitionsMatch"}


def test_a_partitioner_that_never_ends_is_found_after_the_patience(
    start: Callable[..., Start], monkeypatch: pytest.MonkeyPatch
) -> None:
    def hang(machine: Machine) -> Any:
        yield float("inf")

    monkeypatch.setattr(Machine, "_partition", hang)
    found = start(3, waits=True, for_s=GKE_PATIENCE_S * 3)
    assert found.reports[-1] == "NotPartitioned"
