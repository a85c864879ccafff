"""The agent's loop over the fake NVML, with the API server played by a dictionary."""

from __future__ import annotations

import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from kubeapi import ApiError, Client, Unreachable
from node_agent.desired import Desired, hash_of
from node_agent.reporting.health import Health
from node_agent.reporting.metrics import Metrics
from node_agent.reporting.report import seconds
from node_agent.watch import Pace, watch
from rehearsal.cluster.silicon import state
from telemetry import log
from telemetry.endpoints import serve

PACE = Pace(interval_s=0.1, quick_s=0.05, quick_for_s=60, node_every_s=0.2)


@dataclass
class Api:
    """One Node and one report."""

    resources: dict[str, str] = field(default_factory=dict)
    boot: str = "b1"
    labels: dict[str, str] = field(default_factory=dict)
    error: ApiError | Unreachable | None = None
    report: dict[str, Any] | None = None
    node_reads: int = 0
    asked: int = 0
    writes: int = 0

    def get(self, path: str, **query: str) -> dict[str, Any]:
        self.asked += 1
        if self.error:
            raise self.error
        if path == "/api/v1/nodes/n1":
            assert query == {"resourceVersion": "0"}
            self.node_reads += 1
            status = {
                "nodeInfo": {"bootID": self.boot},
                "capacity": self.resources,
                "allocatable": self.resources,
            }
            return {
                "metadata": {"name": "n1", "uid": "u1", "labels": self.labels},
                "status": status,
            }
        if self.report is None:
            raise ApiError(404, {"reason": "NotFound"})
        return self.report

    def patch(self, path: str, body: dict[str, Any], **options: str) -> dict[str, Any]:
        if self.error:
            raise self.error
        self.report = body
        self.writes += 1
        return body

    def said(self) -> tuple[str, str]:
        report = (self.report or {}).get("report", {})
        return report.get("verdict", ""), report.get("reason", "")


@dataclass
class Running:
    api: Api
    health: Health
    numbers: Metrics

    def wait(self, verdict: str, reason: str) -> None:
        self.until(lambda: self.api.said() == (verdict, reason), f"{verdict} {reason}")

    def until(self, holds: Callable[[], bool], what: str, *, timeout_s: float = 60.0) -> None:
        end = time.monotonic() + timeout_s
        while not holds():
            assert time.monotonic() < end, f"{what}; the last word is {self.api.said()}"
            time.sleep(0.02)


@pytest.fixture
def run(desired: Desired) -> Callable[..., Any]:
    @contextmanager
    def running(
        node: Any,
        api: Api,
        *,
        deadline_s: float = 5.0,
        desired: Desired = desired,
        pace: Pace = PACE,
    ) -> Iterator[Running]:
        prober = node.prober(deadline_s=deadline_s)
        health, numbers, stop = (
            Health(stall_after_s=30, stale_after_s=5),
            Metrics(desired),
            threading.Event(),
        )
        options = {"numbers": numbers, "health": health, "pace": pace, "stop": stop}
        thread = threading.Thread(
            target=watch, args=(desired, prober, cast(Client, api), "n1"), kwargs=options
        )
        thread.start()
        try:
            yield Running(api, health, numbers)
        finally:
            stop.set()
            thread.join(timeout=60)
            prober.close()
            assert not thread.is_alive()

    return running


@pytest.fixture
def node(silicon: Callable[..., Any]) -> Any:
    return silicon("H100-80", 2)


def test_a_node_from_whole_gpus_to_a_match_to_a_fault(
    run: Any, node: Any, desired: Desired
) -> None:
    api = Api()
    with run(node, api) as agent:
        agent.wait("Mismatch", "NotPartitioned")
        for index in range(2):
            state.recut(node.path, index, ["3g.40gb", "3g.40gb"])
        agent.wait("Mismatch", "ResourcesNotAdvertised")
        api.resources = {"nvidia.com/gpu": "4"}
        agent.wait("Match", "PartitionsMatch")
        assert api.report is not None
        assert api.report["report"]["observedHash"] == hash_of(desired)
        agent.until(lambda: agent.health.ready() is None, "ready")
        assert agent.health.alive() is None
        state.recut(node.path, 1, ["1g.10gb"] * 7)
        agent.wait("Mismatch", "WrongLayout")
        state.recut(node.path, 1, ["3g.40gb", "3g.40gb"])
        agent.wait("Match", "PartitionsMatch")


def test_a_matching_agent_leaves_the_api_server_alone(run: Any, node: Any) -> None:
    for index in range(2):
        state.recut(node.path, index, ["3g.40gb", "3g.40gb"])
    api = Api(resources={"nvidia.com/gpu": "4"})
    with run(node, api, pace=replace(PACE, node_every_s=3600)) as agent:
        agent.wait("Match", "PartitionsMatch")
        looks, reads = agent.numbers._count, api.node_reads
        agent.until(lambda: agent.numbers._count >= looks + 10, "ten more looks")
        assert api.writes == 1
        assert api.node_reads - reads <= 1


def test_a_match_outlives_an_api_server_that_is_away_for_a_moment(run: Any, node: Any) -> None:
    for index in range(2):
        state.recut(node.path, index, ["3g.40gb", "3g.40gb"])
    api = Api(resources={"nvidia.com/gpu": "4"})
    with run(node, api) as agent:
        agent.wait("Match", "PartitionsMatch")
        api.error = Unreachable("connection refused")
        looks = agent.numbers._count
        agent.until(lambda: agent.numbers._count >= looks + 4, "looks go on")
        api.error = None
        agent.until(lambda: agent.numbers._count >= looks + 8, "looks go on")
        assert (api.said(), api.writes) == (("Match", "PartitionsMatch"), 1)


def test_what_the_kubelet_advertises_later_is_seen(run: Any, node: Any) -> None:
    for index in range(2):
        state.recut(node.path, index, ["3g.40gb", "3g.40gb"])
    api = Api(resources={"nvidia.com/gpu": "4"})
    with run(node, api) as agent:
        agent.wait("Match", "PartitionsMatch")
        api.resources = {"nvidia.com/gpu": "2"}
        agent.wait("Mismatch", "WrongResources")


def test_a_hung_driver_is_unknown_since_a_time_and_not_with_an_age(run: Any, node: Any) -> None:
    api = Api()
    state.inject(node.path, state.Injection(call="nvmlDeviceGetMigMode", delay_ms=60_000))
    with run(node, api, deadline_s=0.2) as agent:
        agent.wait("Unknown", "DriverHung")
        assert api.report is not None
        message = api.report["report"]["message"]
        assert "silent since 20" in message
        looks = agent.numbers._count
        agent.until(lambda: agent.numbers._count >= looks + 3, "three more looks")
        assert (api.writes, api.report["report"]["message"]) == (1, message)


def test_an_agent_whose_report_is_refused_is_not_ready(run: Any, node: Any) -> None:
    api = Api(error=ApiError(403, {"message": "reports is forbidden"}))
    with run(node, api) as agent:
        agent.until(lambda: agent.health.looked is not None, "a look")
        assert agent.health.ready() is not None
        api.error = None
        agent.until(lambda: agent.health.ready() is None, "ready")


def test_metrics_say_what_was_found(run: Any, node: Any) -> None:
    state.recut(node.path, 0, ["3g.40gb", "3g.40gb"])
    state.recut(node.path, 1, ["1g.10gb"] * 7)
    with run(node, Api(resources={"nvidia.com/gpu": "9"})) as agent:
        agent.wait("Mismatch", "WrongLayout")
        server = serve(
            "127.0.0.1",
            0,
            alive=agent.health.alive,
            ready=agent.health.ready,
            metrics=lambda: agent.numbers.text,
        )
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{server.server_port}/metrics", timeout=30
            ) as answer:
                lines = answer.read().decode().splitlines()
        finally:
            server.shutdown()
    assert 'slicewright_verdict{verdict="Mismatch"} 1' in lines
    assert 'slicewright_verdict{verdict="Match"} 0' in lines
    assert 'slicewright_mismatch{reason="WrongLayout"} 1' in lines
    assert 'slicewright_mismatch{reason="GpuLost"} 0' in lines
    assert 'slicewright_partitions_desired{gpu="1",profile="3g.40gb"} 2' in lines
    assert 'slicewright_partitions_observed{gpu="1",profile="1g.10gb"} 7' in lines
    assert 'slicewright_mig_mode{gpu="0",current="enabled",pending="enabled"} 1' in lines
    assert 'slicewright_allocatable{resource="nvidia.com/gpu"} 9' in lines
    assert any(line.startswith("slicewright_probe_duration_seconds_bucket{le=") for line in lines)
    names = {line.split("{")[0].split(" ")[0] for line in lines if not line.startswith("#")}
    described = {line.split(" ")[2] for line in lines if line.startswith("# TYPE")}
    assert {
        name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count") for name in names
    } <= described


def test_another_layout_has_another_hash_in_the_report(
    run: Any, node: Any, desired: Desired
) -> None:
    other = replace(desired, resources={})
    api = Api()
    with run(node, api, desired=other) as agent:
        agent.wait("Mismatch", "NotPartitioned")
        assert api.report is not None
        assert api.report["report"]["observedHash"] == hash_of(other) != hash_of(desired)


def test_while_mig_manager_works_the_driver_is_left_alone(
    run: Any, node: Any, desired: Desired
) -> None:
    state_label = "nvidia.com/mig.config.state"
    api = Api(labels={state_label: "pending"}, resources={"nvidia.com/gpu": "4"})
    for index in range(2):
        state.recut(node.path, index, ["3g.40gb", "3g.40gb"])
    with run(node, api, desired=replace(desired, partitioner="mig-manager")) as agent:
        agent.wait("Unknown", "PartitioningUnderWay")
        reads = api.node_reads
        agent.until(lambda: api.node_reads >= reads + 5, "five more turns")
        assert agent.numbers._count == 0
        agent.until(lambda: agent.health.ready() is None, "ready all the same")
        api.labels = {state_label: "success"}
        agent.wait("Match", "PartitionsMatch")


def test_an_api_server_that_is_away_is_told_once(
    run: Any, node: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    log.start()
    try:
        with run(node, Api(error=Unreachable("connection refused"))) as agent:
            agent.until(lambda: agent.numbers._count >= 5, "five looks")
            assert agent.health.ready() is not None
        assert capsys.readouterr().err.count("own Node not read") == 1
    finally:
        log.logger.handlers.clear()


def test_an_api_server_that_asks_to_be_left_alone_is(run: Any, node: Any, clocks: Clocks) -> None:
    for index in range(2):
        state.recut(node.path, index, ["3g.40gb", "3g.40gb"])
    api = Api(
        resources={"nvidia.com/gpu": "4"},
        error=ApiError(429, {"message": "slow down"}, retry_after_s=3000.0),
    )
    with run(node, api) as agent:
        agent.until(lambda: agent.numbers._count >= 20, "twenty looks")
        assert api.asked == 1
        api.error = None
        clocks.monotonic_s += 121  # the longest that is obeyed
        agent.wait("Match", "PartitionsMatch")


def test_when_an_outage_is_over_the_node_is_read_before_anything_is_written(
    run: Any, node: Any, clocks: Clocks
) -> None:
    """Else 2,000 agents would each write that they could not read it, and then that they can."""
    for index in range(2):
        state.recut(node.path, index, ["3g.40gb", "3g.40gb"])
    api = Api(resources={"nvidia.com/gpu": "4"})
    with run(node, api, pace=replace(PACE, node_every_s=HOUR_S)) as agent:
        agent.wait("Match", "PartitionsMatch")
        api.error = ApiError(503, {"message": "starting"}, retry_after_s=100.0)
        clocks.monotonic_s += 6 * HOUR_S
        agent.until(
            lambda: 'slicewright_verdict{verdict="Unknown"} 1' in agent.numbers.text, "unknown"
        )
        api.error = None
        # reports go by this clock and may be written again; for the Node's sake it is too early
        clocks.wall_s += HOUR_S
        looks = agent.numbers._count
        agent.until(lambda: agent.numbers._count >= looks + 8, "looks go on")
        assert (api.said(), api.writes) == (("Match", "PartitionsMatch"), 1)
        clocks.monotonic_s += 101
        agent.until(lambda: api.writes == 2, "a heartbeat in the new time")
        assert api.said() == ("Match", "PartitionsMatch")


# --- clocks that jump ---

HOUR_S = 3600.0


@dataclass
class Clocks:
    """In the place of the module `time`: both clocks go on, from wherever a test puts them."""

    wall_s: float = 0.0
    """Ahead of the real one."""
    monotonic_s: float = 0.0

    def time(self) -> float:
        return time.time() + self.wall_s

    def monotonic(self) -> float:
        return time.monotonic() + self.monotonic_s


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    made = Clocks()
    monkeypatch.setattr("node_agent.watch.time", made)
    monkeypatch.setattr("node_agent.reporting.health.time", made)
    return made


@pytest.mark.parametrize(
    "jumps", [(HOUR_S, -HOUR_S), (-HOUR_S, HOUR_S)], ids=["forward and back", "back and forward"]
)
def test_a_wall_clock_that_jumps_costs_one_heartbeat_and_no_readiness(
    jumps: tuple[float, float], run: Any, node: Any, clocks: Clocks
) -> None:
    for index in range(2):
        state.recut(node.path, index, ["3g.40gb", "3g.40gb"])
    api = Api(resources={"nvidia.com/gpu": "4"})
    with run(node, api) as agent:
        agent.wait("Match", "PartitionsMatch")
        for jump in jumps:
            before, looks = api.writes, agent.numbers._count
            clocks.wall_s += jump
            agent.until(
                lambda before=before: api.writes == before + 1, "a heartbeat in the new time"
            )
            agent.until(lambda looks=looks: agent.numbers._count >= looks + 8, "looks go on")
            assert api.writes == before + 1, "one, and no storm"
            assert api.report is not None
            assert abs(seconds(api.report["report"]["time"]) - clocks.time()) < HOUR_S / 10
            assert (agent.health.alive(), agent.health.ready()) == (None, None)
            assert api.said() == ("Match", "PartitionsMatch")


def test_damping_lives_on_the_monotonic_clock(
    run: Any, node: Any, desired: Desired, clocks: Clocks
) -> None:
    api = Api()
    with run(node, api, desired=replace(desired, resources={})) as agent:
        for _ in range(4):
            for index in range(2):
                state.recut(node.path, index, ["3g.40gb", "3g.40gb"])
            agent.until(
                lambda: 'slicewright_verdict{verdict="Match"} 1' in agent.numbers.text, "a match"
            )
            state.recut(node.path, 1, ["7g.80gb"])
            agent.until(
                lambda: 'slicewright_mismatch{reason="WrongLayout"} 1' in agent.numbers.text,
                "a fall",
            )
        state.recut(node.path, 1, ["3g.40gb", "3g.40gb"])

        def still_held() -> bool:
            looks = agent.numbers._count
            agent.until(lambda: agent.numbers._count >= looks + 3, "three more looks")
            return 'slicewright_verdict{verdict="Match"} 0' in agent.numbers.text

        assert still_held()
        for jump in (HOUR_S, -2 * HOUR_S, HOUR_S):
            clocks.wall_s += jump
            assert still_held(), f"the wall clock jumped by {jump:g} s"
        clocks.monotonic_s += 50
        assert still_held(), "50 s is less than the minute that a match must stand"
        clocks.monotonic_s += 11
        agent.until(
            lambda: 'slicewright_verdict{verdict="Match"} 1' in agent.numbers.text,
            "a match, told after a minute",
        )
        assert agent.health.alive() is None


def test_a_machine_that_was_stopped_for_an_hour_goes_on(
    run: Any, node: Any, clocks: Clocks
) -> None:
    """Both clocks jump: a virtual machine that was paused. The first turn afterwards is a fresh
    one.
    """
    for index in range(2):
        state.recut(node.path, index, ["3g.40gb", "3g.40gb"])
    api = Api(resources={"nvidia.com/gpu": "4"})
    with run(node, api) as agent:
        agent.wait("Match", "PartitionsMatch")
        reads = api.node_reads
        clocks.wall_s += HOUR_S
        clocks.monotonic_s += HOUR_S
        agent.until(
            lambda: api.node_reads > reads and agent.health.ready() is None,
            "the own Node is read anew, and it is ready",
        )
        assert api.said() == ("Match", "PartitionsMatch")
