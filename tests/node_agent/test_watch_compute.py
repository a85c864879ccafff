"""The agent's loop on a node that waits for its release: a match only after a proof."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from slicewright.apis.desired_state import Desired
from slicewright.apis.names import STARTUP_TAINT
from slicewright.kubeapi import Client
from slicewright.node_agent.cluster.proof_memory import ProofMemory
from slicewright.node_agent.compute.prover import Prover
from slicewright.node_agent.reporting.health import Health
from slicewright.node_agent.reporting.metrics import Metrics
from slicewright.node_agent.verdict.compute_gate import ComputeGate
from slicewright.node_agent.watch import NodeWatch, Pace
from slicewright.rehearsal.cluster.silicon import state
from tests.node_agent.clocks import Clocks
from tests.node_agent.conftest import Silicon
from tests.node_agent.one_node import Api


@dataclass
class HeldApi(Api):
    """A Node with the startup taint, until it is released."""

    held: bool = True
    report: dict[str, Any] = field(default_factory=dict)

    def get(self, path: str, **query: str) -> dict[str, Any]:
        if self.report and path.endswith("/gpunodereports/n1"):
            return self.report
        node = super().get(path, **query)
        return {**node, "spec": {"taints": [dict(STARTUP_TAINT)] if self.held else []}}

    def patch(self, path: str, body: dict[str, Any], **options: str) -> dict[str, Any]:
        self.report = body
        return super().patch(path, body, **options)


@dataclass
class Agent:
    loop: NodeWatch
    api: HeldApi
    silicon: Silicon
    clocks: Clocks

    def turns(self, count: int) -> None:
        for _ in range(count):
            self.clocks.sleep(self.loop.turn())

    def partition(self) -> str:
        """The UUID of a partition of the second GPU."""
        gpu = state.load(self.silicon.path).gpus[1]
        return gpu.instances[0].compute_instances[0].uuid


@pytest.fixture
def agent(
    halves: Silicon,
    driver_libraries: Path,
    desired: Desired,
    clocks: Clocks,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Agent]:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(driver_libraries))
    monkeypatch.setenv(state.VARIABLE, str(halves.path))
    prober, prover = halves.prober(), Prover.start()
    api = HeldApi(resources={"nvidia.com/gpu": "4"})
    loop = NodeWatch(
        desired,
        prober,
        cast(Client, api),
        "n1",
        metrics=Metrics(desired),
        health=Health(stall_after_s=30, stale_after_s=30, clock=clocks.monotonic),
        pace=Pace(),
        gate=ComputeGate(prove=prover.prove, memory=ProofMemory(tmp_path)),
        clock=clocks.clock(),
    )
    yield Agent(loop, api, halves, clocks)
    loop.close()
    prover.close()
    prober.close()


def test_a_held_node_matches_once_its_partitions_have_computed(agent: Agent) -> None:
    agent.turns(3)
    assert agent.api.reports == ["PartitionsMatch"]


def test_the_report_has_each_device_of_the_proof(agent: Agent) -> None:
    agent.turns(2)
    compute = agent.api.report["report"]["compute"]
    assert (compute["outcome"], compute["deviceCount"]) == ("computed", 4)
    uuids = {
        ci.uuid
        for gpu in state.load(agent.silicon.path).gpus
        for gi in gpu.instances
        for ci in gi.compute_instances
    }
    assert {device["uuid"] for device in compute["devices"]} == uuids
    assert all(device["outcome"] == "computed" for device in compute["devices"])


def test_a_new_pod_of_the_agent_believes_the_report_of_its_predecessor(
    agent: Agent, tmp_path: Path
) -> None:
    agent.turns(2)
    proven = agent.api.report["report"]["compute"]
    state.inject(agent.silicon.path, state.Injection(call="cuInit", code=802))
    assert agent.loop._gate is not None
    agent.loop._gate.memory = ProofMemory(tmp_path / "new")
    agent.turns(30)
    assert agent.api.report["report"]["compute"] == proven
    assert agent.api.reports == ["PartitionsMatch"]


def test_a_partition_that_lists_and_does_not_compute_keeps_the_node_held(agent: Agent) -> None:
    broken = agent.partition()
    state.inject(
        agent.silicon.path, state.Injection(call="cuCtxSynchronize", code=719, uuid=broken)
    )
    agent.turns(3)
    assert agent.api.reports == ["PartitionDoesNotCompute"]
    assert f"GPU 1 wanted CUDA to compute, found {broken}: CUDA_ERROR_LAUNCH_FAILED (719)" in (
        agent.api.message
    )
    state.heal(agent.silicon.path)
    agent.clocks.sleep(300)
    agent.turns(40)
    assert agent.api.reports == ["PartitionDoesNotCompute", "PartitionsMatch"]


def test_a_node_in_service_is_not_tested(agent: Agent) -> None:
    agent.api.held = False
    state.inject(agent.silicon.path, state.Injection(call="cuInit", code=802))
    agent.turns(3)
    assert agent.api.reports == ["PartitionsMatch"]


def test_beside_a_process_nothing_is_proven_and_the_node_stays_held(agent: Agent) -> None:
    gi = state.load(agent.silicon.path).gpus[1].instances[0]
    state.run_process(agent.silicon.path, state.Process(gpu=1, gi=gi.id, ci=0, pid=77))
    agent.turns(2)
    assert agent.api.reports == ["ComputeUntried"]
    state.end_processes(agent.silicon.path)
    agent.clocks.sleep(60)
    agent.turns(40)
    assert agent.api.reports == ["ComputeUntried", "PartitionsMatch"]


def test_a_node_that_the_proof_has_released_stays_released(agent: Agent) -> None:
    agent.turns(2)
    agent.api.held = False
    state.inject(agent.silicon.path, state.Injection(call="cuInit", code=802))
    agent.turns(30)
    assert agent.api.reports == ["PartitionsMatch"]


def test_a_match_that_returns_is_not_proven_again(agent: Agent) -> None:
    """The same partitions, of the same boot and driver."""
    agent.turns(2)
    state.inject(
        agent.silicon.path,
        state.Injection(call="nvmlDeviceGetMigMode", code=15, times=-1),
        state.Injection(call="cuInit", code=802),
    )
    agent.turns(30)
    assert agent.api.reports[-1] != "PartitionsMatch"
    node = state.load(agent.silicon.path)
    state.change(agent.silicon.path, lambda _: _without(node, "nvmlDeviceGetMigMode"))
    agent.turns(80)
    assert agent.api.reports[-1] == "PartitionsMatch"


def _without(node: state.NodeSilicon, call: str) -> state.NodeSilicon:
    return replace(node, injections=tuple(i for i in node.injections if i.call != call))
