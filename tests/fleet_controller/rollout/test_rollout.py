"""The change of a layout on nodes in service, state by state."""

from __future__ import annotations

from typing import Any

import pytest

from slicewright.apis import custom_resources
from slicewright.apis.gpu_pool.rollout_policy import DrainPolicy, RolloutPolicy, read_policy
from slicewright.apis.names import MIG_CONFIG_LABEL as CONFIG
from slicewright.apis.names import MIG_STATE_LABEL as STATE
from slicewright.apis.names import STARTUP_TAINT_KEY as TAINT
from slicewright.fleet_controller.decision.actions import (
    AddStartupTaint,
    EmitEvent,
    RemoveStartupTaint,
)
from slicewright.fleet_controller.decision.decide import Decision
from slicewright.fleet_controller.objects.layout_change import Change, change_of
from slicewright.fleet_controller.objects.node_pods import NodePod
from slicewright.fleet_controller.rollout.applying import APPLY_LIMIT_S, FAILED_S, LASTING_S
from slicewright.fleet_controller.rollout.change_actions import (
    ApplyLayout,
    CordonNode,
    EvictPod,
    FinishChange,
    NoteChange,
)
from slicewright.fleet_controller.rollout.drain import Refusal
from tests.fleet_controller.builders import build_pool
from tests.fleet_controller.rollout_world import START, World

STEPS = (
    CordonNode,
    NoteChange,
    EvictPod,
    ApplyLayout,
    FinishChange,
    AddStartupTaint,
    RemoveStartupTaint,
)


def world(count: int = 1, *, wants: str = "new", zones: str = "a", **policy: Any) -> World:
    """So many nodes in service with the layout `old`, of which another is wanted now."""
    pool = build_pool(
        name="p",
        uid="pool",
        created=START,
        selector={"slicewright.io/pool": "p"},
        layout_hash="hash-old",
        mig_config="old",
        policy=RolloutPolicy(**policy),
    )
    made = World(pool, disruptions=99)
    for i in range(count):
        made.make_node(f"n{i}", zone=zones[i % len(zones)])
    made.passes()
    made.wants(wants)
    return made


def steps(decision: Decision) -> list[tuple[str, str]]:
    return [
        (type(a).__name__, getattr(a, "pod", None) or a.node)
        for a in decision.actions
        if isinstance(a, STEPS)
    ]


def change(of: World, name: str = "n0") -> Change:
    found = change_of(of.nodes[name])
    assert found is not None
    return found


def reason(of: World, name: str = "n0") -> str:
    condition = of.nodes[name].condition
    assert condition is not None
    return condition.reason


def condition(of: World, kind: str) -> tuple[str, str]:
    (found,) = (c for c in of.pool.status["conditions"] if c["type"] == kind)
    return found["status"], found["reason"]


def cut_and_report(of: World, *names: str) -> None:
    for name in names:
        of.mig_manager_works(name)
        of.mig_manager_works(name)
        of.agent_reports(name)


def stays_wrong(of: World, name: str = "n0") -> None:
    """With the new layout, for as long as it takes to have failed."""
    of.broken.add(name)
    cut_and_report(of, name)
    of.passes()
    of.now += FAILED_S


def changed(of: World, name: str) -> None:
    """Takes a cordoned node without pods to the end of its change."""
    for _ in range(3):
        of.passes()
    cut_and_report(of, name)
    of.passes()
    of.passes()


def test_a_node_is_cordoned_drained_held_cut_proven_and_put_back_into_service() -> None:
    of = world()
    of.bind("n0")
    (pod,) = of.pods["n0"]
    assert steps(of.passes()) == [("CordonNode", "n0")]
    assert change(of) == Change(
        node_uid="uid-1", target="new", phase="Draining", since=START, started=START, cordoned=True
    )
    assert steps(of.passes()) == [("EvictPod", pod.name)]
    assert reason(of) == "Draining"
    assert steps(of.passes()) == [], "it is asked once"
    of.pods_end()
    assert steps(of.passes()) == [("AddStartupTaint", "n0")]
    assert steps(of.passes()) == [("ApplyLayout", "n0")]
    assert of.nodes["n0"].labels[CONFIG] == "new"
    assert STATE not in of.nodes["n0"].labels, "the success was that of the old layout"
    assert steps(of.passes()) == []
    cut_and_report(of, "n0")
    assert steps(of.passes()) == [("FinishChange", "n0")], "the taint stays until it is written"
    assert (of.nodes["n0"].unschedulable, of.nodes["n0"].held) == (False, True)
    assert condition(of, "Verified")[0] == "False"
    assert steps(of.passes()) == [("RemoveStartupTaint", "n0")]
    assert condition(of, "Verified")[0] == "True"
    assert of.nodes["n0"].change == ""


def test_a_planned_change_warns_of_nothing_and_is_no_failure() -> None:
    of = world(3)
    for _ in range(4):
        decision = of.passes()
        events = [a.reason for a in decision.actions if isinstance(a, EmitEvent)]
        assert set(events) <= {"NotYetVerified"}, "which a waiting `up` shows"
        assert condition(of, "Degraded") == ("False", "AsWanted")
        assert condition(of, "Progressing") == ("True", "RollingOut")
        of.now += 400
    assert [reason(of, name) for name in ("n1", "n2")] == ["WaitsForItsTurn"] * 2
    assert of.pool.status["nodes"]["changing"] == 1


def test_the_others_wait_until_the_canary_is_proven() -> None:
    of = world(4, max_unavailable=3)
    assert steps(of.passes()) == [("CordonNode", "n0")]
    changed(of, "n0")
    assert change_of(of.nodes["n0"]) is None
    of.passes()
    assert {name for name, node in of.nodes.items() if node.change} == {"n1", "n2", "n3"}


def test_without_a_canary_as_many_begin_as_may_be_out() -> None:
    of = world(5, max_unavailable="50%", canary=0)
    assert steps(of.passes()) == [("CordonNode", "n0"), ("CordonNode", "n1")]


@pytest.mark.parametrize(
    ("limit", "nodes", "expected"),
    [(1, 10, 1), (3, 10, 3), ("25%", 10, 2), ("25%", 3, 1), ("100%", 3, 3), ("1%", 0, 1)],
)
def test_a_percentage_is_rounded_down_to_one_at_least(
    limit: int | str, nodes: int, expected: int
) -> None:
    assert RolloutPolicy(max_unavailable=limit).limit(nodes) == expected


@pytest.mark.parametrize(
    "facts", [{"ready": False}, {"unschedulable": True}, {"taint_keys": (TAINT,)}]
)
def test_a_node_that_is_out_for_another_reason_counts(facts: dict[str, Any]) -> None:
    of = world(3, canary=0)
    of.change("n2", **facts)
    begun = steps(of.passes())
    if facts.get("ready") is False:
        assert ("CordonNode", "n0") not in begun
        assert not any(step == "CordonNode" for step, _ in begun)
    else:
        assert [name for step, name in begun if step == "CordonNode"] == ["n2"], "at no cost"


def test_a_rollout_that_another_node_blocks_says_which() -> None:
    of = world(2, wants="old")
    of.change("n1", ready=False)
    of.passes()
    of.wants("new")
    for _ in range(2):
        of.passes()
    (progressing,) = (c for c in of.pool.status["conditions"] if c["type"] == "Progressing")
    assert progressing["reason"] == "RolloutStopped"
    assert progressing["message"].endswith(
        "no further node changes while these are out of service: n1"
    )


def test_zones_change_one_after_the_other() -> None:
    of = world(4, zones="ab", max_unavailable=4, canary=0, one_zone_at_a_time=True)
    assert steps(of.passes()) == [("CordonNode", "n0"), ("CordonNode", "n2")]
    assert [name for step, name in steps(of.passes()) if step == "CordonNode"] == []


class TestPods:
    def left(self, of: World, **facts: bool) -> str:
        of.bind("n0", **facts)
        of.passes()
        decision = of.passes()
        return next((a.pod for a in decision.actions if isinstance(a, EvictPod)), "")

    def test_only_those_that_request_gpus_leave(self) -> None:
        of = world()
        assert self.left(of, gpus=False) == ""
        assert reason(of) == "InChange"

    def test_all_leave_where_the_policy_says_so(self) -> None:
        assert self.left(world(drain=DrainPolicy(pods="All")), gpus=False)

    @pytest.mark.parametrize(
        ("facts", "why"),
        [
            ({"controlled": False}, "no controller would recreate it"),
            ({"local_data": True}, "has data in an emptyDir"),
            ({"daemon_set": True}, "belongs to a DaemonSet"),
            ({"static": True}, "a static pod"),
        ],
    )
    def test_some_are_not_evicted_and_hold_the_change(
        self, facts: dict[str, bool], why: str
    ) -> None:
        of = world()
        assert self.left(of, **facts) == ""
        assert reason(of) == "ChangeHeldByPods"
        said = of.nodes["n0"].condition
        assert said is not None
        assert f"({why})" in said.message
        of.now += 10
        assert [a.reason for a in of.passes().actions if isinstance(a, EmitEvent)] != []

    def test_local_data_are_given_up_where_the_policy_says_so(self) -> None:
        assert self.left(world(drain=DrainPolicy(delete_local_data=True)), local_data=True)

    def test_none_leaves_where_the_policy_waits(self) -> None:
        of = world(drain=DrainPolicy(pods="None"))
        assert self.left(of) == ""
        assert reason(of) == "ChangeHeldByPods"

    def test_exhausted_budget_is_named_and_its_eviction_retried(self) -> None:
        of = world()
        of.disruptions = 0
        assert self.left(of)
        (pod,) = of.pods["n0"]
        assert steps(of.passes()) == []
        assert reason(of) == "ChangeHeldByPods"
        said = of.nodes["n0"].condition
        assert said is not None
        assert f"ai/{pod.name} (the budget is used up)" in said.message
        assert condition(of, "Degraded")[0] == "False", "on an ordinary day"
        of.now += 5
        of.disruptions = 1
        assert steps(of.passes()) == [("EvictPod", pod.name)]

    def test_a_pod_that_slips_in_after_the_taint_is_found(self) -> None:
        of = world()
        of.passes()
        assert steps(of.passes()) == [("AddStartupTaint", "n0")]
        of.pods["n0"].append(NodePod(namespace="ai", name="late", uid="late", gpus=True))
        assert steps(of.passes()) == [("EvictPod", "late")]

    def test_after_the_time_the_node_has_failed_and_stays_cordoned(self) -> None:
        of = world(2, drain=DrainPolicy(timeout_s=600))
        self.left(of, controlled=False)
        of.now += 600
        assert steps(of.passes()) == [("NoteChange", "n0")]
        of.passes()
        assert reason(of) == "DrainTimedOut"
        assert of.nodes["n0"].unschedulable
        assert of.pool.status["nodes"]["failed"] == 1
        assert condition(of, "Degraded") == ("True", "NodesFailing")
        assert condition(of, "Progressing") == ("False", "RolloutStopped")
        of.now += 100
        of.passes()
        assert condition(of, "Settled")[0] == "True", "`up` need not wait"
        assert steps(of.passes()) == []

    def test_a_failed_drain_goes_on_when_the_pods_are_gone(self) -> None:
        of = world(drain=DrainPolicy(timeout_s=600))
        self.left(of, controlled=False)
        of.now += 600
        of.passes()
        of.pods["n0"] = []
        assert steps(of.passes()) == [("NoteChange", "n0")]
        assert change(of).phase == "Draining"
        assert steps(of.passes()) == [("AddStartupTaint", "n0")]

    def test_forced_those_that_were_spared_leave_and_budgets_are_still_respected(self) -> None:
        of = world(drain=DrainPolicy(timeout_s=600, on_timeout="Force"))
        self.left(of, controlled=False)
        of.now += 599
        assert steps(of.passes()) == []
        of.now += 1
        of.disruptions = 0
        assert [step for step, _ in steps(of.passes())] == ["EvictPod"]
        of.now += 600
        assert steps(of.passes()) == [("NoteChange", "n0")]
        assert (change(of).phase, change(of).reason) == ("Failed", "DrainTimedOut")


class TestFailures:
    def applying(self, count: int = 2, **policy: Any) -> World:
        of = world(count, **policy)
        for _ in range(3):
            of.passes()
        assert change(of).phase == "Applying"
        return of

    def test_mig_managers_failure_stops_the_rollout_at_the_canary(self) -> None:
        of = self.applying(max_unavailable=2)
        of.broken.add("n0")
        cut_and_report(of, "n0")
        assert steps(of.passes()) == []
        of.now += FAILED_S
        of.agent_reports("n0")
        assert steps(of.passes()) == [("NoteChange", "n0")]
        for _ in range(3):
            of.now += 100
            assert steps(of.passes()) == []
        assert reason(of) == "ChangeFailed"
        assert (of.nodes["n0"].unschedulable, of.nodes["n0"].held) == (True, True)
        assert not of.nodes["n1"].change
        (degraded,) = (c for c in of.pool.status["conditions"] if c["type"] == "Degraded")
        assert degraded["status"] == "True"
        assert "n0 ChangeFailed: mig-manager could not apply layout new" in degraded["message"]

    def test_a_mig_manager_that_starts_between_its_label_and_the_reboot_stops_nothing(self) -> None:
        of = self.applying()
        of.change("n0", labels={**of.nodes["n0"].labels, STATE: "rebooting"})
        of.passes()
        of.mig_manager_restarts_before_the_reboot("n0")
        of.agent_reports("n0")
        for _ in range(2):
            assert steps(of.passes()) == []
            of.now += FAILED_S - 1
        of.now -= FAILED_S - 1
        assert reason(of) == "RebootMayFollow"
        assert condition(of, "Degraded")[0] == "False"
        of.reboot("n0")
        assert steps(of.passes()) == []
        cut_and_report(of, "n0")
        assert steps(of.passes())[0] == ("FinishChange", "n0")

    def test_a_layout_that_verifiably_is_another_has_failed_after_a_minute(self) -> None:
        of = self.applying()
        cut_and_report(of, "n0")
        of.cut["n0"] = "odd"
        of.agent_reports("n0")
        of.passes()
        of.now += LASTING_S - 1
        assert steps(of.passes()) == []
        of.now += 1
        assert steps(of.passes()) == [("NoteChange", "n0")]
        assert "WrongLayout: has odd, wanted new" in change(of).message

    def test_what_never_ends_has_failed_after_half_an_hour(self) -> None:
        of = self.applying()
        since = change(of).since
        of.now = since + APPLY_LIMIT_S - 1
        assert steps(of.passes()) == []
        of.now += 1
        assert steps(of.passes()) == [("NoteChange", "n0")]

    def test_repaired_node_returns_to_service_and_the_rollout_goes_on(self) -> None:
        of = self.applying()
        of.broken.add("n0")
        cut_and_report(of, "n0")
        of.passes()
        of.broken.clear()
        of.change("n0", labels={k: v for k, v in of.nodes["n0"].labels.items() if k != STATE})
        cut_and_report(of, "n0")
        assert steps(of.passes())[0] == ("FinishChange", "n0")
        of.passes()
        of.passes()
        assert of.nodes["n1"].change

    def test_with_two_failures_allowed_it_goes_on_after_one(self) -> None:
        of = world(3, canary=0, max_unavailable=2, max_failures=2)
        for _ in range(3):
            of.passes()
        of.broken.add("n0")
        cut_and_report(of, "n0", "n1")
        of.passes()
        of.now += FAILED_S
        for _ in range(3):
            of.passes()
        assert change(of).phase == "Failed"
        assert of.nodes["n2"].change

    def test_while_another_changes_it_goes_on(self) -> None:
        of = world(2, canary=0, max_failures=3, max_unavailable=2)
        for _ in range(3):
            of.passes()
        stays_wrong(of)
        of.passes()
        assert (change(of).phase, change(of, "n1").phase) == ("Failed", "Applying")
        assert condition(of, "Progressing") == ("True", "RollingOut")

    def test_rollout_goes_on_while_the_next_node_is_away(self) -> None:
        of = world(2, canary=0, max_failures=3, max_unavailable=3)
        of.change("n1", ready=False)
        for _ in range(3):
            of.passes()
        stays_wrong(of)
        for _ in range(2):
            of.passes()
        assert [name for name, node in of.nodes.items() if node.change] == ["n0"]
        assert change(of).phase == "Failed"
        assert condition(of, "Progressing") == ("True", "RollingOut")

    def test_rollout_has_stopped_if_only_failed_nodes_remain(self) -> None:
        of = world(1)
        for _ in range(3):
            of.passes()
        stays_wrong(of)
        for _ in range(3):
            of.passes()
        assert change(of).phase == "Failed"
        assert condition(of, "Progressing") == ("False", "RolloutStopped")

    @pytest.mark.parametrize(
        ("nodes", "policy", "said"),
        [
            (4, {"canary": 0}, "while these are out of service: n0"),
            (4, {"max_unavailable": 2}, "until the failed nodes are repaired"),
            (
                2,
                {"canary": 0, "max_unavailable": 2, "zones": "ab", "one_zone_at_a_time": True},
                "until the failed nodes are repaired",
            ),
        ],
        ids=["they take all that may be out", "the proof", "the other zone"],
    )
    def test_failed_nodes_in_the_way_of_others_stop_it_though_more_may_fail(
        self, nodes: int, policy: dict[str, Any], said: str
    ) -> None:
        of = world(nodes, max_failures=3, **policy)
        for _ in range(3):
            of.passes()
        of.broken.add("n0")
        cut_and_report(of, "n0")
        of.passes()
        assert condition(of, "Progressing") == ("True", "RollingOut")
        of.now += FAILED_S
        for _ in range(3):
            of.passes()
        assert [name for name, node in of.nodes.items() if node.change] == ["n0"]
        assert condition(of, "Progressing") == ("False", "RolloutStopped")
        (progressing,) = (c for c in of.pool.status["conditions"] if c["type"] == "Progressing")
        assert progressing["message"].endswith(f"no further node changes {said}")
        assert condition(of, "Degraded") == ("True", "NodesFailing")

    def test_the_old_layout_wanted_again_is_an_undo(self) -> None:
        of = self.applying()
        of.broken.add("n0")
        cut_and_report(of, "n0")
        of.passes()
        of.broken.clear()
        of.wants("old")
        of.agent_reports("n0")
        of.agent_reports("n1")
        for _ in range(4):
            of.passes()
        assert of.nodes["n0"].labels[CONFIG] == "old"
        of.now += 1  # a report of the moment of the label is of before it
        cut_and_report(of, "n0")
        for _ in range(3):
            of.passes()
        assert condition(of, "Verified")[0] == "True"
        assert not any(n.unschedulable or n.held or n.change for n in of.nodes.values())

    def test_an_undo_before_the_label_is_set_only_uncordons(self) -> None:
        of = world()
        of.bind("n0", controlled=False)
        of.passes()
        of.passes()
        of.wants("old")
        of.agent_reports("n0")
        assert steps(of.passes()) == [("FinishChange", "n0")]
        assert not of.nodes["n0"].unschedulable
        assert of.pods["n0"]


class TestPeople:
    def test_paused_nothing_begins_and_no_pod_is_evicted(self) -> None:
        of = world(2)
        of.bind("n0")
        of.passes()
        of.asks("paused")
        assert steps(of.passes()) == [("NoteChange", "n0")]
        of.now += 9000
        assert steps(of.passes()) == []
        assert condition(of, "Progressing") == ("False", "RolloutPaused")
        of.asks("")
        of.passes()
        assert change(of).phase == "Draining"
        assert [s for s, _ in steps(of.passes())] == ["EvictPod"], "its time begins again"

    def test_aborted_what_is_drained_goes_back_into_service(self) -> None:
        of = world(2)
        of.bind("n0")
        of.passes()
        of.asks("aborted")
        assert steps(of.passes()) == [("FinishChange", "n0")]
        assert not of.nodes["n0"].unschedulable
        for _ in range(2):
            of.passes()
        assert condition(of, "Verified") == ("False", "RolloutAborted")
        assert condition(of, "Settled") == ("True", "RolloutAborted")

    def test_aborted_a_node_whose_label_is_set_goes_on(self) -> None:
        of = world(2)
        for _ in range(3):
            of.passes()
        of.asks("aborted")
        cut_and_report(of, "n0")
        assert steps(of.passes()) == [("FinishChange", "n0")]
        assert of.nodes["n0"].labels[CONFIG] == "new"

    def test_the_cordon_of_an_admin_stays(self) -> None:
        of = world()
        of.change("n0", unschedulable=True)
        of.passes()
        assert not change(of).cordoned
        changed(of, "n0")
        assert of.nodes["n0"].change == ""
        assert of.nodes["n0"].unschedulable

    def test_a_node_that_somebody_uncordons_is_cordoned_again_before_anything_else(self) -> None:
        of = world()
        of.bind("n0")
        of.passes()
        of.change("n0", unschedulable=False)
        assert steps(of.passes()) == [("CordonNode", "n0")]


class TestNodes:
    def test_a_fresh_node_needs_no_turn(self) -> None:
        of = world(2)
        of.make_node("n9", in_service=False)
        of.passes()
        of.passes()
        assert of.nodes["n9"].labels[CONFIG] == "new"
        assert not of.nodes["n9"].change

    def test_a_new_node_of_the_same_name_starts_from_the_beginning(self) -> None:
        of = world()
        of.passes()
        note = of.nodes["n0"].change
        of.make_node("n0")
        of.change("n0", change=note)
        assert change_of(of.nodes["n0"]) is None
        assert steps(of.passes()) == [("CordonNode", "n0")]

    def test_a_node_that_leaves_its_pool_in_the_middle_is_put_back_into_service(self) -> None:
        of = world()
        of.passes()
        of.change("n0", labels={})
        assert steps(of.passes()) == [("FinishChange", "n0")]
        assert not of.nodes["n0"].unschedulable

    def test_an_unreadable_note_is_none(self) -> None:
        of = world()
        of.change("n0", change='{"phase": 1}')
        assert change_of(of.nodes["n0"]) is None


def test_the_defaults_are_those_of_the_crd() -> None:
    pool = custom_resources.crds()[1]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema = pool["properties"]["spec"]["properties"]["rolloutPolicy"]

    def filled(one: dict[str, Any]) -> Any:
        if "properties" in one:
            return {key: filled(value) for key, value in one["properties"].items()}
        return one.get("default")

    assert read_policy(filled(schema)) == read_policy(None) == RolloutPolicy()


def test_a_refusal_of_an_earlier_pod_holds_no_other_back() -> None:
    of = world()
    of.bind("n0")
    of.refusals["another"] = Refusal(why="x", retry_at=of.now + 60)
    of.passes()
    assert [s for s, _ in steps(of.passes())] == ["EvictPod"]


@pytest.mark.parametrize(
    "fault",
    [
        lambda of: of.reboot("n2"),
        lambda of: of.change("n2", labels={**of.nodes["n2"].labels, STATE: "pending"}),
    ],
    ids=["it reboots", "mig-manager changes it"],
)
def test_a_node_that_is_held_by_the_same_decision_is_out_of_service(fault: Any) -> None:
    """Else one more than the policy allows is out as soon as both are written."""
    of = world(3, canary=0)
    fault(of)
    assert steps(of.passes()) == [("AddStartupTaint", "n2")]


@pytest.mark.parametrize("asked", ["", "paused", "aborted"])
def test_a_node_that_was_away_is_back_in_service_before_its_turn(asked: str) -> None:
    """Its agent compares it with the new layout by now and cannot prove the old one. But it is what
    the others are that wait; held, it would be out of service for as long as the rollout lasts.
    """
    of = world(3)
    of.asks(asked)
    of.passes()
    of.change("n2", ready=False)
    of.passes()
    assert of.nodes["n2"].held
    of.change("n2", ready=True)
    of.agent_reports("n2")
    of.passes()
    of.passes()
    assert not of.nodes["n2"].held
    assert reason(of, "n2") == "WaitsForItsTurn"
    assert (of.nodes["n2"].labels[CONFIG], of.nodes["n2"].unschedulable) == ("old", False)


def test_a_node_that_was_away_and_is_broken_stays_out_of_service() -> None:
    """Also where the agent has found it before the layout was changed, and while it was away."""
    of = world(3, wants="old")
    of.change("n2", ready=False)
    of.passes()
    assert of.nodes["n2"].held
    of.change("n2", ready=True)
    of.cut["n2"] = "other"
    of.agent_reports("n2")
    of.passes()
    of.wants("new")
    for _ in range(3):
        of.passes()
    assert of.nodes["n2"].held


def test_a_node_that_has_booted_stays_out_of_service_until_its_turn() -> None:
    of = world(3)
    of.passes()
    of.reboot("n2")
    of.passes()
    cut_and_report(of, "n2")
    of.passes()
    assert of.nodes["n2"].held


def test_a_node_that_was_relabelled_while_the_watch_is_lost_is_not_released() -> None:
    """The controller knows it as it was proven, and its boot is the same."""
    of = world(0, wants="old")
    of.make_node("n0", in_service=False)
    of.passes()
    for _ in range(2):
        of.mig_manager_works("n0")
    of.now += 1
    of.agent_reports("n0")
    of.lose_watch()
    of.somebody_relabels("n0", "new")
    for _ in range(2):
        of.mig_manager_works("n0")
    assert of.cut["n0"] == "new"
    of.passes()
    assert of.nodes["n0"].held
    of.view = None
    of.passes()
    assert of.nodes["n0"].held
