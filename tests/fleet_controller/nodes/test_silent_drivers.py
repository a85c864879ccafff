"""A node whose driver does not answer takes no new pods, and never do more than may be out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slicewright.apis.gpu_pool.rollout_policy import RolloutPolicy
from slicewright.apis.names import STARTUP_TAINT_KEY
from slicewright.apis.reasons.agent import DRIVER_DOES_NOT_ANSWER, REASONS
from slicewright.fleet_controller.decision.actions import (
    AddStartupTaint,
    RemoveStartupTaint,
    SetNodeCondition,
)
from slicewright.fleet_controller.decision.decide import decide
from slicewright.fleet_controller.nodes.assess import REPORT_AGE_LIMIT_S
from slicewright.fleet_controller.nodes.watchdog import RestartOperand
from slicewright.fleet_controller.objects.condition import Condition
from slicewright.fleet_controller.objects.node import Node
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.fleet_controller.objects.report import Report
from slicewright.fleet_controller.pools.quarantine import QuarantineNode
from tests.fleet_controller.builders import build_node, build_pool
from tests.fleet_controller.conftest import HASH, NOW
from tests.properties import examples

OTHERWISE_UNKNOWN = {
    "ComputeUntried",
    # The node is at work on its partitions, or the agent's own view of it is incomplete.
    "DeviceNodesOutdated",
    "NodeUnreadable",
    "PartitioningUnderWay",
    "ProfileUnclear",
}
MINUTE_S = 60.0


class Fleet:
    """Nodes in service, each with the reason that its agent reports; None: it is silent."""

    def __init__(self, pool: Pool, node: Node, reasons: Mapping[str, str | None]) -> None:
        condition = Condition(
            status="True", reason="PartitionsMatch", message="", changed=NOW, written=NOW
        )
        self.pool, self.reasons, self.now = pool, dict(reasons), NOW
        self.nodes = {
            name: replace(
                node,
                name=name,
                uid=f"uid-{name}",
                taint_keys=(),
                verified_boot="b1",
                condition=condition,
            )
            for name in reasons
        }
        self.emptied: list[QuarantineNode] = []
        self.reported = NOW

    def held(self) -> set[str]:
        return {name for name, node in self.nodes.items() if node.held}

    def minutes(self, count: int, *, agents: bool = True) -> None:
        for _ in range(count):
            self.now += MINUTE_S
            self.reported = self.now if agents else self.reported
            self._pass()

    def _pass(self) -> None:
        reports = {
            name: self._report(name, reason)
            for name, reason in self.reasons.items()
            if reason is not None
        }
        decision = decide([self.pool], list(self.nodes.values()), reports, {}, {}, self.now)
        for action in decision.actions:
            match action:
                case AddStartupTaint(node=name):
                    self._change(name, taint_keys=(STARTUP_TAINT_KEY,))
                case RemoveStartupTaint(node=name):
                    self._change(name, taint_keys=())
                case RestartOperand(node=name, stuck=stuck):
                    self._change(name, stuck=stuck.dump() if stuck else "")
                case SetNodeCondition(node=name):
                    said = Condition(
                        status=action.status,
                        reason=action.reason,
                        message=action.message,
                        changed=action.changed,
                        written=action.now,
                    )
                    self._change(name, condition=said)
                case QuarantineNode():
                    self.emptied.append(action)
                case _:
                    pass

    def _change(self, name: str, **facts: object) -> None:
        self.nodes[name] = replace(self.nodes[name], **facts)  # type: ignore[arg-type]

    def _report(self, name: str, reason: str) -> Report:
        verdict = "Match" if reason == "PartitionsMatch" else "Unknown"
        return Report(
            name=name,
            owner_uid=f"uid-{name}",
            verdict=verdict,
            reason=reason,
            message=f"since {self.reported:.0f}",
            pool="halves",
            layout_hash=HASH,
            boot_id="b1",
            time=self.reported,
        )


def _fleet(pool: Pool, node: Node, *reasons: str | None, **policy: object) -> Fleet:
    wanted = replace(RolloutPolicy(), **policy)  # type: ignore[arg-type]
    named = {f"n{i}": reason for i, reason in enumerate(reasons)}
    return Fleet(replace(pool, policy=wanted), node, named)


def test_the_reasons_are_those_for_which_the_agent_learns_nothing_from_the_driver() -> None:
    unknown = {code for code, reason in REASONS.items() if reason.verdict == "Unknown"}
    assert unknown - DRIVER_DOES_NOT_ANSWER == OTHERWISE_UNKNOWN
    assert unknown >= DRIVER_DOES_NOT_ANSWER


@pytest.mark.parametrize("reason", sorted(DRIVER_DOES_NOT_ANSWER))
def test_a_node_is_held_after_five_minutes_and_released_when_the_driver_answers(
    reason: str, pool: Pool, node: Node
) -> None:
    fleet = _fleet(pool, node, reason, "PartitionsMatch")
    fleet.minutes(4)
    assert fleet.held() == set()
    fleet.minutes(3)
    assert fleet.held() == {"n0"}
    fleet.reasons["n0"] = "PartitionsMatch"
    fleet.minutes(2)
    assert fleet.held() == set()


@pytest.mark.parametrize("reason", sorted(OTHERWISE_UNKNOWN))
def test_another_unknown_holds_no_node(reason: str, pool: Pool, node: Node) -> None:
    fleet = _fleet(pool, node, reason)
    fleet.minutes(30)
    assert fleet.held() == set()


def test_node_is_held_if_its_driver_operand_crashes(pool: Pool, node: Node) -> None:
    fleet = _fleet(pool, node, "DriverNotLoaded")
    crash = {"n0": "pod nvidia-driver-x: CrashLoopBackOff: back-off"}
    for _ in range(15):
        fleet.now += MINUTE_S
        fleet.reported = fleet.now
        reports = {"n0": fleet._report("n0", "DriverNotLoaded")}
        nodes = list(fleet.nodes.values())
        decision = decide([fleet.pool], nodes, reports, {}, {}, fleet.now, no_operands=crash)
        if any(isinstance(action, AddStartupTaint) for action in decision.actions):
            return
        for action in decision.actions:
            if isinstance(action, RestartOperand) and action.stuck:
                fleet._change("n0", stuck=action.stuck.dump())
            if isinstance(action, SetNodeCondition):
                condition = Condition(
                    status=action.status,
                    reason=action.reason,
                    message=action.message,
                    changed=action.changed,
                    written=action.now,
                )
                fleet._change("n0", condition=condition)
    pytest.fail("it is never held")


def test_a_short_silence_holds_no_node(pool: Pool, node: Node) -> None:
    fleet = _fleet(pool, node, "DriverHung")
    for _ in range(5):
        fleet.reasons["n0"] = "DriverHung"
        fleet.minutes(3)
        fleet.reasons["n0"] = "PartitionsMatch"
        fleet.minutes(2)
    assert fleet.held() == set()


def test_a_node_that_is_held_for_a_silent_driver_keeps_its_pods(pool: Pool, node: Node) -> None:
    fleet = _fleet(pool, node, "DriverHung", quarantine=True)
    fleet.minutes(60)
    assert fleet.held() == {"n0"}
    assert fleet.emptied == []


@settings(max_examples=examples(60), deadline=None)
@given(
    reasons=st.lists(
        st.sampled_from([*sorted(DRIVER_DOES_NOT_ANSWER), "PartitionsMatch"]), max_size=8
    ),
    most=st.integers(1, 3) | st.sampled_from(["0%", "25%", "50%"]),
    cordoned=st.integers(0, 3),
)
def test_a_fault_of_all_drivers_closes_no_more_than_may_be_unavailable(
    reasons: list[str], most: int | str, cordoned: int
) -> None:
    pool = build_pool(
        name="halves",
        uid="pool-uid",
        generation=3,
        created=NOW - 1000,
        selector={"slicewright.io/pool": "halves"},
        layout_hash=HASH,
        mig_config=None,
    )
    node = build_node(
        name="",
        uid="",
        version="100",
        created=NOW - 6000,
        boot_id="b1",
        verified_boot="b1",
        labels={"slicewright.io/pool": "halves"},
    )
    fleet = _fleet(pool, node, *reasons, max_unavailable=most)
    out = set(list(fleet.nodes)[:cordoned])
    for name in out:
        fleet._change(name, unschedulable=True)
    limit = fleet.pool.policy.limit(len(reasons))
    silent = {f"n{i}" for i, reason in enumerate(reasons) if reason != "PartitionsMatch"}
    fleet.minutes(30)
    assert len(fleet.held() | out) <= max(limit, len(out))
    assert fleet.held() <= silent
    assert len(fleet.held()) == min(len(silent - out), max(0, limit - len(out)))


def test_an_outage_of_the_api_server_holds_no_node(pool: Pool, node: Node) -> None:
    """All reports are late then, whatever they said last."""
    fleet = _fleet(pool, node, *["DriverHung"] * 2, *["PartitionsMatch"] * 6, max_unavailable=8)
    fleet.minutes(1)
    fleet.minutes(int(REPORT_AGE_LIMIT_S / MINUTE_S) + 60, agents=False)
    assert fleet.held() <= {"n0", "n1"}
    silent = _fleet(pool, node, None, None, max_unavailable=2)
    silent.minutes(60)
    assert silent.held() == set()
