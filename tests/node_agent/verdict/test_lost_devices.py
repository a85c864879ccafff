"""A container that has matched and is refused by the driver ends once, whatever NVML's error."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slicewright.apis.desired_state import Desired
from slicewright.node_agent.cluster.node import NodeState
from slicewright.node_agent.cluster.restart_memory import RestartMemory
from slicewright.node_agent.nvml.errors import MEANINGS, REASON_OF
from slicewright.node_agent.nvml.observed import Failure, Observation
from slicewright.node_agent.verdict.renewal import FORGOTTEN_S, PATIENCE_S, Renewal
from slicewright.node_agent.verdict.verify import verify
from tests.properties import examples

SAME_EVERYWHERE = {"DriverHung", "ProbeBroken", "GpuLost", "GpuResetRequired"}
REFUSALS = sorted(
    code for code in MEANINGS if REASON_OF.get(code, "DriverError") not in SAME_EVERYWHERE
)
FALSE_ALARMS = sorted(MEANINGS.keys() - set(REFUSALS))


class Container:
    """The agent in a container of the node, a turn every five seconds."""

    def __init__(self, desired: Desired, node: NodeState, directory: Path) -> None:
        self.desired, self.node, self.now = desired, node, 1_000.0
        self.ends: list[float] = []
        self.reasons: list[str] = []
        self._renewal = Renewal(
            desired,
            end=lambda: self.ends.append(self.now),
            memory=RestartMemory(directory),
            driver_loaded=lambda: False,
        )

    def run(self, observation: Observation, seconds: float) -> None:
        """Runs until the process ends."""
        end = self.now + seconds
        while self.now < end and not self.ends:
            judged = verify(self.desired, observation, self.node)
            verdict = self._renewal.consider(judged, observation, self.node, self.now)
            self.reasons.append(verdict.reason)
            self.now += 5


def _refused(code: int) -> Observation:
    return Observation(failure=Failure(call="nvmlInit", code=code, text="an error"))


def _one_gpu_refused(right: Observation, code: int) -> Observation:
    failure = Failure(call="nvmlDeviceGetUUID", code=code, text="an error")
    return replace(right, gpus=(right.gpus[0], replace(right.gpus[1], failure=failure)))


@pytest.mark.parametrize("code", REFUSALS)
def test_a_container_that_is_refused_after_a_match_ends_once(
    code: int, desired: Desired, right: Observation, node: NodeState, tmp_path: Path
) -> None:
    first = Container(desired, node, tmp_path)
    first.run(right, 100)
    first.run(_refused(code), FORGOTTEN_S)
    assert len(first.ends) == 1
    assert first.ends[0] - 1_100 <= PATIENCE_S
    assert first.reasons[-1] == "DeviceNodesOutdated"


@pytest.mark.parametrize("code", [17, 999])
def test_the_next_container_keeps_the_reason_if_it_is_refused_too(
    code: int, desired: Desired, right: Observation, node: NodeState, tmp_path: Path
) -> None:
    first = Container(desired, node, tmp_path)
    first.run(right, 100)
    first.run(_refused(code), FORGOTTEN_S)
    assert first.ends == [1_100 + PATIENCE_S]
    second = Container(desired, node, tmp_path)
    second.now = first.now
    second.run(_refused(code), 10 * FORGOTTEN_S)
    assert (second.ends, set(second.reasons)) == ([], {"DriverError"})


@pytest.mark.parametrize("code", FALSE_ALARMS)
def test_a_fault_that_every_container_meets_ends_none(
    code: int, desired: Desired, right: Observation, node: NodeState, tmp_path: Path
) -> None:
    for fault in (_refused(code), _one_gpu_refused(right, code)):
        container = Container(desired, node, tmp_path)
        container.run(right, 100)
        container.run(fault, FORGOTTEN_S)
        assert container.ends == []


def test_a_gpu_that_alone_is_refused_ends_it_too(
    desired: Desired, right: Observation, node: NodeState, tmp_path: Path
) -> None:
    container = Container(desired, node, tmp_path)
    container.run(right, 100)
    container.run(_one_gpu_refused(right, 999), FORGOTTEN_S)
    assert container.ends == [1_100 + PATIENCE_S]


def test_a_container_that_never_matched_has_lost_nothing(
    desired: Desired, node: NodeState, tmp_path: Path
) -> None:
    container = Container(desired, node, tmp_path)
    container.run(_refused(999), FORGOTTEN_S)
    assert (container.ends, container.reasons[-1]) == ([], "DriverError")


def test_a_match_of_an_earlier_boot_is_no_evidence(
    desired: Desired, right: Observation, node: NodeState, tmp_path: Path
) -> None:
    container = Container(desired, node, tmp_path)
    container.run(right, 100)
    container.node = replace(node, boot_id="another")
    container.run(_refused(999), FORGOTTEN_S)
    assert container.ends == []


@pytest.mark.parametrize("advertised", [0, 3])
def test_a_kubelet_that_advertises_fewer_devices_is_no_evidence(
    advertised: int, desired: Desired, right: Observation, node: NodeState, tmp_path: Path
) -> None:
    container = Container(desired, node, tmp_path)
    container.run(right, 100)
    container.node = replace(node, allocatable={"nvidia.com/gpu": advertised})
    container.run(_refused(999), FORGOTTEN_S)
    assert container.ends == []


def test_a_refusal_that_passes_within_a_minute_ends_nothing(
    desired: Desired, right: Observation, node: NodeState, tmp_path: Path
) -> None:
    container = Container(desired, node, tmp_path)
    for _ in range(5):
        container.run(right, 100)
        container.run(_refused(999), PATIENCE_S - 10)
    container.run(right, 10)
    assert container.reasons[-1] == "PartitionsMatch"
    assert container.ends == []


@given(
    turns=st.lists(
        st.tuples(
            st.sampled_from([None, *MEANINGS]),
            st.sampled_from([0, 4]),
            st.integers(1, 30),
        ),
        max_size=8,
    )
)
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_container_ends_for_a_refusal_without_a_match_before_it(
    turns: list[tuple[int | None, int, int]],
    desired: Desired,
    right: Observation,
    node: NodeState,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    container = Container(desired, node, tmp_path_factory.mktemp("memory"))
    for code, advertised, seconds in turns:
        container.node = replace(node, allocatable={"nvidia.com/gpu": advertised})
        container.run(right if code is None else _refused(code), seconds * 10)
        if container.ends:
            matched = "PartitionsMatch" in container.reasons
            known = REASON_OF.get(code or 0, "DriverError") != "DriverError"
            assert matched or known
            return
