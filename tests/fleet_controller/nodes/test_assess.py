from __future__ import annotations

from dataclasses import replace

import pytest

from slicewright.apis.names import BUSY_STATES
from slicewright.apis.reasons.agent import REASONS
from slicewright.fleet_controller.nodes.assess import CLOCKS_APART_S, REPORT_AGE_LIMIT_S, assess
from slicewright.fleet_controller.objects.node import Node
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.fleet_controller.objects.report import Report
from slicewright.fleet_controller.rollout.node_change import assess_waiting


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


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, "ComputeNotProven"),
        ({"verified_boot": "b1"}, "ComputeNotProven"),
        # In service, with pods that a proof would disturb.
        ({"taint_keys": (), "verified_boot": "b1"}, "PartitionsMatch"),
        # In service before it came into the pool.
        ({"taint_keys": (), "verified_boot": ""}, "PartitionsMatch"),
        # It is about to be held.
        ({"taint_keys": (), "verified_boot": "b0"}, "ComputeNotProven"),
    ],
)
def test_a_node_that_waits_for_its_pods_needs_a_proof_if_the_pool_wants_one(
    change: dict[str, object], reason: str, node: Node, pool: Pool, report: Report, now: float
) -> None:
    pool = replace(pool, computes=True)
    node = replace(node, **change)  # type: ignore[arg-type]
    assessed = assess(node, pool, report, now)
    assert (assessed.reason, assessed.settles) == (reason, reason != "PartitionsMatch")
    assert assess(node, pool, replace(report, computed=True), now).status == "True"
    assert assess(node, replace(pool, computes=False), report, now).status == "True"


def test_a_match_of_a_node_that_is_not_ready_is_not_known(
    node: Node, pool: Pool, report: Report, now: float
) -> None:
    assessed = assess(replace(node, ready=False), pool, report, now)
    assert (assessed.status, assessed.reason, assessed.settles) == ("Unknown", "NodeNotReady", True)
    assert assessed.expires == report.time + REPORT_AGE_LIMIT_S


def test_agents_finding_is_shown_even_if_the_node_is_not_ready(
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
        (-60.0, "True", "PartitionsMatch"),
        (-61.0, "Unknown", "ReportTimeImplausible"),
        (-600.0, "Unknown", "ReportTimeImplausible"),
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
def test_labels_must_agree_if_mig_manager_partitions_the_node(
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
            "the report is about an earlier node with the same name",
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
            "log of the node-agent pod on the node, and whether the node's clock is right",
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


def test_a_report_of_a_dead_agent_counts_for_a_minute_longer_at_the_most(
    node: Node, pool: Pool, report: Report, now: float
) -> None:
    """Its clock may have been ahead, and so its report is in the future for a while."""
    ahead = replace(report, time=now + CLOCKS_APART_S)
    assert assess(node, pool, ahead, now).status == "True"
    assert assess(node, pool, ahead, now + CLOCKS_APART_S + REPORT_AGE_LIMIT_S).status == "Unknown"
    assert assess(node, pool, replace(ahead, time=ahead.time + 1), now).status == "Unknown"


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


def test_when_the_layout_was_last_matched_is_known_also_where_the_labels_disagree(
    node: Node, pool: Pool, report: Report, now: float
) -> None:
    other = replace(node, labels={**OPERATOR_LABELS, "nvidia.com/mig.config": "thirds-1"})
    for of in (node, replace(node, labels=OPERATOR_LABELS), other, replace(node, ready=False)):
        for wants in (pool, replace(pool, mig_config="halves-1234")):
            assert assess(of, wants, report, now).matched == report.time


@pytest.mark.parametrize(
    "change", [{"verdict": "Mismatch"}, {"verdict": "Unknown"}, {"boot_id": "b0"}], ids=str
)
def test_what_was_not_found_to_match_was_never_matched(
    change: dict[str, str], node: Node, pool: Pool, report: Report, now: float
) -> None:
    assert assess(node, pool, replace(report, **change), now).matched == 0.0  # type: ignore[arg-type]


@pytest.mark.parametrize(("age", "counts"), [(-1.0, False), (0.0, False), (1.0, True)])
def test_only_a_report_after_the_layout_was_set_is_about_it(
    age: float, counts: bool, node: Node, pool: Pool, report: Report, now: float
) -> None:
    """age: of the report, since the layout was set."""
    assessed = assess(replace(node, reports_after=report.time - age), pool, report, now)
    assert (assessed.reason == "PartitionsMatch") is counts
    if not counts:
        assert (assessed.status, assessed.reason) == ("Unknown", "ReportFromEarlierLayout")
        assert assessed.message == "the report was made before the node's layout was last set"
        assert assessed.settles
        assert assessed.expires is None


def test_a_report_without_a_time_is_too_old_where_no_layout_was_set(
    node: Node, pool: Pool, report: Report, now: float
) -> None:
    assert assess(node, pool, replace(report, time=0.0), now).reason == "ReportTooOld"


@pytest.mark.parametrize(
    "change",
    [
        {"owner_uid": "u0"},
        {"layout_hash": "b" * 64},
        {"boot_id": "b0"},
        {"time": 1_800_001_000.0},
        {"verdict": "Fine"},
    ],
    ids=str,
)
def test_why_an_agent_is_away_is_no_matter_where_its_report_is_not_old(
    change: dict[str, object], node: Node, pool: Pool, report: Report, now: float
) -> None:
    """The report itself says more."""
    said = replace(report, **change)  # type: ignore[arg-type]
    assert assess(node, pool, said, now, no_agent="pod x: Pending") == assess(node, pool, said, now)


class TestDriver:
    """Of a pool that wants a certain driver; the agent has found another one."""

    @pytest.fixture
    def pool(self, pool: Pool) -> Pool:
        return replace(pool, driver="595.1")

    @pytest.fixture
    def report(self, report: Report) -> Report:
        return replace(report, driver="580.2")

    def test_a_match_with_the_driver_that_is_wanted_is_true(
        self, node: Node, pool: Pool, report: Report, now: float
    ) -> None:
        assessed = assess(node, pool, replace(report, driver="595.1"), now)
        assert (assessed.status, assessed.reason) == ("True", "PartitionsMatch")
        assert (assessed.driver, assessed.reported) == ("595.1", report.time)

    @pytest.mark.parametrize(("found", "named"), [("580.2", "580.2"), ("", "of unknown version")])
    def test_a_match_with_another_one_waits_for_its_upgrade(
        self, found: str, named: str, node: Node, pool: Pool, report: Report, now: float
    ) -> None:
        assessed = assess(node, pool, replace(report, driver=found), now)
        assert (assessed.status, assessed.reason) == ("Unknown", "DriverNotUpgraded")
        assert assessed.message == f"driver {named} is loaded, the pool wants 595.1"
        assert assessed.settles, "its turn comes"
        assert not assessed.mismatch, "its layout is right"
        assert (assessed.expires, assessed.matched) == (report.time + 900, report.time)
        assert (assessed.driver, assessed.reported) == (found, report.time)

    @pytest.mark.parametrize(
        "change",
        [{"verdict": "Mismatch"}, {"layout_hash": "b" * 64}, {"verdict": "Fine"}, {"time": 1.0}],
        ids=str,
    )
    def test_it_is_known_whatever_else_the_report_says(
        self, change: dict[str, object], node: Node, pool: Pool, report: Report, now: float
    ) -> None:
        """A rollout of drivers has to know the one of a node with an earlier layout, too."""
        said = replace(report, **change)  # type: ignore[arg-type]
        assessed = assess(node, pool, said, now)
        assert (assessed.driver, assessed.reported) == ("580.2", said.time)

    @pytest.mark.parametrize(
        ("boot_id", "age", "known"),
        [
            ("b1", 1.0, True),
            ("b1", 0.0, False),
            ("b1", -1.0, False),
            ("b0", 1.0, False),
            ("b0", -1.0, False),
        ],
    )
    def test_only_the_one_of_this_boot_and_of_the_last_driver_pod_counts(
        self,
        boot_id: str,
        age: float,
        known: bool,
        node: Node,
        pool: Pool,
        report: Report,
        now: float,
    ) -> None:
        """age: of the report, since the driver pod was replaced."""
        of = replace(node, reports_after=report.time - age)
        assessed = assess(of, pool, replace(report, boot_id=boot_id), now)
        assert assessed.driver == ("580.2" if known else "")
        assert assessed.reported == report.time, "that it reported is known all the same"

    def test_nothing_is_known_from_the_report_of_an_earlier_node_or_without_one(
        self, node: Node, pool: Pool, report: Report, now: float
    ) -> None:
        for said in (None, replace(report, owner_uid="u0")):
            assessed = assess(node, pool, said, now)
            assert (assessed.driver, assessed.reported) == ("", 0.0)

    def test_a_pool_without_a_driver_asks_for_none(
        self, node: Node, pool: Pool, report: Report, now: float
    ) -> None:
        assessed = assess(node, replace(pool, driver=None), report, now)
        assert (assessed.status, assessed.driver, assessed.reported) == ("True", "", 0.0)


class TestBeforeItsTurn:
    """What is said of a node that waits for its turn in a rollout of layout and driver: only what
    the layout or driver that it still has does not explain.
    """

    EXPLAINED = frozenset(
        {
            # Its agent waits as well, or compares with the new layout already:
            "LayoutChangePending",
            # partitions of another shape, some, none, or MIG still on where it goes off;
            "WrongLayout",
            "LayoutIncomplete",
            "NotPartitioned",
            "UnwantedMig",
            # a MIG mode that waits for a reset of the GPUs;
            "MigModePending",
            # and what kubelet and labels say of those partitions.
            "ResourcesNotAdvertised",
            "WrongResources",
            "UnexpectedResources",
            "ResourcesWithheld",
            "WrongLabels",
        }
    )

    @pytest.fixture
    def pool(self, pool: Pool) -> Pool:
        return replace(pool, mig_config="halves-1234", driver="595.1")

    @pytest.fixture
    def node(self, node: Node) -> Node:
        """In order, with the earlier layout."""
        labels = {**OPERATOR_LABELS, "nvidia.com/mig.config": "thirds-1"}
        return replace(node, labels=labels, verified_layout="thirds-1")

    @pytest.mark.parametrize("reason", sorted(REASONS))
    def test_agents_reasons_are_explained(
        self, reason: str, node: Node, pool: Pool, report: Report, now: float
    ) -> None:
        base = assess(node, pool, replace(report, verdict="Mismatch", reason=reason), now)
        said = assess_waiting(node, pool, base)
        assert said.reason == ("WaitsForItsTurn" if reason in self.EXPLAINED else reason)
        assert said.mismatch is not said.planned, "a planned change is no defect"

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            ({"layout_hash": "b" * 64}, "ReportOfAnotherLayout"),
            ({"time": 1_799_999_990.0}, "ReportFromEarlierLayout"),
            ({}, "MigConfigNotSet"),
        ],
    )
    def test_so_is_a_report_about_an_earlier_layout(
        self,
        change: dict[str, object],
        reason: str,
        node: Node,
        pool: Pool,
        report: Report,
        now: float,
    ) -> None:
        of = replace(node, reports_after=1_799_999_990.0)
        base = assess(of, pool, replace(report, **change), now)  # type: ignore[arg-type]
        assert base.reason == reason
        assert assess_waiting(of, pool, base).reason == "WaitsForItsTurn"

    def test_so_is_an_earlier_driver(
        self, node: Node, pool: Pool, report: Report, now: float
    ) -> None:
        of = replace(node, labels=OPERATOR_LABELS, verified_layout="halves-1234")
        base = assess(of, pool, report, now)
        assert base.reason == "DriverNotUpgraded"
        assert assess_waiting(of, pool, base).reason == "WaitsForItsTurn"

    @pytest.mark.parametrize(
        ("change", "labels", "reason"),
        [
            ({"owner_uid": "u0"}, {}, "ReportOfAnotherNode"),
            ({"boot_id": "b0"}, {}, "ReportFromEarlierBoot"),
            ({"time": 1_800_001_000.0}, {}, "ReportTimeImplausible"),
            ({"time": 1_799_999_000.0}, {}, "ReportTooOld"),
            ({"verdict": "Fine"}, {}, "ReportUnreadable"),
            ({}, {"nvidia.com/mig.config.state": "failed"}, "MigManagerFailed"),
            ({}, {"nvidia.com/mig.config.state": "pending"}, "MigManagerBusy"),
            ({}, {"nvidia.com/gpu.deploy.dcgm": "paused-for-mig-change"}, "OperandsPaused"),
        ],
    )
    def test_problems_unrelated_to_the_layout_come_first(
        self,
        change: dict[str, object],
        labels: dict[str, str],
        reason: str,
        node: Node,
        pool: Pool,
        report: Report,
        now: float,
    ) -> None:
        of = replace(node, labels={**OPERATOR_LABELS, **labels})
        base = assess(of, pool, replace(report, **change), now)  # type: ignore[arg-type]
        assert base.reason == reason
        assert assess_waiting(of, pool, base) == base
