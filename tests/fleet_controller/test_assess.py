from __future__ import annotations

from dataclasses import replace

import pytest

from fleet_controller.assess import AGENT_SETTLING, BUSY_STATES, REPORT_AGE_LIMIT_S, assess
from fleet_controller.state import Node, Pool, Report
from node_agent.verdict.reasons import REASONS


def test_a_fresh_match_of_this_node_and_layout_is_true(
    node: Node, pool: Pool, report: Report, now: float
) -> None:
    assessed = assess(node, pool, report, now)
    assert (assessed.status, assessed.reason, assessed.message) == (
        "True",
        "PartitionsMatch",
        report.message,
    )
    assert assessed.expires == report.time + REPORT_AGE_LIMIT_S


def test_a_match_of_a_node_that_is_not_ready_is_not_known(
    node: Node, pool: Pool, report: Report, now: float
) -> None:
    assessed = assess(replace(node, ready=False), pool, report, now)
    assert (assessed.status, assessed.reason, assessed.settles) == ("Unknown", "NodeNotReady", True)
    assert assessed.expires == report.time + REPORT_AGE_LIMIT_S


def test_what_the_agent_finds_is_said_also_of_a_node_that_is_not_ready(
    node: Node, pool: Pool, report: Report, now: float
) -> None:
    wrong = replace(report, verdict="Mismatch", reason="WrongLayout")
    assert assess(replace(node, ready=False), pool, wrong, now).reason == "WrongLayout"


@pytest.mark.parametrize(
    ("change", "mismatch"),
    [
        ({"verdict": "Mismatch"}, True),
        ({"verdict": "Unknown"}, False),
        ({"verdict": "Match"}, False),
        ({"verdict": "Mismatch", "boot_id": "b0"}, False),
        ({"verdict": "Mismatch", "layout_hash": "b" * 64}, False),
        ({"verdict": "Mismatch", "time": 0.0}, False),
    ],
)
def test_only_the_agents_own_finding_of_now_is_a_mismatch(
    change: dict[str, str], mismatch: bool, node: Node, pool: Pool, report: Report, now: float
) -> None:
    assert assess(node, pool, replace(report, **change), now).mismatch is mismatch  # type: ignore[arg-type]


def test_without_a_report_nothing_is_known(node: Node, pool: Pool, now: float) -> None:
    assert (assess(node, pool, None, now).status, assess(node, pool, None, now).reason) == (
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
    assessed = assess(node, pool, replace(report, **{"verdict": verdict, **change}), now)  # type: ignore[arg-type]
    assert (assessed.status, assessed.reason) == ("Unknown", reason)


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
    assessed = assess(node, pool, replace(report, time=now - age), now)
    assert (assessed.status, assessed.reason) == (status, reason)


def test_the_message_about_an_old_report_does_not_change(
    node: Node, pool: Pool, report: Report, now: float
) -> None:
    """With an age in it, every pass would write the node."""
    assert (
        assess(node, pool, report, now + 2000).message
        == assess(node, pool, report, now + 3000).message
    )


@pytest.mark.parametrize(("verdict", "status"), [("Mismatch", "False"), ("Unknown", "Unknown")])
def test_the_agents_message_is_passed_on(
    verdict: str, status: str, node: Node, pool: Pool, report: Report, now: float
) -> None:
    words = "GPU 3 wanted 3g.40gb x2, found 1g.10gb x7: because; do."
    assessed = assess(
        node, pool, replace(report, verdict=verdict, reason="WrongLayout", message=words), now
    )
    assert (assessed.status, assessed.reason, assessed.message) == (status, "WrongLayout", words)


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
    assessed = assess(
        replace(node, labels=merged), replace(pool, mig_config="halves-1234"), report, now
    )
    assert (assessed.status, assessed.reason) == (status, reason)


def test_success_on_the_label_does_not_hide_a_wrong_layout(
    node: Node, pool: Pool, report: Report, now: float
) -> None:
    """mig-manager may report success although the partitions are others."""
    wrong = replace(report, verdict="Mismatch", reason="WrongLayout", message="GPU 3 …")
    assessed = assess(
        replace(node, labels=OPERATOR_LABELS), replace(pool, mig_config="halves-1234"), wrong, now
    )
    assert (assessed.status, assessed.reason, assessed.settles) == ("False", "WrongLayout", False)


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
    assessed = assess(
        replace(node, labels=labels), replace(pool, mig_config="halves-1234"), wrong, now
    )
    assert (assessed.status, assessed.settles) == ("False", True)


def test_a_report_is_too_old_after_a_quarter_of_an_hour() -> None:
    assert REPORT_AGE_LIMIT_S == 900.0
    assert BUSY_STATES == ("pending", "rebooting")


@pytest.mark.parametrize(
    ("change", "settles", "message"),
    [
        (
            {"owner_uid": "u0"},
            True,
            "the report is of an earlier node of the same name",
        ),
        (
            {"layout_hash": "0123456789abcdef"},
            True,
            "the agent checked layout 01234567 of pool halves, the pool wants aaaaaaaa; the "
            "node-agent pod on the node has not been replaced yet",
        ),
        (
            {"layout_hash": "", "pool": ""},
            True,
            "the agent checked layout none of pool none, the pool wants aaaaaaaa; the node-agent "
            "pod on the node has not been replaced yet",
        ),
        (
            {"boot_id": "b0"},
            True,
            "the node has booted since the report; MIG partitions do not survive a reboot",
        ),
        (
            {"time": 1_800_001_000.0},
            False,
            "the report's time is 2027-01-15T08:16:40Z, in the future; set the node's clock",
        ),
        (
            {"time": 1_799_999_000.0},
            False,
            "the agent last reported at 2027-01-15T07:43:20Z, more than 15 minutes ago; see the "
            "log of the node-agent pod on the node",
        ),
        ({"verdict": "Fine"}, False, "unknown verdict 'Fine' in the report"),
    ],
)
def test_an_invalid_report_says_why_and_whether_that_may_pass(
    change: dict[str, object],
    settles: bool,
    message: str,
    node: Node,
    pool: Pool,
    report: Report,
    now: float,
) -> None:
    assessed = assess(node, pool, replace(report, **change), now)  # type: ignore[arg-type]
    assert (assessed.status, assessed.settles, assessed.message) == ("Unknown", settles, message)
    assert assessed.expires is None


def test_a_missing_report_may_still_come(node: Node, pool: Pool, now: float) -> None:
    assessed = assess(node, pool, None, now)
    assert assessed.settles
    assert "has not reported" in assessed.message


def test_a_report_may_be_as_far_in_the_future_as_it_may_be_old(
    node: Node, pool: Pool, report: Report, now: float
) -> None:
    assert assess(node, pool, replace(report, time=now + 900), now).status == "True"


@pytest.mark.parametrize(
    ("verdict", "reason", "expected", "settles"),
    [
        ("Match", "", "PartitionsMatch", False),
        ("Match", "AsWanted", "AsWanted", False),
        ("Mismatch", "", "NoReason", False),
        ("Mismatch", "WrongLayout", "WrongLayout", False),
        ("Mismatch", "NotPartitioned", "NotPartitioned", True),
        ("Unknown", "DriverNotLoaded", "DriverNotLoaded", True),
    ],
)
def test_the_agents_reason_is_passed_on(
    verdict: str,
    reason: str,
    expected: str,
    settles: bool,
    node: Node,
    pool: Pool,
    report: Report,
    now: float,
) -> None:
    assessed = assess(node, pool, replace(report, verdict=verdict, reason=reason), now)
    assert (assessed.reason, assessed.settles) == (expected, settles)
    assert assessed.expires == report.time + 900


@pytest.mark.parametrize(
    ("labels", "settles", "message"),
    [
        (
            {"nvidia.com/mig.config": "thirds-1"},
            True,
            "nvidia.com/mig.config is thirds-1, the pool wants halves-1234",
        ),
        (
            {"nvidia.com/mig.config": None},
            True,
            "nvidia.com/mig.config is not set, the pool wants halves-1234",
        ),
        (
            {"nvidia.com/mig.config.state": "failed"},
            False,
            "the partitions match, but nvidia.com/mig.config.state is failed; delete the "
            "mig-manager pod on the node to make it try again",
        ),
        (
            {"nvidia.com/mig.config.state": "pending"},
            True,
            "nvidia.com/mig.config.state is pending",
        ),
        ({"nvidia.com/mig.config.state": None}, True, "nvidia.com/mig.config.state is absent"),
        (
            {"nvidia.com/gpu.deploy.device-plugin": "paused-for-mig-change"},
            True,
            "mig-manager has paused device-plugin; if this lasts, delete the mig-manager pod on "
            "the node",
        ),
    ],
)
def test_labels_that_disagree_say_why_and_whether_that_may_pass(
    labels: dict[str, str | None],
    settles: bool,
    message: str,
    node: Node,
    pool: Pool,
    report: Report,
    now: float,
) -> None:
    merged = {k: v for k, v in {**OPERATOR_LABELS, **labels}.items() if v is not None}
    assessed = assess(
        replace(node, labels=merged), replace(pool, mig_config="halves-1234"), report, now
    )
    assert (assessed.settles, assessed.message) == (settles, message)
    assert assessed.expires == report.time + 900


@pytest.mark.parametrize(
    ("wanted", "labels", "settles"),
    [
        (None, {}, False),
        ("halves-1234", {}, False),
        ("thirds-1", {}, True),
        ("thirds-1", {"nvidia.com/mig.config.state": "failed"}, True),
        ("halves-1234", {"nvidia.com/mig.config.state": "failed"}, False),
        ("halves-1234", {"nvidia.com/mig.config.state": "pending"}, True),
        ("halves-1234", {"nvidia.com/gpu.deploy.dcgm": "paused-for-mig-change"}, True),
        (
            "halves-1234",
            {
                "nvidia.com/mig.config.state": "failed",
                "nvidia.com/gpu.deploy.dcgm": "paused-for-mig-change",
            },
            False,
        ),
    ],
)
def test_a_wrong_layout_may_pass_only_while_mig_manager_has_work_to_do(
    wanted: str | None,
    labels: dict[str, str],
    settles: bool,
    node: Node,
    pool: Pool,
    report: Report,
    now: float,
) -> None:
    assessed = assess(
        replace(node, labels={**OPERATOR_LABELS, **labels}),
        replace(pool, mig_config=wanted),
        replace(report, verdict="Mismatch", reason="WrongLayout"),
        now,
    )
    assert (assessed.status, assessed.settles) == ("False", settles)
