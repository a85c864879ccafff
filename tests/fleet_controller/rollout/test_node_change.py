"""Single steps of the change of one node's layout: what is done and said, and when it is next."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slicewright.apis.gpu_pool.rollout_policy import DrainPolicy, RolloutPolicy
from slicewright.apis.names import MIG_CONFIG_LABEL as CONFIG
from slicewright.apis.names import MIG_STATE_LABEL as STATE
from slicewright.apis.names import STARTUP_TAINT_KEY as TAINT
from slicewright.fleet_controller.objects.assessment import Assessment
from slicewright.fleet_controller.objects.condition import Condition
from slicewright.fleet_controller.objects.layout_change import Change, Phase
from slicewright.fleet_controller.objects.node import Node
from slicewright.fleet_controller.objects.node_pods import NodePod
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.fleet_controller.rollout.change_actions import (
    ApplyLayout,
    CordonNode,
    EvictPod,
    FinishChange,
    NoteChange,
)
from slicewright.fleet_controller.rollout.node_change import advance, assess_waiting
from slicewright.fleet_controller.rollout.turn import Observation, Turn, fail
from tests.fleet_controller.builders import build_node, build_pool

NOW = 1_800_009_000.0
BASE = Assessment(status="True", reason="PartitionsMatch", message="m")
WRONG = Assessment(
    status="False", reason="GpuLost", message="GPU 3 is lost", mismatch=True, expires=NOW + 900
)
DRAINING = "the layout changes from old to new when the node's pods have left"
POD = NodePod(namespace="ai", name="a", uid="u", gpus=True)


def node(config: str = "old", state: str = "success", **facts: Any) -> Node:
    return build_node(
        **{
            "name": "n",
            "uid": "n",
            "version": "7",
            "created": NOW,
            "verified_boot": "b",
            "labels": {CONFIG: config, STATE: state},
            "unschedulable": True,
            **facts,
        }
    )


def pool(suspended: str = "", config: str | None = "new", **drain: Any) -> Pool:
    return build_pool(
        name="p",
        created=NOW,
        mig_config=config,
        policy=RolloutPolicy(drain=DrainPolicy(**{"timeout_s": 600.0, **drain})),
        suspended=suspended,
    )


def change(phase: Phase = "Draining", **facts: Any) -> Change:
    fixed = Change(
        node_uid="n", target="new", phase=phase, since=NOW - 60, started=NOW - 90, cordoned=True
    )
    return replace(fixed, **facts)


def step(
    of: Node,
    wants: Pool,
    at: Change,
    base: Assessment = WRONG,
    pods: tuple[NodePod, ...] | None = (),
) -> Turn:
    return advance(observed(of, wants, at, base, pods))


def observed(
    of: Node,
    wants: Pool,
    at: Change,
    base: Assessment = WRONG,
    pods: tuple[NodePod, ...] | None = (),
) -> Observation:
    return Observation(node=of, pool=wants, change=at, base=base, pods=pods, refusals={}, now=NOW)


def noted(at: Change) -> tuple[NoteChange, ...]:
    return (NoteChange(node="n", version="7", change=at),)


def planned(message: str, reason: str = "Draining") -> Assessment:
    """Of WRONG: what is wrong by itself stays known."""
    return Assessment(
        status="Unknown",
        reason=reason,
        message=message,
        settles=True,
        mismatch=True,
        expires=NOW + 900,
        planned=True,
    )


class TestTheWayOut:
    def test_a_pool_without_layouts_ends_the_change(self) -> None:
        done = FinishChange(node="n", version="7", uncordon=True)
        assert step(node(), pool(config=None), change()) == Turn(actions=(done,))

    def test_a_cordon_that_is_gone_or_somebody_elses_is_not_taken_away(self) -> None:
        for of, at in ((node(unschedulable=False), change()), (node(), change(cordoned=False))):
            (action,) = step(of, pool(config=None), at).actions
            assert action == FinishChange(node="n", version="7", uncordon=False)

    def test_a_verified_node_goes_back_into_service(self) -> None:
        turn = step(node(), pool(), change(), BASE)
        done = FinishChange(node="n", version="7", uncordon=True, verified_at=NOW)
        assert turn.actions == (done,)
        said = turn.assessment
        assert said is not None
        assert (said.reason, said.status) == ("InChange", "Unknown")
        assert said.message == "layout new is verified; the node goes back into service"

    def test_aborted_before_the_label_it_ends_and_after_it_goes_on(self) -> None:
        turn = step(node(), pool("aborted"), change())
        assert turn.actions == (FinishChange(node="n", version="7", uncordon=True),)
        assert turn.assessment == WRONG
        applying = step(node("new"), pool("aborted"), change("Applying"))
        assert applying.actions == ()


class TestAnotherLayout:
    @pytest.mark.parametrize(("config", "phase"), [("third", "Applying"), ("old", "Draining")])
    def test_the_change_begins_again_from_where_the_node_is(
        self, config: str, phase: Phase
    ) -> None:
        at = change("Failed", reason="DrainTimedOut", message="m")
        again = replace(at, target="third", phase=phase, since=NOW, reason="", message="")
        turn = step(node(config), pool(config="third"), at)
        assert turn == Turn(actions=noted(again), assessment=replace(WRONG, planned=True))

    @pytest.mark.parametrize("phase", ["Draining", "Paused"])
    def test_set_by_somebody_else_it_is_awaited(self, phase: Phase) -> None:
        turn = step(node("new"), pool(), change(phase))
        assert turn == Turn(actions=noted(change("Applying", since=NOW)), assessment=WRONG)

    def test_taken_back_by_somebody_else_the_node_is_drained_again(self) -> None:
        turn = step(node("old"), pool(), change("Applying"))
        assert turn == Turn(actions=noted(change("Draining", since=NOW)), assessment=WRONG)


class TestPaused:
    def test_pause_is_noted_once_and_described(self) -> None:
        said = planned(f"{DRAINING}: the rollout of the pool is paused")
        turn = step(node(), pool("paused"), change())
        assert turn == Turn(actions=noted(change("Paused", since=NOW)), assessment=said)
        assert step(node(), pool("paused"), change("Paused")) == Turn(assessment=said)

    def test_resumed_the_time_begins_again(self) -> None:
        said = planned(f"{DRAINING}: the rollout of the pool is resumed")
        turn = step(node(), pool(), change("Paused"))
        assert turn == Turn(actions=noted(change("Draining", since=NOW)), assessment=said)


class TestDraining:
    AGAIN = (NOW + 540, NOW + 540, NOW + 3)

    def test_uncordoned_by_somebody_it_is_cordoned_again_as_ours(self) -> None:
        turn = step(node(unschedulable=False), pool(), change(cordoned=False))
        cordon = CordonNode(node="n", version="7", change=change(cordoned=True))
        assert turn == Turn(actions=(cordon,), assessment=WRONG)

    def test_with_pods_unknown_it_waits(self) -> None:
        turn = step(node(), pool(), change(), pods=None)
        assert turn == Turn(assessment=planned(DRAINING), deadlines=self.AGAIN)

    def test_pods_are_evicted_if_the_node_is_ready(self) -> None:
        turn = step(node(), pool(), change(), pods=(POD,))
        evict = EvictPod(node="n", namespace="ai", pod="a", uid="u")
        assert turn == Turn(
            actions=(evict,), assessment=planned(f"{DRAINING}: ai/a"), deadlines=self.AGAIN
        )
        assert step(node(ready=False), pool(), change(), pods=(POD,)).actions == ()

    @pytest.mark.parametrize("facts", [{"ready": False}, {"state": "pending"}])
    def test_without_pods_it_waits_for_the_node(self, facts: dict[str, Any]) -> None:
        assert step(node(**facts), pool(), change()) == Turn(assessment=WRONG, deadlines=self.AGAIN)

    def test_out_of_time_it_says_for_how_many_minutes(self) -> None:
        turn = step(node(), pool(timeout_s=60.0), change(), pods=(POD,))
        (action,) = turn.actions
        assert isinstance(action, NoteChange)
        assert (action.change.phase, action.change.since) == ("Failed", NOW)
        assert action.change.message.startswith("after 1 minutes pods still run on the node: ai/a.")
        assert turn.assessment is not None
        assert (turn.assessment.status, turn.assessment.reason) == ("False", "ChangeHeldByPods")
        assert turn.assessment.message == f"{DRAINING}; still running: ai/a"
        assert step(node(), pool(timeout_s=60.0), change()).hold, "with none left it goes on"

    def test_held_and_empty_it_gets_the_label(self) -> None:
        turn = step(node(taint_keys=(TAINT,)), pool(), change())
        applying = change("Applying", since=NOW)
        assert turn.actions == (ApplyLayout(node="n", version="7", change=applying),)


class TestFailed:
    AT = change("Failed", reason="DrainTimedOut", message="why")
    SAID = Assessment(status="False", reason="DrainTimedOut", message="why")

    def test_it_says_why_and_is_looked_at_every_half_minute(self) -> None:
        stays = Turn(assessment=self.SAID, deadlines=(NOW + 30,))
        assert step(node("new"), pool(), self.AT) == stays
        assert step(node(), pool(), self.AT, pods=None) == stays
        assert step(node(), pool(), self.AT, pods=(POD,)) == stays
        assert step(node(), pool("paused"), self.AT) == stays

    def test_without_a_reason_the_change_has_failed(self) -> None:
        said = step(node("new"), pool(), change("Failed")).assessment
        assert said == Assessment(status="False", reason="ChangeFailed", message="")

    def test_free_of_pods_it_goes_on(self) -> None:
        turn = step(node(), pool(), self.AT)
        assert turn == Turn(actions=noted(change("Draining", since=NOW)), assessment=self.SAID)

    def test_the_message_is_kept_short(self) -> None:
        found = fail(observed(node(), pool(), change()), "R", "x" * 1000).change
        assert (found.message, found.since) == ("x" * 900, NOW)


def test_problems_of_a_waiting_node_come_first() -> None:
    assert assess_waiting(node(), pool(), WRONG) is WRONG
    bare = node(labels={})
    old = Assessment(status="False", reason="WrongLayout", message="m", mismatch=True)
    for of, has in ((node(), "old"), (bare, "none")):
        said = assess_waiting(of, pool(), old)
        assert said.reason == "WaitsForItsTurn"
        assert said.message.startswith(f"has layout {has} until its turn in the change to new;")
        assert not said.mismatch


@pytest.mark.parametrize(("labels", "has"), [({CONFIG: "old"}, "old"), ({}, "none")])
def test_changed_label_of_a_verified_node_is_reported_and_does_not_settle(
    labels: dict[str, str], has: str
) -> None:
    wrong = Assessment(
        status="False", reason="WrongLayout", message="m", settles=True, expires=NOW + 900
    )
    said = assess_waiting(node(labels=labels, verified_layout="new"), pool(), wrong)
    assert (said.status, said.reason) == ("Unknown", "MigConfigChanged")
    assert not said.settles
    assert said.expires == NOW + 900, "the rest is as assessed"
    assert f" from new, with which the node was verified, to {has};" in said.message


def test_change_of_a_node_without_a_layout_starts_from_none() -> None:
    said = step(node(labels={}), pool(), change(), pods=None).assessment
    assert said is not None
    assert said.message.startswith("the layout changes from none to new ")


LONE = replace(POD, controlled=False)
"""A pod that no controller would recreate: only `Force` evicts it."""


def test_only_where_the_policy_says_force_are_pods_forced_to_leave_out_of_time() -> None:
    stopped = step(node(), pool(timeout_s=60.0), change(), pods=(LONE,))
    assert stopped.assessment is not None
    assert "ai/a (" in stopped.assessment.message, "with what keeps it"
    forced = step(node(), pool(timeout_s=60.0, on_timeout="Force"), change(), pods=(LONE,))
    assert forced.actions == (EvictPod(node="n", namespace="ai", pod="a", uid="u"),)
    before = step(node(), pool(timeout_s=61.0, on_timeout="Force"), change(), pods=(LONE,))
    assert before.actions == ()


def test_a_moment_that_has_come_is_not_waited_for() -> None:
    turn = step(node(), pool(timeout_s=60.0, on_timeout="Force"), change(), pods=None)
    assert turn.deadlines == (NOW + 60, NOW + 3)


def test_the_minutes_of_a_drain_are_of_60_seconds() -> None:
    at = change(since=NOW - 7200)
    (action,) = step(node(), pool(timeout_s=7200.0), at, pods=(POD,)).actions
    assert isinstance(action, NoteChange)
    assert action.change.message.startswith("after 120 minutes ")


class TestApplied:
    LOST = replace(WRONG, mismatch=False, settles=False)

    def found(self, of: Assessment, since: float) -> Condition:
        """The node's condition, written by an earlier pass."""
        return Condition(
            status=of.status, reason=of.reason, message="", changed=since, written=since
        )

    def turn(self, base: Assessment, *, since: float, condition: Condition | None = None) -> Turn:
        of = node("new", condition=condition)
        return step(of, pool(), change("Applying", since=since), base)

    def test_it_has_half_an_hour(self) -> None:
        unknown = Assessment(status="Unknown", reason="NoReport", message="m")
        waiting = self.turn(unknown, since=NOW - 1799.5)
        assert (waiting.actions, waiting.deadlines) == ((), (NOW + 0.5,))
        (failed,) = self.turn(unknown, since=NOW - 1800).actions
        assert isinstance(failed, NoteChange)
        assert (failed.change.phase, failed.change.reason) == ("Failed", "ChangeFailed")

    def test_what_does_not_pass_is_given_a_minute(self) -> None:
        lasting = self.found(self.LOST, NOW - 59.5)
        waiting = self.turn(self.LOST, since=NOW - 100, condition=lasting)
        assert (waiting.actions, waiting.deadlines) == ((), (NOW + 1700, NOW + 0.5))
        lasting = self.found(self.LOST, NOW - 60)
        (failed,) = self.turn(self.LOST, since=NOW - 100, condition=lasting).actions
        assert isinstance(failed, NoteChange)
        assert (failed.change.phase, failed.change.reason) == ("Failed", "ChangeFailed")

    @pytest.mark.parametrize(
        "base",
        [
            replace(LOST, status="Unknown"),
            replace(LOST, settles=True),
        ],
    )
    def test_what_may_still_pass_is_not(self, base: Assessment) -> None:
        turn = self.turn(base, since=NOW - 100, condition=self.found(base, NOW - 90))
        assert (turn.actions, turn.deadlines) == ((), (NOW + 1700,))

    def test_failed_it_quotes_400_characters_and_the_node_keeps_its_own_reason(self) -> None:
        long = replace(self.LOST, message="x" * 399 + "yz")
        turn = self.turn(long, since=NOW - 1800)
        (failed,) = turn.actions
        assert isinstance(failed, NoteChange)
        assert f": {'x' * 399}y. " in failed.change.message
        assert turn.assessment is long

    FAILED = Assessment(status="Unknown", reason="RebootMayFollow", message="")

    def mig_manager_failed(self, condition: Condition | None, **facts: Any) -> Turn:
        of = node("new", state="failed", condition=condition, **facts)
        return step(of, pool(), change("Applying", since=NOW - 100))

    def test_mig_manager_may_say_failed_for_90_seconds_as_a_reboot_may_follow(self) -> None:
        first = self.mig_manager_failed(self.found(WRONG, NOW - 95))
        assert (first.actions, first.deadlines) == ((), (NOW + 90,))
        assert first.assessment is not None
        assert (first.assessment.status, first.assessment.reason) == ("Unknown", "RebootMayFollow")
        assert first.assessment.planned, "the pool waits for it"
        later = self.mig_manager_failed(self.found(self.FAILED, NOW - 89.5))
        assert (later.actions, later.deadlines) == ((), (NOW + 0.5,))

    def test_change_fails_after_mig_manager_reports_failed_for_ninety_seconds(self) -> None:
        turn = self.mig_manager_failed(self.found(self.FAILED, NOW - 90))
        (failed,) = turn.actions
        assert isinstance(failed, NoteChange)
        assert (failed.change.phase, failed.change.reason) == ("Failed", "ChangeFailed")
        assert "mig-manager could not apply layout new" in failed.change.message
        assert turn.assessment is WRONG

    def test_change_fails_after_half_an_hour_in_any_case(self) -> None:
        of = node("new", state="failed", condition=self.found(WRONG, NOW - 5))
        turn = step(of, pool(), change("Applying", since=NOW - 1799))
        assert (turn.actions, turn.deadlines) == ((), (NOW + 1,))
        assert step(of, pool(), change("Applying", since=NOW - 1800)).actions

    def test_while_the_node_is_down_only_the_half_hour_counts(self) -> None:
        away = Assessment(status="Unknown", reason="NodeNotReady", message="m", settles=True)
        of = node("new", state="failed", ready=False, condition=self.found(self.FAILED, NOW - 900))
        turn = step(of, pool(), change("Applying", since=NOW - 1000), away)
        assert (turn.actions, turn.deadlines) == ((), (NOW + 800,))
