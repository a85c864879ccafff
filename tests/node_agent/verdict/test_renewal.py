"""The agent's containers on one node, one after the other, and when each of them ends."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slicewright.apis.desired_state import Desired, DesiredGpu
from slicewright.node_agent.cluster.node import NodeState
from slicewright.node_agent.cluster.restart_memory import Past, RestartMemory
from slicewright.node_agent.nvml.observed import Failure, Observation
from slicewright.node_agent.verdict.findings import Verdict
from slicewright.node_agent.verdict.renewal import (
    CONFIRM_S,
    FORGOTTEN_S,
    PATIENCE_S,
    Renewal,
    kubelet_backoff,
    wait_s,
)
from slicewright.node_agent.verdict.verify import partitioning_in_progress, verify
from slicewright.rehearsal.cluster.kubelet.containers.backoff import RestartBackoff
from slicewright.telemetry import log
from tests.properties import examples

NO_DRIVER = Observation(failure=Failure(call="nvmlInit", code=9, text="Driver Not Loaded"))
NO_LIBRARY = Observation(failure=Failure(call="nvmlInit", code=12, text="NVML Not Found"))


@dataclass
class Machine:
    """A node whose agent is started anew each time it ends, with the kubelet's pause between."""

    desired: Desired
    node: NodeState
    view: Callable[[], Observation]
    """What a container that is created now sees from now on, unless the test sets `seen`."""
    directory: Path
    seen: Observation = field(default_factory=Observation)
    now: float = 1_000.0
    driver: bool = True
    ends: list[float] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    """Reasons of the verdicts, each once in a row."""
    _backoff: RestartBackoff = field(default_factory=RestartBackoff)
    _started: float = 0.0
    _renewal: Renewal | None = None

    def create(self) -> None:
        """A new container."""
        self.seen = self.view()
        self._started = self.now
        self._renewal = Renewal(
            self.desired,
            end=lambda: self.ends.append(self.now),
            memory=RestartMemory(self.directory),
            driver_loaded=lambda: self.driver,
        )

    def turn(self) -> Verdict:
        if self._renewal is None:
            self.create()
        assert self._renewal is not None
        waiting = partitioning_in_progress(self.desired, self.node)
        observation = Observation() if waiting else self.seen
        judged = waiting or verify(self.desired, observation, self.node)
        before = len(self.ends)
        verdict = self._renewal.consider(judged, observation, self.node, self.now)
        if self.told[-1:] != [verdict.reason]:
            self.told.append(verdict.reason)
        if len(self.ends) > before:
            self.now += self._backoff.next(self.now - self._started)
            self.create()
        return verdict

    def run(self, seconds: float, *, every_s: float = 1.0) -> None:
        end = self.now + seconds
        while self.now < end:
            self.turn()
            self.now += every_s

    def reboots(self, boot_id: str) -> None:
        """Before the kubelet posts it: what it advertised stands, the device plugin is gone."""
        self.node = replace(self.node, boot_id=boot_id, allocatable={})
        self.now = 30.0
        self._backoff = RestartBackoff()
        self._renewal = None

    def advertises(self, resources: dict[str, int], **labels: str) -> None:
        self.node = replace(self.node, capacity=resources, allocatable=resources, **labels)  # type: ignore[arg-type]


def _gpus(observation: Observation, **facts: object) -> Observation:
    gpus = tuple(replace(gpu, **facts) for gpu in observation.gpus)  # type: ignore[arg-type]
    return replace(observation, gpus=gpus)


@pytest.fixture
def whole(right: Observation) -> Observation:
    return _gpus(right, mig="disabled", mig_pending="disabled", devices=())


@pytest.fixture
def empty(right: Observation) -> Observation:
    """MIG mode on and no MIG device."""
    return _gpus(right, devices=())


@pytest.fixture
def machine(
    desired: Desired, right: Observation, node: NodeState, tmp_path: Path
) -> Callable[..., Machine]:
    def make(view: Observation = right, *, partitioner: str = "mig-manager") -> Machine:
        of = replace(desired, partitioner=partitioner)  # type: ignore[arg-type]
        bare = replace(node, capacity={}, allocatable={})
        return Machine(of, bare, lambda: view, tmp_path)

    return make


# --- one event, one end ---


def test_first_boot_of_a_gke_node_before_driver_and_partitioning(
    machine: Callable[..., Machine], right: Observation
) -> None:
    gke = machine(NO_LIBRARY, partitioner="gke")
    gke.driver = False
    gke.run(60)
    gke.seen = NO_DRIVER  # the library comes by the mounted directory, the device nodes never
    gke.run(30)
    gke.driver = True
    gke.run(20)
    gke.view = lambda: right
    gke.advertises({"nvidia.com/gpu": 4})
    gke.run(FORGOTTEN_S, every_s=2)
    assert gke.ends == [1_000 + 110 + CONFIRM_S]
    assert gke.told == [
        "DriverLibraryMissing", "DriverNotLoaded", "DeviceNodesOutdated", "PartitionsMatch",
    ]  # fmt: skip


def test_first_boot_of_an_eks_node_before_the_partitioning(
    machine: Callable[..., Machine], whole: Observation, empty: Observation, right: Observation
) -> None:
    eks = machine(whole)
    eks.advertises({"nvidia.com/gpu": 2}, mig_config="halves")
    eks.run(20)
    eks.advertises({}, mig_state="pending")
    eks.run(40)
    eks.view = lambda: right
    eks.seen = empty
    eks.advertises({}, mig_state="success")
    eks.run(10)
    eks.advertises({"nvidia.com/gpu": 4})
    eks.run(FORGOTTEN_S, every_s=2)
    assert eks.ends == [1_000 + 70 + CONFIRM_S]
    assert eks.told == [
        "NotPartitioned", "PartitioningUnderWay", "DeviceNodesOutdated", "PartitionsMatch",
    ]  # fmt: skip


def test_started_while_mig_manager_works(
    machine: Callable[..., Machine], empty: Observation, right: Observation
) -> None:
    eks = machine(empty)
    eks.advertises({}, mig_state="pending")
    eks.run(400)
    assert not eks.ends
    eks.view = lambda: right
    eks.advertises({"nvidia.com/gpu": 4}, mig_state="success")
    eks.run(FORGOTTEN_S, every_s=2)
    assert len(eks.ends) == 1
    assert eks.told[-1] == "PartitionsMatch"


def test_started_after_the_partitioning_it_never_ends(machine: Callable[..., Machine]) -> None:
    eks = machine()
    eks.advertises({"nvidia.com/gpu": 4}, mig_state="success")
    eks.run(FORGOTTEN_S, every_s=2)
    assert (eks.ends, eks.told) == ([], ["PartitionsMatch"])


def test_partitioned_again_on_a_living_node(
    machine: Callable[..., Machine], right: Observation, empty: Observation
) -> None:
    eks = machine()
    eks.advertises({"nvidia.com/gpu": 4}, mig_state="success")
    eks.run(FORGOTTEN_S, every_s=2)
    for time in range(3):
        eks.advertises({}, mig_state="pending")
        eks.run(30)
        eks.seen = empty
        # Again as it was at first: what has changed in between still counts.
        eks.advertises({"nvidia.com/gpu": 4}, mig_state="success")
        since = eks.now
        eks.run(FORGOTTEN_S, every_s=2)
        assert eks.told[-1] == "PartitionsMatch"
        assert eks.ends[time:] == [since + CONFIRM_S]
    assert "NotPartitioned" not in eks.told


@pytest.mark.parametrize("generation", ["A100", "H100"])
def test_reboots(
    generation: str, machine: Callable[..., Machine], right: Observation, empty: Observation,
    whole: Observation,
) -> None:  # fmt: skip
    """An A100 keeps MIG mode, an H100 loses it; the labels of before stand for a while."""
    eks = machine()
    eks.advertises({"nvidia.com/gpu": 4}, mig_state="success")
    eks.run(100)
    after_boot = empty if generation == "A100" else whole
    for boot in range(8):
        eks.view = lambda: after_boot
        eks.reboots(f"boot-{boot}")
        eks.run(25)
        eks.advertises({}, mig_state="pending")
        eks.run(25)
        eks.view = lambda: right
        eks.seen = empty
        eks.advertises({}, mig_state="success")
        eks.run(8)
        eks.advertises({"nvidia.com/gpu": 4})
        eks.run(FORGOTTEN_S, every_s=2)
        assert eks.told[-1] == "PartitionsMatch"
        assert len(eks.ends) == boot + 1
    assert "WrongLayout" not in eks.told


def test_partitions_taken_away_for_whole_gpus(
    machine: Callable[..., Machine], right: Observation, whole: Observation
) -> None:
    eks = machine(right)
    eks.desired = replace(
        eks.desired, gpus=(DesiredGpu(index="all", mig=False),), resources={"nvidia.com/gpu": 2}
    )
    eks.run(30)
    eks.seen = whole
    eks.advertises({"nvidia.com/gpu": 2}, mig_state="success")
    eks.run(FORGOTTEN_S, every_s=2)
    assert (eks.ends, eks.told) == ([], ["UnwantedMig", "PartitionsMatch"])


def test_a_container_from_which_cdi_left_out_the_gpus(
    machine: Callable[..., Machine], right: Observation
) -> None:
    eks = machine(replace(right, gpus=()))
    eks.advertises({}, mig_state="pending")
    eks.run(30)
    eks.view = lambda: right
    eks.advertises({}, mig_state="success")
    eks.run(10)
    eks.advertises({"nvidia.com/gpu": 4})
    eks.run(FORGOTTEN_S, every_s=2)
    assert len(eks.ends) == 1
    assert eks.told == ["PartitioningUnderWay", "DeviceNodesOutdated", "PartitionsMatch"]


# --- no change seen, or no confirmation ---


def test_a_change_between_creation_and_first_turn_is_found_after_a_minute(
    machine: Callable[..., Machine], right: Observation, empty: Observation
) -> None:
    gke = machine(empty, partitioner="gke")
    gke.advertises({"nvidia.com/gpu": 4})
    gke.turn()
    gke.view = lambda: right
    gke.run(FORGOTTEN_S, every_s=2)
    assert gke.ends == [1_000 + PATIENCE_S]
    assert gke.told == ["DeviceNodesOutdated", "PartitionsMatch"]


def test_new_container_reports_its_gpus_without_a_device_plugin(
    machine: Callable[..., Machine], right: Observation, empty: Observation
) -> None:
    eks = machine(empty)
    eks.turn()
    eks.view = lambda: right
    eks.advertises({}, mig_state="success")
    eks.run(FORGOTTEN_S, every_s=2)
    assert eks.ends == [1_000 + PATIENCE_S]
    assert eks.told[-1] == "ResourcesNotAdvertised"


def test_an_end_in_vain_shows_that_the_finding_is_true(
    machine: Callable[..., Machine], empty: Observation
) -> None:
    eks = machine(empty)
    eks.advertises({}, mig_state="success")
    eks.run(24 * 3600, every_s=60)
    assert len(eks.ends) == 1, "nobody says that there is more"
    assert eks.told == ["DeviceNodesOutdated", "NotPartitioned"]


def test_a_view_that_stays_too_small_is_tried_again_ever_more_seldom(
    machine: Callable[..., Machine], empty: Observation
) -> None:
    gke = machine(empty, partitioner="gke")
    gke.advertises({"nvidia.com/gpu": 4})
    gke.run(24 * 3600, every_s=60)
    pauses = [later - earlier for earlier, later in zip(gke.ends, gke.ends[1:], strict=False)]
    assert pauses[0] == FORGOTTEN_S
    assert all(2 * a <= b <= 2 * a + 60 for a, b in itertools.pairwise(pauses))
    assert len(gke.ends) == 8
    assert gke.told == ["DeviceNodesOutdated", "NotPartitioned"]


def test_a_lost_gpu_never_ends_a_container(
    machine: Callable[..., Machine], right: Observation
) -> None:
    failed = replace(right.gpus[1], failure=Failure(call="x", code=15, text="GPU is lost"))
    for seen, reason in (
        (replace(right, gpus=(right.gpus[0], failed)), "GpuLost"),
        (replace(right, gpus=right.gpus[:1]), "WrongGpuCount"),
    ):
        for advertised in (2, 4):
            eks = machine()
            eks.advertises({"nvidia.com/gpu": 4}, mig_state="success")
            eks.run(10)
            eks.seen = seen
            eks.advertises({"nvidia.com/gpu": advertised})
            eks.run(24 * 3600, every_s=60)
            assert (eks.ends, eks.told) == ([], ["PartitionsMatch", reason])


def test_a_gpu_that_was_never_there_does_not_end_a_container(
    machine: Callable[..., Machine], right: Observation
) -> None:
    eks = machine(replace(right, gpus=right.gpus[:1]))
    eks.advertises({"nvidia.com/gpu": 2}, mig_state="success")
    eks.run(24 * 3600, every_s=60)
    assert (eks.ends, eks.told) == ([], ["WrongGpuCount"])


def test_gpus_that_were_never_seen_but_are_advertised_end_a_container(
    machine: Callable[..., Machine], right: Observation
) -> None:
    """No change is needed: the device plugin sees what this container does not."""
    eks = machine(replace(right, gpus=right.gpus[:1]))
    eks.advertises({"nvidia.com/gpu": 4}, mig_state="success")
    eks.turn()
    eks.view = lambda: right
    eks.run(FORGOTTEN_S, every_s=2)
    assert eks.ends == [1_000 + PATIENCE_S]
    assert eks.told == ["DeviceNodesOutdated", "PartitionsMatch"]


@pytest.mark.parametrize("nothing", [NO_DRIVER, Observation()], ids=["no driver", "no GPU"])
def test_a_container_that_loses_sight_of_all_gpus_at_once_ends(
    nothing: Observation, machine: Callable[..., Machine], right: Observation
) -> None:
    """Unlike one that loses a few: a driver was loaded anew, or CDI left them out."""
    eks = machine()
    eks.advertises({"nvidia.com/gpu": 4}, mig_state="success")
    eks.run(10)
    eks.seen = nothing
    eks.run(FORGOTTEN_S, every_s=2)
    assert eks.ends == [1_000 + 10 + CONFIRM_S]
    assert eks.told == ["PartitionsMatch", "DeviceNodesOutdated", "PartitionsMatch"]


def test_patience_begins_again_when_the_evidence_was_gone(
    machine: Callable[..., Machine], right: Observation, empty: Observation
) -> None:
    gke = machine(empty, partitioner="gke")
    gke.advertises({"nvidia.com/gpu": 4})
    gke.run(PATIENCE_S - 10)
    gke.advertises({})
    gke.turn()
    gke.advertises({"nvidia.com/gpu": 4})
    since = gke.now
    gke.view = lambda: right
    gke.run(FORGOTTEN_S)
    assert gke.ends == [since + CONFIRM_S], "what changed is confirmed by the device plugin"
    assert "NotPartitioned" in gke.told


def test_every_end_and_every_wait_is_logged_once(
    machine: Callable[..., Machine],
    right: Observation,
    empty: Observation,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logged: list[tuple[str, dict[str, object]]] = []
    monkeypatch.setattr(log, "info", lambda event, **facts: logged.append((event, facts)))
    ends = "container outdated: ending, so that the kubelet creates a new one"
    waits = "restart of the container waits"
    gke = machine(empty, partitioner="gke")
    gke.advertises({"nvidia.com/gpu": 4})
    gke.run(3 * FORGOTTEN_S)
    unchanged = {"evidence": "advertised", "changes": "none seen"}
    # Each container ends, or waits, `PATIENCE_S` after its first turn, a second after its start.
    # The second waits until it has run for `FORGOTTEN_S`, the third for twice that.
    assert logged == [
        (ends, unchanged),
        (waits, {"seconds": 539, **unchanged}),
        (ends, unchanged),
        (waits, {"seconds": 1139, **unchanged}),
    ]
    del logged[:]
    gke.reboots("b2")
    gke.run(10)
    gke.view = lambda: right
    gke.advertises({"nvidia.com/gpu": 4})
    gke.run(10)
    change = "allocatable () -> (('nvidia.com/gpu', 4),)"
    assert logged == [(ends, {"evidence": "advertised", "changes": change})]


# --- the kubelet's back-off ---


# Whole seconds: sums of others are rounded, and 600 s may then be a little less than 600 s.
@given(st.lists(st.integers(0, 1500).map(float), min_size=1, max_size=12))
def test_the_kubelets_pause_is_foreseen(runs: list[float]) -> None:
    """runs: how long each container ran."""
    kubelet, now, ends = RestartBackoff(), 0.0, []
    for run in runs:
        pause = kubelet.next(run if ends else 0.0)
        started, foreseen = kubelet_backoff(ends)
        now += run
        if ends:
            assert started == pytest.approx(now - run)
            assert pause == (0.0 if now - started >= FORGOTTEN_S else foreseen)
        ends.append(now)
        now += pause


def test_restart_pause_applies_only_if_it_is_shorter_than_the_wait() -> None:
    past = Past(boot_id="b").add_end("a", 1_000.0)
    assert wait_s(past, "b", 1_100.0) == 0, "10 s of the kubelet's, or 500 s of ours"
    assert wait_s(past, "b", 1_589.0) == 0
    assert wait_s(past, "b", 1_590.0) == 10, "the same: it waits where the kubelet need not"
    assert wait_s(past, "b", 1_595.0) == 5
    assert wait_s(past, "b", 1_600.0) == 0
    assert wait_s(past, "a", 1_100.0) == 500, "in vain before: the pause is never met"
    assert wait_s(past, "a", 9_000.0) == 0


def test_first_restart_has_no_pause() -> None:
    assert kubelet_backoff(()) == (float("-inf"), 0.0)
    assert wait_s(Past(boot_id="b"), "a", 0.0) == 0


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(60))
@given(data=st.data())
def test_whatever_the_node_says_a_matching_container_never_ends(
    data: st.DataObject, machine: Callable[..., Machine]
) -> None:
    eks = machine(partitioner=data.draw(st.sampled_from(["gke", "mig-manager", "none"])))
    for _ in range(data.draw(st.integers(1, 8))):
        eks.advertises(
            data.draw(st.sampled_from([{}, {"nvidia.com/gpu": 4}, {"nvidia.com/gpu": 64}])),
            mig_state=data.draw(st.sampled_from(["", "pending", "success", "failed"])),
            boot_id=data.draw(st.sampled_from(["b1", "b2"])),
        )
        eks.driver = data.draw(st.booleans())
        eks.run(data.draw(st.sampled_from([1, 90])), every_s=3)
    assert eks.ends == []


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    max_examples=examples(40),
    deadline=None,
)
@given(data=st.data())
def test_whatever_happens_ends_are_far_apart(
    data: st.DataObject, machine: Callable[..., Machine], right: Observation, empty: Observation
) -> None:
    """Without changed signs at least a minute of patience; with them at least `CONFIRM_S`, and the
    kubelet's own pause from the second on.
    """
    views = [right, empty, NO_DRIVER, replace(right, gpus=right.gpus[:1])]
    eks = machine(data.draw(st.sampled_from(views)))
    (eks.directory / "restarts.json").unlink(missing_ok=True)
    for _ in range(data.draw(st.integers(1, 10))):
        ends = len(eks.ends)
        eks.advertises(
            data.draw(st.sampled_from([{}, {"nvidia.com/gpu": 4}, {"nvidia.com/gpu": 2}])),
            mig_state=data.draw(st.sampled_from(["pending", "success"])),
        )
        seconds = data.draw(st.sampled_from([1, 30, 120, 700]))
        eks.run(seconds, every_s=max(1, seconds // 60))
        assert len(eks.ends) - ends <= 1 + seconds // FORGOTTEN_S
    assert all(b - a >= CONFIRM_S for a, b in zip(eks.ends, eks.ends[1:], strict=False))


# --- the memory ---


def test_containers_remember_by_the_file_and_a_new_boot_forgets(tmp_path: Path) -> None:
    past = Past(boot_id="b1").add_end("a", 10.0)
    first = RestartMemory(tmp_path)
    assert first.past_of("b1", 10.0) == Past(boot_id="b1")
    first.save(past)
    assert RestartMemory(tmp_path).past_of("b1", 11.0) == past
    assert RestartMemory(tmp_path).past_of("b2", 11.0) == Past(boot_id="b2")
    assert RestartMemory(tmp_path).past_of("b1", 9.0).ends == (), "the clock began anew"


def test_without_a_volume_it_remembers_as_long_as_it_runs(tmp_path: Path) -> None:
    memory = RestartMemory(tmp_path / "absent")
    memory.save(Past(boot_id="b1").add_end("a", 10.0))
    assert memory.past_of("b1", 11.0).ends == (10.0,)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"boot_id": "b1"}',
        '{"boot_id": "b1", "ends": [null], "in_vain": []}',
    ],
)
def test_restart_memory_ignores_an_invalid_file(text: str, tmp_path: Path) -> None:
    (tmp_path / "restarts.json").write_text(text)
    memory = RestartMemory(tmp_path)
    assert memory.past_of("b1", 1.0) == Past(boot_id="b1")
    memory.save(Past(boot_id="b1").add_end("a", 1.0))
    assert RestartMemory(tmp_path).past_of("b1", 1.0).ends == (1.0,)


def test_the_file_stays_small(tmp_path: Path) -> None:
    past = Past(boot_id="b1")
    for number in range(10_000):
        past = past.add_end(f"{number:016x}", float(number))
    RestartMemory(tmp_path).save(past)
    assert (tmp_path / "restarts.json").stat().st_size < 4096
