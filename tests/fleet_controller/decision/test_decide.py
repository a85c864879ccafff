from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from slicewright.apis.gpu_pool.rollout_policy import RolloutPolicy
from slicewright.apis.names import STARTUP_TAINT_KEY as TAINT
from slicewright.fleet_controller.decision.actions import (
    AddStartupTaint,
    ClearReportsAfter,
    EmitEvent,
    RecordBoot,
    RemoveStartupTaint,
    RetractEvent,
    SetDesiredState,
    SetMigConfig,
    SetNodeCondition,
    SetPoolStatus,
)
from slicewright.fleet_controller.decision.decide import Decision, decide
from slicewright.fleet_controller.decision.events import (
    LONGEST_WAIT_S,
    PROGRESS_EVENT_INTERVAL_S,
    REPEAT_WARNING_S,
)
from slicewright.fleet_controller.decision.inspection import to_inspect
from slicewright.fleet_controller.membership.release import ReleaseNode
from slicewright.fleet_controller.nodes.watchdog import RestartOperand
from slicewright.fleet_controller.objects.bounds import stamp
from slicewright.fleet_controller.objects.condition import Condition
from slicewright.fleet_controller.objects.node import Joined, Node
from slicewright.fleet_controller.objects.node_pods import NodePod
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.fleet_controller.objects.report import Report
from slicewright.fleet_controller.objects.stuck import Stuck
from slicewright.fleet_controller.objects.warning_event import WarningEvent
from slicewright.fleet_controller.pools.members import DAMPING_S, GRACE_S, SET_UP_LIMIT_S
from slicewright.fleet_controller.pools.quarantine import QuarantineNode
from slicewright.fleet_controller.pools.status import TOO_FEW_LIMIT_S
from slicewright.fleet_controller.rollout.change_actions import (
    ApplyLayout,
    CordonNode,
    EvictPod,
    FinishChange,
)
from slicewright.fleet_controller.rollout.node_change import start_change
from slicewright.fleet_controller.rollout.turn import DRAIN_POLL_S
from tests.fleet_controller.kubernetes_objects import bare

NOW = 1_800_000_000.0
QUIET = {"changing": 0, "failed": 0}


def _decided(
    pool: Pool,
    nodes: Sequence[Node],
    reports: Sequence[Report] = (),
    *,
    gpu_pods: Mapping[str, tuple[str, ...]] | None = None,
    warnings: Mapping[str, WarningEvent] | None = None,
    now: float = NOW,
) -> Decision:
    """gpu_pods: `namespace/name` of bare pods, which nobody may evict, by node."""
    pods = {node: tuple(map(bare, names)) for node, names in (gpu_pods or {}).items()}
    return decide([pool], nodes, {r.name: r for r in reports}, pods, warnings or {}, now)


def _cordoned(node: Node, target: str) -> Node:
    """In the middle of a change, drained since now."""
    change = start_change(node, target, NOW).change
    return replace(node, unschedulable=True, change=change.dump())


def _said(node: Node, status: str, reason: str, message: str, *, at: float) -> Node:
    return replace(
        node,
        condition=Condition(status=status, reason=reason, message=message, changed=at, written=at),
    )


def _status(decision: Decision) -> dict[str, object]:
    (action,) = [a for a in decision.actions if isinstance(a, SetPoolStatus)]
    return dict(action.status)


def _condition(decision: Decision, kind: str) -> tuple[str, str, str]:
    conditions = _status(decision)["conditions"]
    assert isinstance(conditions, list)
    (found,) = [c for c in conditions if c["type"] == kind]
    return found["status"], found["reason"], found["message"]


@pytest.fixture
def wrong(report: Report) -> Report:
    message = "GPU 3 wanted 3g.40gb x2, found 1g.10gb x7: cause; advice."
    return replace(report, verdict="Mismatch", reason="WrongLayout", message=message)


def test_a_proven_node_is_released_after_its_condition_is_written(
    node: Node, pool: Pool, report: Report
) -> None:
    actions = _decided(pool, [node], [report]).actions
    assert [type(a) for a in actions] == [SetNodeCondition, RemoveStartupTaint, SetPoolStatus]
    assert actions[0] == SetNodeCondition(
        node="n1",
        status="True",
        reason="PartitionsMatch",
        message=report.message,
        changed=NOW,
        now=NOW,
        boot=RecordBoot(node="n1", boot_id="b1", layout=None),
    )
    assert actions[1] == RemoveStartupTaint(node="n1", position=1, boot_id="b1", layout=None)


def test_the_pool_is_verified_when_all_its_nodes_are(
    node: Node, pool: Pool, report: Report
) -> None:
    decision = _decided(pool, [node], [report])
    assert _condition(decision, "Verified") == (
        "True",
        "AllNodesProven",
        "1 node verified",
    )
    assert _condition(decision, "Progressing")[:2] == ("False", "Settled")
    assert _condition(decision, "Degraded")[:2] == ("False", "AsWanted")
    status = _status(decision)
    assert status["nodes"] == {"total": 1, "verified": 1, "failing": 0, "unknown": 0, **QUIET}
    assert status["observedGeneration"] == 3
    assert all(c["observedGeneration"] == 3 for c in status["conditions"])  # type: ignore[attr-defined]


def test_one_node_without_a_report_keeps_the_pool_from_being_verified(
    node: Node, pool: Pool, report: Report
) -> None:
    decision = _decided(pool, [node, replace(node, name="n2", uid="u2")], [report])
    assert _condition(decision, "Verified")[0] == "False"
    assert _status(decision)["nodes"] == {
        "total": 2,
        "verified": 1,
        "failing": 0,
        "unknown": 1,
        **QUIET,
    }


def test_too_few_nodes_are_not_verified(node: Node, pool: Pool, report: Report) -> None:
    decision = _decided(replace(pool, fewest=2), [node], [report])
    assert _condition(decision, "Verified") == (
        "False",
        "TooFewNodes",
        "1 node exists, at least 2 are needed",
    )
    assert _condition(decision, "Progressing")[:2] == ("True", "WaitingForNodes")


@pytest.mark.parametrize(
    ("fewest", "expected"), [(0, ("True", "NoNodes")), (1, ("False", "TooFewNodes"))]
)
def test_an_empty_pool_is_verified_only_where_it_may_be_empty(
    fewest: int, expected: tuple[str, str], pool: Pool
) -> None:
    assert _condition(_decided(replace(pool, fewest=fewest), []), "Verified")[:2] == expected


def test_a_new_node_that_is_not_partitioned_yet_is_progress_without_warnings(
    node: Node, pool: Pool, report: Report
) -> None:
    waiting = replace(
        report, verdict="Mismatch", reason="NotPartitioned", message="GPUs 0-1 wanted …"
    )
    decision = _decided(pool, [node], [waiting])
    assert _condition(decision, "Progressing")[:2] == ("True", "NodesBeingSetUp")
    assert _condition(decision, "Degraded")[0] == "False"
    assert not [a for a in decision.actions if isinstance(a, EmitEvent)]
    assert decision.look_again == node.created + GRACE_S


def test_a_wrong_layout_that_lasts_is_settled_so_that_up_fails_at_once(
    node: Node, pool: Pool, wrong: Report
) -> None:
    assert _condition(_decided(pool, [node], [wrong]), "Settled")[0] == "False"
    said = _said(node, "False", "WrongLayout", wrong.message, at=NOW)
    damped = _decided(pool, [said], [wrong], now=NOW + DAMPING_S)
    assert _condition(damped, "Settled")[:2] == ("True", "NodesFailing")
    assert _condition(damped, "Verified")[0] == "False"


def test_what_may_pass_is_not_settled_even_after_its_grace(
    node: Node, pool: Pool, report: Report
) -> None:
    now = node.created + GRACE_S
    waiting = replace(report, verdict="Mismatch", reason="NotPartitioned", message="x", time=now)
    assert _condition(_decided(pool, [node], [waiting], now=now), "Settled")[0] == "False"


def _lasts(
    pool: Pool, node: Node, report: Report, gpu_pods: Mapping[str, tuple[str, ...]] | None = None
) -> Decision:
    """The decision once the node's condition is written, and so old that it is no passing one."""
    (said,) = [
        a
        for a in _decided(pool, [node], [report], gpu_pods=gpu_pods).actions
        if isinstance(a, SetNodeCondition)
    ]
    told = _said(node, said.status, said.reason, said.message, at=NOW)
    return _decided(pool, [told], [report], gpu_pods=gpu_pods, now=NOW + DAMPING_S)


def test_a_change_that_pods_hold_is_not_settled_however_long_they_run(
    node: Node, pool: Pool, report: Report
) -> None:
    asked = replace(pool, mig_config="new")
    decision = _lasts(asked, _cordoned(node, "new"), report, {"n1": ("ai/a",)})
    assert [event.reason for event in _events(decision)] == ["ChangeHeldByPods"]
    assert _condition(decision, "Settled")[:2] == ("False", "NodesFailing")


def test_what_is_not_known_is_not_settled(node: Node, pool: Pool, report: Report) -> None:
    decision = _lasts(pool, node, replace(report, verdict="Strange"))
    assert [event.reason for event in _events(decision)] == ["ReportUnreadable"]
    assert _condition(decision, "Settled")[0] == "False"


def _waited(pool: Pool, nodes: Sequence[Node], since: float) -> Pool:
    """The pool as it is after a pass at `since` that did not settle it."""
    return replace(pool, status=_status(_decided(pool, nodes, now=since)))


def _progress(decision: Decision) -> list[str]:
    return [event.message for event in _events(decision) if event.reason == "NotYetVerified"]


def test_progress_is_shown_every_minute_while_its_cause_stays_the_same(
    node: Node, pool: Pool
) -> None:
    """The provider shows every Warning Event, but every text only once. A line of 500 characters
    every ten seconds would hide all others in a wait of half an hour.
    """
    young = replace(node, created=NOW)
    waiting = _waited(pool, [young], NOW)
    said: list[str] = []
    warnings: dict[str, WarningEvent] = {}
    at = NOW
    while at < NOW + 300:
        decision = _decided(waiting, [young], now=at, warnings=warnings)
        for action in decision.actions:
            if isinstance(action, EmitEvent):
                said.append(f"{at - NOW:g}: {action.message}")
                warnings[action.name] = action.written
            elif isinstance(action, RetractEvent):
                del warnings[action.name]
        assert len(warnings) <= 1, "one object, however long it takes"
        assert decision.look_again is not None
        at = decision.look_again
    assert len(said) == len({text.partition(": ")[2] for text in said})
    assert said[0].startswith("10: after 10 s: 1 of 1 node is not verified: n1 NoReport: ")
    steps = (10, 70, 130, 190, 250)
    assert [text.rpartition(" s: 1 of")[0] for text in said] == [
        f"{step}: after {step}" for step in steps
    ]


def test_changes_between_progress_events_wait_for_the_next_one(
    node: Node, pool: Pool, report: Report
) -> None:
    """Each node that is verified changes what is waited for, and each text is two requests."""
    young = replace(node, created=NOW)
    waiting = _waited(replace(pool, fewest=2), [young], NOW)
    (said,) = _events(_decided(waiting, [young], now=NOW + 10))
    known = {said.name: said.written}
    proven = _decided(waiting, [young], [replace(report, time=NOW)], now=NOW + 15, warnings=known)
    assert not _events(proven)
    assert not [a for a in proven.actions if isinstance(a, RetractEvent)]
    assert "1 node exists, at least 2 are needed" in _condition(proven, "Settled")[2]
    (later,) = _progress(
        _decided(waiting, [young], [replace(report, time=NOW)], now=NOW + 20, warnings=known)
    )
    assert later == "after 20 s: 1 node exists, at least 2 are needed"


def test_progress_that_was_just_shown_is_kept_and_not_written_again(node: Node, pool: Pool) -> None:
    young = replace(node, created=NOW)
    waiting = _waited(pool, [young], NOW)
    (said,) = _events(_decided(waiting, [young], now=NOW + 10))
    known = {said.name: said.written}
    unchanged = _decided(waiting, [young], now=NOW + 20, warnings=known)
    assert not [a for a in unchanged.actions if isinstance(a, EmitEvent | RetractEvent)]
    assert unchanged.look_again == NOW + 30
    # Somebody else's Event may have any time.
    forged = {said.name: replace(said.written, last_seen=NOW + 1e6)}
    assert _progress(_decided(waiting, [young], now=NOW + 20, warnings=forged))
    other = {said.name: replace(said.written, progress="another cause")}
    assert _progress(_decided(waiting, [young], now=NOW + 20, warnings=other))


@pytest.mark.parametrize(("waiting", "every"), [(1, 10), (25, 10), (26, 20), (100, 40), (101, 80)])
def test_progress_events_are_rarer_if_many_pools_wait(
    waiting: int, every: int, node: Node, pool: Pool
) -> None:
    """Hundreds of lines in a row would help nobody, and each is two requests."""
    young = replace(node, created=NOW)
    here = _waited(pool, [young], NOW)
    others = [
        replace(here, name=f"other-{i}", uid=f"other-{i}", selector={"slicewright.io/pool": f"{i}"})
        for i in range(waiting - 1)
    ]
    settled = replace(pool, name="z", uid="z", selector={"slicewright.io/pool": "z"})
    long_ago = replace(settled, name="y", status={**here.status, "waitingSince": stamp(NOW - 1e5)})

    def said(after_s: float) -> list[str]:
        decision = decide([here, *others, settled, long_ago], [young], {}, {}, {}, NOW + after_s)
        return [e.message for e in _events(decision) if e.pool == "halves"]

    assert said(every - 1) == []
    assert [text.partition(":")[0] for text in said(every)] == [f"after {every} s"]
    assert said(every) == said(2 * every - 1) != said(2 * every)


def test_once_settled_a_node_that_joins_makes_no_warning_of_waiting(
    node: Node, pool: Pool, report: Report
) -> None:
    settled = replace(pool, status=_status(_decided(pool, [node], [report])))
    assert "waitingSince" not in settled.status
    joined = replace(node, name="n2", uid="u2", created=NOW)
    later = replace(settled, status=_status(_decided(settled, [node, joined], [report])))
    assert _condition(_decided(settled, [node, joined], [report]), "Settled")[0] == "True"
    assert not _progress(_decided(later, [node, joined], [report], now=NOW + 60))


def test_a_changed_pool_waits_again(node: Node, pool: Pool, report: Report) -> None:
    settled = replace(pool, status=_status(_decided(pool, [node], [report])))
    changed = replace(settled, generation=4, layout_hash="another")
    waiting = _waited(changed, [node], NOW)
    assert waiting.status["waitingSince"] == stamp(NOW)
    assert len(_progress(_decided(waiting, [node], now=NOW + 10))) == 1


def test_a_new_wait_is_counted_from_the_pass_that_sees_it_written_down(
    node: Node, pool: Pool
) -> None:
    served = replace(node, created=NOW - 7200, verified_boot="b1")
    changed = replace(_waited(pool, [served], NOW - 600), generation=4)
    assert _decided(changed, [served]).look_again == NOW + REPEAT_WARNING_S
    assert (
        _decided(_waited(changed, [served], NOW), [served]).look_again
        == NOW + PROGRESS_EVENT_INTERVAL_S
    )


def test_what_has_settled_is_taken_out_of_the_status(
    node: Node, pool: Pool, report: Report
) -> None:
    waiting = _waited(pool, [replace(node, created=NOW)], NOW)
    status = _status(_decided(waiting, [node], [report]))
    assert status["waitingSince"] is None, "a merge patch deletes only what is null"


def test_progress_events_end_when_no_up_can_still_wait(node: Node, pool: Pool) -> None:
    waiting = _waited(pool, [node], NOW)
    assert _progress(_decided(waiting, [node], now=NOW + LONGEST_WAIT_S - 1))
    assert not _progress(_decided(waiting, [node], now=NOW + LONGEST_WAIT_S))


def test_a_verified_pool_is_settled(node: Node, pool: Pool, report: Report) -> None:
    assert _condition(_decided(pool, [node], [report]), "Settled")[0] == "True"


def test_after_the_grace_it_is_a_failure(node: Node, pool: Pool, report: Report) -> None:
    waiting = replace(
        report,
        verdict="Mismatch",
        reason="NotPartitioned",
        message="GPUs 0-1 wanted …",
        time=NOW + 300,
    )
    now = node.created + GRACE_S
    decision = _decided(pool, [node], [waiting], now=now)
    assert _condition(decision, "Progressing")[0] == "False"
    assert _condition(decision, "Degraded")[:2] == ("True", "NodesFailing")
    (event,) = [a for a in decision.actions if isinstance(a, EmitEvent)]
    assert (event.reason, event.message) == ("NotPartitioned", "node n1: GPUs 0-1 wanted …")


def test_event_is_emitted_after_ten_seconds_of_a_wrong_layout(
    node: Node, pool: Pool, wrong: Report
) -> None:
    first = _decided(pool, [node], [wrong])
    assert not [a for a in first.actions if isinstance(a, EmitEvent | RemoveStartupTaint)]
    assert first.look_again == NOW + DAMPING_S
    said = _said(node, "False", "WrongLayout", wrong.message, at=NOW)
    assert not [
        a
        for a in _decided(pool, [said], [wrong], now=NOW + 9.9).actions
        if isinstance(a, EmitEvent)
    ]
    later = _decided(pool, [said], [wrong], now=NOW + DAMPING_S)
    (event,) = [a for a in later.actions if isinstance(a, EmitEvent)]
    assert event.message == f"node n1: {wrong.message}"
    assert (event.pool, event.pool_uid) == ("halves", "pool-uid")
    assert _status(later)["failingNodes"] == [
        {"name": "n1", "reason": "WrongLayout", "message": wrong.message}
    ]


def test_a_finding_that_changes_is_damped_again(node: Node, pool: Pool, wrong: Report) -> None:
    said = _said(node, "False", "WrongLayout", "something else", at=NOW - 100)
    assert not [a for a in _decided(pool, [said], [wrong]).actions if isinstance(a, EmitEvent)]


def test_a_warning_is_repeated_after_half_an_hour(node: Node, pool: Pool, wrong: Report) -> None:
    said = _said(node, "False", "WrongLayout", wrong.message, at=NOW - 60)
    (event,) = [a for a in _decided(pool, [said], [wrong]).actions if isinstance(a, EmitEvent)]
    warnings = {event.name: WarningEvent(name=event.name, last_seen=NOW)}
    quiet = _decided(pool, [said], [wrong], warnings=warnings, now=NOW + 60)
    assert not [a for a in quiet.actions if isinstance(a, EmitEvent | RetractEvent)]
    fresh = replace(wrong, time=NOW + REPEAT_WARNING_S)
    again = _decided(pool, [said], [fresh], warnings=warnings, now=NOW + REPEAT_WARNING_S)
    assert [a.name for a in again.actions if isinstance(a, EmitEvent)] == [event.name]


def test_a_warning_that_is_no_longer_true_is_deleted(
    node: Node, pool: Pool, report: Report
) -> None:
    """`pulumi up` also shows old warnings."""
    decision = _decided(
        pool, [node], [report], warnings={"halves.1": WarningEvent(name="halves.1", last_seen=NOW)}
    )
    assert [a for a in decision.actions if isinstance(a, RetractEvent)] == [
        RetractEvent(name="halves.1")
    ]


def test_a_pool_of_failures_warns_of_the_first_twenty(
    node: Node, pool: Pool, wrong: Report
) -> None:
    nodes = [
        _said(
            replace(node, name=f"n{i:02}", uid=f"u{i}"),
            "False",
            "WrongLayout",
            wrong.message,
            at=NOW - 60,
        )
        for i in range(30)
    ]
    reports = [replace(wrong, name=n.name, owner_uid=n.uid) for n in nodes]
    decision = _decided(pool, nodes, reports)
    assert len([a for a in decision.actions if isinstance(a, EmitEvent)]) == 20
    failing = _status(decision)["failingNodes"]
    assert isinstance(failing, list)
    assert [f["name"] for f in failing] == [f"n{i:02}" for i in range(20)]
    assert _status(decision)["nodes"] == {
        "total": 30,
        "verified": 0,
        "failing": 30,
        "unknown": 0,
        **QUIET,
    }


def test_the_time_of_a_transition_is_kept(node: Node, pool: Pool, wrong: Report) -> None:
    said = _said(node, "False", "NotPartitioned", "before", at=NOW - 50)
    (action,) = [
        a for a in _decided(pool, [said], [wrong]).actions if isinstance(a, SetNodeCondition)
    ]
    assert (action.changed, action.now) == (NOW - 50, NOW)
    first = _status(_decided(pool, [node], [wrong]))
    second = _status(
        _decided(replace(pool, status=first, generation=4), [node], [wrong], now=NOW + 5)
    )
    assert second["conditions"][0]["lastTransitionTime"] == stamp(NOW)  # type: ignore[index]


def test_nothing_is_written_when_nothing_changed(node: Node, pool: Pool, report: Report) -> None:
    proven = _said(
        replace(node, taint_keys=("nvidia.com/gpu",), verified_boot="b1"),
        "True",
        report.reason,
        report.message,
        at=NOW - 50,
    )
    settled = replace(pool, status=_status(_decided(pool, [proven], [report])))
    assert _decided(settled, [proven], [report], now=NOW + 20).actions == ()


def test_a_report_grows_old_without_any_event(node: Node, pool: Pool, report: Report) -> None:
    decision = _decided(pool, [node], [report])
    assert decision.look_again == report.time + 900
    (action,) = [
        a
        for a in _decided(pool, [node], [report], now=NOW + 900).actions
        if isinstance(a, SetNodeCondition)
    ]
    assert (action.status, action.reason) == ("Unknown", "ReportTooOld")


def test_a_node_being_deleted_does_not_count(node: Node, pool: Pool, report: Report) -> None:
    decision = _decided(pool, [node, replace(node, name="n2", uid="u2", leaving=True)], [report])
    assert _status(decision)["nodes"] == {
        "total": 1,
        "verified": 1,
        "failing": 0,
        "unknown": 0,
        **QUIET,
    }


def test_foreign_nodes_are_left_alone(node: Node, pool: Pool, report: Report) -> None:
    foreign = replace(node, name="cpu", labels={"slicewright.io/pool": "other"})
    assert not [
        a
        for a in _decided(pool, [foreign], [replace(report, name="cpu")]).actions
        if not isinstance(a, SetPoolStatus)
    ]


def test_a_node_has_one_owner(node: Node, pool: Pool, report: Report) -> None:
    greedy = replace(pool, name="zz", uid="zz-uid", fewest=0)
    decision = decide([greedy, pool], [node], {"n1": report}, {}, {}, NOW)
    assert len([a for a in decision.actions if isinstance(a, SetNodeCondition)]) == 1
    statuses = {
        a.pool: a.status["nodes"]["total"] for a in decision.actions if isinstance(a, SetPoolStatus)
    }
    assert statuses == {"halves": 1, "zz": 0}


def _failing(node: Node, wrong: Report, names: Sequence[str]) -> tuple[list[Node], list[Report]]:
    """Nodes whose wrong layout has been known for a minute, and their reports."""
    nodes = [
        _said(
            replace(node, name=name, uid=f"u-{name}"),
            "False",
            "WrongLayout",
            wrong.message,
            at=NOW - 60,
        )
        for name in names
    ]
    return nodes, [replace(wrong, name=n.name, owner_uid=n.uid) for n in nodes]


def _events(decision: Decision) -> list[EmitEvent]:
    return [a for a in decision.actions if isinstance(a, EmitEvent)]


def test_the_periods_are_the_documented_ones() -> None:
    assert (GRACE_S, DAMPING_S, REPEAT_WARNING_S) == (300.0, 10.0, 1800.0)
    assert SET_UP_LIMIT_S == 1800.0
    assert LONGEST_WAIT_S == 4 * 3600


class TestGracePeriod:
    """A node without a report: it settles, and nothing expires."""

    @pytest.fixture
    def node(self, node: Node) -> Node:
        return replace(node, created=NOW)

    @pytest.mark.parametrize(("age", "settling"), [(0.0, True), (299.9, True), (300.0, False)])
    def test_it_starts_with_the_node(
        self, age: float, settling: bool, node: Node, pool: Pool
    ) -> None:
        decision = _decided(pool, [node], now=NOW + age)
        assert (_condition(decision, "Progressing")[0] == "True") is settling
        assert (_condition(decision, "Degraded")[0] == "True") is not settling
        assert bool(_events(decision)) is not settling

    def test_it_starts_again_when_the_status_changes(self, node: Node, pool: Pool) -> None:
        changed = _said(node, "Unknown", "NoReport", "", at=NOW + 1000)
        decision = _decided(pool, [changed], now=NOW + 1200)
        assert _condition(decision, "Progressing")[:2] == ("True", "NodesBeingSetUp")
        assert decision.look_again == NOW + 1300
        assert _condition(_decided(pool, [changed], now=NOW + 1300), "Progressing")[0] == "False"

    def test_an_old_condition_does_not_shorten_it(self, node: Node, pool: Pool) -> None:
        """A node of the same name may have been created again with its conditions."""
        old = _said(node, "Unknown", "NoReport", "", at=NOW - 1000)
        assert _decided(pool, [old], now=NOW + 10).look_again == NOW + GRACE_S

    def test_after_it_the_next_look_is_for_the_warning_alone(self, node: Node, pool: Pool) -> None:
        """A deadline that has passed must not wake the loop again."""
        served = replace(node, verified_boot="b0")
        assert _decided(pool, [served], now=NOW + 300).look_again == NOW + 2100
        assert _decided(pool, [served], now=NOW + 500).look_again == NOW + 2300

    def test_a_node_that_was_never_in_service_is_looked_at_when_it_may_be_set_up_no_longer(
        self, node: Node, pool: Pool
    ) -> None:
        assert _decided(pool, [node], now=NOW + 300).look_again == node.created + SET_UP_LIMIT_S


class TestHolding:
    """A released node that may have lost what was verified gets its startup taint back."""

    @pytest.fixture
    def released(self, node: Node) -> Node:
        return replace(node, taint_keys=("nvidia.com/gpu",), verified_boot="b1")

    @staticmethod
    def _why(decision: Decision) -> list[str]:
        return [a.why for a in decision.actions if isinstance(a, AddStartupTaint)]

    def test_a_verified_one_is_left_alone(self, released: Node, pool: Pool, report: Report) -> None:
        assert self._why(_decided(pool, [released], [report])) == []

    def test_a_node_that_is_not_ready_is_held_and_no_longer_verified(
        self, released: Node, pool: Pool, report: Report
    ) -> None:
        decision = _decided(pool, [replace(released, ready=False)], [report])
        assert decision.actions[0] == AddStartupTaint(
            node="n1", version="100", has_taints=True, why="not Ready"
        )
        assert _status(decision)["nodes"] == {
            "total": 1,
            "verified": 0,
            "failing": 0,
            "unknown": 1,
            **QUIET,
        }

    def test_it_is_released_when_it_is_ready_again_in_the_same_boot(
        self, node: Node, pool: Pool, report: Report
    ) -> None:
        """As after a network partition, in which its pods and partitions live on."""
        held = replace(node, verified_boot="b1")
        actions = _decided(pool, [held], [report]).actions
        assert [a for a in actions if isinstance(a, RemoveStartupTaint)]

    def test_a_new_boot_holds_it_whatever_the_last_report_says(
        self, released: Node, pool: Pool, report: Report
    ) -> None:
        booted = replace(released, boot_id="b2")
        assert self._why(_decided(pool, [booted], [report])) == ["booted since it was verified"]
        assert self._why(_decided(pool, [booted])) == ["booted since it was verified"]

    def test_node_is_held_after_a_reboot_with_an_unknown_verdict(
        self, released: Node, pool: Pool, report: Report
    ) -> None:
        """The controller may have been away while the node booted: the annotation remembers."""
        loading = replace(report, boot_id="b2", verdict="Unknown", reason="DriverNotLoaded")
        booted = replace(released, boot_id="b2")
        assert self._why(_decided(pool, [booted], [loading])) == ["booted since it was verified"]

    @pytest.mark.parametrize("said", [False, True])
    def test_a_new_boot_that_is_verified_already_is_recorded_and_holds_nothing(
        self, said: bool, released: Node, pool: Pool, report: Report
    ) -> None:
        """said: the condition is what it should be, and need not be written."""
        condition = Condition(
            status="True",
            reason=report.reason,
            message=report.message,
            changed=NOW - 9,
            written=NOW - 9,
        )
        booted = replace(released, boot_id="b2", condition=condition if said else None)
        decision = _decided(pool, [booted], [replace(report, boot_id="b2")])
        assert self._why(decision) == []
        noted = [
            a if isinstance(a, RecordBoot) else a.boot
            for a in decision.actions
            if isinstance(a, RecordBoot | SetNodeCondition)
        ]
        assert noted == [RecordBoot(node="n1", boot_id="b2", layout=None)]

    def test_what_an_older_controller_released_is_judged_by_its_report(
        self, released: Node, pool: Pool, report: Report
    ) -> None:
        old = replace(released, verified_boot="")
        assert self._why(_decided(pool, [old], [replace(report, time=NOW - 5000)])) == []
        booted = replace(old, boot_id="b2")
        assert self._why(_decided(pool, [booted], [report])) == ["booted since it was verified"]
        assert self._why(_decided(pool, [booted])) == []

    def test_a_mismatch_holds_it(self, released: Node, pool: Pool, wrong: Report) -> None:
        assert self._why(_decided(pool, [released], [wrong])) == ["WrongLayout"]

    @pytest.mark.parametrize(
        "change",
        [
            {"time": NOW - 5000},
            {"time": NOW + 5000},
            {"verdict": "Unknown", "reason": "DriverHung"},
            {"layout_hash": "b" * 64},
        ],
    )
    def test_a_report_that_is_late_or_knows_nothing_does_not(
        self, change: dict[str, str], released: Node, pool: Pool, report: Report
    ) -> None:
        assert self._why(_decided(pool, [released], [replace(report, **change)])) == []  # type: ignore[arg-type]

    @pytest.mark.parametrize("state", ["pending", "rebooting"])
    def test_mig_manager_at_work_holds_it(
        self, state: str, released: Node, pool: Pool, report: Report
    ) -> None:
        labels = {
            **released.labels,
            "nvidia.com/mig.config": "halves-1234",
            "nvidia.com/mig.config.state": state,
        }
        busy = replace(released, labels=labels)
        assert self._why(_decided(replace(pool, mig_config="halves-1234"), [busy], [report])) == [
            "mig-manager changes its partitions"
        ]
        assert self._why(_decided(pool, [busy], [report])) == []  # mig-manager's are not its labels

    def test_pods_of_a_node_whose_layout_changes_do_not_keep_a_reboot_from_holding_it(
        self, released: Node, pool: Pool, report: Report
    ) -> None:
        booted = _cordoned(replace(released, boot_id="b2"), "new")
        decision = _decided(
            replace(pool, mig_config="new"), [booted], [report], gpu_pods={"n1": ("ai/a",)}
        )
        assert self._why(decision) == ["booted since it was verified"]
        gone = _decided(replace(pool, mig_config="new"), [booted], [report], gpu_pods={"n1": ()})
        assert self._why(gone) == ["booted since it was verified"], "not: its layout changes"
        failing = _status(decision)["failingNodes"]
        assert isinstance(failing, list)
        assert failing[0]["reason"] == "ChangeHeldByPods"

    def test_it_is_held_for_a_new_layout_only_when_its_pods_have_left(
        self, released: Node, pool: Pool, report: Report
    ) -> None:
        asked, cordoned = replace(pool, mig_config="new"), _cordoned(released, "new")
        held = _decided(asked, [cordoned], [report], gpu_pods={"n1": ()})
        assert self._why(held) == ["its layout changes"]
        used = _decided(asked, [cordoned], [report], gpu_pods={"n1": ("ai/a",)})
        not_known = _decided(asked, [cordoned], [report])
        in_service = _decided(asked, [released], [report], gpu_pods={"n1": ()})
        unchanged = _decided(pool, [released], [report], gpu_pods={"n1": ()})
        assert [self._why(d) for d in (used, not_known, in_service, unchanged)] == [[], [], [], []]

    def test_a_layout_that_it_does_not_have_yet_holds_no_node_that_waits_for_its_turn(
        self, released: Node, pool: Pool, wrong: Report
    ) -> None:
        """Its agent compares it with the new layout as soon as the pool wants it."""
        asked = replace(pool, mig_config="new")
        assert self._why(_decided(asked, [released], [wrong])) == []
        lost = replace(wrong, reason="GpuLost")
        assert self._why(_decided(asked, [released], [lost])) == ["GpuLost"]

    def test_a_report_about_an_earlier_node_of_the_name_says_nothing_about_its_boot(
        self, released: Node, pool: Pool, report: Report
    ) -> None:
        new = replace(released, verified_boot="", boot_id="b2")
        assert self._why(_decided(pool, [new], [replace(report, owner_uid="other")])) == []

    @pytest.mark.parametrize(
        ("facts", "forgets"),
        [
            ({}, True),
            ({"taint_keys": (TAINT,)}, True),
            ({"verified_layout": ""}, False),
            # Only away: it is the same when it is back.
            ({"ready": False}, False),
            # The record tells that somebody has changed the label.
            ({"labels": {"slicewright.io/pool": "halves", "nvidia.com/mig.config": "x"}}, False),
        ],
        ids=str,
    )
    def test_mismatching_layout_is_no_longer_recorded_as_verified(
        self, facts: dict[str, object], forgets: bool, released: Node, pool: Pool, wrong: Report
    ) -> None:
        labels = {**released.labels, "nvidia.com/mig.config": "halves-1234"}
        proven = replace(released, labels=labels, verified_layout="halves-1234")
        asked = replace(pool, mig_config="halves-1234")
        decision = _decided(asked, [replace(proven, **facts)], [wrong])  # type: ignore[arg-type]
        forgotten = [RecordBoot(node="n1", boot_id="b1", layout=None)] if forgets else []
        assert [a for a in decision.actions if isinstance(a, RecordBoot)] == forgotten
        assert bool(self._why(decision)) is ("taint_keys" not in facts)

    def test_a_proven_one_is_recorded_once(
        self, released: Node, pool: Pool, report: Report
    ) -> None:
        labels = {
            **released.labels,
            "nvidia.com/mig.config": "halves-1234",
            "nvidia.com/mig.config.state": "success",
        }
        proven = replace(released, labels=labels, verified_layout="halves-1234")
        for of, boot in (
            (proven, None),
            (
                replace(proven, verified_layout=""),
                RecordBoot(node="n1", boot_id="b1", layout="halves-1234"),
            ),
        ):
            decision = _decided(replace(pool, mig_config="halves-1234"), [of], [report])
            assert not [a for a in decision.actions if isinstance(a, RecordBoot)]
            (said,) = [a for a in decision.actions if isinstance(a, SetNodeCondition)]
            assert said.boot == boot

    @pytest.mark.parametrize(
        ("facts", "cleared"),
        [
            ({}, True),
            ({"reports_after": 0.0}, False),
            # Its change ends with the removal of the note.
            ({"change": "{}"}, False),
            # Written first, and without the node's version.
            ({"verified_boot": ""}, False),
            ({"condition": None}, False),
            ({"taint_keys": (TAINT,)}, False),
        ],
        ids=str,
    )
    def test_reports_of_every_time_count_again_when_a_node_is_verified(
        self,
        facts: dict[str, object],
        cleared: bool,
        released: Node,
        pool: Pool,
        report: Report,
    ) -> None:
        written = Condition(
            status="True",
            reason=report.reason,
            message=report.message,
            changed=NOW - 9,
            written=NOW - 9,
        )
        noted = replace(released, reports_after=report.time - 1, condition=written, version="7")
        decision = _decided(pool, [replace(noted, **facts)], [report])  # type: ignore[arg-type]
        found = [action for action in decision.actions if isinstance(action, ClearReportsAfter)]
        assert found == ([ClearReportsAfter(node="n1", version="7")] if cleared else [])

    def test_an_earlier_report_keeps_the_note(
        self, released: Node, pool: Pool, report: Report
    ) -> None:
        decision = _decided(pool, [replace(released, reports_after=report.time)], [report])
        assert not any(isinstance(action, ClearReportsAfter) for action in decision.actions)

    def test_a_held_one_is_not_held_twice(self, node: Node, pool: Pool, report: Report) -> None:
        assert self._why(_decided(pool, [replace(node, ready=False)], [report])) == []

    def test_all_nodes_are_held_before_anything_else_is_written(
        self, released: Node, pool: Pool, report: Report
    ) -> None:
        nodes = [replace(released, name=f"n{i}", boot_id="b2") for i in range(3)]
        actions = _decided(pool, nodes, [report]).actions
        assert [type(a) for a in actions[:4]] == [
            AddStartupTaint,
            AddStartupTaint,
            AddStartupTaint,
            SetNodeCondition,
        ]


class TestWarnings:
    def test_without_anything_to_wait_for_there_is_no_next_look(self, pool: Pool) -> None:
        assert _decided(replace(pool, fewest=0), []).look_again is None

    def test_a_pool_without_its_nodes_is_looked_at_again_when_that_has_lasted(
        self, pool: Pool
    ) -> None:
        assert _decided(pool, []).look_again == NOW + TOO_FEW_LIMIT_S

    def test_a_repeated_warning_is_due_after_half_an_hour(self, node: Node, pool: Pool) -> None:
        old = replace(node, created=NOW - 4000)
        (event,) = _events(_decided(pool, [old]))
        seen = {event.name: WarningEvent(name=event.name, last_seen=NOW - 1000)}
        quiet = _decided(pool, [old], warnings=seen)
        assert (_events(quiet), quiet.look_again) == ([], NOW + 800)
        due = _decided(pool, [old], warnings=seen, now=NOW + 800)
        assert (len(_events(due)), due.look_again) == (1, NOW + 2600)

    def test_its_name_is_the_pools_and_sixteen_digits_of_its_content(
        self, node: Node, pool: Pool, wrong: Report
    ) -> None:
        nodes, reports = _failing(node, wrong, ["n1", "n2"])
        events = _events(_decided(pool, nodes, reports))
        assert len({event.name for event in events}) == 2
        for event in events:
            assert re.fullmatch(r"halves\.[0-9a-f]{16}", event.name)

    def test_a_finding_is_damped_from_when_it_was_written(
        self, node: Node, pool: Pool, wrong: Report
    ) -> None:
        said = _said(node, "False", "WrongLayout", wrong.message, at=NOW - 4)
        assert _decided(pool, [said], [wrong]).look_again == NOW + 6


class TestPoolStatus:
    def test_nodes_are_handled_by_name(self, node: Node, pool: Pool) -> None:
        nodes = [replace(node, name=name) for name in ("n2", "n3", "n1")]
        actions = _decided(pool, nodes).actions
        assert [a.node for a in actions if isinstance(a, SetNodeCondition)] == ["n1", "n2", "n3"]

    def test_failing_nodes_come_first_then_those_past_their_grace_period_by_name(
        self, node: Node, pool: Pool, wrong: Report
    ) -> None:
        nodes, reports = _failing(node, wrong, ["z-wrong", "y-wrong"])
        settling = replace(wrong, reason="NotPartitioned", name="x", owner_uid="u-x")
        nodes += [
            replace(node, name="x", uid="u-x"),
            replace(node, name="a-new"),
            replace(node, name="b-silent", created=NOW - 4000),
        ]
        decision = _decided(pool, nodes, [*reports, settling])
        failing = _status(decision)["failingNodes"]
        assert isinstance(failing, list)
        assert [f["name"] for f in failing] == ["y-wrong", "z-wrong", "x", "b-silent", "a-new"]
        assert _status(decision)["nodes"] == {
            "total": 5,
            "verified": 0,
            "failing": 3,
            "unknown": 2,
            **QUIET,
        }
        assert _condition(decision, "Verified")[:2] == ("False", "NodesFailing")
        assert _condition(decision, "Degraded")[:2] == ("True", "NodesFailing")
        assert _condition(decision, "Progressing")[:2] == ("True", "NodesBeingSetUp")

    @pytest.mark.parametrize(
        ("names", "text"),
        [
            (["n1"], "1 of 1 node is not verified: n1 WrongLayout: m"),
            (["n1", "n2"], "2 of 2 nodes are not verified: n1 WrongLayout: m; n2 WrongLayout: m"),
            (
                ["n1", "n2", "n3"],
                "3 of 3 nodes are not verified: n1 WrongLayout: m; n2 WrongLayout: m; and 1 more",
            ),
        ],
    )
    def test_the_first_two_are_named(
        self, names: list[str], text: str, node: Node, pool: Pool, wrong: Report
    ) -> None:
        decision = _decided(pool, *_failing(node, replace(wrong, message="m"), names))
        assert _condition(decision, "Verified") == ("False", "NodesFailing", text)
        are = "1 node is" if len(names) == 1 else f"{len(names)} nodes are"
        examples = text.partition(": ")[2]
        assert _condition(decision, "Degraded")[2] == f"{are} not as wanted: {examples}"

    def test_nodes_without_a_report_are_not_verified(self, node: Node, pool: Pool) -> None:
        decision = _decided(pool, [node])
        assert _condition(decision, "Verified")[:2] == ("False", "NodesNotProven")
        assert _condition(decision, "Progressing")[2].startswith(
            "1 node is being set up: n1 NoReport"
        )

    def test_several_nodes_are_counted(self, node: Node, pool: Pool, report: Report) -> None:
        nodes = [replace(node, name=name) for name in ("n1", "n2")]
        reports = [replace(report, name=name) for name in ("n1", "n2")]
        assert _condition(_decided(pool, nodes, reports), "Verified") == (
            "True",
            "AllNodesProven",
            "2 nodes verified",
        )

    def test_a_transition_sets_the_time(self, node: Node, pool: Pool, report: Report) -> None:
        before = _status(_decided(pool, [node]))
        said = _said(node, "Unknown", "NoReport", "", at=NOW - 50)
        decision = _decided(
            replace(pool, status=before), [said], [replace(report, time=NOW + 7)], now=NOW + 7
        )
        (condition,) = [a for a in decision.actions if isinstance(a, SetNodeCondition)]
        assert (condition.status, condition.changed) == ("True", NOW + 7)
        conditions = _status(decision)["conditions"]
        assert isinstance(conditions, list)
        times = {c["type"]: c["lastTransitionTime"] for c in conditions}
        assert times == {
            "Verified": stamp(NOW + 7),
            "Progressing": stamp(NOW + 7),
            "Degraded": stamp(NOW),
            "Settled": stamp(NOW + 7),
            "Ready": stamp(NOW + 7),
            "Reconciling": stamp(NOW + 7),
            "Stalled": stamp(NOW),
        }


def _steps(decision: Decision) -> list[object]:
    """What is done to nodes, their conditions aside."""
    steps = (
        a.layout if isinstance(a, SetNodeCondition) else a  # one request writes both
        for a in decision.actions
    )
    return [
        a
        for a in steps
        if isinstance(
            a,
            AddStartupTaint
            | RemoveStartupTaint
            | SetMigConfig
            | CordonNode
            | ApplyLayout
            | EvictPod,
        )
    ]


def _on_nodes(decision: Decision) -> list[object]:
    return [a for a in decision.actions if hasattr(a, "node")]


class TestMigConfig:
    @pytest.fixture
    def pool(self, pool: Pool) -> Pool:
        return replace(pool, mig_config="halves-1234")

    def _labelled(self, node: Node, **labels: str) -> Node:
        return replace(
            node,
            labels={
                **node.labels,
                **{f"nvidia.com/{k.replace('_', '.')}": v for k, v in labels.items()},
            },
        )

    def test_a_new_node_gets_its_layout(self, node: Node, pool: Pool) -> None:
        assert to_inspect([pool], [node], NOW) == ("n1",)
        decision = _decided(pool, [node], gpu_pods={"n1": ()})
        assert _steps(decision) == [SetMigConfig(node="n1", version="100", value="halves-1234")]

    def test_its_condition_is_written_by_the_same_request(self, node: Node, pool: Pool) -> None:
        (one,) = _on_nodes(_decided(pool, [node], gpu_pods={"n1": ()}))
        assert isinstance(one, SetNodeCondition)
        assert (one.reason, one.layout and one.layout.value) == ("NoReport", "halves-1234")

    def test_layout_is_set_even_if_the_condition_is_current(self, node: Node, pool: Pool) -> None:
        (one,) = _on_nodes(_decided(pool, [node], gpu_pods={"n1": ()}))
        assert isinstance(one, SetNodeCondition)
        said = Condition(
            status=one.status, reason=one.reason, message=one.message, changed=NOW, written=NOW
        )
        again = _decided(pool, [replace(node, condition=said)], gpu_pods={"n1": ()})
        assert _on_nodes(again) == [one.layout]

    def test_an_operators_default_is_replaced(self, node: Node, pool: Pool) -> None:
        labelled = self._labelled(node, mig_config="all-disabled", mig_config_state="success")
        (step,) = _steps(_decided(pool, [labelled], gpu_pods={"n1": ()}))
        assert isinstance(step, SetMigConfig)

    @pytest.mark.parametrize("state", ["pending", "rebooting"])
    def test_never_while_mig_manager_works(self, state: str, node: Node, pool: Pool) -> None:
        labelled = self._labelled(node, mig_config="all-disabled", mig_config_state=state)
        assert to_inspect([pool], [labelled], NOW) == ()
        assert not _steps(_decided(pool, [labelled], gpu_pods={"n1": ()}))

    def test_never_the_same_value_again(self, node: Node, pool: Pool) -> None:
        labelled = self._labelled(node, mig_config="halves-1234", mig_config_state="failed")
        assert not _steps(_decided(pool, [labelled], gpu_pods={"n1": ()}))

    def test_never_while_the_gpu_pods_are_not_known(self, node: Node, pool: Pool) -> None:
        assert not _steps(_decided(pool, [node]))

    def test_never_under_running_pods(self, node: Node, pool: Pool, report: Report) -> None:
        labelled = self._labelled(node, mig_config="old-1", mig_config_state="success")
        decision = _decided(
            pool, [_cordoned(labelled, "halves-1234")], [report], gpu_pods={"n1": ("ai/llm-0",)}
        )
        assert not _steps(decision)
        failing = _status(decision)["failingNodes"]
        assert isinstance(failing, list)
        assert failing[0]["reason"] == "ChangeHeldByPods"
        assert "ai/llm-0" in failing[0]["message"]

    def test_a_node_in_service_is_cordoned_then_held_before_its_layout_changes(
        self, node: Node, pool: Pool, report: Report
    ) -> None:
        released = self._labelled(
            replace(node, taint_keys=("nvidia.com/gpu",), verified_boot="b1"),
            mig_config="old-1",
            mig_config_state="success",
        )
        assert to_inspect([pool], [released], NOW) == (), "no list of pods for a node in service"
        (first,) = _steps(_decided(pool, [released], [report]))
        assert isinstance(first, CordonNode)
        assert (first.node, first.version, first.change.cordoned) == ("n1", "100", True)
        cordoned = replace(released, unschedulable=True, change=first.change.dump(), version="101")
        assert to_inspect([pool], [cordoned], NOW) == ("n1",)
        (second,) = _steps(_decided(pool, [cordoned], [report], gpu_pods={"n1": ()}))
        assert second == AddStartupTaint(
            node="n1", version="101", has_taints=True, why="its layout changes"
        )
        held = replace(cordoned, taint_keys=("nvidia.com/gpu", TAINT), version="102")
        (third,) = _steps(_decided(pool, [held], [report], gpu_pods={"n1": ()}))
        assert isinstance(third, ApplyLayout)
        assert (third.version, third.change.target) == ("102", "halves-1234")
        assert third.change.phase == "Applying"

    def test_without_success_on_the_label_no_node_is_released(
        self, node: Node, pool: Pool, report: Report
    ) -> None:
        busy = self._labelled(node, mig_config="halves-1234")
        assert not [
            a for a in _decided(pool, [busy], [report]).actions if isinstance(a, RemoveStartupTaint)
        ]
        done = self._labelled(node, mig_config="halves-1234", mig_config_state="success")
        assert [
            a for a in _decided(pool, [done], [report]).actions if isinstance(a, RemoveStartupTaint)
        ]


class TestBackInServiceBeforeItsTurn:
    """A node that was not Ready for a while was held, and its turn in a rollout may not come for
    days: it goes back as it was verified, like the others that wait. The rollout is paused.
    """

    @pytest.fixture
    def held(self, node: Node) -> Node:
        """Verified with `old` in this boot."""
        labels = {
            **node.labels,
            "nvidia.com/mig.config": "old",
            "nvidia.com/mig.config.state": "success",
        }
        return replace(node, labels=labels, verified_boot="b1", verified_layout="old")

    @pytest.fixture
    def pool(self, pool: Pool) -> Pool:
        """Verified with `old` before."""
        proven = {
            "migConfig": "old",
            "layoutHash": hashlib.sha256(b"{}").hexdigest(),
            "desiredState": "{}",
        }
        return replace(
            pool, mig_config="new", suspended="paused", status={"provenLayouts": [proven]}
        )

    @staticmethod
    def _released(decision: Decision) -> list[RemoveStartupTaint]:
        return [a for a in decision.actions if isinstance(a, RemoveStartupTaint)]

    LIFTED = RemoveStartupTaint(node="n1", position=1, boot_id="b1", layout="old")

    def test_waiting_node_is_released_without_a_verification_of_the_old_layout(
        self, held: Node, pool: Pool, wrong: Report
    ) -> None:
        assert self._released(_decided(pool, [held], [wrong])) == [self.LIFTED]

    def test_a_match_of_the_agent_before_is_enough_where_the_pool_was_never_verified(
        self, held: Node, pool: Pool, report: Report
    ) -> None:
        before = replace(report, layout_hash="b" * 64)
        assert self._released(_decided(replace(pool, status={}), [held], [before])) == [self.LIFTED]

    def test_annotations_alone_overrule_no_mismatch_and_no_silence(
        self, held: Node, pool: Pool, wrong: Report
    ) -> None:
        """Whoever may change nodes can forge both annotations of a node that was never verified."""
        unproven = replace(pool, status={})
        assert self._released(_decided(unproven, [held], [wrong])) == []
        assert self._released(_decided(pool, [held])) == []
        for of_before in ({"owner_uid": "u0"}, {"boot_id": "b0"}):
            earlier = replace(wrong, **of_before)
            assert self._released(_decided(pool, [held], [earlier])) == []

    @pytest.mark.parametrize(
        "change",
        [
            {"ready": False},
            {"quarantine_at": 1},
            {"boot_id": "b2"},
            {"verified_boot": ""},
            {"verified_layout": ""},
            {"verified_layout": "third"},
        ],
        ids=str,
    )
    def test_waiting_node_is_released_only_in_its_verified_state(
        self, change: dict[str, object], held: Node, pool: Pool, wrong: Report
    ) -> None:
        one = replace(held, **change)  # type: ignore[arg-type]
        said = replace(wrong, boot_id=one.boot_id)
        # With a pod that uses GPUs also a node that was never verified waits for its turn.
        for pods in ((), ("ai/a",)):
            assert self._released(_decided(pool, [one], [said], gpu_pods={"n1": pods})) == []

    def test_node_without_a_layout_has_no_verified_layout(
        self, held: Node, pool: Pool, report: Report
    ) -> None:
        """Its label is empty, and so is what is recorded."""
        labels = {**held.labels, "nvidia.com/mig.config": ""}
        one = replace(held, labels=labels, verified_layout="")
        before = replace(report, layout_hash="b" * 64)
        assert self._released(_decided(pool, [one], [before])) == []

    @pytest.mark.parametrize(
        "labels",
        [
            {"nvidia.com/mig.config": "third"},
            {"nvidia.com/mig.config.state": "failed"},
            {"nvidia.com/mig.config.state": "pending"},
            {"nvidia.com/gpu.deploy.dcgm": "paused-for-mig-change"},
        ],
        ids=str,
    )
    def test_waiting_node_is_released_only_with_its_verified_labels(
        self, labels: dict[str, str], held: Node, pool: Pool, report: Report
    ) -> None:
        changed = replace(held, labels={**held.labels, **labels})
        before = replace(report, layout_hash="b" * 64)
        assert self._released(_decided(pool, [changed], [before])) == []

    def test_without_a_turn_to_wait_for_only_a_proof_releases_it(
        self, held: Node, pool: Pool, wrong: Report
    ) -> None:
        assert self._released(_decided(replace(pool, mig_config="old"), [held], [wrong])) == []

    def test_what_is_found_broken_is_not_released(
        self, held: Node, pool: Pool, wrong: Report
    ) -> None:
        lost = replace(wrong, reason="GpuLost")
        assert self._released(_decided(pool, [held], [lost])) == []

    def test_waiting_node_is_released_only_with_a_loaded_driver(
        self, held: Node, pool: Pool, wrong: Report
    ) -> None:
        """Its driver pod may have been replaced while the node was away."""
        asked = replace(pool, driver="595.1")
        loaded = replace(wrong, driver="580.2")
        assert self._released(_decided(asked, [held], [loaded])) == [self.LIFTED]
        assert self._released(_decided(asked, [held], [wrong])) == []
        assert self._released(_decided(asked, [held])) == []


class TestBackInServiceBeforeItsDriversTurn:
    """As above, of a node whose layout is right: its agent proves all but the driver."""

    @pytest.fixture
    def held(self, node: Node) -> Node:
        return replace(node, verified_boot="b1")

    @pytest.fixture
    def pool(self, pool: Pool) -> Pool:
        return replace(pool, driver="595.1", suspended="paused")

    @pytest.fixture
    def report(self, report: Report) -> Report:
        return replace(report, driver="580.2")

    @staticmethod
    def _released(decision: Decision) -> list[RemoveStartupTaint]:
        return [a for a in decision.actions if isinstance(a, RemoveStartupTaint)]

    def test_that_is_enough(self, held: Node, pool: Pool, report: Report) -> None:
        lifted = RemoveStartupTaint(node="n1", position=1, boot_id="b1", layout=None)
        assert self._released(_decided(pool, [held], [report])) == [lifted]

    @pytest.mark.parametrize(
        ("of", "said"),
        [
            ({"quarantine_at": 1}, {}),
            ({"verified_boot": "b0"}, {}),
            ({"verified_boot": ""}, {}),
            ({"ready": False}, {}),
            ({}, {"verdict": "Mismatch", "reason": "WrongLayout"}),
            ({}, {"time": NOW - 900}),
        ],
        ids=str,
    )
    def test_less_is_not(
        self,
        of: dict[str, object],
        said: dict[str, object],
        held: Node,
        pool: Pool,
        report: Report,
    ) -> None:
        one = replace(held, **of)  # type: ignore[arg-type]
        told = replace(report, **said)  # type: ignore[arg-type]
        assert self._released(_decided(pool, [one], [told])) == []


class TestWatchdog:
    """What it finds of a node becomes part of the decision."""

    @pytest.fixture
    def pool(self, pool: Pool) -> Pool:
        return replace(pool, mig_config="halves-1234")

    @pytest.fixture
    def failed(self, node: Node) -> Node:
        """Was in service; mig-manager has given up an hour ago."""
        labels = {
            **node.labels,
            "nvidia.com/mig.config": "halves-1234",
            "nvidia.com/mig.config.state": "failed",
        }
        once = replace(
            node,
            created=NOW - 7200,
            labels=labels,
            verified_boot="b1",
            verified_layout="halves-1234",
        )
        return _said(once, "False", "WrongLayout", "m", at=NOW - 3600)

    NOTE = Stuck(
        node_uid="u1",
        layout="halves-1234",
        trouble="MigManagerFailed",
        since=NOW - 600,
        next=NOW,
        tries=0,
    )

    @staticmethod
    def _heals(decision: Decision) -> list[RestartOperand]:
        return [a for a in decision.actions if isinstance(a, RestartOperand)]

    def test_a_node_that_is_stuck_is_noted_and_looked_at_when_something_is_to_be_tried(
        self, failed: Node, pool: Pool
    ) -> None:
        busy = replace(failed, labels={**failed.labels, "nvidia.com/mig.config.state": "pending"})
        decision = _decided(pool, [busy])
        (heal,) = self._heals(decision)
        assert heal.stuck is not None
        assert (heal.stuck.trouble, heal.stuck.next) == ("PartitioningStuck", NOW + 900)
        assert decision.look_again == NOW + 900

    def test_it_is_held_before_anything_is_tried(
        self, failed: Node, pool: Pool, wrong: Report
    ) -> None:
        """Its agent has not found it wrong, so that nothing else holds it."""
        open_to_pods = replace(failed, taint_keys=(), stuck=self.NOTE.dump())
        silent = replace(wrong, verdict="Unknown", reason="NodeUnreadable")
        decision = _decided(pool, [open_to_pods], [silent], gpu_pods={"n1": ()})
        assert [a.why for a in decision.actions if isinstance(a, AddStartupTaint)] == [
            "an operand is to be restarted"
        ]
        held = replace(open_to_pods, taint_keys=(TAINT,))
        assert self._heals(_decided(pool, [held], [silent], gpu_pods={"n1": ()}))

    def test_why_else_it_is_held_comes_first(self, failed: Node, pool: Pool, wrong: Report) -> None:
        open_to_pods = replace(failed, taint_keys=(), stuck=self.NOTE.dump())
        decision = _decided(pool, [open_to_pods], [wrong], gpu_pods={"n1": ()})
        assert [a.why for a in decision.actions if isinstance(a, AddStartupTaint)] == [
            "WrongLayout"
        ]

    def test_what_has_lasted_becomes_the_nodes_condition(self, failed: Node, pool: Pool) -> None:
        reboots = {**failed.labels, "nvidia.com/mig.config.state": "rebooting"}
        note = replace(self.NOTE, trouble="RebootStuck", since=NOW - 1200)
        decision = _decided(pool, [replace(failed, labels=reboots, stuck=note.dump())])
        (said,) = [a for a in decision.actions if isinstance(a, SetNodeCondition)]
        assert (said.status, said.reason) == ("False", "RebootStuck")

    def test_the_note_of_a_proven_node_is_removed(
        self, failed: Node, pool: Pool, report: Report
    ) -> None:
        labels = {**failed.labels, "nvidia.com/mig.config.state": "success"}
        healed = replace(failed, labels=labels, stuck=self.NOTE.dump())
        (heal,) = self._heals(_decided(pool, [healed], [report]))
        assert heal.stuck is None
        assert not self._heals(_decided(pool, [replace(healed, stuck="")], [report]))

    def test_a_node_that_waits_for_its_turn_is_watched_too(
        self, failed: Node, pool: Pool, report: Report
    ) -> None:
        later = replace(pool, mig_config="new", suspended="paused")
        ends = {"n1": "pod nvidia-dcgm-x: CrashLoopBackOff"}
        decision = decide([later], [failed], {"n1": report}, {}, {}, NOW, no_operands=ends)
        (heal,) = self._heals(decision)
        assert heal.stuck is not None
        assert heal.stuck.trouble == "OperandCrashLoop"


def test_a_node_whose_pods_are_leaving_is_looked_at_every_few_seconds(
    node: Node, pool: Pool, report: Report
) -> None:
    cordoned = _cordoned(replace(node, verified_boot="b1"), "new")
    decision = _decided(
        replace(pool, mig_config="new"), [cordoned], [report], gpu_pods={"n1": ("ai/a",)}
    )
    assert decision.look_again == NOW + DRAIN_POLL_S


def test_a_node_that_is_found_broken_in_this_pass_is_out_already(
    node: Node, pool: Pool, report: Report
) -> None:
    """Two wait for their turn, of which one may be out, and the first that is to prove the new
    layout has to be in service.
    """
    labels = {
        **node.labels,
        "nvidia.com/mig.config": "old",
        "nvidia.com/mig.config.state": "success",
    }
    served = replace(node, labels=labels, taint_keys=(), verified_boot="b1", verified_layout="old")
    nodes = [replace(served, name=name, uid=name) for name in ("n1", "n2")]
    old = [
        replace(report, name=name, owner_uid=name, verdict="Mismatch", reason="WrongLayout")
        for name in ("n1", "n2")
    ]
    lost = [old[0], replace(old[1], reason="GpuLost")]

    def begun(reports: Sequence[Report]) -> list[str]:
        decision = _decided(replace(pool, mig_config="new"), nodes, reports)
        return [a.node for a in decision.actions if isinstance(a, CordonNode)]

    assert begun(old) == ["n1"]
    assert "n1" not in begun(lost)


@pytest.mark.parametrize(
    ("config", "told", "wanted", "layout", "tells"),
    [
        ("old", "", "{}", "old", True),
        ("old", "{}", "", "old", True),
        ("old", "{}", "{}", "old", False),
        # It is told by the request that sets its label.
        ("new", "", "{}", "old", False),
        # Without mig-manager there is no label to have.
        (None, "", "{}", None, False),
    ],
)
def test_desired_state_is_set_once_on_a_node_that_has_its_layout(
    config: str | None,
    told: str,
    wanted: str,
    layout: str | None,
    tells: bool,
    node: Node,
    pool: Pool,
) -> None:
    labels = {**node.labels, **({"nvidia.com/mig.config": config} if config else {})}
    one = replace(node, labels=labels, desired_state_annotation=told)
    decision = _decided(replace(pool, mig_config=layout, desired_state_annotation=wanted), [one])
    said = [a for a in decision.actions if isinstance(a, SetDesiredState)]
    assert said == ([SetDesiredState(node="n1", desired_state_annotation=wanted)] if tells else [])


def test_only_where_the_policy_says_so_is_a_node_emptied_that_stays_wrong(
    node: Node, pool: Pool, wrong: Report
) -> None:
    lasting = _said(node, "False", "WrongLayout", wrong.message, at=NOW - 3600)
    for quarantine in (False, True):
        policy = RolloutPolicy(quarantine=quarantine)
        decision = _decided(replace(pool, policy=policy), [lasting], [wrong])
        emptied = [a.node for a in decision.actions if isinstance(a, QuarantineNode)]
        assert emptied == (["n1"] if quarantine else [])


def test_a_node_that_left_its_pool_in_a_change_goes_back_into_service_before_it_is_let_go(
    node: Node, pool: Pool
) -> None:
    """The others that leave are let go meanwhile."""
    joined = replace(node, labels={}, joined=Joined(pool="halves", labels={}))
    other = replace(joined, name="n2", uid="u2")
    actions = _decided(pool, [_cordoned(joined, "new"), other]).actions
    assert [(type(a), a.node) for a in actions if isinstance(a, FinishChange | ReleaseNode)] == [
        (FinishChange, "n1"),
        (ReleaseNode, "n2"),
    ]


def test_pods_without_gpus_hold_no_layout(node: Node, pool: Pool) -> None:
    asked = replace(pool, mig_config="halves-1234")
    agent = NodePod(namespace="slicewright", name="node-agent", uid="u", gpus=False)
    decision = decide([asked], [node], {}, {"n1": (agent,)}, {}, NOW)
    (step,) = _steps(decision)
    assert isinstance(step, SetMigConfig)
