"""What a pool wants of a node, and how that is said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slicewright.fleet_controller.objects.assessment import Assessment
from slicewright.fleet_controller.objects.condition import Condition
from slicewright.fleet_controller.objects.node_pods import NodePod
from slicewright.fleet_controller.rollout.pool_target import (
    brings,
    changes,
    describe_target,
    has_layout,
    has_until_its_turn,
    is_version,
    lacks_driver,
    may_lack_driver,
    older_than_driver,
    outdated,
)
from tests.fleet_controller.rollout.test_driver_upgrade import NEW, OLD
from tests.fleet_controller.rollout.test_node_change import NOW, node, pool

LAYOUT = pool()
DRIVER = replace(pool(config=None), driver=NEW)
BOTH = replace(pool(), driver=NEW)
BARE = replace(node(), labels={})


def found(driver: str = "", reason: str = "PartitionsMatch") -> Assessment:
    return Assessment(status="Unknown", reason=reason, message="m", driver=driver)


def pod(driver: str = "", **facts: object) -> NodePod:
    tag = f"{driver}-ubuntu22.04" if driver else ""
    made = NodePod(
        namespace="gpu-operator", name="d", uid="d", gpus=False, daemon_set=True, driver=tag
    )
    return replace(made, **facts)  # type: ignore[arg-type]


def test_a_pool_without_layouts_has_nothing_to_ask_of_a_label() -> None:
    assert has_layout(BARE, DRIVER)
    assert has_layout(node("any"), DRIVER)
    assert has_layout(node("new"), LAYOUT)
    assert not has_layout(node("old"), LAYOUT)


@pytest.mark.parametrize("reason", ["DriverNotLoaded", "DriverLibraryMissing"])
def test_a_silent_driver_is_the_pods_fault_only_where_that_brings_another_one(reason: str) -> None:
    silent = found(reason=reason)
    assert lacks_driver(BOTH, silent, (pod(OLD),))
    assert not lacks_driver(BOTH, silent, (pod(NEW),))
    assert not lacks_driver(BOTH, silent, None)
    assert not lacks_driver(LAYOUT, silent, (pod(OLD),))
    assert not lacks_driver(BOTH, found(reason="NoReport"), (pod(OLD),))


def test_a_driver_that_is_found_is_compared_whatever_the_pods_are() -> None:
    assert lacks_driver(BOTH, found(OLD), None)
    assert not lacks_driver(BOTH, found(NEW), (pod(OLD),))


def test_pods_are_inspected_only_if_the_driver_was_silent() -> None:
    def said(reason: str) -> Condition:
        return Condition(status="Unknown", reason=reason, message="m", changed=NOW, written=NOW)

    silent = node(condition=said("DriverNotLoaded"))
    assert may_lack_driver(silent, BOTH)
    assert not may_lack_driver(silent, LAYOUT)
    assert not may_lack_driver(node(condition=said("WrongLayout")), BOTH)
    assert not may_lack_driver(node(), BOTH)


def test_an_image_has_a_driver_with_or_without_the_nodes_system_after_it() -> None:
    assert is_version(NEW, NEW)
    assert is_version(f"{NEW}-ubuntu22.04", NEW)
    assert not is_version(f"{NEW}1", NEW)


def test_only_a_driver_pod_of_another_version_is_outdated() -> None:
    old, new, other = pod(OLD), pod(NEW), pod()
    assert outdated(NEW, (old, new, other)) == [old]


def test_the_pod_that_brings_a_driver_is_one_that_stays() -> None:
    new = pod(NEW)
    assert brings(NEW, (pod(OLD), pod(NEW, leaving=True), new)) == new
    assert brings(NEW, (pod(OLD), pod(NEW, leaving=True))) is None


def test_operands_are_older_than_a_driver_if_they_came_before_its_latest_pod() -> None:
    older = pod(app="mig", created=NOW + 5)
    drivers = (pod(NEW, created=NOW), pod(NEW, created=NOW + 10), pod(OLD, created=NOW + 99))
    others = (
        pod(app="mig", created=NOW + 10),
        pod(app="mig", created=NOW + 5, daemon_set=False),
        pod(app="plugin", created=NOW + 5),
    )
    assert older_than_driver("mig", NEW, (*drivers, older, *others)) == [older]
    assert older_than_driver("mig", NEW, (pod(OLD, created=NOW + 99), older)) == []
    # A fleet's clocks do not begin at 0; without a driver pod nothing is older, though.
    assert older_than_driver("mig", NEW, (pod(app="mig", created=0.0),)) == []
    assert older_than_driver("mig", NEW, (pod(app="mig", created=0.5),)) == []


def test_target_of_a_pool_is_described() -> None:
    assert describe_target(LAYOUT) == "layout new"
    assert describe_target(DRIVER) == f"driver {NEW}"
    assert describe_target(BOTH) == f"layout new and driver {NEW}"


def test_changes_on_a_node_are_described_with_old_and_new_values() -> None:
    assert changes(node("old"), LAYOUT, found()) == "the layout changes from old to new"
    assert changes(BARE, LAYOUT, found()) == "the layout changes from none to new"
    assert changes(node("new"), DRIVER, found(OLD)) == f"the driver changes from {OLD} to {NEW}"
    assert changes(node("new"), DRIVER, found()) == f"the driver changes to {NEW}"
    assert changes(node("old"), BOTH, found(OLD)) == (
        f"the layout changes from old to new and the driver changes from {OLD} to {NEW}"
    )
    assert changes(node("new"), BOTH, found(NEW)) == f"the node gets layout new and driver {NEW}"


def test_earlier_state_of_a_waiting_node_is_described() -> None:
    assert has_until_its_turn(node("old"), LAYOUT, found()) == (
        "has layout old until its turn in the change to new"
    )
    assert has_until_its_turn(BARE, LAYOUT, found()) == (
        "has layout none until its turn in the change to new"
    )
    assert has_until_its_turn(node("new"), BOTH, found()) == (
        f"has driver none until its turn in the change to {NEW}"
    )
    assert has_until_its_turn(node("old"), BOTH, found(OLD)) == (
        f"has layout old and driver {OLD} until its turn in the change to new and {NEW}"
    )
