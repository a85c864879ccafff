"""Single steps of the change of one node's driver: what is done and said, and when it is next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from slicewright.apis.names import STARTUP_TAINT_KEY as TAINT
from slicewright.fleet_controller.objects.assessment import Assessment
from slicewright.fleet_controller.objects.layout_change import UNDER_WAY, Change, Phase, change_of
from slicewright.fleet_controller.objects.node import Node
from slicewright.fleet_controller.objects.node_pods import NodePod
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.fleet_controller.rollout.change_actions import (
    EvictPod,
    FinishChange,
    NoteChange,
    UpgradeDriver,
)
from slicewright.fleet_controller.rollout.drain import Refusal
from slicewright.fleet_controller.rollout.node_change import advance, start_change
from slicewright.fleet_controller.rollout.turn import DRAIN_POLL_S, Observation, Turn
from slicewright.fleet_controller.rollout.upgrading import NOT_UPGRADED, UPGRADE_LIMIT_S
from tests.fleet_controller.rollout.test_driver_upgrade import NEW, OLD
from tests.fleet_controller.rollout.test_node_change import NOW, node, pool

POOL = replace(pool(), driver=NEW)
WITHOUT_MIG = replace(pool(config=None), driver=NEW)
HELD = node("new", taint_keys=(TAINT,))
LOADED = Assessment(
    status="Unknown", reason="NotPartitioned", message="m", driver=NEW, reported=NOW - 5
)
SILENT = replace(LOADED, reason="DriverNotLoaded", message="no driver", driver="")
MATCH = replace(LOADED, status="True", reason="PartitionsMatch")
OLD_POD = NodePod(
    namespace="gpu-operator",
    name="driver-old",
    uid="u-old",
    gpus=False,
    daemon_set=True,
    driver=f"{OLD}-ubuntu22.04",
    next_driver=f"{NEW}-ubuntu22.04",
    owner="nvidia-driver-daemonset",
    created=NOW - 900,
)
NEW_POD = replace(
    OLD_POD, name="driver-new", uid="u-new", driver=f"{NEW}-ubuntu22.04", created=NOW - 30
)
JOB = NodePod(namespace="ai", name="job", uid="u-job", gpus=True)
MIG_MANAGER = NodePod(
    namespace="gpu-operator",
    name="mig",
    uid="u-mig",
    gpus=False,
    daemon_set=True,
    app="nvidia-mig-manager",
    created=NOW - 900,
)
LIMIT = NOW - 60 + UPGRADE_LIMIT_S
SOON = (LIMIT, NOW + DRAIN_POLL_S)


def change(phase: Phase = "Upgrading", **facts: Any) -> Change:
    made = Change(
        node_uid="n",
        target="new",
        driver=NEW,
        phase=phase,
        since=NOW - 60,
        started=NOW - 90,
        cordoned=True,
    )
    return replace(made, **facts)


def step(
    at: Change,
    base: Assessment,
    *pods: NodePod,
    of: Node = HELD,
    wants: Pool = POOL,
    unknown_pods: bool = False,
    refusals: Mapping[str, Refusal] | None = None,
) -> Turn:
    return advance(
        Observation(
            node=of,
            pool=wants,
            change=at,
            base=base,
            pods=None if unknown_pods else pods,
            refusals=refusals or {},
            now=NOW,
        )
    )


def note(at: Change) -> tuple[NoteChange, ...]:
    return (NoteChange(node="n", version="7", change=at),)


def evict(pod: NodePod) -> EvictPod:
    return EvictPod(node="n", namespace=pod.namespace, pod=pod.name, uid=pod.uid)


def said(turn: Turn) -> tuple[str, str, str]:
    assert turn.assessment is not None
    return turn.assessment.status, turn.assessment.reason, turn.assessment.message


def upgrading(message: str) -> tuple[str, str, str]:
    return "Unknown", "DriverUpgrade", f"the driver changes to {NEW}: {message}"


def test_a_change_of_the_layout_alone_names_no_driver() -> None:
    assert start_change(HELD, "new", NOW).change.driver == ""


@pytest.mark.parametrize("driver_pod", [None, "", "u"])
def test_written_driver_annotation_is_read_back(driver_pod: str | None) -> None:
    at = change(driver_pod=driver_pod)
    assert change_of(node(change=at.dump())) == at
    without = replace(at, driver="", driver_pod=None)
    assert change_of(node(change=without.dump())) == without
    assert "driver" not in without.dump()
    assert ('"driverPod":' in at.dump()) == (driver_pod is not None)
    assert f'"driver":"{NEW}"' in at.dump()


def test_change_cannot_be_aborted_after_the_driver_or_layout_may_be_lost() -> None:
    assert {"Upgrading", "Applying"} == UNDER_WAY


class TestTheDriverPod:
    def test_driver_pod_is_evicted_once_its_daemon_set_has_the_new_driver(self) -> None:
        turn = step(change(), replace(LOADED, driver=OLD), OLD_POD)
        assert turn.actions == (evict(OLD_POD),)
        assert said(turn) == upgrading("pod gpu-operator/driver-old is evicted")
        assert turn.deadlines == SOON

    @pytest.mark.parametrize(
        ("next_driver", "known"),
        [(f"{OLD}-ubuntu22.04", f"{OLD}-ubuntu22.04"), ("", "an unknown image")],
    )
    def test_until_then_it_is_left(self, next_driver: str, known: str) -> None:
        turn = step(change(), SILENT, replace(OLD_POD, next_driver=next_driver))
        assert turn.actions == ()
        waits_for = "the DaemonSet nvidia-driver-daemonset of the GPU operator still has"
        assert said(turn) == upgrading(f"{waits_for} {known}")

    def test_driver_pod_that_is_being_deleted_is_not_evicted_again(self) -> None:
        turn = step(change(), SILENT, replace(OLD_POD, leaving=True))
        assert turn.actions == ()
        assert said(turn) == upgrading("pod gpu-operator/driver-old ends")
        assert turn.deadlines == SOON

    @pytest.mark.parametrize(("retry_s", "asked"), [(-1, True), (0, True), (1, False)])
    def test_refused_driver_pod_is_evicted_again_at_its_time(
        self, retry_s: float, asked: bool
    ) -> None:
        refused = {OLD_POD.uid: Refusal(why="its budget", retry_at=NOW + retry_s)}
        turn = step(change(), SILENT, OLD_POD, refusals=refused)
        assert turn.actions == ((evict(OLD_POD),) if asked else ())
        path = "gpu-operator/driver-old"
        assert said(turn) == upgrading(f"pod {path} may not be evicted: its budget")

    def test_when_it_is_gone_the_next_one_is_waited_for(self) -> None:
        turn = step(change(), SILENT)
        assert turn == Turn(assessment=turn.assessment, deadlines=(LIMIT,))
        assert said(turn) == upgrading("the driver pod loads it; DriverNotLoaded: no driver")

    @pytest.mark.parametrize("facts", [{"ready": False}, {"state": "pending"}])
    def test_driver_pod_is_not_evicted_while_the_node_is_busy_or_away(
        self, facts: dict[str, Any]
    ) -> None:
        of = node("new", taint_keys=(TAINT,), **facts)
        for pod, base in ((OLD_POD, SILENT), (NEW_POD, LOADED)):
            turn = step(change(), base, pod, of=of)
            assert turn == Turn(assessment=turn.assessment, deadlines=SOON)
            assert said(turn)[1] == "DriverUpgrade"

    def test_nothing_is_done_while_the_pods_are_not_known(self) -> None:
        for base in (SILENT, LOADED):
            for at in (change(), change(driver_pod="")):
                turn = step(at, base, unknown_pods=True)
                assert turn == Turn(assessment=turn.assessment, deadlines=SOON)
                assert said(turn)[1] == "DriverUpgrade"

    @pytest.mark.parametrize(
        ("of", "pods"),
        [
            (replace(HELD, unschedulable=False), (OLD_POD,)),
            (HELD, (OLD_POD, JOB)),
            (replace(HELD, unschedulable=False), (OLD_POD, JOB)),
        ],
    )
    def test_a_node_to_which_pods_have_come_is_drained_again(
        self, of: Node, pods: tuple[NodePod, ...]
    ) -> None:
        turn = step(change(), SILENT, *pods, of=of)
        assert turn.actions == note(change("Draining", since=NOW))
        assert said(turn)[1] == "DriverUpgrade"

    def test_a_node_without_the_startup_taint_gets_it_first(self) -> None:
        turn = step(change(), SILENT, OLD_POD, of=node("new"))
        assert turn == Turn(hold=True, assessment=turn.assessment, deadlines=SOON)
        assert said(turn)[1] == "DriverUpgrade"


class TestTheNewDriver:
    def test_layout_is_next_once_the_driver_is_loaded(self) -> None:
        turn = step(change(), LOADED, NEW_POD)
        assert turn.actions == note(change("Applying", since=NOW))
        assert said(turn) == ("Unknown", "InChange", f"driver {NEW} is loaded")
        turn = step(change(), LOADED, NEW_POD, of=node("old", taint_keys=(TAINT,)))
        assert turn.actions == note(change("Draining", since=NOW))

    def test_a_mig_manager_of_before_is_restarted(self) -> None:
        turn = step(change(), LOADED, NEW_POD, MIG_MANAGER)
        assert turn.actions == (evict(MIG_MANAGER),)
        assert said(turn)[1] == "DriverUpgrade"
        at = change(target="")
        turn = step(at, LOADED, NEW_POD, MIG_MANAGER, wants=WITHOUT_MIG)
        assert turn.actions == note(replace(at, phase="Applying", since=NOW))

    def test_without_it_the_change_has_failed_at_the_limit(self) -> None:
        assert UPGRADE_LIMIT_S == 30 * 60
        base = replace(SILENT, message="x" * 500)
        late = change(since=NOW - UPGRADE_LIMIT_S)
        (action,) = step(late, base).actions
        assert isinstance(action, NoteChange)
        failed = action.change
        assert (failed.phase, failed.reason) == ("Failed", NOT_UPGRADED)
        what = f"the driver pod loads it; DriverNotLoaded: {'x' * 500}"[:400]
        assert failed.message.startswith(
            f"driver {NEW} is not loaded after 30 minutes: {what}. The node stays cordoned."
        )
        assert step(late, base).assessment == base
        assert step(replace(late, since=late.since + 1), base).actions == ()


class TestAnotherWish:
    """Of a node whose driver may have been taken away, so that its last report proves nothing."""

    @pytest.mark.parametrize("phase", ["Upgrading", "Failed"])
    @pytest.mark.parametrize("base", [MATCH, SILENT])
    def test_retargeted_upgrade_ignores_earlier_reports(
        self, phase: Phase, base: Assessment
    ) -> None:
        at = change(phase, driver=OLD, reason=NOT_UPGRADED if phase == "Failed" else "")
        turn = step(at, base)
        again = change(driver_pod="", since=NOW)
        expected = UpgradeDriver(node="n", version="7", change=again, reports_after=base.reported)
        assert turn.actions == (expected,)
        assert turn.assessment is not None
        assert (turn.assessment.status, turn.assessment.planned) == ("Unknown", True)
        if base is MATCH:
            message = f"driver {NEW} was reported before its pod was to be replaced"
            assert said(turn) == ("Unknown", "DriverUpgrade", message)
            assert turn.assessment.settles

    def test_without_a_driver_to_wait_for_no_pod_is(self) -> None:
        (action,) = step(change(), SILENT, wants=pool()).actions
        assert isinstance(action, UpgradeDriver)
        assert (action.change.driver, action.change.driver_pod) == ("", None)

    def test_the_pod_that_brings_it_is_noted_and_reports_of_before_do_not_count(self) -> None:
        turn = step(change(driver_pod=""), MATCH, NEW_POD)
        noted = change(driver_pod=NEW_POD.uid)
        expected = UpgradeDriver(node="n", version="7", change=noted, reports_after=MATCH.reported)
        assert turn.actions == (expected,)
        assert said(turn) == upgrading("pod gpu-operator/driver-new brings it")

    def test_driver_counts_as_loaded_only_while_its_pod_exists(self) -> None:
        at = change(driver_pod=NEW_POD.uid)
        assert step(at, MATCH, NEW_POD).actions == note(replace(at, phase="Applying", since=NOW))
        assert step(at, MATCH).actions == ()
        assert step(at, MATCH, replace(NEW_POD, leaving=True)).actions == ()

    def test_one_that_came_late_after_a_failure_ends_the_change(self) -> None:
        done = FinishChange(node="n", version="7", uncordon=True, verified_at=NOW)
        for driver_pod in (None, "", NEW_POD.uid):
            at = change("Failed", reason=NOT_UPGRADED, driver_pod=driver_pod)
            assert step(at, MATCH, NEW_POD).actions == (done,)


class TestAborted:
    ABORTED = replace(POOL, suspended="aborted")

    def goes_back(self, at: Change, base: Assessment, of: Node = HELD, **wants: Any) -> bool:
        turn = step(at, base, of=of, wants=replace(self.ABORTED, **wants))
        return any(isinstance(action, FinishChange) for action in turn.actions)

    def test_a_node_goes_back_with_its_old_driver_unless_that_may_be_gone(self) -> None:
        has_old = replace(LOADED, driver=OLD)
        assert self.goes_back(change("Draining"), has_old)
        assert not self.goes_back(change(), has_old)
        assert not self.goes_back(change(), has_old, of=node("old", taint_keys=(TAINT,)))
        failed = change("Failed", reason=NOT_UPGRADED)
        assert not self.goes_back(failed, SILENT)
        assert self.goes_back(failed, has_old)

    def test_before_that_an_unknown_driver_keeps_nobody(self) -> None:
        assert self.goes_back(change("Draining"), SILENT)

    def test_driver_pod_need_not_be_known_if_the_pool_wants_no_driver(self) -> None:
        at = change("Failed", driver="", reason="ChangeFailed")
        of = node("old", taint_keys=(TAINT,))
        assert self.goes_back(at, SILENT, of=of, driver=None)


class TestFailed:
    def test_a_driver_that_was_not_loaded_is_not_tried_again_by_itself(self) -> None:
        at = change("Failed", reason=NOT_UPGRADED, message="why")
        for of in (HELD, node("old", taint_keys=(TAINT,))):
            turn = step(at, SILENT, OLD_POD, of=of)
            assert turn.actions == ()
            assert said(turn) == ("False", NOT_UPGRADED, "why")

    def test_layout_still_changes_if_the_driver_came_late(self) -> None:
        at = change("Failed", reason=NOT_UPGRADED, message="why")
        turn = step(at, LOADED, NEW_POD, of=node("old", taint_keys=(TAINT,)))
        assert turn.actions == note(change("Draining", since=NOW))

    def test_another_failure_goes_on_where_the_driver_is_lacking(self) -> None:
        at = change("Failed", reason="ChangeFailed", message="why")
        turn = step(at, SILENT, OLD_POD)
        assert turn.actions == note(change("Draining", since=NOW))


def test_a_node_whose_driver_has_changed_while_its_layout_was_applied_is_drained_again() -> None:
    turn = step(change("Applying"), replace(LOADED, driver=OLD), OLD_POD)
    assert turn.actions == note(change("Draining", since=NOW))


def test_a_drained_node_is_upgraded_and_its_reports_so_far_are_about_the_old_driver() -> None:
    base = replace(LOADED, driver=OLD)
    turn = step(change("Draining"), base, OLD_POD)
    expected = change(since=NOW)
    action = UpgradeDriver(node="n", version="7", change=expected, reports_after=base.reported)
    assert turn.actions == (action,)
    assert said(turn)[1] == "InChange"
