"""Nodes that are stuck: named, healed where that is safe, and never without end."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import pytest

from slicewright.apis.names import DEPLOY_LABEL_PREFIX
from slicewright.apis.names import MIG_CONFIG_LABEL as CONFIG
from slicewright.apis.names import MIG_STATE_LABEL as STATE
from slicewright.apis.reasons.troubles import (
    DEVICE_PLUGIN,
    MIG_MANAGER,
    MOST_TRIES,
    PAUSES_S,
    TROUBLES,
)
from slicewright.fleet_controller.decision.decide import Decision
from slicewright.fleet_controller.nodes.watchdog import (
    NOTED_AFTER_S,
    RestartOperand,
    Watch,
    due,
    trouble_of,
    watch,
)
from slicewright.fleet_controller.objects.assessment import Assessment
from slicewright.fleet_controller.objects.condition import Condition
from slicewright.fleet_controller.objects.node import Node
from slicewright.fleet_controller.objects.node_pods import NodePod
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.fleet_controller.objects.stuck import Stuck, stuck_of
from tests.fleet_controller.builders import build_pool
from tests.fleet_controller.rollout_world import PAUSED, START, World

NOW = START + 10_000.0


def operand(app: str, **facts: object) -> NodePod:
    pod = NodePod(namespace="gpu-operator", name=app, uid=app, gpus=False, daemon_set=True, app=app)
    return replace(pod, **facts)  # type: ignore[arg-type]


USER = NodePod(namespace="ai", name="llm-0", uid="llm-0", gpus=True)
OPERANDS = (operand(MIG_MANAGER), operand(DEVICE_PLUGIN))
UNKNOWN = Assessment(status="Unknown", reason="MigManagerBusy", message="busy", settles=True)
WRONG = Assessment(status="False", reason="WrongLayout", message="GPU 0", mismatch=True)


@pytest.fixture
def pool(pool: Pool) -> Pool:
    return replace(pool, mig_config="halves-1")


@pytest.fixture
def node(node: Node) -> Node:
    """Held, with the right label, not verified for so long that a note is worth it."""
    condition = Condition(
        status="Unknown",
        reason="x",
        message="x",
        changed=NOW - NOTED_AFTER_S,
        written=NOW - NOTED_AFTER_S,
    )
    return replace(node, labels={**node.labels, CONFIG: "halves-1"}, condition=condition)


def in_state(node: Node, state: str | None, **deploy: str) -> Node:
    labels = {key: value for key, value in node.labels.items() if key != STATE}
    found = {f"{DEPLOY_LABEL_PREFIX}{k.replace('_', '-')}": v for k, v in deploy.items()}
    return replace(node, labels={**labels, **({STATE: state} if state else {}), **found})


def noted(node: Node, watched: Watch) -> Node:
    (action,) = watched.actions
    return replace(
        node,
        stuck=action.stuck.dump() if action.stuck else "",
        labels={**node.labels, **action.labels},
    )


def note(node: Node) -> Stuck:
    found = stuck_of(node)
    assert found is not None
    return found


def restarted(watched: Watch) -> list[str]:
    return [action.restart.app for action in watched.actions if action.restart]


class TestWhatIsTrouble:
    @pytest.mark.parametrize(
        ("state", "deploy", "base", "what"),
        [
            (None, {}, UNKNOWN, "PartitioningNotStarted"),
            ("pending", {}, UNKNOWN, "PartitioningStuck"),
            ("rebooting", {}, UNKNOWN, "RebootStuck"),
            ("failed", {}, WRONG, "MigManagerFailed"),
            ("failed", {"device_plugin": PAUSED}, WRONG, "MigManagerFailed"),
            ("success", {"device_plugin": PAUSED}, UNKNOWN, "OperandsPaused"),
            ("success", {}, WRONG, "StaleSuccess"),
            ("success", {}, replace(WRONG, reason="WrongResources"), "PluginStale"),
            ("success", {}, replace(WRONG, reason="GpuLost"), None),
            ("success", {}, replace(UNKNOWN, status="True"), None),
        ],
    )
    def test_the_labels_and_the_agent_tell(
        self,
        state: str | None,
        deploy: dict[str, str],
        base: Assessment,
        what: str | None,
        node: Node,
        pool: Pool,
    ) -> None:
        assert trouble_of(in_state(node, state, **deploy), pool, base, None) == what

    def test_a_crash_loop_counts_where_nothing_else_does(self, node: Node, pool: Pool) -> None:
        whole = replace(pool, mig_config=None)
        why = "pod nvidia-device-plugin-x: CrashLoopBackOff: back-off 5m0s"
        assert trouble_of(node, whole, UNKNOWN, why) == "OperandCrashLoop"
        assert trouble_of(node, whole, UNKNOWN, "pod x: ImagePullBackOff") is None
        assert trouble_of(replace(node, ready=False), whole, UNKNOWN, why) is None
        assert trouble_of(in_state(node, "pending"), pool, UNKNOWN, why) == "PartitioningStuck"

    def test_a_node_that_is_not_ready_is_stuck_only_in_its_reboot(
        self, node: Node, pool: Pool
    ) -> None:
        down = replace(node, ready=False)
        assert trouble_of(in_state(down, "rebooting"), pool, UNKNOWN, None) == "RebootStuck"
        assert trouble_of(in_state(down, "pending"), pool, UNKNOWN, None) is None

    def test_a_node_with_another_layout_waits_for_its_turn(self, node: Node, pool: Pool) -> None:
        other = replace(pool, mig_config="other")
        assert trouble_of(in_state(node, "success"), other, WRONG, None) is None
        # Unless it cannot even begin.
        assert trouble_of(in_state(node, "pending"), other, WRONG, None) == "PartitioningStuck"


class TestWhen:
    def test_an_ordinary_change_costs_no_request(self, node: Node, pool: Pool) -> None:
        pending = in_state(node, "pending")
        early = watch(pending, pool, UNKNOWN, None, None, NOW - 1)
        assert early == Watch(deadlines=(NOW,))
        assert watch(pending, pool, UNKNOWN, None, None, NOW).actions

    def test_stuck_node_is_noted_then_due_then_restarted(self, node: Node, pool: Pool) -> None:
        pending = in_state(node, "pending")
        pending = noted(pending, watch(pending, pool, UNKNOWN, None, None, NOW))
        at = NOW + TROUBLES["PartitioningStuck"].after_s
        assert note(pending).next == at
        assert due([pool], [pending], at - 1) == ()
        waiting = watch(pending, pool, UNKNOWN, None, OPERANDS, at - 1)
        assert (waiting.actions, waiting.assessment, waiting.deadlines) == ((), None, (at,))
        assert due([pool], [pending], at) == ("n1",)
        healing = watch(pending, pool, UNKNOWN, None, OPERANDS, at)
        assert restarted(healing) == [MIG_MANAGER]
        assert healing.assessment is not None
        assert (healing.assessment.status, healing.assessment.reason) == (
            "Unknown",
            "PartitioningStuck",
        )

    def test_restart_is_tried_three_times_with_growing_pauses(self, node: Node, pool: Pool) -> None:
        stuck = in_state(node, "pending")
        stuck = noted(stuck, watch(stuck, pool, UNKNOWN, None, None, NOW))
        tries, now = [], NOW
        for _ in range(MOST_TRIES + 2):
            now = note(stuck).next
            watched = watch(stuck, pool, UNKNOWN, None, OPERANDS, now)
            if watched.actions:
                tries.append(now)
                stuck = noted(stuck, watched)
        assert len(tries) == MOST_TRIES
        pauses = [after - before for before, after in itertools.pairwise(tries)]
        assert all(pause >= least for pause, least in zip(pauses, PAUSES_S, strict=False))
        assert due([pool], [stuck], now) == ()
        last = watch(stuck, pool, UNKNOWN, None, OPERANDS, now).assessment
        assert last is not None
        assert (last.status, last.settles) == ("False", False)
        assert "was restarted 3 of 3 times" in last.message
        assert "delete the node's instance" in last.message

    def test_tries_count_though_it_is_stuck_in_another_way_by_then(
        self, node: Node, pool: Pool
    ) -> None:
        tried = Stuck(
            node_uid="u1",
            layout="halves-1",
            trouble="MigManagerFailed",
            since=NOW,
            next=NOW + 600,
            tries=2,
        )
        stuck = replace(in_state(node, "pending"), stuck=tried.dump())
        after = note(noted(stuck, watch(stuck, pool, UNKNOWN, None, None, NOW + 5)))
        assert (after.trouble, after.tries, after.since) == ("PartitioningStuck", 2, NOW + 5)
        between = in_state(replace(stuck, stuck=after.dump()), "success")
        calm = note(noted(between, watch(between, pool, UNKNOWN, None, None, NOW + 6)))
        assert (calm.trouble, calm.tries) == ("", 2)

    @pytest.mark.parametrize("why", ["verified", "another layout", "another node", "unreadable"])
    def test_what_was_tried_is_forgotten_at_a_new_beginning(
        self, why: str, node: Node, pool: Pool
    ) -> None:
        old = Stuck(
            node_uid="u0" if why == "another node" else "u1",
            layout="other" if why == "another layout" else "halves-1",
            trouble="PartitioningStuck",
            since=NOW - 9000,
            next=NOW - 1,
            tries=3,
        )
        text = "{" if why == "unreadable" else old.dump()
        stuck = replace(in_state(node, "pending"), stuck=text)
        if why == "verified":
            done = watch(stuck, pool, replace(UNKNOWN, status="True"), None, None, NOW)
            assert noted(stuck, done).stuck == ""
        else:
            assert due([pool], [stuck], NOW) == ()
            assert note(noted(stuck, watch(stuck, pool, UNKNOWN, None, None, NOW))).tries == 0

    @pytest.mark.parametrize(
        "text", ["null", "[]", '"x"', "{}", '{"nodeUid":"u1","what":"Strange"}', "[" * 5000]
    )
    def test_an_unreadable_note_is_none(self, text: str, node: Node) -> None:
        assert stuck_of(replace(node, stuck=text)) is None

    def test_written_watchdog_annotation_is_read_back(self, node: Node) -> None:
        one = Stuck(
            node_uid="u1",
            layout="x",
            trouble="StaleSuccess",
            since=NOW,
            next=NOW + 5,
            tries=2,
            held_by="ai/x",
        )
        assert stuck_of(replace(node, stuck=one.dump())) == one


def ripe(node: Node, pool: Pool, base: Assessment) -> tuple[Node, float]:
    """The node with its note, at the time when something is tried."""
    there = noted(node, watch(node, pool, base, None, None, NOW))
    return there, note(there).next


class TestSafety:
    def test_nothing_is_restarted_that_could_cut_gpus_under_a_pod(
        self, node: Node, pool: Pool
    ) -> None:
        stuck, at = ripe(in_state(node, "failed"), pool, WRONG)
        held = watch(stuck, pool, WRONG, None, (*OPERANDS, USER), at)
        assert restarted(held) == []
        later = noted(stuck, held)
        assert (note(later).tries, note(later).next) == (0, at + 600)
        said = watch(later, pool, WRONG, None, None, at + 1).assessment
        assert said is not None
        assert said.message == "GPU 0; not restarted: ai/llm-0"
        assert (said.status, said.reason, said.mismatch) == ("False", "WrongLayout", True)

    def test_nothing_is_restarted_while_the_pods_are_not_known(
        self, node: Node, pool: Pool
    ) -> None:
        stuck, at = ripe(in_state(node, "failed"), pool, WRONG)
        assert watch(stuck, pool, WRONG, None, None, at).actions == ()

    def test_a_node_is_held_and_its_pods_are_listed_again_before(
        self, node: Node, pool: Pool
    ) -> None:
        stuck, at = ripe(in_state(replace(node, taint_keys=()), "failed"), pool, WRONG)
        first = watch(stuck, pool, WRONG, None, OPERANDS, at)
        assert (first.hold, first.actions) == (True, ())
        held = replace(stuck, taint_keys=node.taint_keys)
        assert restarted(watch(held, pool, WRONG, None, OPERANDS, at)) == [MIG_MANAGER]

    def test_paused_operands_are_resumed_under_pods_where_the_partitions_match(
        self, node: Node, pool: Pool
    ) -> None:
        paused = in_state(replace(node, taint_keys=()), "success", device_plugin=PAUSED)
        reported = replace(UNKNOWN, reason="OperandsPaused", expires=NOW + 901)
        stuck, at = ripe(paused, pool, reported)
        first = watch(stuck, pool, reported, None, (*OPERANDS, USER), at)
        assert restarted(first) == [MIG_MANAGER]
        assert first.actions[0].labels == {}
        again = noted(stuck, first)
        second = watch(again, pool, reported, None, (*OPERANDS, USER), note(again).next)
        assert second.actions[0].labels == {f"{DEPLOY_LABEL_PREFIX}device-plugin": "true"}
        # By a report from before it got stuck, nobody knows that they match.
        old = replace(reported, expires=NOW + 900)
        assert watch(stuck, pool, old, None, (*OPERANDS, USER), at).actions == ()

    def test_the_device_plugin_is_restarted_where_it_is_the_stale_one(
        self, node: Node, pool: Pool
    ) -> None:
        base = replace(WRONG, reason="WrongResources")
        stuck, at = ripe(in_state(node, "success"), pool, base)
        assert restarted(watch(stuck, pool, base, None, (*OPERANDS, USER), at)) == [DEVICE_PLUGIN]

    @pytest.mark.parametrize(
        "pods",
        [(), (operand(MIG_MANAGER, leaving=True),), (operand(MIG_MANAGER, daemon_set=False),)],
        ids=["none", "leaving", "of somebody else"],
    )
    def test_without_the_operands_pod_it_was_a_try_all_the_same(
        self, pods: tuple[NodePod, ...], node: Node, pool: Pool
    ) -> None:
        stuck, at = ripe(in_state(node, "failed"), pool, WRONG)
        watched = watch(stuck, pool, WRONG, None, pods, at)
        assert restarted(watched) == []
        after = note(noted(stuck, watched))
        assert (after.tries, after.held_by) == (1, "no nvidia-mig-manager pod on the node")

    @pytest.mark.parametrize("state", ["rebooting", "crash loop"])
    def test_what_has_no_cure_here_is_named_with_what_to_do(
        self, state: str, node: Node, pool: Pool
    ) -> None:
        why = "pod nvidia-device-plugin-x: CrashLoopBackOff" if state == "crash loop" else None
        stuck = in_state(node, "success" if why else state)
        stuck = noted(stuck, watch(stuck, pool, UNKNOWN, why, None, NOW))
        assert due([pool], [stuck], note(stuck).next) == ()
        watched = watch(stuck, pool, UNKNOWN, why, OPERANDS, note(stuck).next)
        assert watched.actions == ()
        assert watched.assessment is not None
        assert watched.assessment.status == "False"
        assert TROUBLES[note(stuck).trouble].remedy in watched.assessment.message

    def test_few_nodes_have_their_pods_listed_in_one_pass(self, node: Node, pool: Pool) -> None:
        stuck, at = ripe(in_state(node, "failed"), pool, WRONG)
        many = []
        for i in range(50):
            one = json.loads(stuck.stuck) | {"nodeUid": f"u{i}"}
            many.append(replace(stuck, name=f"n{i}", uid=f"u{i}", stuck=json.dumps(one)))
        assert len(due([pool], many, at)) == 10


def _world() -> World:
    pool = build_pool(
        name="p",
        uid="pool",
        created=START,
        selector={"slicewright.io/pool": "p"},
        layout_hash="hash-old",
        mig_config="old",
    )
    of = World(pool)
    for i in range(3):
        of.make_node(f"n{i}")
    of.passes()
    of.passes()
    return of


def _heals(decision: Decision) -> list[RestartOperand]:
    return [action for action in decision.actions if isinstance(action, RestartOperand)]


def _reason(of: World, name: str) -> str:
    condition = of.nodes[name].condition
    return condition.reason if condition else ""


class TestInTheWholeDecision:
    def test_a_hung_mig_manager_is_restarted_and_the_rollout_goes_on(self) -> None:
        of = _world()
        of.wants("new")
        for _ in range(4):
            of.passes()
        assert of.nodes["n0"].labels[CONFIG] == "new"
        of.mig_manager_works("n0")
        of.hung.add("n0")
        minutes = 0
        while of.pool.status["nodes"]["verified"] < 3 and minutes < 120:
            of.now += 60
            minutes += 1
            for name in of.nodes:
                of.mig_manager_works(name)
                of.agent_reports(name)
            for _ in range(3):
                of.passes()
        assert of.pool.status["nodes"]["verified"] == 3
        assert set(of.cut.values()) == {"new"}
        assert not any(one.stuck for one in of.nodes.values())

    def test_a_foreign_change_of_the_label_is_named_and_set_back_without_hurting_a_pod(
        self,
    ) -> None:
        of = _world()
        of.disruptions = 5
        of.bind("n1")
        of.somebody_relabels("n1", "other")
        of.passes()
        assert _reason(of, "n1") == "MigConfigChanged"
        assert of.nodes["n1"].held, "no further pods"
        for _ in range(8):
            of.mig_manager_works("n1")
            of.pods_end()
            of.passes()
            of.now += 5
        of.agent_reports("n1")
        of.passes()
        of.passes()
        node = of.nodes["n1"]
        assert (node.labels[CONFIG], of.cut["n1"]) == ("old", "old")
        assert not node.held
        assert not node.unschedulable
        assert _reason(of, "n1") == "PartitionsMatch"

    def test_a_change_that_the_pool_wants_is_no_foreign_one(self) -> None:
        of = _world()
        of.wants("new")
        of.passes()
        assert _reason(of, "n2") == "WaitsForItsTurn"
        assert not of.nodes["n2"].held

    def test_a_label_that_we_have_set_ourselves_is_no_foreign_one(self) -> None:
        """The pool goes back to its old layout before the new one is verified."""
        of = _world()
        of.wants("new")
        for _ in range(4):
            of.passes()
        assert of.nodes["n0"].labels[CONFIG] == "new"
        of.wants("old")
        of.passes()
        assert _reason(of, "n0") != "MigConfigChanged"

    def test_a_node_that_no_restart_helps_is_left_to_people(self) -> None:
        of = _world()
        of.cursed.add("n0")
        of.reboot("n0")
        of.hung.add("n0")
        tries = 0
        for _ in range(100):
            of.now += 120
            for name in of.nodes:
                of.agent_reports(name)
            decision = of.passes()
            tries += sum(heal.restart is not None for heal in _heals(decision))
        assert tries == MOST_TRIES
        assert _reason(of, "n0") == "PartitioningStuck"
        status = {c["type"]: c for c in of.pool.status["conditions"]}
        assert status["Degraded"]["status"] == "True"
        assert status["Settled"]["status"] == "True"
