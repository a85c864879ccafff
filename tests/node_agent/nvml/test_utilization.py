"""How busy partitions are: measured where the driver measures it, absent where not, and never a
zero that was not measured.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from slicewright.node_agent.nvml import observed
from slicewright.node_agent.nvml.observed import Failure, Observation, Utilization
from slicewright.node_agent.reporting import gpu_metrics
from slicewright.rehearsal.cluster.silicon import models, state
from slicewright.telemetry.prometheus import lines

MakeSilicon = Callable[..., Any]
_NOT_SUPPORTED, _NO_PERMISSION, _FUNCTION_NOT_FOUND = 3, 4, 13


def _told(observation: Observation) -> list[str]:
    families = gpu_metrics.families(observation)
    return [
        line
        for family in families
        for line in lines(family)
        if "utilization" in family.name and not line.startswith("#")
    ]


@pytest.fixture
def two_halves(silicon: MakeSilicon) -> Any:
    """GPU 0 cut in two, GPU 1 whole; each busy with something else."""
    node = silicon("H100-80", 2)
    state.repartition(node.path, 0, ["3g.40gb", "3g.40gb"])
    first, second = (gi.id for gi in state.load(node.path).gpus[0].instances)
    state.set_load(node.path, state.Load(gpu=0, gi=first, graphics=90, sm=45, dram=12))
    state.set_load(node.path, state.Load(gpu=0, gi=second, graphics=0, sm=0, dram=0))
    state.set_load(node.path, state.Load(gpu=1, graphics=100, sm=99, dram=70))
    return node


def test_every_gpu_instance_and_every_whole_gpu_has_its_own(two_halves: Any) -> None:
    cut, whole = two_halves.observe(thorough=True, utilization=True).gpus
    assert [(u.graphics, u.sm, u.dram) for u in cut.utilization] == [
        (0.9, 0.45, 0.12),
        (0.0, 0.0, 0.0),
    ]
    assert {u.gpu_instance for u in cut.utilization} == {
        device.gpu_instance for device in cut.devices
    }
    assert whole.utilization == (Utilization(gpu_instance=None, graphics=1.0, sm=0.99, dram=0.7),)
    assert (cut.utilization_failure, whole.utilization_failure) == (None, None)


def test_an_observation_with_utilization_survives_the_pipe(two_halves: Any) -> None:
    observation = two_halves.observe(thorough=True, utilization=True)
    assert observed.parse(observed.dump(observation)) == observation


def test_utilization_is_measured_on_request_only(two_halves: Any) -> None:
    observation = two_halves.observe(thorough=True)
    assert all(
        gpu.utilization == () and gpu.utilization_failure is None for gpu in observation.gpus
    )
    assert not [
        line for line in _told(observation) if "slicewright_gpu_utilization_ratio" not in line
    ]


def test_the_metrics_name_the_partition_and_the_engine(two_halves: Any) -> None:
    observation = two_halves.observe(thorough=True, utilization=True)
    first = observation.gpus[0].devices[0]
    lines_ = [line for line in _told(observation) if first.uuid in line]
    assert [line.rpartition("engine=")[2] for line in lines_] == [
        '"graphics"} 0.9',
        '"sm"} 0.45',
        '"dram"} 0.12',
    ]
    assert all(line.startswith("slicewright_partition_utilization_ratio{") for line in lines_)
    assert (
        sum("slicewright_gpu_engine_utilization_ratio" in line for line in _told(observation)) == 3
    )
    assert [line.rpartition(" ")[2] for line in _told(observation) if "source_up" in line] == [
        "1",
        "1",
    ]


@pytest.mark.parametrize(
    "model", sorted(key for key, model in models.models().items() if model.slices)
)
def test_gpus_before_hopper_have_none(model: str, silicon: MakeSilicon) -> None:
    node = silicon(model, 1)
    state.repartition(node.path, 0, [models.model(model).slices[0].name])
    (gpu,) = node.observe(thorough=True, utilization=True).gpus
    if model.startswith("A"):
        assert gpu.utilization == ()
        assert gpu.utilization_failure is not None
        assert gpu.utilization_failure.code == _NOT_SUPPORTED
    else:
        assert len(gpu.utilization) == 1


@pytest.mark.parametrize("code", [_NO_PERMISSION, _FUNCTION_NOT_FOUND, 999])
@pytest.mark.parametrize(
    "call", ["nvmlGpmQueryDeviceSupport", "nvmlGpmSampleAlloc", "nvmlGpmMigSampleGet"]
)
def test_refused_utilization_is_absent_and_explained_and_affects_no_other_fact(
    call: str, code: int, two_halves: Any
) -> None:
    state.inject(two_halves.path, state.Injection(call=call, code=code))
    observation = two_halves.observe(thorough=True, utilization=True)
    cut = observation.gpus[0]
    assert observation.failure is None
    assert (cut.failure, cut.utilization, len(cut.devices)) == (None, (), 2)
    assert cut.utilization_failure is not None
    assert cut.utilization_failure.code == code
    assert not any("partition_utilization" in line for line in _told(observation))
    assert any("source_up" in line and line.endswith(" 0") for line in _told(observation))


def test_an_instance_that_went_away_meanwhile_is_left_out(two_halves: Any) -> None:
    state.inject(two_halves.path, state.Injection(call="nvmlGpmMetricsGet", code=2, times=1))
    cut, whole = two_halves.observe(thorough=True, utilization=True).gpus
    assert (len(cut.utilization), len(whole.utilization)) == (1, 1)


def test_utilization_of_a_lost_gpu_is_not_measured(two_halves: Any) -> None:
    state.lose(two_halves.path, 0)
    lost, whole = two_halves.observe(thorough=True, utilization=True).gpus
    assert (lost.utilization, lost.utilization_failure) == ((), None)
    assert isinstance(lost.failure, Failure)
    assert len(whole.utilization) == 1
