"""Compute mode and fabric as the agent reads them from the simulated driver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from slicewright.node_agent.display import show
from slicewright.node_agent.nvml import observed
from slicewright.node_agent.nvml.observed import Fabric, Observation
from slicewright.rehearsal.cluster.silicon import state

MakeSilicon = Callable[..., Any]
_HEALTHY = 0x1AA


def _fabrics(observation: Observation) -> list[Fabric | None]:
    return [gpu.fabric for gpu in observation.gpus]


@pytest.mark.parametrize("driver", ["580.65.06", "550.90.07", "535.183.01"])
def test_the_fabric_is_read_from_drivers_of_every_age(driver: str, silicon: MakeSilicon) -> None:
    """They have the third, the second and the first version of the structure."""
    node = silicon("H100-80", 8, driver)
    state.set_health(node.path, 1, fabric_state=1)
    state.set_health(node.path, 2, fabric_state=2)
    state.set_health(node.path, 3, fabric_state=0)
    assert _fabrics(node.observe()) == [
        Fabric(state="completed"),
        Fabric(state="not started"),
        Fabric(state="in progress"),
        Fabric(state="not supported"),
        *[Fabric(state="completed")] * 4,
    ]


def test_a_driver_without_the_function_reports_no_fabric(silicon: MakeSilicon) -> None:
    assert _fabrics(silicon("H100-80", 8, "510.47.03").observe()) == [None] * 8


@pytest.mark.parametrize("code", [2, 4, 15, 999])
def test_a_driver_that_refuses_the_call_reports_no_fabric(code: int, silicon: MakeSilicon) -> None:
    node = silicon("H100-80", 8)
    state.inject(node.path, state.Injection(call="nvmlDeviceGetGpuFabricInfoV", code=code))
    state.inject(node.path, state.Injection(call="nvmlDeviceGetComputeMode", code=code))
    observation = node.observe()
    assert _fabrics(observation) == [None] * 8
    assert [gpu.compute_mode for gpu in observation.gpus] == [None] * 8
    assert not any(gpu.failure for gpu in observation.gpus)


@pytest.mark.parametrize(
    ("mask", "faults", "notes"),
    [
        (0, (), ()),
        (_HEALTHY, (), ()),
        (0x1A9, (), ("degraded bandwidth",)),
        (0x1A6, (), ("route recovery",)),
        (0x16A, (), ("recovery after an access timeout",)),
        (0x19A, ("unhealthy route",), ()),
        (0x2AA, ("wrong system GUID",), ()),
        (0x3AA, ("wrong chassis serial number",), ()),
        (0x4AA, ("no partition of the fabric",), ()),
        (0x5AA, ("too few NVLinks",), ()),
        (0x9AA, ("wrong configuration 9",), ()),
        (0x499, ("unhealthy route", "no partition of the fabric"), ("degraded bandwidth",)),
    ],
)
def test_the_health_mask_is_read_field_by_field(
    mask: int, faults: tuple[str, ...], notes: tuple[str, ...], silicon: MakeSilicon
) -> None:
    node = silicon("B200", 8, "580.65.06")
    state.set_health(node.path, 0, fabric_health=mask)
    first, second = _fabrics(node.observe())[:2]
    assert first == Fabric(state="completed", faults=faults, notes=notes)
    assert second == Fabric(state="completed"), "a healthy mask is not zero"


def test_the_status_counts_only_when_the_set_up_has_ended(silicon: MakeSilicon) -> None:
    node = silicon("H100-80", 8)
    state.set_health(node.path, 0, fabric_status=999)
    state.set_health(node.path, 1, fabric_status=999, fabric_state=2)
    first, second = _fabrics(node.observe())[:2]
    assert first == Fabric(state="completed", status=999)
    assert second == Fabric(state="in progress")


def test_every_compute_mode_has_its_name_and_mig_mode_has_none(silicon: MakeSilicon) -> None:
    node = silicon("H100-80", 5)
    for index in range(4):
        state.set_health(node.path, index, compute_mode=index)
    state.repartition(node.path, 4, ["3g.40gb"])
    assert [gpu.compute_mode for gpu in node.observe().gpus] == [
        "default",
        "exclusive thread",
        "prohibited",
        "exclusive process",
        None,
    ]


def test_an_observation_with_a_fabric_survives_the_pipe_and_json(silicon: MakeSilicon) -> None:
    node = silicon("B200", 8, "580.65.06")
    state.set_health(node.path, 0, fabric_health=0x499, compute_mode=2)
    observation = node.observe()
    assert observed.parse(observed.dump(observation)) == observation
    assert observed.unpacked(observed.packed(observation)) == observation


def test_what_keeps_programs_from_a_gpu_is_shown_and_marked(silicon: MakeSilicon) -> None:
    node = silicon("B200", 8, "580.65.06")
    state.set_health(node.path, 0, fabric_health=0x499, compute_mode=2)
    state.set_health(node.path, 1, fabric_state=1)
    lines = [line.strip() for line in show.gpus(node.observe()).splitlines()]
    assert lines.count("! compute mode prohibited") == 1
    assert (
        "! NVLink fabric: completed, unhealthy route, no partition of the fabric, degraded "
        "bandwidth" in lines
    )
    assert "! NVLink fabric: not started" in lines
    assert lines.count("NVLink fabric: completed") == 6
