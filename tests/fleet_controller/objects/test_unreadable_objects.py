"""A pool that cannot be read is not a deleted pool; other odd objects are stood in for."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from slicewright.apis import names
from slicewright.fleet_controller.app.loop import Loop
from slicewright.fleet_controller.cli import _unreadable_pool
from slicewright.fleet_controller.cluster.collection import SECOND_LIST_AFTER_S, Collection
from slicewright.fleet_controller.cluster.observe import Cluster
from slicewright.fleet_controller.decision.actions import Action, AddStartupTaint
from slicewright.fleet_controller.decision.decide import decide
from slicewright.fleet_controller.membership.release import ReleaseNode
from slicewright.fleet_controller.nodes.assess import assess
from slicewright.fleet_controller.objects.bounds import stamp
from slicewright.fleet_controller.objects.layout_change import Change
from slicewright.fleet_controller.objects.node import BroughtLabel, Joined, Node
from slicewright.fleet_controller.objects.pool import Pool, missing_pool, read_pool, unreadable_pool
from slicewright.fleet_controller.objects.report import Report
from slicewright.fleet_controller.objects.warning_event import WarningEvent
from slicewright.fleet_controller.rollout.change_actions import FinishChange
from slicewright.kubeapi import Client, JsonObject
from tests.fleet_controller import kubernetes_objects as objects
from tests.fleet_controller.api_edge import NODES, POOLS, ApiEdge

NOW = 1_800_000_000.0
HELD = (names.STARTUP_TAINT_KEY,)


@pytest.fixture
def member(node: Node) -> Node:
    """An existing node, which was brought labels and is in the middle of a change."""
    labels = {"team": BroughtLabel(value="a", before=None)}
    change = Change(
        node_uid=node.uid,
        target="c0",
        phase="Draining",
        since=NOW - 10,
        started=NOW - 10,
        cordoned=True,
    )
    return replace(
        node,
        labels={**node.labels, "team": "a"},
        joined=Joined(pool="halves", labels=labels),
        change=change.dump(),
        unschedulable=True,
        verified_boot="b1",
    )


def _decided(pools: list[Pool], nodes: list[Node], **more: Any) -> tuple[Action, ...]:
    return decide(pools, nodes, more.pop("reports", {}), {}, {}, NOW, **more).actions


def test_nothing_is_taken_from_the_nodes_of_a_pool_that_cannot_be_read(
    pool: Pool, member: Node, report: Report
) -> None:
    for unread in (
        replace(pool, unreadable="KeyError: 'layoutHash'"),
        missing_pool("halves", "KeyError: 'layoutHash'"),
    ):
        for node in (member, replace(member, labels={}), replace(member, joined=None)):
            reports = {node.name: report}
            assert _decided([unread], [node], reports=reports) == ()


def test_with_the_pool_deleted_the_same_nodes_are_released(member: Node) -> None:
    """So the test above can fail."""
    (finished,) = _decided([], [member])
    assert isinstance(finished, FinishChange)
    (released,) = _decided([], [replace(member, change="")])
    assert isinstance(released, ReleaseNode)


def test_another_pool_takes_no_node_of_a_pool_that_cannot_be_read(pool: Pool, member: Node) -> None:
    other = replace(pool, name="other", selector={"team": "a"}, brings={})
    unread = missing_pool("halves", "KeyError")
    labelled = replace(member, labels={"team": "a"}, change="")
    assert {a.subject for a in _decided([other, unread], [labelled])} == {"pool other"}
    assert "node n1" in {a.subject for a in _decided([other], [labelled])}


def test_a_node_of_a_pool_that_cannot_be_read_is_held_if_it_is_not_ready(
    pool: Pool, node: Node
) -> None:
    gone = replace(node, ready=False, taint_keys=(), verified_boot="b1")
    (hold,) = _decided([replace(pool, unreadable="ValueError")], [gone])
    assert isinstance(hold, AddStartupTaint)


def test_the_warnings_of_a_pool_that_cannot_be_read_stay(pool: Pool) -> None:
    warning = WarningEvent(name=f"halves.{'0' * 16}", last_seen=NOW)
    unread = replace(pool, unreadable="ValueError")
    assert decide([unread], [], {}, {}, {warning.name: warning}, NOW).actions == ()
    assert decide([], [], {}, {}, {warning.name: warning}, NOW).actions


def test_unreadable_pool_keeps_the_nodes_of_its_last_read(pool: Pool) -> None:
    raw = {"metadata": {"name": "halves", "uid": "pool-uid"}}
    assert unreadable_pool(raw, "why", pool) == replace(pool, unreadable="why")
    assert unreadable_pool(raw, "why").selector == {names.POOL_LABEL: "halves"}


def test_a_report_that_cannot_be_read_is_named_in_the_condition(
    pool: Pool, node: Node, report: Report
) -> None:
    unread = replace(report, unreadable="ValueError: is not a plausible time")
    assessment = assess(node, pool, unread, NOW)
    assert (assessment.status, assessment.reason) == ("Unknown", "ReportUnreadable")
    assert "is not a plausible time" in assessment.message
    assert "kubectl delete gpunodereport n1" in assessment.message


class Lists:
    """Answers lists of pools, the last of them again and again."""

    def __init__(self, *lists: list[JsonObject]) -> None:
        self.lists = list(lists)
        self.version = 100

    def get(self, path: str, **query: str) -> JsonObject:
        items = self.lists.pop(0) if len(self.lists) > 1 else self.lists[0]
        self.version += 1
        return {"metadata": {"resourceVersion": str(self.version)}, "items": items}


def _raw(name: str = "halves", **spec: Any) -> JsonObject:
    body = objects.pool(name, **spec)
    body["metadata"] |= {"uid": f"uid-{name}", "resourceVersion": "50"}
    return body


class Pools:
    """A collection of pools with a clock of its own."""

    def __init__(self, *lists: list[JsonObject]) -> None:
        self.now = 1000.0
        self.client = cast("Client", Lists(*lists))
        self.pools: Collection[Pool] = Collection(
            POOLS,
            read_pool,
            threading.Event(),
            stand_in=unreadable_pool,
            two_lists=True,
            clock=lambda: self.now,
        )

    def list(self) -> set[str]:
        self.pools.list_again(self.client)
        return set(self.pools.all())


def test_a_list_that_lacks_a_pool_is_believed_when_a_second_one_agrees() -> None:
    pools = Pools([_raw()], [], [], [])
    assert pools.list() == {"halves"}
    pools.now += 100
    assert pools.list() == {"halves"}
    assert pools.pools.second_list_due_s() == SECOND_LIST_AFTER_S
    pools.now += SECOND_LIST_AFTER_S - 1
    assert pools.list() == {"halves"}, "too soon after the first one"
    pools.now += 1
    assert pools.list() == set()
    assert pools.pools.second_list_due_s() is None


def test_a_pool_that_a_second_list_has_is_no_longer_in_doubt() -> None:
    pools = Pools([_raw()], [], [_raw()], [])
    for _ in range(3):
        pools.list()
        pools.now += 100
    assert pools.pools.second_list_due_s() is None
    assert pools.list() == {"halves"}, "the doubt begins anew"


def test_a_watch_that_tells_of_a_deletion_is_believed_at_once() -> None:
    pools = Pools([_raw()])
    pools.list()
    pools.pools._gone("halves", 60)
    assert pools.pools.all() == {}


def test_a_pool_that_was_never_listed_exists_until_two_lists_lack_it() -> None:
    pools = Pools([])
    assert not pools.pools.confirmed()
    pools.list()
    assert not pools.pools.confirmed()
    pools.now += SECOND_LIST_AFTER_S
    pools.list()
    assert pools.pools.confirmed()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda raw: raw["spec"].pop("layoutHash"),
        lambda raw: raw["spec"].pop("selector"),
        lambda raw: raw.pop("spec"),
        lambda raw: raw["spec"].update(rolloutPolicy={"maxUnavailable": "many"}),
        lambda raw: raw["spec"].update(expectedNodes=[]),
    ],
)
def test_a_pool_that_becomes_unreadable_stays_known_and_is_named(
    spoil: Callable[[JsonObject], object],
) -> None:
    spoilt = _raw()
    spoilt["metadata"]["resourceVersion"] = "60"
    spoil(spoilt)
    pools = Pools([_raw()], [spoilt], [_raw()])
    pools.list()
    before = pools.pools.all()["halves"]
    assert pools.list() == {"halves"}
    unread = pools.pools.all()["halves"]
    assert unread == replace(before, unreadable=unread.unreadable)
    assert pools.pools.unreadable() == {"halves": unread.unreadable}
    mended = _raw()
    mended["metadata"]["resourceVersion"] = "70"
    pools.pools.put(mended)
    assert pools.pools.unreadable() == {}
    assert not pools.pools.all()["halves"].unreadable


class Fleet:
    """A pool of one existing node that has joined it, followed by the loop."""

    def __init__(self) -> None:
        self.edge = ApiEdge()
        self.edge.put(POOLS, _raw(existingNodes={"labels": {"team": "a"}}))
        note = {"pool": "halves", "labels": {"team": {"value": "a", "before": None}}}
        labels = {names.POOL_LABEL: "halves", "team": "a"}
        self.edge.put(
            NODES,
            {
                "metadata": {
                    "name": "n1",
                    "uid": "u1",
                    "creationTimestamp": stamp(NOW - 100),
                    "labels": labels,
                    "annotations": {names.JOINED_ANNOTATION: json.dumps(note)},
                },
                "spec": {"taints": [dict(names.STARTUP_TAINT)]},
                "status": {
                    "nodeInfo": {"bootID": "b1"},
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            },
        )
        self.now = NOW
        self.cluster = Cluster.for_client(self.edge.as_client())
        self.cluster.pools._clock = lambda: self.now
        self.loop = Loop(self.cluster, clock=lambda: self.now)

    def list_and_turn(self) -> None:
        self.cluster.list_again()
        self.loop.turn()
        self.now += 1.0

    def is_as_it_was(self) -> bool:
        node = self.edge.objects[NODES]["n1"]
        return node["metadata"]["labels"].get("team") == "a" and bool(node["spec"]["taints"])


def test_a_controller_that_starts_with_a_list_without_the_pool_waits_for_a_second_one() -> None:
    fleet = Fleet()
    del fleet.edge.objects[POOLS]["halves"]
    for _ in range(4):
        fleet.list_and_turn()
        assert fleet.is_as_it_was()
    for _ in range(8):
        fleet.list_and_turn()
    assert not fleet.is_as_it_was()


def test_the_loop_asks_for_the_second_list_itself() -> None:
    fleet = Fleet()
    fleet.list_and_turn()
    del fleet.edge.objects[POOLS]["halves"]
    fleet.cluster.list_again()
    due = fleet.loop.turn()
    assert due is not None
    assert fleet.is_as_it_was()
    for _ in range(10):
        fleet.now = max(fleet.now + 1, fleet.loop.turn() or 0)
    assert not fleet.is_as_it_was()


def test_readiness_names_the_pool_that_cannot_be_read() -> None:
    fleet = Fleet()
    fleet.list_and_turn()
    assert _unreadable_pool(fleet.cluster) is None
    fleet.edge.change(POOLS, "halves", {"spec": {"layoutHash": None}})
    fleet.list_and_turn()
    why = _unreadable_pool(fleet.cluster)
    assert why
    assert "GPUPool halves cannot be read: KeyError: 'layoutHash'" in why
    assert fleet.is_as_it_was()
