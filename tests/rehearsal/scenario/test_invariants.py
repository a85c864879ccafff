"""The judge of the run with faults: it finds each wrong that it is there for, and only that."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.rehearsal.scenario.whole_run.invariants import (
    CHANGE,
    CONDITION,
    JUST_S,
    LAYOUT,
    POOL,
    STATE,
    TAINT,
    VERIFIED_BOOT,
    Invariants,
)

PROTECTED = {"app": "load"}


@pytest.fixture
def seen() -> Invariants:
    """Three nodes in service, of which one may be out, each with a pod; a controller that acts."""
    made = Invariants(
        pool="p",
        limit=1,
        min_available=2,
        protected=PROTECTED,
        documented=frozenset({"PartitionsMatch"}),
    )
    made.see_pool({"metadata": {"name": "p"}, "spec": {"layoutHash": "h"}}, 0)
    for number, name in enumerate("abc"):
        made.see_node(node(name, version=number + 1), 0)
        made.see_report(report(name, version=number + 1))
        made.see_pod(pod(f"on-{name}", version=number + 10, node=name), 0)
    for at in range(0, 1000, 2):
        made.see_lease({"spec": {"holderIdentity": "somebody"}}, at)
    return made


def node(
    name: str,
    *,
    version: int,
    uid: str = "",
    boot: str = "b1",
    verified: str = "b1",
    held: bool = False,
    cordoned: bool = False,
    phase: str = "",
    ready: bool = True,
    state: str = "success",
    reason: str = "PartitionsMatch",
    layout: str = "",
) -> dict[str, Any]:
    notes = {VERIFIED_BOOT: verified} if verified else {}
    if phase:
        notes[CHANGE] = json.dumps({"phase": phase})
    conditions = [
        {"type": "Ready", "status": "True" if ready else "Unknown"},
        {"type": CONDITION, "status": "True", "reason": reason},
    ]
    return {
        "metadata": {
            "name": name,
            "uid": uid or f"uid-{name}",
            "resourceVersion": str(version),
            "labels": {POOL: "p", STATE: state, LAYOUT: layout},
            "annotations": notes,
        },
        "spec": {"taints": [{"key": TAINT}] if held else [], "unschedulable": cordoned},
        "status": {"nodeInfo": {"bootID": boot}, "conditions": conditions},
    }


def report(name: str, *, version: int, boot: str = "b1", verdict: str = "Match") -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "resourceVersion": str(version),
            "ownerReferences": [{"uid": f"uid-{name}"}],
        },
        "report": {"bootID": boot, "verdict": verdict, "observedHash": "h"},
    }


def pod(
    name: str,
    *,
    version: int,
    node: str = "",
    leaving: bool = False,
    why: str = "",
    ready: bool = True,
) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    if why:
        conditions.append({"type": "DisruptionTarget", "status": "True", "reason": why})
    container = {"resources": {"limits": {"nvidia.com/mig-1g.5gb": "1"}}}
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "resourceVersion": str(version),
            "labels": PROTECTED,
            **({"deletionTimestamp": "2026-11-23T00:00:00Z"} if leaving else {}),
        },
        "spec": {"containers": [container], **({"nodeName": node} if node else {})},
        "status": {"phase": "Running", "conditions": conditions},
    }


EVICTED = "EvictionByEvictionAPI"


def found(seen: Invariants, at: float = 500.0) -> str:
    seen.judge(at)
    return "\n".join(seen.violations)


def test_fleet_in_service_violates_no_invariant(seen: Invariants) -> None:
    assert found(seen) == ""


def test_a_change_as_it_shall_be_is_no_violation(seen: Invariants) -> None:
    seen.see_node(node("a", version=20, cordoned=True, phase="Draining"), 100)
    seen.see_pod(pod("on-a", version=21, node="a", leaving=True, why=EVICTED), 101)
    seen.see_node(node("a", version=22, cordoned=True, held=True, phase="Draining"), 102)
    seen.see_node(node("a", version=23, cordoned=True, held=True, phase="Applying", state=""), 102)
    seen.see_node(
        node("a", version=24, cordoned=True, held=True, phase="Applying", state="pending"), 103
    )
    seen.see_report(report("a", version=25))
    seen.see_node(node("a", version=26, held=True), 110)
    seen.see_node(node("a", version=27), 110)
    seen.see_pod(pod("another", version=28, node="a"), 111)
    assert found(seen) == ""
    assert (len(seen.begun), seen.evictions, seen.lifted, seen.most_changing) == (1, 1, 1, 1)


def test_two_changes_violate_a_limit_of_one(seen: Invariants) -> None:
    for version, name in ((20, "a"), (21, "b")):
        seen.see_node(node(name, version=version, cordoned=True, phase="Draining"), 100)
    assert "2 nodes in a change: a, b" in found(seen)


@pytest.mark.parametrize(("after_s", "wrong"), [(JUST_S - 1, False), (JUST_S + 1, True)])
def test_a_change_while_another_node_is_out(seen: Invariants, after_s: float, wrong: bool) -> None:
    """Unless it has been so for a moment only."""
    seen.see_node(node("a", version=20, held=True, ready=False), 100)
    seen.see_node(node("b", version=21, cordoned=True, phase="Draining"), 100 + after_s)
    assert ("b begins to change while a are out" in found(seen)) is wrong


def test_a_node_that_is_out_itself_may_change(seen: Invariants) -> None:
    seen.see_node(node("a", version=20, held=True), 100)
    seen.see_node(node("a", version=21, held=True, cordoned=True, phase="Draining"), 200)
    assert found(seen) == ""


def test_a_cordon_that_is_left_behind(seen: Invariants) -> None:
    seen.see_node(node("a", version=20, cordoned=True, phase="Applying"), 100)
    seen.see_node(node("a", version=21, cordoned=True), 110)
    seen.see_node(node("b", version=22, cordoned=True), 110)
    seen.see_node(node("b", version=23, cordoned=True), 111, gone=True)
    assert "the cordon of a stays" in found(seen)
    assert "of b" not in found(seen), "the cloud cordons the machines that it takes"


def test_a_cordon_of_people_stays(seen: Invariants) -> None:
    seen.cordoned_by_people.add("a")
    seen.see_node(node("a", version=20, cordoned=True), 100)
    assert found(seen) == ""


def test_a_reboot_of_a_node_that_is_not_held(seen: Invariants) -> None:
    seen.see_node(node("a", version=20, boot="b2"), 100)
    assert "a is open to pods" in found(seen)


def test_a_reboot_that_is_held_at_once(seen: Invariants) -> None:
    seen.see_node(node("a", version=20, boot="b2"), 100)
    seen.see_node(node("a", version=21, boot="b2", held=True), 101)
    assert found(seen) == ""


def test_no_violation_is_reported_without_an_acting_controller(seen: Invariants) -> None:
    seen._renewed = [at for at in seen._renewed if not 98 < at < 120]
    seen.see_node(node("a", version=20, boot="b2"), 100)
    seen.see_node(node("a", version=21, boot="b2", held=True), 125)
    assert found(seen) == ""


def test_a_pod_on_a_node_that_was_never_verified(seen: Invariants) -> None:
    seen.see_node(node("new", version=20, verified="", held=True), 100)
    seen.see_pod(pod("early", version=21, node="new"), 101)
    assert "default/early is bound to new, never verified" in found(seen)


def test_a_pod_on_a_node_that_is_closed(seen: Invariants) -> None:
    seen.see_node(node("a", version=20, held=True), 100)
    seen.see_pod(pod("at-once", version=21, node="a"), 100 + JUST_S / 2)
    assert found(seen) == "", "the scheduler may not have seen it"
    seen.see_pod(pod("late", version=22, node="a"), 100 + JUST_S + 5)
    assert "default/late is bound to a, closed for" in found(seen)


@pytest.mark.parametrize(
    "said",
    [
        {"boot": "b1"},
        {"boot": "b2", "verdict": "Mismatch"},
    ],
)
def test_a_taint_that_is_lifted_without_a_match_of_this_boot(
    seen: Invariants, said: dict[str, str]
) -> None:
    seen.see_node(node("a", version=20, boot="b2", held=True), 100)
    seen.see_report(report("a", version=21, **said))
    seen.see_node(node("a", version=22, boot="b2", verified="b2"), 101)
    seen.see_report(report("a", version=23, boot="b2"))
    assert "a is let go without a match" in found(seen)


@pytest.mark.parametrize(("observed", "right"), [("old-hash", True), ("new-hash", False)])
def test_match_after_an_undo_must_have_the_earlier_layout(
    seen: Invariants, observed: str, right: bool
) -> None:
    """In the status; the spec still declares the layout to which the change was undone."""
    spec = {"layoutHash": "new-hash", "migConfig": "new"}
    known = [{"migConfig": "new", "layoutHash": "new-hash"}]
    known.append({"migConfig": "old", "layoutHash": "old-hash"})
    status = {"observedGeneration": 2, "layout": "old", "provenLayouts": known}
    pool = {"metadata": {"name": "p", "generation": 2}, "spec": spec, "status": status}
    seen.see_pool(pool, 50)
    seen.see_node(node("a", version=20, held=True, layout="old"), 100)
    made = report("a", version=21)
    made["report"]["observedHash"] = observed
    seen._reports["a"].clear()
    seen.see_report(made)
    seen.see_node(node("a", version=22, layout="old"), 101)
    assert ("a is let go without a match" not in found(seen)) is right


def test_an_eviction_that_the_budget_does_not_allow(seen: Invariants) -> None:
    seen.see_node(node("a", version=20, cordoned=True, phase="Draining"), 100)
    seen.see_pod(pod("on-a", version=21, node="a", leaving=True, why=EVICTED), 101)
    assert found(seen) == ""
    seen.see_pod(pod("on-b", version=22, node="b", leaving=True, why=EVICTED), 102)
    assert "1 of 2 are left" in found(seen)
    assert "evicted from b, which is open" in found(seen)


def test_deleted_instead_of_evicted_pod_is_a_violation(seen: Invariants) -> None:
    seen.see_pod(pod("on-a", version=20, node="a", leaving=True), 100)
    assert "default/on-a was deleted, not evicted" in found(seen)


def test_a_reason_that_no_page_has(seen: Invariants) -> None:
    seen.see_node(node("a", version=20, reason="SomethingElse"), 100)
    assert "the reason SomethingElse, which no page has" in found(seen)
