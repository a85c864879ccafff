"""Which pod holds which partition: from a kubelet's answer to Prometheus' words."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewright.node_agent.attribution import exporter as attribution
from slicewright.node_agent.attribution import pod_resources
from slicewright.node_agent.attribution.exporter import Exporter, device_labels, families
from slicewright.node_agent.attribution.grpc_call import CallFailed
from slicewright.node_agent.attribution.pod_resources import ContainerDevices
from slicewright.node_agent.nvml.observed import MigDevice, Observation
from slicewright.node_agent.reporting import gpu_metrics
from slicewright.telemetry.prometheus import lines

MIG = "MIG-1f4c2b7e-5d6a-5f0e-9d3a-0123456789ab"


def holding(
    *devices: str, resource: str = "nvidia.com/mig-1g.5gb", pod: str = "train-0"
) -> ContainerDevices:
    return ContainerDevices(
        namespace="team", pod=pod, container="main", resource=resource, devices=devices
    )


def exported(holdings: list[ContainerDevices], trouble: str | None = None) -> list[str]:
    return [
        line
        for family in families(holdings, trouble)
        for line in lines(family)
        if not line.startswith("#")
    ]


@pytest.mark.parametrize(
    ("device", "labels"),
    [
        (MIG, {"uuid": MIG}),
        (f"{MIG}::3", {"uuid": MIG}),
        ("GPU-0a", {"uuid": "GPU-0a"}),
        ("GPU-0a::0", {"uuid": "GPU-0a"}),
        ("nvidia0", {"minor": "0"}),
        ("nvidia12/gi7", {"minor": "12", "gpu_instance": "7"}),
        ("nvidia3/vgpu1", {"minor": "3"}),
        ("nvidia0/gi3/vgpu11", {"minor": "0", "gpu_instance": "3"}),
        ("nvidia0/gi", {"uuid": "nvidia0/gi"}),
    ],
)
def test_device_labels_are_the_uuid_or_minor_and_gpu_instance(
    device: str, labels: dict[str, str]
) -> None:
    assert device_labels(device) == labels


def test_a_container_and_its_partition_stand_in_one_line() -> None:
    assert exported([holding(MIG)]) == [
        "slicewright_attribution_up 1",
        f'slicewright_partition_pod_info{{uuid="{MIG}",resource="nvidia.com/mig-1g.5gb",'
        'namespace="team",pod="train-0",container="main"} 1',
    ]


def test_replicas_of_one_partition_in_one_container_are_one_line() -> None:
    assert len(exported([holding(f"{MIG}::0", f"{MIG}::1"), holding(f"{MIG}::2")])) == 2


def test_pods_that_share_a_partition_have_a_line_each() -> None:
    found = exported([holding(f"{MIG}::0", pod="a"), holding(f"{MIG}::1", pod="b")])
    assert [re.findall(r'uuid="([^"]*)".*pod="(.)"', line) for line in found[1:]] == [
        [(MIG, "a")],
        [(MIG, "b")],
    ]


def test_devices_of_others_are_left_out() -> None:
    assert exported([holding("0000:00:1e.0", resource="vpc.amazonaws.com/efa")]) == [
        "slicewright_attribution_up 1"
    ]


def test_attribution_without_an_answer_names_no_pod() -> None:
    assert exported([], "no answer") == ["slicewright_attribution_up 0"]


@given(st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5)), max_size=6))
def test_no_two_lines_have_the_same_labels(pairs: list[tuple[str, str]]) -> None:
    """Prometheus refuses a whole exporter for one series that comes twice."""
    found = exported([holding(device, pod=pod) for device, pod in pairs])
    assert len(found) == len(set(found))


def test_every_partition_that_the_kubelet_names_joins_with_the_agents_own_numbers(
    right: Observation, half: Callable[[int], MigDevice]
) -> None:
    """PromQL's `* on(uuid)` needs the same label for a device on both sides, and each UUID
    once on the agent's.
    """
    gpu = replace(right.gpus[0], devices=(half(1), half(2)))
    observation = replace(right, gpus=(gpu,))
    (memory,) = (
        f
        for f in gpu_metrics.families(observation)
        if f.name == "slicewright_partition_memory_bytes"
    )
    uuids = [re.findall(r'uuid="([^"]*)"', sample.labels)[0] for sample in memory.samples]
    named = [
        re.findall(r'uuid="([^"]*)"', line)[0] for line in exported([holding("MIG-1", "MIG-2")])[1:]
    ]
    assert sorted(uuids) == sorted(named) == ["MIG-1", "MIG-2"]


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the kubelet says next: holdings, or an error."""
    said: list[Any] = []

    def read(path: str, *, deadline_s: float) -> tuple[ContainerDevices, ...]:
        answer = said.pop(0)
        if isinstance(answer, CallFailed):
            raise answer
        return tuple(answer)

    monkeypatch.setattr(pod_resources, "read", read)
    return said


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[str]]]:
    with caplog.at_level(logging.INFO, logger="slicewright"):
        yield lambda: [record.levelname for record in caplog.records]


def test_an_outage_of_the_kubelet_and_its_end_are_logged_once_each(
    answers: list[Any], log: Callable[[], list[str]]
) -> None:
    exporter = Exporter()
    answers += [CallFailed("gone")] * 3 + [[holding(MIG)]] * 3 + [CallFailed("gone")] * 2
    seen = []
    for _ in range(len(answers)):
        exporter.update("/socket")
        seen.append((exporter.text.count("pod_info{"), exporter.ready()))
    assert seen == [(0, "gone")] * 3 + [(1, None)] * 3 + [(0, "gone")] * 2
    assert log() == ["WARNING", "INFO", "WARNING"]


def test_a_kubelet_that_does_not_answer_is_not_a_reason_to_restart(answers: list[Any]) -> None:
    exporter = Exporter()
    answers.append(CallFailed("gone"))
    exporter.update("/socket")
    assert exporter.alive() is None
    exporter.turned -= 2 * attribution._STALL_AFTER_S
    assert "the loop's last turn began" in (exporter.alive() or "")


def test_attribution_is_not_ready_before_the_first_answer() -> None:
    assert Exporter().ready() == "the kubelet has not been asked yet"


LOADED = (
    "import sys; {}; print(*sorted({{m.split('.')[0] for m in sys.modules}} & {{'h2', 'hpack', "
    "'ctypes'}}))"
)


@pytest.mark.parametrize(
    ("loads", "found"),
    [
        ("import slicewright.node_agent.attribution.exporter", "h2 hpack"),
        (
            "import slicewright.node_agent.cli, slicewright.node_agent.commands.watch, "
            "slicewright.node_agent.watch, "
            "slicewright.node_agent.reporting.metrics, slicewright.node_agent.reporting.health",
            "",
        ),
    ],
    ids=["the container beside it knows no NVML", "the agent knows no HTTP/2"],
)
def test_agent_and_attribution_load_only_their_own_libraries(loads: str, found: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED.format(loads)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, found), done.stderr
