"""One decision about a rollout: who begins, who waits, what stands in the way, and what is said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pytest

from slicewright.apis.gpu_pool.rollout_policy import RolloutPolicy
from slicewright.apis.names import MIG_CONFIG_LABEL as CONFIG
from slicewright.apis.names import MIG_STATE_LABEL as STATE
from slicewright.apis.names import POOL_LABEL, ZONE_LABEL
from slicewright.apis.names import STARTUP_TAINT_KEY as TAINT
from slicewright.fleet_controller.objects.assessment import Assessment
from slicewright.fleet_controller.objects.condition import Condition
from slicewright.fleet_controller.objects.layout_change import Change, Phase, change_of
from slicewright.fleet_controller.objects.node import Node
from slicewright.fleet_controller.objects.node_pods import NodePod
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.fleet_controller.rollout.progress import progress_text
from slicewright.fleet_controller.rollout.rollout import (
    Rollout,
    decide_rollout,
    fresh,
    left_over,
    must_change,
    needs_pods,
)
from tests.fleet_controller.builders import build_node, build_pool

NOW = 1_800_000_000.0
Status = Literal["True", "False", "Unknown"]


def pool(suspended: str = "", config: str | None = "new", **policy: Any) -> Pool:
    return build_pool(
        name="p",
        selector={POOL_LABEL: "p"},
        mig_config=config,
        policy=RolloutPolicy(**policy),
        suspended=suspended,
    )


def node(
    name: str,
    *,
    config: str = "old",
    phase: Phase | None = None,
    state: str = "success",
    zone: str = "a",
    verified: bool = True,
    **facts: Any,
) -> Node:
    """In service with the layout `old`, or in that phase of a change."""
    note = Change(
        node_uid=name,
        target="new",
        phase=phase or "Draining",
        since=NOW,
        started=NOW,
        cordoned=True,
        reason="ChangeFailed" if phase == "Failed" else "",
    )
    return build_node(
        **{
            "name": name,
            "uid": name,
            "verified_boot": "b" if verified else "",
            "labels": {POOL_LABEL: "p", CONFIG: config, STATE: state, ZONE_LABEL: zone},
            "change": note.dump() if phase else "",
            "unschedulable": phase is not None,
            **facts,
        }
    )


def decided(
    of: Pool,
    nodes: Sequence[Node],
    *,
    pods: Mapping[str, tuple[NodePod, ...]] | None = None,
    status: Status = "True",
) -> Rollout:
    """status: of every node by itself."""
    base = Assessment(status=status, reason="R", message="m")
    return decide_rollout(of, [(n, base) for n in nodes], pods or {}, {}, NOW)


def begun(rollout: Rollout) -> list[str]:
    return sorted(n for n, turn in rollout.turns.items() if turn.actions and n in rollout.changing)


def named(*names: str) -> list[Node]:
    return [node(name) for name in names]


class TestWhatIsSaid:
    def test_every_part_is_there_and_names_at_most_three(self) -> None:
        rollout = Rollout(
            wanted_layout="new",
            done=1,
            changing=("c", "f"),
            failed=("f",),
            waiting=("w1", "w2", "w3", "w4", "w5"),
        )
        assert progress_text(rollout, pool(), 8) == (
            "1 of 8 nodes have layout new; changing: c; failed: f; waiting: w1, w2, w3 and 2 more"
        )

    def test_three_are_named_without_more(self) -> None:
        rollout = Rollout(wanted_layout="new", waiting=("a", "b", "c"))
        assert progress_text(rollout, pool(), 3).endswith("; waiting: a, b, c")
        rollout = Rollout(wanted_layout="new", waiting=("a", "b", "c", "d"))
        assert progress_text(rollout, pool(), 4).endswith("; waiting: a, b, c and 1 more")

    def test_what_there_is_none_of_is_left_out(self) -> None:
        assert (
            progress_text(Rollout(wanted_layout="new", done=2), pool(), 2)
            == "2 of 2 nodes have layout new"
        )

    @pytest.mark.parametrize("stopped", ["paused", "aborted"])
    def test_the_message_says_how_to_go_on(self, stopped: str) -> None:
        said = progress_text(Rollout(wanted_layout="new", stopped=stopped), pool(), 2)
        go_on = "slicewright rollout resume p"
        assert said.endswith(f"; it is {stopped}; to go on: {go_on}")

    def test_progress_asks_to_repair_failed_nodes(self) -> None:
        said = progress_text(Rollout(wanted_layout="new", stopped="failed"), pool(), 2)
        assert said.endswith("; no further node changes until the failed nodes are repaired")

    def test_a_rollout_of_nothing_is_the_default(self) -> None:
        nothing = Rollout()
        assert (nothing.turns, nothing.wanted_layout, nothing.done) == ({}, "", 0)
        assert (nothing.applying, nothing.stopped, nothing.active) == (False, "", False)
        assert Rollout(changing=("n",)).active
        assert Rollout(waiting=("n",)).active


class TestFailures:
    """With how many failed nodes no further one begins."""

    @staticmethod
    def stopped(failed: int, *nodes: Node, of: int = 10, **policy: Any) -> bool:
        """nodes: those that are there beside the failed ones and those that wait."""
        there = [
            *(node(f"f{i}", phase="Failed") for i in range(failed)),
            *nodes,
            *(node(f"w{i}") for i in range(of - failed - len(nodes))),
        ]
        wide = pool(**{"max_unavailable": "100%", "canary": 0, **policy})
        assessed = [(n, Assessment(status="True", reason="R", message="m")) for n in there]
        return decide_rollout(wide, assessed, {}, {}, NOW).stopped == "failed"

    @pytest.mark.parametrize(
        ("most", "nodes", "failed", "stops"),
        [
            (2, 10, 1, False),
            (2, 10, 2, True),
            ("30%", 10, 2, False),
            ("30%", 10, 3, True),
            ("30%", 9, 2, True),
            ("1%", 10, 1, True),
        ],
    )
    def test_it_is_a_number_or_a_percentage_rounded_down(
        self, most: int | str, nodes: int, failed: int, stops: bool
    ) -> None:
        assert self.stopped(failed, of=nodes, max_failures=most) is stops

    def proven(self, name: str, at: float) -> Node:
        return node(name, config="new", changed_at=at)

    def test_failures_in_a_row_stop_the_rollout(self) -> None:
        policy = {"max_failures": "100%", "max_failures_in_a_row": 2}
        assert not self.stopped(1, **policy)
        assert self.stopped(2, **policy)
        assert self.stopped(2, self.proven("a", NOW - 1), self.proven("b", NOW - 9), **policy)
        # In the same second nobody knows which was first.
        assert self.stopped(2, self.proven("a", NOW), **policy)

    def test_a_node_that_is_proven_after_them_ends_the_row(self) -> None:
        policy = {"max_failures": "100%", "max_failures_in_a_row": 2}
        assert not self.stopped(2, self.proven("a", NOW - 9), self.proven("b", NOW + 1), **policy)

    def test_a_node_with_the_old_layout_proves_nothing(self) -> None:
        policy = {"max_failures": "100%", "max_failures_in_a_row": 2}
        assert self.stopped(2, node("w", changed_at=NOW + 1), **policy)
        still = node("c", config="new", phase="Applying", changed_at=NOW + 1)
        assert self.stopped(2, still, **policy)

    def test_node_that_was_only_silent_or_away_does_not_end_a_row_of_failures(self) -> None:
        policy = {"max_failures": "100%", "max_failures_in_a_row": 2}
        back = Condition(status="True", reason="R", message="m", changed=NOW + 1, written=NOW + 1)
        before = node("a", config="new", condition=back, changed_at=NOW - 1)
        assert self.stopped(2, before, **policy)
        assert self.stopped(2, node("a", config="new", condition=back), **policy)


class TestWhatThereIs:
    def test_nodes_are_listed_by_name_in_order(self) -> None:
        nodes = [
            *(node(f"f{i}", phase="Failed") for i in (2, 1, 3)),
            *(node(f"w{i}") for i in (5, 2, 4, 3, 1)),
        ]
        found = decided(pool(max_failures=3), nodes)
        assert found.changing == ("f1", "f2", "f3")
        assert found.failed == ("f1", "f2", "f3")
        assert found.waiting == ("w1", "w2", "w3", "w4", "w5")
        assert (found.wanted_layout, found.stopped, found.applying) == ("new", "failed", False)

    def test_what_begins_no_longer_waits_and_has_not_failed(self) -> None:
        found = decided(pool(), named("a", "b"))
        assert (found.changing, found.waiting, found.failed) == (("a",), ("b",), ())

    def test_a_layout_is_made_where_a_node_is_applying_it(self) -> None:
        assert decided(pool(), [node("a", config="new", phase="Applying")]).applying is True
        assert decided(pool(), [node("a", phase="Draining")]).applying is False

    def test_done_is_what_has_the_layout_is_verified_and_changes_no_more(self) -> None:
        nodes = [node("a", config="new"), node("b"), node("c", config="new", phase="Applying")]
        assert decided(pool(), nodes).done == 1
        assert decided(pool(), [node("a", config="new")], status="False").done == 0

    def test_a_pool_without_mig_manager_wants_no_layout(self) -> None:
        found = decided(pool(config=None), named("a"))
        assert (found.wanted_layout, found.waiting, found.stopped) == ("", (), "")

    def test_a_finished_pool_is_not_stopped(self) -> None:
        found = decided(pool(), [node("a", config="new")])
        assert (found.stopped, found.turns, found.active) == ("", {}, False)


class TestSuspended:
    @pytest.mark.parametrize("phase", ["Draining", "Paused"])
    def test_a_cordoned_node_stands_still_though_none_waits(self, phase: Phase) -> None:
        nodes = [node("a", phase=phase), node("b", config="new", phase="Applying")]
        assert decided(pool("paused"), nodes).stopped == "paused"

    def test_with_nothing_to_stop_nothing_is_suspended(self) -> None:
        assert decided(pool("paused"), [node("a", config="new")]).stopped == ""
        applying = [node("a", config="new", phase="Applying")]
        assert decided(pool("paused"), applying).stopped == ""

    def test_none_begins_while_one_waits(self) -> None:
        found = decided(pool("paused"), named("a", "b"))
        assert (found.stopped, found.changing, found.waiting) == ("paused", (), ("a", "b"))


class TestWhoBegins:
    def test_those_that_change_take_places(self) -> None:
        nodes = [node("a", phase="Draining"), *named("b", "c", "d")]
        assert begun(decided(pool(max_unavailable=2, canary=0), nodes)) == ["a", "b"]

    def test_one_that_changes_takes_a_place_though_somebody_has_uncordoned_it(self) -> None:
        nodes = [node("a", phase="Draining", unschedulable=False), node("b", ready=False)]
        wide = pool(max_unavailable=2, canary=0)
        assert decided(wide, [*nodes, *named("c")]).changing == ("a",)

    def test_those_that_change_take_the_places_of_nodes_that_are_out_as_well(self) -> None:
        nodes = [node("a", phase="Draining"), node("b", unschedulable=True)]
        found = decided(pool(max_unavailable=1, canary=0), nodes)
        assert (found.changing, found.failed) == (("a",), ())

    def test_one_that_is_out_proves_nothing_so_the_canary_is_in_service(self) -> None:
        nodes = [node("a", unschedulable=True), node("b")]
        assert decided(pool(max_unavailable=2), nodes).changing == ("b",)

    def test_after_the_proof_those_that_are_out_come_first(self) -> None:
        nodes = [node("a"), node("b", unschedulable=True), node("c", config="new")]
        assert decided(pool(max_unavailable=1), nodes).changing == ("b",)
        # Exactly as many are proven as the policy asks for.
        assert decided(pool(max_unavailable=1, canary=0), nodes).changing == ("b",)

    def test_no_more_begin_than_there_are_places(self) -> None:
        nodes = [node(name, unschedulable=True) for name in "abc"]
        assert decided(pool(max_unavailable=2, canary=0), nodes).changing == ("a", "b")

    def test_one_in_service_is_passed_over_where_too_many_are_out(self) -> None:
        """In order of zones it comes first; the one after it is out already."""
        nodes = [node("a"), node("b", unschedulable=True, zone="b")]
        rules = pool(max_unavailable=1, canary=0, one_zone_at_a_time=True)
        assert decided(rules, nodes).changing == ("b",)

    def test_zones_are_no_matter_where_the_policy_does_not_say_so(self) -> None:
        nodes = [node("a", zone="z"), node("b", zone="a")]
        assert decided(pool(max_unavailable=2, canary=0), nodes).changing == ("a", "b")
        assert decided(pool(canary=0), nodes).changing == ("a",)

    def test_a_zone_is_finished_before_the_next(self) -> None:
        nodes = [node("a", zone="z"), node("b", zone="y"), node("c", zone="z")]
        rules = pool(max_unavailable=3, canary=0, one_zone_at_a_time=True)
        assert decided(rules, nodes).changing == ("b",)
        # The zone of one that changes, whatever comes before it in order.
        nodes = [node("a", zone="z", phase="Draining"), node("b", zone="y"), node("c", zone="z")]
        assert decided(rules, nodes).changing == ("a", "c")

    @pytest.mark.parametrize("facts", [{"ready": False}, {"state": "pending"}])
    def test_one_on_which_nothing_can_begin_is_left_out(self, facts: dict[str, Any]) -> None:
        nodes = [node("a", **facts), node("b")]
        assert decided(pool(max_unavailable=2, canary=0), nodes).changing == ("b",)


class TestFull:
    def test_full_rollout_names_the_nodes_that_are_out(self) -> None:
        nodes = [*(node(name, ready=False) for name in "dcb"), node("a")]
        found = decided(pool(max_unavailable=3, canary=0), nodes)
        assert (found.stopped, found.blocking) == ("full", ("b", "c", "d"))

    def test_rollout_is_not_full_while_a_node_begins_or_changes(self) -> None:
        assert decided(pool(), named("a", "b")).stopped == ""
        assert decided(pool(), [node("a", phase="Draining"), node("b")]).stopped == ""

    def test_rollout_is_not_full_while_mig_manager_works_on_the_only_node(self) -> None:
        found = decided(pool(), [node("a", state="rebooting")])
        assert (found.stopped, found.blocking) == ("", ())

    def test_one_that_has_the_layout_unverified_is_out(self) -> None:
        nodes = [node("a", config="new"), node("b")]
        assert decided(pool(canary=0), nodes, status="False").blocking == ("a",)


class TestFreshNodes:
    """Never in service: they have no turn to wait for."""

    NEW = node("n", verified=False, taint_keys=(TAINT,))

    def test_fresh_nodes_are_held_never_verified_and_not_in_a_change(self) -> None:
        assert fresh(self.NEW)
        assert not fresh(node("n", verified=False))
        assert not fresh(node("n", taint_keys=(TAINT,)))
        assert not fresh(node("n", verified=False, taint_keys=(TAINT,), phase="Draining"))

    def test_fresh_nodes_wait_for_a_turn_only_if_pods_use_their_gpus(self) -> None:
        pod = NodePod(namespace="ai", name="x", uid="x", gpus=True)
        plain = NodePod(namespace="ai", name="y", uid="y", gpus=False)
        assert decided(pool(), [self.NEW]).active is False
        assert decided(pool(), [self.NEW], pods={"n": (plain,)}).active is False
        assert decided(pool(), [self.NEW], pods={"n": (plain, pod)}).active is True

    def test_pods_of_fresh_nodes_are_inspected_before_the_label_is_set(self) -> None:
        assert needs_pods(self.NEW, pool())
        assert not needs_pods(self.NEW, pool(config="old"))
        assert not needs_pods(node("n"), pool()), "in service, it has not begun"

    @pytest.mark.parametrize(
        ("phase", "config", "expected"),
        [
            ("Draining", "old", True),
            ("Failed", "old", True),
            ("Failed", "new", False),
            ("Draining", "new", False),
            ("Paused", "old", False),
            ("Applying", "old", False),
        ],
    )
    def test_pods_of_changing_nodes_are_inspected_until_the_label_is_set(
        self, phase: Phase, config: str, expected: bool
    ) -> None:
        assert needs_pods(node("n", config=config, phase=phase), pool()) is expected

    def test_a_label_is_set_where_it_differs_and_mig_manager_rests(self) -> None:
        assert must_change(node("n"), pool())
        assert not must_change(node("n", config="new"), pool())
        assert not must_change(node("n", state="pending"), pool())
        assert not must_change(node("n"), pool(config=None))


def test_a_node_that_left_its_pool_in_a_change_goes_back_into_service() -> None:
    elsewhere = {"labels": {CONFIG: "old"}}
    nodes = [
        node("gone", phase="Draining", **elsewhere),
        node("deleted", phase="Draining", leaving=True, **elsewhere),
        node("member", phase="Draining"),
        node("other", **elsewhere),
    ]
    assert [*left_over([pool()], nodes)] == ["gone"]


class TestNote:
    CHANGE = Change(
        node_uid="n", target="new", phase="Draining", since=NOW, started=NOW, cordoned=True
    )

    def test_it_is_short_and_has_no_reason_without_a_failure(self) -> None:
        assert self.CHANGE.dump() == (
            '{"nodeUid":"n","target":"new","phase":"Draining","since":"2027-01-15T08:00:00Z",'
            '"started":"2027-01-15T08:00:00Z","cordoned":true}'
        )

    @pytest.mark.parametrize(("was", "instead"), [('"n"', '"other"'), ("Draining", "Dreaming")])
    def test_that_of_another_node_or_of_no_phase_counts_for_none(
        self, was: str, instead: str
    ) -> None:
        note = self.CHANGE.dump()
        assert change_of(node("n", change=note)) == self.CHANGE
        assert change_of(node("n", change=note.replace(was, instead))) is None
