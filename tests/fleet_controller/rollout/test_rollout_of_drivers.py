"""One decision about a rollout of a driver: who begins, who waits, and who stands in the way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slicewright.apis.names import STARTUP_TAINT_KEY as TAINT
from slicewright.fleet_controller.objects.assessment import Assessment
from slicewright.fleet_controller.objects.condition import Condition
from slicewright.fleet_controller.objects.known_layouts import KnownLayout
from slicewright.fleet_controller.objects.layout_change import Phase
from slicewright.fleet_controller.objects.node import Node
from slicewright.fleet_controller.objects.node_pods import NodePod
from slicewright.fleet_controller.rollout.change_actions import CordonNode
from slicewright.fleet_controller.rollout.progress import progress_text
from slicewright.fleet_controller.rollout.rollout import Rollout, decide_rollout, needs_pods
from tests.fleet_controller.rollout.test_driver_steps import OLD_POD
from tests.fleet_controller.rollout.test_driver_upgrade import NEW, OLD
from tests.fleet_controller.rollout.test_rollout_decision import NOW, begun, node, pool

POOL = replace(pool(config="old"), driver=NEW)


def found(driver: str, *, reason: str = "R", status: Any = "Unknown") -> Assessment:
    return Assessment(status=status, reason=reason, message="m", driver=driver)


def decided(
    *members: tuple[Node, Assessment],
    pods: dict[str, tuple[NodePod, ...]] | None = None,
    **wants: Any,
) -> Rollout:
    return decide_rollout(replace(POOL, **wants), members, pods or {}, {}, NOW)


def silent() -> Node:
    said = Condition(
        status="Unknown", reason="DriverNotLoaded", message="m", changed=NOW, written=NOW
    )
    return node("a", condition=said)


def test_a_node_with_another_driver_waits_and_begins_with_the_one_that_is_wanted() -> None:
    rollout = decided((node("a"), found(OLD)), (node("b"), found(OLD)))
    assert (rollout.changing, rollout.waiting) == (("a",), ("b",))
    (begins,) = rollout.turns["a"].actions
    assert isinstance(begins, CordonNode)
    assert (begins.change.target, begins.change.driver) == ("old", NEW)
    assert rollout.turns["a"].hold is False
    assert rollout.turns["b"].hold is False


def test_without_a_layout_or_a_driver_to_change_to_there_is_none_in_the_note() -> None:
    without_mig = decided((node("a"), found(OLD)), mig_config=None)
    (begins,) = without_mig.turns["a"].actions
    assert isinstance(begins, CordonNode)
    assert begins.change.target == ""
    without_driver = decided((node("a"), found("")), mig_config="new", driver=None)
    (begins,) = without_driver.turns["a"].actions
    assert isinstance(begins, CordonNode)
    assert begins.change.driver == ""


def test_a_driver_that_is_silent_changes_where_its_pod_brings_another_one() -> None:
    nobody = found("", reason="DriverNotLoaded")
    assert begun(decided((silent(), nobody), pods={"a": (OLD_POD,)})) == ["a"]
    assert begun(decided((silent(), nobody), pods={"a": ()})) == []


def test_a_node_with_the_old_driver_waits_in_service_and_takes_no_place() -> None:
    members = [(node(name), found(OLD)) for name in "abc"]
    assert decided(*members).stopped == ""
    # One that has the new driver, and is not verified, does.
    broken = (node("d"), found(NEW, status="False"))
    rollout = decided(*members, broken)
    assert (rollout.stopped, rollout.blocking) == ("full", ("d",))


@pytest.mark.parametrize(
    ("phase", "needed"),
    [
        ("Draining", True),
        ("Upgrading", True),
        ("Applying", True),
        ("Failed", True),
        ("Paused", False),
    ],
)
def test_pods_are_needed_at_every_step_but_where_nothing_is_done(
    phase: Phase, needed: bool
) -> None:
    assert needs_pods(node("a", phase=phase), POOL) is needed


def test_pods_are_needed_of_a_node_that_has_just_joined_and_of_a_silent_driver() -> None:
    fresh = {"verified": False, "taint_keys": (TAINT,)}
    assert needs_pods(node("a", **fresh), pool())
    assert not needs_pods(node("a", config="new", **fresh), pool())
    assert not needs_pods(node("a"), pool())
    assert needs_pods(silent(), POOL)
    assert not needs_pods(node("a"), POOL)


def test_progress_names_the_change_that_is_undone() -> None:
    declared = KnownLayout(mig_config="newer", layout_hash="h", desired="")
    undone = replace(pool(), declared=declared)
    assert progress_text(Rollout(wanted_layout="new"), undone, 2) == (
        "0 of 2 nodes have layout new, to which the change to newer is undone"
    )
    same = replace(declared, mig_config="new")
    for not_undone in (replace(undone, declared=same), replace(undone, declared=None)):
        assert progress_text(Rollout(), not_undone, 1) == "0 of 1 node has layout new"
