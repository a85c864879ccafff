"""The loop of a Kubernetes node over the fake NVML, one turn at a time on a clock of its own."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from slicewright.apis.desired_state import Desired, DesiredGpu, dump, hash_of
from slicewright.kubeapi import ApiError, Client, Unreachable
from slicewright.node_agent.reporting.health import Health
from slicewright.node_agent.reporting.metrics import Metrics
from slicewright.node_agent.reporting.report import seconds
from slicewright.node_agent.watch import NodeWatch, Pace
from slicewright.rehearsal.cluster.silicon import state
from slicewright.telemetry import log
from slicewright.telemetry.endpoints import serve
from tests.node_agent.clocks import Clocks

PACE = Pace(interval_s=10, quick_s=1, quick_for_s=600, node_every_s=20)
HOUR_S = 3600.0
TOLD = "slicewright.io/desired-state"
MATCH = 'slicewright_verdict{verdict="Match"} 1'
NO_MATCH = 'slicewright_verdict{verdict="Match"} 0'


@dataclass
class Api:
    """One Node and one report."""

    resources: dict[str, str] = field(default_factory=dict)
    boot: str = "b1"
    labels: dict[str, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    """Annotations of the Node."""
    error: ApiError | Unreachable | None = None
    report: dict[str, Any] | None = None
    node_reads: int = 0
    requests: int = 0
    writes: int = 0

    def get(self, path: str, **query: str) -> dict[str, Any]:
        self.requests += 1
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
                "metadata": {
                    "name": "n1",
                    "uid": "u1",
                    "labels": self.labels,
                    "annotations": self.notes,
                },
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

    def reported(self) -> tuple[str, str]:
        report = (self.report or {}).get("report", {})
        return report.get("verdict", ""), report.get("reason", "")


@dataclass
class Agent:
    loop: NodeWatch
    clocks: Clocks
    health: Health
    metrics: Metrics

    def turns(self, count: int = 1) -> None:
        """So many turns, and the pause after each."""
        for _ in range(count):
            self.clocks.sleep(self.loop.turn())

    def until(self, holds: Callable[[], bool], *, within_s: float = HOUR_S) -> None:
        """Turns until it holds, for so much of the clocks' time."""
        end = self.clocks.monotonic_s + within_s
        while not holds():
            assert self.clocks.monotonic_s < end
            self.turns()


@pytest.fixture
def start(desired: Desired, clocks: Clocks) -> Callable[..., Any]:
    @contextmanager
    def started(
        node: Any,
        api: Api,
        *,
        deadline_s: float = 60.0,
        desired: Desired = desired,
        pace: Pace = PACE,
        mig_config: str = "",
    ) -> Iterator[Agent]:
        prober = node.prober(deadline_s=deadline_s)
        health = Health(stall_after_s=30, stale_after_s=30, clock=clocks.monotonic)
        metrics = Metrics(desired)
        loop = NodeWatch(
            desired,
            prober,
            cast(Client, api),
            "n1",
            metrics=metrics,
            health=health,
            pace=pace,
            mig_config=mig_config,
            clock=clocks.clock(),
        )
        try:
            yield Agent(loop, clocks, health, metrics)
        finally:
            loop.close()
            prober.close()

    return started


@pytest.fixture
def node(silicon: Callable[..., Any]) -> Any:
    """Two whole GPUs."""
    return silicon("H100-80", 2)


def test_from_whole_gpus_to_a_match_to_a_fault_and_back(
    start: Any, node: Any, desired: Desired
) -> None:
    api = Api()
    with start(node, api) as agent:
        agent.turns()
        assert api.reported() == ("Mismatch", "NotPartitioned")
        for index in range(2):
            state.repartition(node.path, index, ["3g.40gb", "3g.40gb"])
        agent.turns()
        assert api.reported() == ("Mismatch", "ResourcesNotAdvertised")
        api.resources = {"nvidia.com/gpu": "4"}
        agent.turns()
        assert api.reported() == ("Match", "PartitionsMatch")
        assert api.report is not None
        assert api.report["report"]["observedHash"] == hash_of(desired)
        assert (agent.health.ready(), agent.health.alive()) == (None, None)
        state.repartition(node.path, 1, ["1g.10gb"] * 7)
        agent.turns()
        assert api.reported() == ("Mismatch", "WrongLayout")
        state.repartition(node.path, 1, ["3g.40gb", "3g.40gb"])
        agent.until(lambda: api.reported() == ("Match", "PartitionsMatch"), within_s=10)


def test_probes_are_quick_until_a_match_and_for_a_while_after_a_change(
    start: Any, halves: Any
) -> None:
    api = Api()
    with start(halves, api, pace=replace(PACE, quick_for_s=60)) as agent:
        assert agent.loop.turn() == PACE.quick_s
        agent.clocks.sleep(61)
        assert agent.loop.turn() == PACE.interval_s, "the same mismatch for too long"
        api.resources = {"nvidia.com/gpu": "2"}
        assert agent.loop.turn() == PACE.quick_s, "another mismatch"
        api.resources = {"nvidia.com/gpu": "4"}
        assert agent.loop.turn() == PACE.interval_s, "a match"


def test_a_turn_takes_its_time_off_the_pause(start: Any, halves: Any) -> None:
    api = Api(resources={"nvidia.com/gpu": "4"})
    with start(halves, api) as agent:
        agent.turns()
        agent.clocks.per_reading_s = 0.5  # every reading of the clock takes so long
        assert agent.loop.turn() < PACE.interval_s
        agent.clocks.per_reading_s = 100.0
        assert agent.loop.turn() == 0.05, "a pause all the same"


def test_a_matching_agent_leaves_the_api_server_alone(start: Any, halves: Any) -> None:
    api = Api(resources={"nvidia.com/gpu": "4"})
    with start(halves, api, pace=replace(PACE, node_every_s=HOUR_S)) as agent:
        agent.turns()
        assert api.reported() == ("Match", "PartitionsMatch")
        reads = api.node_reads
        agent.turns(10)
        assert (api.writes, api.node_reads) == (1, reads)


def test_a_match_survives_a_short_outage_of_the_api_server(start: Any, halves: Any) -> None:
    api = Api(resources={"nvidia.com/gpu": "4"})
    with start(halves, api) as agent:
        agent.turns()
        api.error = Unreachable("connection refused")
        agent.turns(9)  # less than five times `node_every_s`
        assert MATCH in agent.metrics.text
        api.error = None
        agent.turns(8)
        assert (api.reported(), api.writes) == (("Match", "PartitionsMatch"), 1)


def test_a_match_does_not_survive_a_long_outage(start: Any, halves: Any) -> None:
    api = Api(resources={"nvidia.com/gpu": "4"})
    with start(halves, api) as agent:
        agent.turns()
        api.error = Unreachable("connection refused")
        agent.turns(12)
        assert 'slicewright_mismatch{reason="NodeUnreadable"} 1' in agent.metrics.text


def test_a_later_change_of_the_advertised_resources_is_seen(start: Any, halves: Any) -> None:
    api = Api(resources={"nvidia.com/gpu": "4"})
    with start(halves, api) as agent:
        agent.turns()
        api.resources = {"nvidia.com/gpu": "2"}
        agent.until(
            lambda: api.reported() == ("Mismatch", "WrongResources"),
            within_s=PACE.node_every_s + PACE.interval_s,
        )


def test_a_mismatch_is_judged_by_a_node_that_was_read_after_it(
    start: Any, halves: Any, desired: Desired
) -> None:
    """The Node of the last match says nothing about GPUs that were changed since."""
    api = Api(resources={"nvidia.com/gpu": "4"})
    operator = replace(desired, partitioner="mig-manager")
    with start(halves, api, desired=operator, pace=replace(PACE, node_every_s=HOUR_S)) as agent:
        agent.turns(2)
        assert (api.reported(), api.node_reads) == (("Match", "PartitionsMatch"), 1)
        state.set_mig_mode(halves.path, 0, False)
        api.labels, api.resources = {"nvidia.com/mig.config.state": "pending"}, {}
        agent.turns()
        assert (api.reported(), api.node_reads) == (("Unknown", "PartitioningUnderWay"), 2)
        assert api.report is not None
        assert api.report["report"]["gpus"] == [], "of GPUs that are being changed nothing is said"


def test_a_mismatch_is_reported_though_the_api_server_does_not_show_the_node(
    start: Any, halves: Any
) -> None:
    api = Api(resources={"nvidia.com/gpu": "4"})
    with start(halves, api, pace=replace(PACE, node_every_s=HOUR_S)) as agent:
        agent.turns()
        state.repartition(halves.path, 1, ["1g.10gb"] * 7)
        api.error = Unreachable("connection refused")
        agent.turns()
        assert 'slicewright_mismatch{reason="WrongLayout"} 1' in agent.metrics.text


def test_a_hung_driver_is_reported_with_the_time_since_when(start: Any, node: Any) -> None:
    api = Api()
    state.inject(node.path, state.Injection(call="nvmlDeviceGetMigMode", delay_ms=60_000))
    with start(node, api, deadline_s=0.2) as agent:
        agent.turns()
        assert api.reported() == ("Unknown", "DriverHung")
        assert api.report is not None
        message = api.report["report"]["message"]
        assert "silent since 20" in message
        agent.turns(3)
        assert (api.writes, api.report["report"]["message"]) == (1, message), "no age: no news"


def test_an_agent_whose_report_is_refused_is_not_ready(start: Any, node: Any) -> None:
    api = Api(error=ApiError(403, {"message": "reports is forbidden"}))
    with start(node, api) as agent:
        agent.turns()
        assert agent.health.probed is not None
        assert agent.health.ready() is not None
        api.error = None
        agent.until(lambda: agent.health.ready() is None)


def test_an_agent_whose_credentials_cannot_be_read_is_not_ready(start: Any, halves: Any) -> None:
    api = Api(resources={"nvidia.com/gpu": "4"})
    with start(halves, api) as agent:
        agent.turns(2)
        assert agent.health.ready() is None
        api.error = Unreachable("/var/run/secrets/token: No such file or directory")
        agent.until(lambda: agent.health.ready() is not None, within_s=2 * PACE.node_every_s)
        assert "this agent's Node is not read: /var/run/secrets/token: No such" in str(
            agent.health.ready()
        )
        api.error = None
        agent.until(lambda: agent.health.ready() is None, within_s=2 * PACE.node_every_s)


def test_metrics_show_the_observed_partitions(start: Any, node: Any) -> None:
    state.repartition(node.path, 0, ["3g.40gb", "3g.40gb"])
    state.repartition(node.path, 1, ["1g.10gb"] * 7)
    with start(node, Api(resources={"nvidia.com/gpu": "9"})) as agent:
        agent.turns()
        server = serve(
            "127.0.0.1",
            0,
            alive=agent.health.alive,
            ready=agent.health.ready,
            metrics=lambda: agent.metrics.text,
        )
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{server.server_port}/metrics", timeout=30
            ) as answer:
                lines = answer.read().decode().splitlines()
        finally:
            server.shutdown()
    assert 'slicewright_verdict{verdict="Mismatch"} 1' in lines
    assert NO_MATCH in lines
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
    start: Any, node: Any, desired: Desired
) -> None:
    other = replace(desired, resources={})
    api = Api()
    with start(node, api, desired=other) as agent:
        agent.turns()
        assert api.reported() == ("Mismatch", "NotPartitioned")
        assert api.report is not None
        assert api.report["report"]["observedHash"] == hash_of(other) != hash_of(desired)


class TestAnEarlierLayout:
    """After an undo the controller tells in the Node what is to be proven instead of the file."""

    @pytest.fixture
    def whole(self, desired: Desired) -> Desired:
        return replace(
            desired, gpus=(DesiredGpu(index="all", mig=False),), resources={"nvidia.com/gpu": 2}
        )

    def test_is_proven_with_its_own_hash_and_then_the_file_again(
        self, start: Any, node: Any, desired: Desired, whole: Desired
    ) -> None:
        api = Api(resources={"nvidia.com/gpu": "2"})
        with start(node, api) as agent:
            agent.turns()
            assert api.reported() == ("Mismatch", "NotPartitioned")
            api.notes = {TOLD: dump(whole)}
            agent.turns()
            assert api.reported() == ("Match", "PartitionsMatch")
            assert api.report is not None
            assert api.report["report"]["observedHash"] == hash_of(whole)
            assert agent.metrics.desired == whole
            api.notes = {}
            agent.until(lambda: api.reported() == ("Mismatch", "NotPartitioned"), within_s=60)
            assert api.report["report"]["observedHash"] == hash_of(desired)

    @pytest.mark.parametrize("told", ["nonsense", "{}", "of-another-pool"])
    def test_that_is_none_changes_nothing(
        self, start: Any, halves: Any, desired: Desired, whole: Desired, told: str
    ) -> None:
        if told == "of-another-pool":
            told = dump(replace(whole, pool="another"))
        api = Api(resources={"nvidia.com/gpu": "4"}, notes={TOLD: told})
        with start(halves, api) as agent:
            agent.turns()
            assert api.reported() == ("Match", "PartitionsMatch")
            assert api.report is not None
            assert api.report["report"]["observedHash"] == hash_of(desired)

    def test_a_match_that_does_not_count_is_reported_again_when_the_node_is_read(
        self, start: Any, halves: Any
    ) -> None:
        api = Api(resources={"nvidia.com/gpu": "4"})
        with start(halves, api) as agent:
            agent.turns()
            assert api.report is not None
            first = api.report["report"]["time"]
            agent.turns(2)
            assert api.writes == 1
            api.notes = {"slicewright.io/reports-after": first}
            agent.until(lambda: api.writes == 2, within_s=2 * PACE.node_every_s)
            assert api.report["report"]["time"] > first
            agent.turns(4)
            assert api.writes == 2, "once is enough"


def test_the_gpus_are_not_probed_while_mig_manager_works(
    start: Any, halves: Any, desired: Desired
) -> None:
    state_label = "nvidia.com/mig.config.state"
    api = Api(labels={state_label: "pending"}, resources={"nvidia.com/gpu": "4"})
    with start(halves, api, desired=replace(desired, partitioner="mig-manager")) as agent:
        agent.turns(6)
        assert api.reported() == ("Unknown", "PartitioningUnderWay")
        assert api.node_reads == 6
        assert "slicewright_probe_duration_seconds_count 0\n" in agent.metrics.text
        assert agent.health.ready() is None, "ready all the same"
        api.labels = {state_label: "success"}
        agent.turns()
        assert api.reported() == ("Match", "PartitionsMatch")


def test_an_agent_says_that_its_node_waits_for_its_turn_in_a_change(
    start: Any, halves: Any, desired: Desired
) -> None:
    old = "all-3g.40gb"
    api = Api(
        labels={"nvidia.com/mig.config": old, "nvidia.com/mig.config.state": "success"},
        notes={"slicewright.io/verified-layout": old},
        resources={"nvidia.com/gpu": "4"},
    )
    whole = replace(
        desired,
        partitioner="mig-manager",
        gpus=(DesiredGpu(index="all", mig=False),),
        resources={"nvidia.com/gpu": 2},
    )
    with start(halves, api, desired=whole, mig_config="all-disabled") as agent:
        agent.turns()
        assert api.reported() == ("Mismatch", "LayoutChangePending")
        api.labels["nvidia.com/mig.config"] = "all-disabled"
        agent.turns()
        assert api.reported() == ("Mismatch", "UnwantedMig")


def test_an_unreachable_api_server_is_logged_once(
    start: Any, node: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    log.start()
    try:
        with start(node, Api(error=Unreachable("connection refused"))) as agent:
            agent.turns(5)
            assert agent.health.ready() is not None
        assert capsys.readouterr().err.count("own Node not read") == 1
    finally:
        log.logger.handlers.clear()


def test_retry_after_is_obeyed(start: Any, halves: Any) -> None:
    api = Api(
        resources={"nvidia.com/gpu": "4"},
        error=ApiError(429, {"message": "slow down"}, retry_after_s=3000.0),
    )
    with start(halves, api) as agent:
        agent.turns(20)
        assert api.requests == 1
        api.error = None
        agent.clocks.monotonic_s += 121  # the longest that is obeyed
        agent.turns()
        assert api.reported() == ("Match", "PartitionsMatch")


def test_after_an_outage_the_node_is_read_before_anything_is_written(
    start: Any, halves: Any
) -> None:
    """Else 2,000 agents would each write that they could not read it, and then that they can."""
    api = Api(resources={"nvidia.com/gpu": "4"})
    with start(halves, api, pace=replace(PACE, node_every_s=HOUR_S)) as agent:
        agent.turns()
        api.error = ApiError(503, {"message": "starting"}, retry_after_s=100.0)
        agent.clocks.monotonic_s += 6 * HOUR_S
        agent.turns()
        assert 'slicewright_verdict{verdict="Unknown"} 1' in agent.metrics.text
        api.error = None
        # Reports go by the wall clock and may be written again; for the Node it is too early.
        agent.clocks.wall_s += HOUR_S
        agent.turns(8)
        assert (api.reported(), api.writes) == (("Match", "PartitionsMatch"), 1)
        agent.clocks.monotonic_s += 101
        agent.turns()
        assert (api.reported(), api.writes) == (("Match", "PartitionsMatch"), 2)


# --- clocks that jump ---


@pytest.mark.parametrize(
    "jumps", [(HOUR_S, -HOUR_S), (-HOUR_S, HOUR_S)], ids=["forward and back", "back and forward"]
)
def test_a_wall_clock_that_jumps_costs_one_heartbeat_and_no_readiness(
    jumps: tuple[float, float], start: Any, halves: Any
) -> None:
    api = Api(resources={"nvidia.com/gpu": "4"})
    with start(halves, api) as agent:
        agent.turns()
        for jump in jumps:
            before = api.writes
            agent.clocks.wall_s += jump
            agent.turns(9)
            assert api.writes == before + 1, "one heartbeat in the new time"
            assert api.report is not None
            reported_at = seconds(api.report["report"]["time"])
            assert abs(reported_at - agent.clocks.wall()) < HOUR_S / 10
            assert (agent.health.alive(), agent.health.ready()) == (None, None)
            assert api.reported() == ("Match", "PartitionsMatch")


def test_damping_runs_on_the_monotonic_clock(start: Any, halves: Any, desired: Desired) -> None:
    api = Api()
    with start(halves, api, desired=replace(desired, resources={})) as agent:
        for _ in range(4):
            state.repartition(halves.path, 1, ["3g.40gb", "3g.40gb"])
            agent.turns()
            assert MATCH in agent.metrics.text
            state.repartition(halves.path, 1, ["7g.80gb"])
            agent.turns()
            assert 'slicewright_mismatch{reason="WrongLayout"} 1' in agent.metrics.text
        state.repartition(halves.path, 1, ["3g.40gb", "3g.40gb"])
        agent.turns()
        good_since = agent.clocks.monotonic_s
        for jump in (HOUR_S, -2 * HOUR_S, HOUR_S):
            agent.clocks.wall_s += jump
            agent.turns(3)
            assert NO_MATCH in agent.metrics.text, f"the wall clock jumped by {jump:g} s"
        agent.clocks.monotonic_s = good_since + 50
        agent.turns()
        assert NO_MATCH in agent.metrics.text, "50 s is less than the minute that a match must hold"
        agent.clocks.monotonic_s = good_since + 61
        agent.turns()
        assert MATCH in agent.metrics.text
        assert agent.health.alive() is None


def test_a_machine_that_was_suspended_for_an_hour_goes_on(start: Any, halves: Any) -> None:
    """Both clocks jump, as for a paused virtual machine; the next turn reads the Node again."""
    api = Api(resources={"nvidia.com/gpu": "4"})
    with start(halves, api) as agent:
        agent.turns()
        reads = api.node_reads
        agent.clocks.wall_s += HOUR_S
        agent.clocks.monotonic_s += HOUR_S
        agent.turns()
        assert api.node_reads == reads + 1
        assert agent.health.ready() is None
        assert api.reported() == ("Match", "PartitionsMatch")
