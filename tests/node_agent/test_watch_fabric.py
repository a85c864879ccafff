"""The agent's loop on a machine with NVSwitches: a fabric that is set up late, and never."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slicewright.apis.desired_state import Desired, DesiredGpu
from slicewright.node_agent.verdict.fabric_patience import LIMIT_S
from slicewright.node_agent.watch import Pace
from slicewright.rehearsal.cluster.silicon import fabric, state
from tests.node_agent.clocks import Clocks
from tests.node_agent.one_node import EKS, Api, Node

_TURN_S = 20


@pytest.fixture
def node(
    silicon: Callable[..., Any], desired: Desired, clocks: Clocks, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Node:  # fmt: skip
    """Eight whole GPUs after a boot without Fabric Manager, and turns far apart."""
    whole = replace(
        desired,
        partitioner="none",
        gpu_count=8,
        gpus=(DesiredGpu(index="all", mig=False),),
        resources={"nvidia.com/gpu": 8},
    )
    pace = Pace(interval_s=_TURN_S, quick_s=_TURN_S, node_every_s=_TURN_S)
    machine = silicon("H100-80", 8)
    fabric.stop_fabric_manager(machine.path)
    state.reboot(machine.path)
    api = Api(resources={"nvidia.com/gpu": "8"})
    return Node(machine, api, clocks, whole, tmp_path, monkeypatch.setenv, pace=pace)


def test_a_fabric_that_is_set_up_in_time_is_waited_for(node: Node) -> None:
    with node.container(EKS, "legacy") as agent:
        agent.turns(10)
        fabric.start_fabric_manager(node.silicon.path)
        agent.turns(3)
        assert not agent.stop.is_set()
    assert node.api.reports == ["FabricNotReady", "PartitionsMatch"]


def test_a_fabric_that_is_never_set_up_has_failed_and_may_still_be_mended(node: Node) -> None:
    with node.container(EKS, "legacy") as agent:
        agent.turns(int(LIMIT_S / _TURN_S) + 3)
        assert node.api.reports == ["FabricNotReady", "FabricFailed"]
        assert "found not started: Fabric Manager does not run" in node.api.message
        fabric.start_fabric_manager(node.silicon.path)
        agent.turns(3)
        assert not agent.stop.is_set(), "a new container would see the same"
    assert node.api.reports == ["FabricNotReady", "FabricFailed", "PartitionsMatch"]
