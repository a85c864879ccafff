"""Without Fabric Manager no program starts, whatever NVML says."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from slicewright.node_agent.compute.judgement import Proof
from slicewright.rehearsal.cluster.silicon import fabric, state
from tests.node_agent.conftest import Silicon


@pytest.mark.parametrize(
    ("model", "count", "outcome"),
    [("H100-80", 8, "failed"), ("A100-80", 8, "failed"), ("H100-80", 4, "computed")],
)
def test_without_fabric_manager_gpus_behind_switches_do_not_compute(
    model: str,
    count: int,
    outcome: str,
    node: Callable[..., Silicon],
    prove: Callable[..., Proof],
) -> None:
    machine = node(count, model=model)
    fabric.stop_fabric_manager(machine.path)
    proof = prove(machine)
    titles = {d.failure.sign.title for d in proof.devices if d.failure}
    assert (proof.outcome, titles) == (
        outcome,
        {"CUDA_ERROR_SYSTEM_NOT_READY (802)"} if outcome == "failed" else set(),
    )
    fabric.start_fabric_manager(machine.path)
    assert prove(machine).outcome == "computed"


def test_a_fabric_under_way_has_its_own_code(
    node: Callable[..., Silicon], prove: Callable[..., Proof]
) -> None:
    machine = node(8)
    for index in range(8):
        state.set_health(machine.path, index, fabric_state=2)
    titles = {d.failure.sign.title for d in prove(machine).devices if d.failure}
    assert titles == {"CUDA_ERROR_FABRIC_NOT_READY (919)"}
