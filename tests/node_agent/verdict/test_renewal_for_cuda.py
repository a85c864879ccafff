"""A container whose NVML answers and whose CUDA does not is replaced once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from slicewright.apis.desired_state import Desired
from slicewright.node_agent.cluster.node import NodeState
from slicewright.node_agent.cluster.restart_memory import RestartMemory
from slicewright.node_agent.nvml.observed import Observation
from slicewright.node_agent.verdict.findings import Check, Verdict
from slicewright.node_agent.verdict.judge import judge
from slicewright.node_agent.verdict.renewal import PATIENCE_S, Renewal
from slicewright.node_agent.verdict.verify import verify

REFUSED = Check(
    reason="PartitionDoesNotCompute",
    where="GPU 0",
    expected="CUDA to compute",
    observed="CUDA_ERROR_UNKNOWN (999) in cuInit",
)


@dataclass
class Containers:
    """The agent's containers on one node, each created when the one before has ended."""

    desired: Desired
    observation: Observation
    node: NodeState
    directory: Path
    now: float = 1000.0
    ends: int = 0
    renewal: Renewal = field(init=False)

    def __post_init__(self) -> None:
        self.create()

    def create(self) -> None:
        self.renewal = Renewal(
            self.desired,
            end=self._end,
            memory=RestartMemory(self.directory),
            driver_loaded=lambda: True,
        )

    def _end(self) -> None:
        self.ends += 1

    def turn(self, *, refused: bool) -> Verdict:
        judged = verify(self.desired, self.observation, self.node)
        if refused:
            judged = judge(self.desired, (*judged.checks, REFUSED), (), on_host=False)
        self.now += 10
        ends = self.ends
        verdict = self.renewal.consider(
            judged,
            self.observation,
            self.node,
            self.now,
            nvml_matches=True,
            cuda_refuses=refused,
        )
        if self.ends > ends:
            self.create()
        return verdict

    def turns_for(self, seconds: float, *, refused: bool) -> Verdict:
        end = self.now + seconds
        while self.now < end:
            verdict = self.turn(refused=refused)
        return verdict


@pytest.fixture
def containers(desired: Desired, right: Observation, node: NodeState, tmp_path: Path) -> Containers:
    return Containers(desired, right, node, tmp_path)


def test_it_ends_once_it_has_been_refused_for_a_minute(containers: Containers) -> None:
    verdict = containers.turns_for(PATIENCE_S, refused=True)
    assert (verdict.reason, containers.ends) == ("DeviceNodesOutdated", 0)
    assert "CUDA_ERROR_UNKNOWN (999) in cuInit" in verdict.message
    containers.turn(refused=True)
    assert containers.ends == 1


def test_a_new_container_that_is_refused_too_reports_cudas_error_and_stays(
    containers: Containers,
) -> None:
    verdict = containers.turns_for(3600, refused=True)
    assert (verdict.reason, containers.ends) == ("PartitionDoesNotCompute", 1)


def test_an_end_in_vain_counts_until_the_devices_compute(containers: Containers) -> None:
    containers.turns_for(2 * PATIENCE_S, refused=True)
    containers.turn(refused=False)
    containers.turns_for(2 * PATIENCE_S, refused=True)
    assert containers.ends == 2


def test_after_a_reboot_it_is_tried_again(containers: Containers) -> None:
    containers.turns_for(3600, refused=True)
    containers.node = replace(containers.node, boot_id="another")
    containers.turns_for(3600, refused=True)
    assert containers.ends == 2
