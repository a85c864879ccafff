"""The fake NVML and the fake CUDA in one directory, as a driver installs them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from slicewright.node_agent.compute import children
from slicewright.node_agent.compute.children import Limits
from slicewright.node_agent.compute.judgement import Proof
from slicewright.rehearsal.cluster.silicon import state
from tests.node_agent.conftest import Silicon

R580 = "580.65.06"


@pytest.fixture
def node(silicon: Callable[..., Silicon], driver_libraries: Path) -> Callable[..., Silicon]:
    """`node(8, ["1g.10gb"] * 7)`: so many H100, each partitioned so; none: whole GPUs."""

    def make(
        count: int, profiles: Sequence[str] = (), *, model: str = "H100-80", driver: str = R580
    ) -> Silicon:
        path = silicon(model, count, driver).path
        for index in range(count if profiles else 0):
            state.repartition(path, index, profiles)
        return Silicon(path, driver_libraries / "libnvidia-ml.so.1")

    return make


def devices_of(node: Silicon) -> Mapping[str, Sequence[str]]:
    """UUIDs that should compute, by the GPU's UUID."""
    return {
        gpu.uuid: [ci.uuid for gi in gpu.instances for ci in gi.compute_instances]
        if gpu.mig
        else [gpu.uuid]
        for gpu in state.load(node.path).gpus
    }


@pytest.fixture
def prove(monkeypatch: pytest.MonkeyPatch, driver_libraries: Path) -> Callable[..., Proof]:
    """`prove(node)`: the proof of every device, from this process."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(driver_libraries))
    monkeypatch.setenv(state.VARIABLE, "")

    def run(
        node: Silicon,
        *,
        occupants: children.Occupants = lambda _: (),
        limits: Limits = Limits(),  # noqa: B008 - frozen
        devices: Mapping[str, Sequence[str]] | None = None,
    ) -> Proof:
        os.environ[state.VARIABLE] = str(node.path)
        return children.prove(
            devices_of(node) if devices is None else devices, occupants=occupants, limits=limits
        )

    return run
