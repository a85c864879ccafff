from __future__ import annotations

from dataclasses import replace

import pytest

from fleet_controller.judge import AGENT_SETTLING, REPORT_AGE_LIMIT_S, judge
from fleet_controller.state import Node, Pool, Report
from node_agent.verdict.reasons import REASONS


def test_a_fresh_match_of_this_node_and_layout_is_true(
    node: Node, pool: Pool, report: Report, now: float
) -> None:
    judged = judge(node, pool, report, now)
    assert (judged.status, judged.reason, judged.message) == (
        "True",
        "PartitionsMatch",
        report.message,
    )
    assert judged.expires == report.time + REPORT_AGE_LIMIT_S


def test_without_a_report_nothing_is_known(node: Node, pool: Pool, now: float) -> None:
    assert (judge(node, pool, None, now).status, judge(node, pool, None, now).reason) == (
        "Unknown",
        "NoReport",
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"owner_uid": "u0"}, "ReportOfAnotherNode"),
        ({"owner_uid": ""}, "ReportOfAnotherNode"),
        ({"pool": "thirds"}, "ReportOfAnotherLayout"),
        ({"layout_hash": "b" * 64}, "ReportOfAnotherLayout"),
        ({"layout_hash": ""}, "ReportOfAnotherLayout"),
        ({"boot_id": "b0"}, "ReportFromEarlierBoot"),
        ({"verdict": "Fine"}, "ReportUnreadable"),
    ],
)
@pytest.mark.parametrize("verdict", ["Match", "Mismatch"])
def test_a_report_about_something_else_says_nothing(
    change: dict[str, str],
    reason: str,
    verdict: str,
    node: Node,
    pool: Pool,
    report: Report,
    now: float,
) -> None:
    judged = judge(node, pool, replace(report, **{"verdict": verdict, **change}), now)  # type: ignore[arg-type]
    assert (judged.status, judged.reason) == ("Unknown", reason)


@pytest.mark.parametrize(
    ("age", "status", "reason"),
    [
        (0.0, "True", "PartitionsMatch"),
        (899.0, "True", "PartitionsMatch"),
        (900.0, "Unknown", "ReportTooOld"),
        (1e6, "Unknown", "ReportTooOld"),
        (-600.0, "True", "PartitionsMatch"),
        (-901.0, "Unknown", "ReportTimeImplausible"),
    ],
)
def test_a_report_ages(
    age: float, status: str, reason: str, node: Node, pool: Pool, report: Report, now: float
) -> None:
    judged = judge(node, pool, replace(report, time=now - age), now)
    assert (judged.status, judged.reason) == (status, reason)


def test_the_words_about_an_old_report_stay_the_same(
    node: Node, pool: Pool, report: Report, now: float
) -> None:
    """An age in them would be a write per pass."""
    assert (
        judge(node, pool, report, now + 2000).message
        == judge(node, pool, report, now + 3000).message
    )


@pytest.mark.parametrize(("verdict", "status"), [("Mismatch", "False"), ("Unknown", "Unknown")])
def test_the_agents_words_are_passed_on(
    verdict: str, status: str, node: Node, pool: Pool, report: Report, now: float
) -> None:
    words = "GPU 3 wanted 3g.40gb x2, found 1g.10gb x7: because; do."
    judged = judge(
        node, pool, replace(report, verdict=verdict, reason="WrongLayout", message=words), now
    )
    assert (judged.status, judged.reason, judged.message) == (status, "WrongLayout", words)


def test_settling_reasons_are_the_agents() -> None:
    assert {code for code, reason in REASONS.items() if reason.settles} == AGENT_SETTLING


OPERATOR_LABELS = {
    "slicewright.io/pool": "halves",
    "nvidia.com/mig.config": "halves-1234",
    "nvidia.com/mig.config.state": "success",
    "nvidia.com/gpu.deploy.device-plugin": "true",
}


@pytest.mark.parametrize(
    ("labels", "status", "reason"),
    [
        ({}, "True", "PartitionsMatch"),
        ({"nvidia.com/mig.config": "all-disabled"}, "Unknown", "MigConfigNotSet"),
        ({"nvidia.com/mig.config": None}, "Unknown", "MigConfigNotSet"),
        ({"nvidia.com/mig.config.state": "pending"}, "Unknown", "MigManagerBusy"),
        ({"nvidia.com/mig.config.state": "rebooting"}, "Unknown", "MigManagerBusy"),
        ({"nvidia.com/mig.config.state": None}, "Unknown", "MigManagerBusy"),
        ({"nvidia.com/mig.config.state": "failed"}, "False", "MigManagerFailed"),
        (
            {"nvidia.com/gpu.deploy.device-plugin": "paused-for-mig-change"},
            "Unknown",
            "OperandsPaused",
        ),
        ({"nvidia.com/gpu.deploy.dcgm": "false"}, "True", "PartitionsMatch"),
    ],
)
def test_where_mig_manager_partitions_the_labels_must_agree(
    labels: dict[str, str | None],
    status: str,
    reason: str,
    node: Node,
    pool: Pool,
    report: Report,
    now: float,
) -> None:
    merged = {
        key: value for key, value in {**OPERATOR_LABELS, **labels}.items() if value is not None
    }
    judged = judge(
        replace(node, labels=merged), replace(pool, mig_config="halves-1234"), report, now
    )
    assert (judged.status, judged.reason) == (status, reason)


def test_labels_are_no_excuse_for_a_wrong_layout(
    node: Node, pool: Pool, report: Report, now: float
) -> None:
    """`success` on the label, something else on the silicon: mig-manager's false success."""
    wrong = replace(report, verdict="Mismatch", reason="WrongLayout", message="GPU 3 …")
    judged = judge(
        replace(node, labels=OPERATOR_LABELS), replace(pool, mig_config="halves-1234"), wrong, now
    )
    assert (judged.status, judged.reason, judged.settles) == ("False", "WrongLayout", False)


@pytest.mark.parametrize("state", ["pending", "rebooting", None])
def test_while_mig_manager_works_a_wrong_layout_may_pass(
    state: str | None, node: Node, pool: Pool, report: Report, now: float
) -> None:
    labels = {
        k: v
        for k, v in {**OPERATOR_LABELS, "nvidia.com/mig.config.state": state}.items()
        if v is not None
    }
    wrong = replace(report, verdict="Mismatch", reason="WrongLayout", message="GPU 3 …")
    judged = judge(
        replace(node, labels=labels), replace(pool, mig_config="halves-1234"), wrong, now
    )
    assert (judged.status, judged.settles) == ("False", True)


def test_pods_that_hold_up_a_change_are_named(
    node: Node, pool: Pool, report: Report, now: float
) -> None:
    other = replace(pool, mig_config="thirds-5678")
    judged = judge(
        replace(node, labels=OPERATOR_LABELS),
        other,
        report,
        now,
        holders=("ai/a", "ai/b", "ai/c", "ai/d", "ai/e"),
    )
    assert (judged.status, judged.reason) == ("False", "ChangeHeldByPods")
    assert "from halves-1234 to thirds-5678" in judged.message
    assert judged.message.endswith("now there are ai/a, ai/b, ai/c and 2 more")


def test_nobody_is_held_up_where_nothing_changes(
    node: Node, pool: Pool, report: Report, now: float
) -> None:
    same = replace(pool, mig_config="halves-1234")
    assert (
        judge(replace(node, labels=OPERATOR_LABELS), same, report, now, holders=("ai/a",)).status
        == "True"
    )
