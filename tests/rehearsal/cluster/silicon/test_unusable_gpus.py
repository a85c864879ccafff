"""A node whose GPUs are listed and cannot be used is held with a reason of its own, and released
when it is mended: simulated driver, agent's probe, verdict and report, controller's decision.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slicewright.apis.desired_state import Desired, DesiredGpu, DesiredSharing, hash_of
from slicewright.apis.names import STARTUP_TAINT_KEY
from slicewright.fleet_controller.decision.actions import (
    AddStartupTaint,
    RemoveStartupTaint,
    SetNodeCondition,
)
from slicewright.fleet_controller.decision.decide import decide
from slicewright.fleet_controller.objects.condition import Condition
from slicewright.fleet_controller.objects.report import read_report
from slicewright.node_agent.cluster.node import NodeState
from slicewright.node_agent.nvml.observed import Observation
from slicewright.node_agent.nvml.prober import Prober
from slicewright.node_agent.reporting import report
from slicewright.node_agent.verdict.verify import verify
from slicewright.rehearsal.cluster.silicon import fabric, state
from tests.fleet_controller.builders import NOW, build_node, build_pool

H100 = "NVIDIA H100 80GB HBM3"
_MINUTE_S = 60.0


class Node:
    """A node of whole GPUs in service, its agent's reports, and the controller's decisions."""

    def __init__(self, path: Path, library: Path, sharing: tuple[DesiredSharing, ...] = ()) -> None:
        gpus = state.load(path).gpus
        count = len(gpus) * (sharing[0].replicas if sharing else 1)
        self.path, self._library = path, library
        self.desired = Desired(
            pool="p",
            partitioner="none",
            gpu_count=len(gpus),
            gpu_models=(gpus[0].model.name,),
            gpus=(DesiredGpu(index="all", mig=False),),
            resources={"nvidia.com/gpu": count},
            sharing=sharing,
        )
        allocatable = {"nvidia.com/gpu": count}
        self._state = NodeState(
            name="n", uid="u", boot_id="b", capacity=allocatable, allocatable=allocatable
        )
        self._pool = build_pool(
            name="p", layout_hash=hash_of(self.desired), mig_config=None, selector={"pool": "p"}
        )
        self.node = build_node(
            name="n", uid="u", labels={"pool": "p"}, taint_keys=(STARTUP_TAINT_KEY,)
        )
        self.now = NOW

    @property
    def reason(self) -> str:
        return self.node.condition.reason if self.node.condition else ""

    @property
    def message(self) -> str:
        return self.node.condition.message if self.node.condition else ""

    def observe(self) -> Observation:
        prober = Prober.start(deadline_s=60.0, probe=self._probe)
        try:
            return prober.probe()
        finally:
            prober.close()

    def pass_(self) -> None:
        """A report, and the controller's decision a minute after the last one."""
        self.now += _MINUTE_S
        observation = self.observe()
        written = report.body(
            verify(self.desired, observation, self._state),
            observation,
            self._state,
            pool="p",
            layout_hash=hash_of(self.desired),
            at=self.now,
        )
        decision = decide([self._pool], [self.node], {"n": read_report(written)}, {}, {}, self.now)
        for action in decision.actions:
            match action:
                case AddStartupTaint():
                    self._change(taint_keys=(STARTUP_TAINT_KEY,))
                case RemoveStartupTaint():
                    self._change(taint_keys=(), verified_boot="b")
                case SetNodeCondition():
                    self._change(
                        condition=Condition(
                            status=action.status,
                            reason=action.reason,
                            message=action.message,
                            changed=action.changed,
                            written=action.now,
                        )
                    )
                case _:
                    pass

    def passes(self, count: int) -> None:
        for _ in range(count):
            self.pass_()

    def _change(self, **facts: object) -> None:
        self.node = replace(self.node, **facts)  # type: ignore[arg-type]

    def _probe(self) -> Observation:
        os.environ["LD_LIBRARY_PATH"] = str(self._library.parent)
        os.environ[state.VARIABLE] = str(self.path)
        from slicewright.node_agent.nvml import probe as nvml

        return nvml.probe()


MakeNode = Callable[..., Node]


@pytest.fixture
def in_service(library: Path, make_state: Any) -> MakeNode:
    """A node that was verified and released."""

    def make(model: str = "H100-80", count: int = 8, strategy: str = "") -> Node:
        sharing = (
            (
                DesiredSharing(
                    resource="nvidia.com/gpu",
                    strategy=strategy,  # type: ignore[arg-type]
                    replicas=4,
                ),
            )
            if strategy
            else ()
        )
        node = Node(make_state(model, count), library, sharing)
        node.passes(2)
        assert (node.node.held, node.reason) == (False, "PartitionsMatch")
        return node

    return make


def _held_for(node: Node, reason: str) -> None:
    node.passes(2)
    assert (node.node.held, node.reason) == (True, reason), node.message


def _released(node: Node) -> None:
    node.passes(2)
    assert (node.node.held, node.reason) == (False, "PartitionsMatch"), node.message


def test_a_node_without_fabric_manager_is_held_until_it_runs(in_service: MakeNode) -> None:
    node = in_service()
    fabric.stop_fabric_manager(node.path)
    state.reboot(node.path)
    _held_for(node, "FabricNotReady")
    assert "systemctl status nvidia-fabricmanager" in node.message
    fabric.start_fabric_manager(node.path)
    _released(node)


@pytest.mark.parametrize(
    "broken", [{"fabric_status": 999}, {"fabric_health": 0x19A}, {"fabric_health": 0x4AA}]
)
def test_a_node_with_a_broken_fabric_is_held_until_it_is_mended(
    broken: dict[str, int], in_service: MakeNode
) -> None:
    node = in_service("B200")
    state.set_health(node.path, 5, **broken)
    _held_for(node, "FabricFailed")
    assert node.message.startswith("GPU 5 wanted an NVLink fabric that is set up, found completed")
    state.heal(node.path)
    _released(node)


def test_a_driver_that_knows_no_fabric_on_a_machine_with_switches_is_no_match(
    in_service: MakeNode,
) -> None:
    node = in_service()
    state.inject(node.path, state.Injection(call="nvmlDeviceGetGpuFabricInfoV", code=3))
    _held_for(node, "FabricNotReady")
    assert "found not supported" in node.message
    state.heal(node.path)
    _released(node)


@pytest.mark.parametrize(
    ("model", "count"), [("A100-80", 8), ("H100-80", 1), ("H100-80", 4), ("H100-NVL", 8), ("T4", 4)]
)
def test_a_machine_without_a_fabric_that_nvml_knows_matches(
    model: str, count: int, in_service: MakeNode
) -> None:
    assert in_service(model, count).reason == "PartitionsMatch"


@pytest.mark.parametrize(
    ("mode", "name"), [(1, "exclusive thread"), (2, "prohibited"), (3, "exclusive process")]
)
@pytest.mark.parametrize("strategy", ["", "time-slicing"])
def test_a_node_whose_gpu_refuses_programs_is_held_until_its_mode_is_the_default(
    mode: int, name: str, strategy: str, in_service: MakeNode
) -> None:
    node = in_service("T4", 2, strategy)
    state.set_health(node.path, 1, compute_mode=mode)
    _held_for(node, "ComputeModeWrong")
    assert node.message.startswith(f"GPU 1 wanted compute mode default, found {name}")
    assert "nvidia-smi -c 0" in node.message
    state.set_health(node.path, 1, compute_mode=0)
    _released(node)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root changes the compute mode")
def test_the_command_of_the_message_mends_the_compute_mode(
    in_service: MakeNode, library: Path
) -> None:
    node = in_service("T4", 3)
    for index in (0, 2):
        state.set_health(node.path, index, compute_mode=3)
    _held_for(node, "ComputeModeWrong")
    assert node.message.startswith("GPUs 0, 2 wanted compute mode default, found exclusive process")
    assert "`nvidia-smi -c 0`" in node.message
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": str(library.parent),
        state.VARIABLE: str(node.path),
    }
    command = [sys.executable, "-m", "slicewright.rehearsal.cluster.node.nvidia_smi", "-c", "0"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert ended.stdout.count("Set compute mode to DEFAULT for GPU ") == 3
    _released(node)


def test_exclusive_process_mode_is_right_where_mps_shares_the_gpus(in_service: MakeNode) -> None:
    node = in_service("T4", 2, "mps")
    for index in range(2):
        state.set_health(node.path, index, compute_mode=3)
    _released(node)
    state.set_health(node.path, 0, compute_mode=2)
    _held_for(node, "ComputeModeWrong")
    state.reboot(node.path)
    _released(node)


def test_a_node_that_was_never_in_service_stays_held(library: Path, make_state: Any) -> None:
    path = make_state("H100-80", 8)
    fabric.stop_fabric_manager(path)
    state.reboot(path)
    node = Node(path, library)
    _held_for(node, "FabricNotReady")
    fabric.start_fabric_manager(path)
    _released(node)
