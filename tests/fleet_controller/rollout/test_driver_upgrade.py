"""The change of the driver on nodes in service, which goes through the same rollout as a layout."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slicewright.apis.gpu_pool.rollout_policy import RolloutPolicy
from slicewright.apis.names import POOL_LABEL
from slicewright.apis.names import STARTUP_TAINT_KEY as TAINT
from slicewright.fleet_controller.nodes.assess import assess
from slicewright.fleet_controller.objects.layout_change import change_of
from slicewright.fleet_controller.rollout.pool_target import is_version
from slicewright.fleet_controller.rollout.upgrading import UPGRADE_LIMIT_S
from tests.fleet_controller.builders import build_pool
from tests.fleet_controller.rollout.test_rollout import condition, reason, steps
from tests.fleet_controller.rollout_world import BAD_DRIVER, START, World, known

OLD, NEW = "580.95.05", "590.48.01"


def world(count: int = 1, *, config: str | None = "old", **policy: Any) -> World:
    """So many nodes in service with the old driver, of which the pool wants a new one now."""
    pool = build_pool(
        name="p",
        uid="pool",
        created=START,
        selector={"slicewright.io/pool": "p"},
        layout_hash=known("none").layout_hash,
        mig_config=config,
        policy=RolloutPolicy(**policy),
        driver=OLD,
    )
    made = World(pool, disruptions=99, offered=OLD)
    for i in range(count):
        made.make_node(f"n{i}")
        if config is None:
            labels = {POOL_LABEL: "p"}
            made.cut[f"n{i}"] = "none"
            made.change(f"n{i}", labels=labels, verified_layout="")
            made.agent_reports(f"n{i}")
    made.passes()
    assert condition(made, "Verified")[0] == "True"
    made.wants_driver(NEW)
    made.offered = NEW
    made.now += 1
    return made


def phase(of: World, name: str = "n0") -> str:
    change = change_of(of.nodes[name])
    return change.phase if change else ""


def until_upgrading(of: World, name: str = "n0") -> None:
    for _ in range(3):
        of.pods_end()
        of.passes()
        if phase(of, name) == "Upgrading":
            return
    raise AssertionError(of.nodes[name])


def comes_up(of: World, name: str = "n0") -> None:
    """Its new driver pod is made and loads its driver, and mig-manager cuts the GPUs again."""
    of.now += 60
    for _ in range(2):
        of.driver_pod_works(name)
    for _ in range(2):
        of.mig_manager_works(name)
    of.agent_reports(name)


def comes_up_and_is_seen(of: World) -> None:
    """Until the controller has noted the new driver pod, no report of its driver counts."""
    comes_up(of)
    of.passes()
    assert of.nodes["n0"].unschedulable
    of.now += 60
    of.agent_reports("n0")


def test_a_node_is_drained_its_driver_pod_evicted_and_the_new_driver_proven() -> None:
    of = world()
    of.bind("n0")
    (pod,) = of.pods["n0"]
    assert steps(of.passes()) == [("CordonNode", "n0")]
    assert steps(of.passes()) == [("EvictPod", pod.name)]
    assert reason(of) == "Draining"
    of.pods_end()
    assert steps(of.passes()) == [("AddStartupTaint", "n0")]
    of.passes()
    assert (phase(of), of.loaded["n0"]) == ("Upgrading", OLD)
    assert steps(of.passes()) == [("EvictPod", "nvidia-driver")]
    assert "n0" not in of.loaded
    of.agent_reports("n0")
    assert steps(of.passes()) == []
    assert reason(of) == "DriverUpgrade"
    comes_up(of)
    assert of.loaded["n0"] == NEW
    assert steps(of.passes()) == [("FinishChange", "n0")]
    assert steps(of.passes()) == [("RemoveStartupTaint", "n0")]
    assert condition(of, "Verified")[0] == "True"
    assert (of.nodes["n0"].unschedulable, of.nodes["n0"].change) == (False, "")


def test_the_others_wait_in_service_for_their_turn_and_stay_within_the_budget() -> None:
    of = world(4, max_unavailable=2)
    assert steps(of.passes()) == [("CordonNode", "n0")], "the canary first"
    assert [reason(of, f"n{i}") for i in (1, 2, 3)] == ["WaitsForItsTurn"] * 3
    assert not of.nodes["n1"].held
    said = of.nodes["n1"].condition
    assert said is not None
    assert f"has driver {OLD} until its turn in the change to {NEW}" in said.message
    assert condition(of, "Progressing") == ("True", "RollingOut")
    until_upgrading(of)
    of.passes()
    comes_up(of)
    for _ in range(3):
        of.passes()
    assert {name for name, node in of.nodes.items() if node.change} == {"n1", "n2"}


def test_a_pool_that_mig_manager_does_not_partition_gets_its_driver_too() -> None:
    of = world(config=None)
    until_upgrading(of)
    assert steps(of.passes()) == [("EvictPod", "nvidia-driver")]
    comes_up(of)
    of.passes()
    of.passes()
    assert condition(of, "Verified")[0] == "True"
    assert phase(of) == ""


def test_a_layout_and_a_driver_are_one_turn_and_the_driver_comes_first() -> None:
    of = world()
    of.wants("new")
    until_upgrading(of)
    of.passes()
    comes_up(of)
    assert steps(of.passes()) == [("NoteChange", "n0")]
    assert steps(of.passes()) == [("ApplyLayout", "n0")]
    assert of.nodes["n0"].mig_config == "new"
    comes_up(of)
    assert steps(of.passes()) == [("FinishChange", "n0")]


def test_mig_manager_is_restarted_where_it_has_not_noticed_the_other_driver() -> None:
    """The old container has unloaded its driver, so the driver manager ended no operand."""
    of = world()
    of.unloads_by_itself = True
    until_upgrading(of)
    of.passes()
    comes_up(of)
    assert (of.loaded["n0"], of.cut["n0"], phase(of)) == (NEW, "none", "Upgrading")
    assert steps(of.passes()) == [("EvictPod", "nvidia-mig-manager")]
    assert of.nodes["n0"].mig_state == "pending"
    for _ in range(2):
        of.mig_manager_works("n0")
    of.now += 60
    of.agent_reports("n0")
    assert steps(of.passes()) == [("FinishChange", "n0")]


def test_nothing_is_evicted_before_the_operators_daemonset_has_the_driver() -> None:
    of = world()
    of.offered = OLD
    until_upgrading(of)
    assert steps(of.passes()) == []
    said = of.nodes["n0"].condition
    assert said is not None
    assert f"the DaemonSet nvidia-driver-daemonset of the GPU operator still has {OLD}" in (
        said.message
    )
    of.offered = NEW
    assert steps(of.passes()) == [("EvictPod", "nvidia-driver")]


def test_a_driver_that_cannot_be_loaded_stops_the_rollout_and_another_one_ends_that() -> None:
    of = world(2)
    of.wants_driver(BAD_DRIVER)
    of.offered = BAD_DRIVER
    until_upgrading(of)
    of.passes()
    comes_up(of)
    of.now += UPGRADE_LIMIT_S
    of.agent_reports("n0")
    of.agent_reports("n1")
    of.passes()
    of.passes()
    assert reason(of) == "DriverUpgradeFailed"
    assert condition(of, "Progressing") == ("False", "RolloutStopped")
    assert condition(of, "Settled")[0] == "False", "a finding counts once it has lasted"
    assert phase(of, "n1") == ""
    assert of.loaded["n1"] == OLD
    of.asks("aborted")
    assert steps(of.passes()) == [], "without a driver there is no way back into service"
    of.asks("")
    of.wants_driver(OLD)
    of.offered = OLD
    until_upgrading(of)
    assert steps(of.passes()) == [("EvictPod", "nvidia-driver")]
    comes_up_and_is_seen(of)
    for _ in range(3):
        of.passes()
    assert condition(of, "Verified")[0] == "True"


def test_what_was_reported_before_the_driver_pod_goes_proves_nothing_after() -> None:
    """The stack file goes back to the old driver while the new one is being loaded."""
    of = world()
    until_upgrading(of)
    of.passes()
    of.driver_pod_works("n0")
    of.wants_driver(OLD)
    of.offered = OLD
    of.passes()
    assert reason(of) == "ReportFromEarlierLayout"
    assert phase(of) == "Upgrading"
    assert steps(of.passes()) == [("EvictPod", "nvidia-driver")], "the one with the new driver"
    assert TAINT in of.nodes["n0"].taint_keys
    comes_up_and_is_seen(of)
    assert steps(of.passes()) == [("NoteChange", "n0")]
    assert steps(of.passes()) == [("FinishChange", "n0")]


def test_a_driver_that_is_wanted_again_is_proven_by_what_is_reported_of_its_new_pod_only() -> None:
    """The stack file goes back while the pod of the old driver is gone and its agent's report,
    made just before, is not.
    """
    of = world()
    until_upgrading(of)
    of.now += 5
    of.agent_reports("n0")
    assert steps(of.passes()) == [("EvictPod", "nvidia-driver")]
    assert "n0" not in of.loaded
    of.wants_driver(OLD)
    of.offered = OLD
    for _ in range(3):
        assert "FinishChange" not in dict(steps(of.passes()))
        assert of.nodes["n0"].unschedulable
        assert TAINT in of.nodes["n0"].taint_keys
    comes_up_and_is_seen(of)
    assert steps(of.passes()) == [("NoteChange", "n0")]
    assert steps(of.passes()) == [("FinishChange", "n0")]


@pytest.mark.parametrize("asked", ["paused", "aborted"])
def test_paused_and_aborted_leave_the_driver_of_nodes_that_are_drained(asked: str) -> None:
    of = world()
    of.bind("n0")
    of.passes()
    of.asks(asked)
    for _ in range(4):
        of.passes()
    assert of.loaded["n0"] == OLD
    assert len(of.pods["n0"]) == 1
    assert of.nodes["n0"].unschedulable == (asked == "paused")


def test_a_node_whose_old_driver_never_loads_gets_its_turn() -> None:
    """Its kernel is too new for that driver, say: its agent can name none."""
    of = world()
    of.wants_driver(OLD)
    of.loaded.pop("n0")
    of.agent_reports("n0")
    of.passes()
    assert reason(of) == "DriverNotLoaded"
    of.wants_driver(NEW)
    assert steps(of.passes()) == [("CordonNode", "n0")]
    until_upgrading(of)
    assert steps(of.passes()) == [("EvictPod", "nvidia-driver")]


def test_a_node_that_was_not_ready_for_a_while_waits_for_its_turn_in_service() -> None:
    of = world(2)
    of.asks("paused")
    of.passes()
    of.change("n1", ready=False)
    of.passes()
    assert of.nodes["n1"].held
    of.change("n1", ready=True)
    of.passes()
    assert not of.nodes["n1"].held


@pytest.mark.parametrize("away", [False, True])
def test_a_node_that_waits_for_its_driver_and_has_lost_its_layout_is_held(away: bool) -> None:
    """Of the layout it has what is wanted, so that its agent compares it with nothing else. Also
    where it was held because it was away, and would else be let go to wait in service.
    """
    of = world(2)
    of.asks("paused")
    if away:
        of.change("n1", ready=False)
        of.passes()
    of.gpus_are_cut_by_hand("n1")
    of.change("n1", ready=True)
    for _ in range(3):
        of.now += 10
        of.passes()
    assert of.nodes["n1"].held
    assert reason(of, "n1") == "WrongLayout"
    of.asks("")
    of.pods_end()
    for _ in range(12):
        of.now += 10
        of.passes()
        for name in of.nodes:
            comes_up(of, name)
    assert [(of.cut[name], of.loaded[name], node.held) for name, node in of.nodes.items()] == [
        ("old", NEW, False)
    ] * 2


def test_a_match_with_another_driver_is_not_verified_and_a_pool_without_a_version_asks_none() -> (
    None
):
    of = world()
    node, report = of.nodes["n0"], of.reports["n0"]
    said = assess(node, of.pool, report, of.now)
    assert (said.status, said.reason, said.settles) == ("Unknown", "DriverNotUpgraded", True)
    assert said.message == f"driver {OLD} is loaded, the pool wants {NEW}"
    assert (said.driver, said.reported) == (OLD, report.time)
    assert assess(node, replace(of.pool, driver=None), report, of.now).status == "True"
    other = assess(replace(node, boot_id="later"), of.pool, report, of.now)
    assert (other.driver, other.reported) == ("", report.time)


def test_a_version_is_the_whole_of_a_tag_or_what_the_nodes_system_follows() -> None:
    assert is_version(OLD, OLD)
    assert is_version(f"{OLD}-ubuntu22.04", OLD)
    assert not is_version("580.95.051", OLD)
    assert not is_version("", OLD)
