from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from fleet_controller.api import STARTUP_TAINT_KEY as TAINT
from fleet_controller.decide import (
    DAMPING_S,
    GRACE_S,
    REPEAT_WARNING_S,
    Decision,
    EmitEvent,
    HoldNode,
    LiftTaint,
    RetractEvent,
    SetMigConfig,
    SetNodeCondition,
    SetPoolStatus,
    decide,
    to_inspect,
)
from fleet_controller.state import Condition, Node, Pool, Report, Warned, stamp

NOW = 1_800_000_000.0


def _decided(
    pool: Pool,
    nodes: Sequence[Node],
    reports: Sequence[Report] = (),
    *,
    holders: Mapping[str, tuple[str, ...]] | None = None,
    warned: Mapping[str, Warned] | None = None,
    now: float = NOW,
) -> Decision:
    return decide([pool], nodes, {r.name: r for r in reports}, holders or {}, warned or {}, now)


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
    message = "GPU 3 wanted 3g.40gb x2, found 1g.10gb x7: somebody; do something."
    return replace(report, verdict="Mismatch", reason="WrongLayout", message=message)


def test_a_proven_node_is_released_after_its_condition_is_written(
    node: Node, pool: Pool, report: Report
) -> None:
    actions = _decided(pool, [node], [report]).actions
    assert [type(a) for a in actions] == [SetNodeCondition, LiftTaint, SetPoolStatus]
    assert actions[0] == SetNodeCondition(
        node="n1",
        status="True",
        reason="PartitionsMatch",
        message=report.message,
        changed=NOW,
        now=NOW,
    )
    assert actions[1] == LiftTaint(node="n1", position=1)


def test_the_pool_is_verified_when_all_its_nodes_are(
    node: Node, pool: Pool, report: Report
) -> None:
    decision = _decided(pool, [node], [report])
    assert _condition(decision, "Verified") == (
        "True",
        "AllNodesProven",
        "1 node proven on its own silicon",
    )
    assert _condition(decision, "Progressing")[:2] == ("False", "Settled")
    assert _condition(decision, "Degraded")[:2] == ("False", "AsWanted")
    status = _status(decision)
    assert status["nodes"] == {"total": 1, "verified": 1, "failing": 0, "unknown": 0}
    assert status["observedGeneration"] == 3
    assert all(c["observedGeneration"] == 3 for c in status["conditions"])  # type: ignore[attr-defined]


def test_one_unproven_node_keeps_the_pool_back(node: Node, pool: Pool, report: Report) -> None:
    decision = _decided(pool, [node, replace(node, name="n2", uid="u2")], [report])
    assert _condition(decision, "Verified")[0] == "False"
    assert _status(decision)["nodes"] == {"total": 2, "verified": 1, "failing": 0, "unknown": 1}


def test_too_few_nodes_are_not_verified(node: Node, pool: Pool, report: Report) -> None:
    decision = _decided(replace(pool, fewest=2), [node], [report])
    assert _condition(decision, "Verified") == (
        "False",
        "TooFewNodes",
        "1 of at least 2 nodes there",
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


def test_a_wrong_layout_is_called_out_once_it_has_stood_for_ten_seconds(
    node: Node, pool: Pool, wrong: Report
) -> None:
    first = _decided(pool, [node], [wrong])
    assert not [a for a in first.actions if isinstance(a, EmitEvent | LiftTaint)]
    assert first.look_again == NOW + DAMPING_S
    told = _said(node, "False", "WrongLayout", wrong.message, at=NOW)
    assert not [
        a
        for a in _decided(pool, [told], [wrong], now=NOW + 9.9).actions
        if isinstance(a, EmitEvent)
    ]
    later = _decided(pool, [told], [wrong], now=NOW + DAMPING_S)
    (event,) = [a for a in later.actions if isinstance(a, EmitEvent)]
    assert event.message == f"node n1: {wrong.message}"
    assert (event.pool, event.pool_uid) == ("halves", "pool-uid")
    assert _status(later)["failingNodes"] == [
        {"name": "n1", "reason": "WrongLayout", "message": wrong.message}
    ]


def test_a_finding_that_changes_is_damped_anew(node: Node, pool: Pool, wrong: Report) -> None:
    told = _said(node, "False", "WrongLayout", "something else", at=NOW - 100)
    assert not [a for a in _decided(pool, [told], [wrong]).actions if isinstance(a, EmitEvent)]


def test_a_warning_is_not_repeated_but_after_half_an_hour(
    node: Node, pool: Pool, wrong: Report
) -> None:
    told = _said(node, "False", "WrongLayout", wrong.message, at=NOW - 60)
    (event,) = [a for a in _decided(pool, [told], [wrong]).actions if isinstance(a, EmitEvent)]
    warned = {event.name: Warned(name=event.name, written=NOW)}
    quiet = _decided(pool, [told], [wrong], warned=warned, now=NOW + 60)
    assert not [a for a in quiet.actions if isinstance(a, EmitEvent | RetractEvent)]
    fresh = replace(wrong, time=NOW + REPEAT_WARNING_S)
    again = _decided(pool, [told], [fresh], warned=warned, now=NOW + REPEAT_WARNING_S)
    assert [a.name for a in again.actions if isinstance(a, EmitEvent)] == [event.name]


def test_a_warning_that_is_not_true_any_more_is_taken_back(
    node: Node, pool: Pool, report: Report
) -> None:
    """`pulumi up` shows old warnings too; a repaired node must not be accused."""
    decision = _decided(
        pool, [node], [report], warned={"halves.1": Warned(name="halves.1", written=NOW)}
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
    assert _status(decision)["nodes"] == {"total": 30, "verified": 0, "failing": 30, "unknown": 0}


def test_the_time_of_a_transition_is_kept(node: Node, pool: Pool, wrong: Report) -> None:
    told = _said(node, "False", "NotPartitioned", "before", at=NOW - 50)
    (action,) = [
        a for a in _decided(pool, [told], [wrong]).actions if isinstance(a, SetNodeCondition)
    ]
    assert (action.changed, action.now) == (NOW - 50, NOW)
    first = _status(_decided(pool, [node], [wrong]))
    second = _status(
        _decided(replace(pool, status=first, generation=4), [node], [wrong], now=NOW + 5)
    )
    assert second["conditions"][0]["lastTransitionTime"] == stamp(NOW)  # type: ignore[index]


def test_nothing_is_written_when_nothing_changed(node: Node, pool: Pool, report: Report) -> None:
    proven = _said(
        replace(node, taint_keys=("nvidia.com/gpu",)),
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


def test_a_leaving_node_counts_no_more(node: Node, pool: Pool, report: Report) -> None:
    decision = _decided(pool, [node, replace(node, name="n2", uid="u2", leaving=True)], [report])
    assert _status(decision)["nodes"] == {"total": 1, "verified": 1, "failing": 0, "unknown": 0}


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
        assert to_inspect([pool], [node]) == ("n1",)
        decision = _decided(pool, [node], holders={"n1": ()})
        assert [a for a in decision.actions if isinstance(a, SetMigConfig)] == [
            SetMigConfig(node="n1", version="100", value="halves-1234")
        ]

    def test_an_operators_default_is_replaced(self, node: Node, pool: Pool) -> None:
        labelled = self._labelled(node, mig_config="all-disabled", mig_config_state="success")
        assert [
            a
            for a in _decided(pool, [labelled], holders={"n1": ()}).actions
            if isinstance(a, SetMigConfig)
        ]

    @pytest.mark.parametrize("state", ["pending", "rebooting"])
    def test_never_while_mig_manager_works(self, state: str, node: Node, pool: Pool) -> None:
        labelled = self._labelled(node, mig_config="all-disabled", mig_config_state=state)
        assert to_inspect([pool], [labelled]) == ()
        assert not [
            a
            for a in _decided(pool, [labelled], holders={"n1": ()}).actions
            if isinstance(a, SetMigConfig)
        ]

    def test_never_the_same_value_again(self, node: Node, pool: Pool) -> None:
        labelled = self._labelled(node, mig_config="halves-1234", mig_config_state="failed")
        assert not [
            a
            for a in _decided(pool, [labelled], holders={"n1": ()}).actions
            if isinstance(a, SetMigConfig | HoldNode)
        ]

    def test_never_where_nobody_knows_who_uses_the_gpus(self, node: Node, pool: Pool) -> None:
        assert not [
            a for a in _decided(pool, [node]).actions if isinstance(a, SetMigConfig | HoldNode)
        ]

    def test_never_under_running_pods(self, node: Node, pool: Pool, report: Report) -> None:
        labelled = self._labelled(node, mig_config="old-1", mig_config_state="success")
        decision = _decided(pool, [labelled], [report], holders={"n1": ("ai/llm-0",)})
        assert not [
            a for a in decision.actions if isinstance(a, SetMigConfig | HoldNode | LiftTaint)
        ]
        failing = _status(decision)["failingNodes"]
        assert isinstance(failing, list)
        assert failing[0]["reason"] == "ChangeHeldByPods"
        assert "ai/llm-0" in failing[0]["message"]

    def test_a_released_node_is_held_before_its_layout_changes(
        self, node: Node, pool: Pool, report: Report
    ) -> None:
        released = self._labelled(
            replace(node, taint_keys=("nvidia.com/gpu",)),
            mig_config="old-1",
            mig_config_state="success",
        )
        decision = _decided(pool, [released], [report], holders={"n1": ()})
        assert [a for a in decision.actions if isinstance(a, SetMigConfig | HoldNode)] == [
            HoldNode(node="n1", version="100", has_taints=True)
        ]
        held = replace(released, taint_keys=("nvidia.com/gpu", TAINT), version="101")
        assert [
            a
            for a in _decided(pool, [held], [report], holders={"n1": ()}).actions
            if isinstance(a, SetMigConfig)
        ]

    def test_without_success_on_the_label_no_node_is_released(
        self, node: Node, pool: Pool, report: Report
    ) -> None:
        busy = self._labelled(node, mig_config="halves-1234")
        assert not [a for a in _decided(pool, [busy], [report]).actions if isinstance(a, LiftTaint)]
        done = self._labelled(node, mig_config="halves-1234", mig_config_state="success")
        assert [a for a in _decided(pool, [done], [report]).actions if isinstance(a, LiftTaint)]
