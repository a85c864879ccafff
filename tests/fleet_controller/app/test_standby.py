"""Only the replica that leads acts, and it begins with what is so at that moment."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from slicewright.apis.names import STARTUP_TAINT_KEY
from slicewright.fleet_controller import cli
from slicewright.fleet_controller.app import loop as loop_module
from slicewright.fleet_controller.app.loop import Loop
from slicewright.fleet_controller.cluster.bound_pods import Nodes
from slicewright.fleet_controller.cluster.lanes import Outcome
from slicewright.fleet_controller.cluster.observe import Cluster
from slicewright.fleet_controller.decision.actions import (
    Action,
    RemoveStartupTaint,
    SetNodeCondition,
    SetPoolStatus,
)
from slicewright.fleet_controller.objects.node import Node
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.fleet_controller.objects.report import Report
from slicewright.fleet_controller.rollout.change_actions import EvictPod
from slicewright.kubeapi import ApiError, Client, Unreachable
from slicewright.telemetry import log as telemetry_log


@dataclass
class Api:
    """An API server's lists, as they are and as a watch has shown them."""

    asked: list[str] = field(default_factory=list)
    broken: bool = False
    items: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    version: int = 10
    server: str = "https://127.0.0.1"

    def get(self, path: str, **query: str) -> dict[str, Any]:
        self.asked.append(path)
        if self.broken:
            raise Unreachable("nobody answers")
        listed = self.items.get(path, [])
        return {"metadata": {"resourceVersion": str(self.version)}, "items": listed}


@dataclass
class Run:
    """A loop in a thread, which leads when the test says so."""

    cluster: Cluster
    leads: threading.Event = field(default_factory=threading.Event)
    stop: threading.Event = field(default_factory=threading.Event)
    term: int = 1
    done: list[Action] = field(default_factory=list)
    _thread: threading.Thread | None = None

    def __post_init__(self) -> None:
        for each in self.cluster.followed():
            each.listed.set()
        self.loop = Loop(self.cluster, term=self._in_term, clock=lambda: 1_800_000_000.0)

    def _in_term(self) -> int:
        return self.term if self.leads.is_set() else 0

    def start(self) -> None:
        self._thread = threading.Thread(target=self.loop.run, args=(self.stop,))
        self._thread.start()

    def start_until_it_waits(self) -> Waits:
        """It leads, and runs until it waits for `stop`, which says for how long."""
        self.leads.set()
        self.stop = waits = Waits()
        self.start()
        _until(waits.is_set)
        return waits

    def end(self) -> None:
        self.stop.set()
        self.cluster.changed.set()
        if self._thread is not None:
            self._thread.join(timeout=60)
            assert not self._thread.is_alive()


def _until(holds: Callable[[], object]) -> None:
    pause = threading.Event()
    for _ in range(3000):
        if holds():
            return
        pause.wait(0.01)
    pytest.fail("it does not come to hold")


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def run(api: Api, monkeypatch: pytest.MonkeyPatch, pool: Pool, node: Node, report: Report) -> Any:
    made = Run(Cluster.for_client(cast(Client, api)))
    monkeypatch.setattr(loop_module, "_STANDBY_S", 0.01)
    monkeypatch.setattr(loop_module, "execute", lambda _, action: made.done.append(action))
    known = made.cluster
    for collection, one in ((known.pools, pool), (known.nodes, node), (known.reports, report)):
        monkeypatch.setattr(collection, "all", lambda one=one: {one.name: one})
    yield made
    made.end()


def test_who_does_not_lead_does_nothing_and_lists_nothing(api: Api, run: Run) -> None:
    run.start()
    turns = run.loop.progress.last_turn
    _until(lambda: run.loop.progress.last_turn > turns + 0.05)
    assert (run.done, api.asked, run.loop.progress.passes) == ([], [], 0)
    assert run.loop.progress.error is None, "it is ready to take over"


def test_who_begins_to_lead_lists_everything_before_the_first_pass(api: Api, run: Run) -> None:
    run.start()
    run.leads.set()
    _until(lambda: run.done)
    kinds = [path.rpartition("/")[2] for path in api.asked[:4]]
    assert kinds == ["gpupools", "nodes", "gpunodereports", "pods"], "pods after nodes"


def test_without_these_lists_there_is_no_pass(api: Api, run: Run) -> None:
    api.broken = True
    run.start()
    run.leads.set()
    _until(lambda: run.loop.progress.error)
    assert run.done == []
    api.broken = False
    _until(lambda: run.done)


def test_who_leads_no_more_ends_in_the_middle_of_a_pass(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def execute(_: Cluster, action: Action) -> None:
        run.done.append(action)
        run.leads.clear()

    monkeypatch.setattr(loop_module, "execute", execute)
    run.start()
    run.leads.set()
    _until(lambda: run.done and run.loop.progress.passes == 0 and not run.leads.is_set())
    turns = run.loop.progress.last_turn
    _until(lambda: run.loop.progress.last_turn > turns + 0.05)
    assert len(run.done) == 1
    run.leads.set()
    _until(lambda: len(run.done) == 2)


def test_a_signal_ends_it_in_the_middle_of_a_pass(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def execute(_: Cluster, action: Action) -> None:
        run.done.append(action)
        run.stop.set()

    monkeypatch.setattr(loop_module, "execute", execute)
    run.leads.set()
    run.start()
    _until(lambda: run.done)
    run.end()
    assert len(run.done) == 1


def test_what_was_decided_in_one_term_is_not_done_in_the_next(
    api: Api, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is stopped for a minute in the middle of a decision, and leads again by the
    time that it is made: another one has acted in between, and is gone.
    """
    lists_before: list[int] = []
    decide = loop_module.decide

    def slow(*args: Any, **more: Any) -> Any:
        lists_before.append(len(api.asked))
        if len(lists_before) == 1:
            run.term += 1
        return decide(*args, **more)

    def execute(_: Cluster, action: Action) -> None:
        run.done.append(action)
        assert len(lists_before) > 1, "a decision of an earlier term is carried out"

    monkeypatch.setattr(loop_module, "decide", slow)
    monkeypatch.setattr(loop_module, "execute", execute)
    run.leads.set()
    run.start()
    _until(lambda: run.done)
    asked = [path.rpartition("/")[2] for path in api.asked[lists_before[0] : lists_before[1]]]
    assert asked[:4] == ["gpupools", "nodes", "gpunodereports", "pods"], "and all is listed again"


def _raw(name: str, version: int) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": name, "resourceVersion": str(version)}}


def test_a_list_replaces_what_is_older_and_keeps_what_a_watch_has_shown_since(api: Api) -> None:
    nodes = Cluster.for_client(cast(Client, api)).nodes
    for raw in (_raw("gone", 5), _raw("changed", 6), _raw("newer", 12), _raw("joined", 11)):
        nodes.put(raw)
    api.items[nodes.path] = [_raw("changed", 9), _raw("newer", 8), _raw("other", 3)]
    nodes.list_again(cast(Client, api))
    assert {node.name: node.version for node in nodes.all().values()} == {
        "changed": "9",
        "newer": "12",
        "joined": "11",
        "other": "3",
    }


def test_a_loop_ends_where_the_cluster_is_not_followed_any_more(run: Run) -> None:
    ended = threading.Thread(target=lambda: None)
    ended.start()
    ended.join()
    run.cluster.nodes.thread = ended
    run.start()
    _until(lambda: run._thread and not run._thread.is_alive())
    assert not run.stop.is_set()
    assert run.cluster.ended() == "the thread that follows /api/v1/nodes has ended"


def test_the_process_ends_with_1_where_the_cluster_is_not_followed_any_more(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """So that the kubelet starts another one: of a dead watch this one would never hear again."""
    monkeypatch.setattr(Client, "in_cluster", lambda **_: Api(broken=True))
    monkeypatch.setattr(Nodes, "follow", lambda self, client, stop: None)
    monkeypatch.setattr(telemetry_log, "start", lambda: None)
    monkeypatch.setattr(loop_module, "_STANDBY_S", 0.01)
    monkeypatch.setenv("POD_IP", "127.0.0.1")
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    try:
        with caplog.at_level(logging.INFO, telemetry_log.logger.name):
            assert cli.main(["--port", "0"]) == 1
    finally:
        for number, handler in zip((signal.SIGTERM, signal.SIGINT), before, strict=True):
            signal.signal(number, handler)
    (ended,) = [one for one in caplog.records if one.getMessage() == "stopped"]
    assert ended.facts == {"why": "the thread that follows /api/v1/nodes has ended"}  # type: ignore[attr-defined]


class Waits(threading.Event):
    """Ends with the first wait for anything, and remembers for how long it was to."""

    asked = 0.0

    def wait(self, timeout: float | None = None) -> bool:
        if timeout:
            self.asked = timeout
            self.set()
        return self.is_set()


@pytest.mark.parametrize("taints", [1, 2])
def test_a_node_whose_release_waits_for_the_next_pass_counts_once_as_verified(
    run: Run, monkeypatch: pytest.MonkeyPatch, node: Node, taints: int
) -> None:
    """Its condition is written in one pass, its taints, of which a quarantine makes two, later."""
    held = replace(node, taint_keys=(STARTUP_TAINT_KEY,) * taints)
    there = {"n1": held}
    monkeypatch.setattr(run.cluster.nodes, "all", lambda: there)
    loop = run.loop
    loop._warnings = {}
    monkeypatch.setattr(loop._causes, "missing_operands", lambda nodes: {})
    loop._nodes = there
    decided = loop._decide().actions
    (said,) = (action for action in decided if isinstance(action, SetNodeCondition))
    assert said.boot is not None
    lifted = [action for action in decided if isinstance(action, RemoveStartupTaint)]
    assert len(lifted) == taints
    loop._do(said)
    loop._nodes = {"n1": replace(held, verified_boot=held.boot_id)}
    for action in lifted:
        loop._do(action)
    samples = loop.progress.durations.to_verified.samples()
    assert [one.value for one in samples if one.suffix == "_count"] == [1]


def test_an_overloaded_api_server_is_left_alone_for_as_long_as_it_says(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(_: Cluster, action: Action) -> None:
        run.done.append(action)
        raise ApiError(429, {"message": "too many requests"}, retry_after_s=17)

    monkeypatch.setattr(loop_module, "execute", busy)
    assert run.start_until_it_waits().asked == 17
    assert len(run.done) == 1, "the rest of the pass would only add to its load"
    assert "too many requests" in (run.loop.progress.error or "")


def _evict(pod: str) -> EvictPod:
    return EvictPod(node="n1", namespace="ai", pod=pod, uid=pod)


BUDGET = {"details": {"causes": [{"reason": "DisruptionBudget", "message": "it needs 3"}]}}


def test_longest_retry_after_of_several_lanes_counts(run: Run) -> None:
    for seconds in (2.0, 30.0, 1.0):
        error = ApiError(429, {"message": "too many requests"}, retry_after_s=seconds)
        assert run.loop._not_done(SetPoolStatus(pool="p", status={}), error)
    assert run.loop._retry_after == 30.0


@pytest.mark.parametrize("status", [429, 503])
def test_an_api_server_that_is_overloaded_at_an_eviction_is_left_alone_too(
    run: Run, status: int
) -> None:
    busy = ApiError(status, {"message": "too many requests"}, retry_after_s=4)
    assert run.loop._not_done(_evict("a"), busy) == f"HTTP {status}: too many requests"
    assert run.loop._retry_after == 4
    assert run.loop._refusals.all() == {}, "no pod is said to be held by it"


def test_retry_after_of_a_budget_delays_only_its_pod(run: Run) -> None:
    refused = ApiError(429, BUDGET, retry_after_s=10)
    assert run.loop._not_done(_evict("a"), refused) is None
    assert run.loop._retry_after == 0
    assert run.loop._refusals.all()["a"].retry_at >= 1_800_000_010.0


def test_who_begins_to_lead_leaves_an_overloaded_api_server_alone(
    api: Api, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(path: str, **query: str) -> dict[str, Any]:
        raise ApiError(429, {"message": "too many requests"}, retry_after_s=17)

    monkeypatch.setattr(api, "get", busy)
    assert run.start_until_it_waits().asked == 17


@pytest.mark.parametrize(("acts", "waits"), [(False, True), (True, False)])
def test_after_failures_it_waits_though_much_is_left_unless_other_objects_are_changed(
    run: Run, monkeypatch: pytest.MonkeyPatch, acts: bool, waits: bool
) -> None:
    passes: list[int] = []

    def carry_out(*_: object, **__: object) -> Outcome:
        passes.append(1)
        if acts:
            run.loop._do(RemoveStartupTaint(node="n2", position=0, boot_id="b", layout=None))
        if len(passes) == 3:
            run.stop.set()
        return Outcome(failed={"node n1": "it failed"}, postponed=3)

    monkeypatch.setattr(run.loop._lanes, "carry_out", carry_out)
    assert (run.start_until_it_waits().asked > 0) == waits


def test_what_an_objects_change_has_kept_from_being_done_is_decided_again_soon(
    api: Api, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its next version may be no news, and wake nobody."""

    def conflict(_: Cluster, action: Action) -> None:
        raise ApiError(409, {"message": "the object has been modified", "reason": "Conflict"})

    monkeypatch.setattr(loop_module, "execute", conflict)
    run.leads.set()
    assert run.loop.turn() == 1_800_000_001.0
    assert run.loop.progress.error is None
    monkeypatch.setattr(loop_module, "execute", lambda *_: None)
    again = run.loop.turn()
    assert again is None or again > 1_800_000_001.0


def test_a_pass_that_leaves_something_is_followed_by_another_at_once(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        run.loop._lanes, "carry_out", lambda *_, **__: Outcome(failed={}, postponed=3)
    )
    run.leads.set()
    assert run.loop.turn() == 1_800_000_000.0
    assert run.loop.progress.postponed == 3
