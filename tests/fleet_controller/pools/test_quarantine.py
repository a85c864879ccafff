"""A node that is found wrong is emptied where the policy says so, and never many of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slicewright.apis.gpu_pool.rollout_policy import RolloutPolicy
from slicewright.apis.names import STARTUP_TAINT_KEY as TAINT
from slicewright.fleet_controller.objects.assessment import Assessment
from slicewright.fleet_controller.objects.node import Node, read_node
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.fleet_controller.pools.members import Member
from slicewright.fleet_controller.pools.quarantine import EndQuarantine, QuarantineNode, quarantine
from tests.fleet_controller.builders import build_pool
from tests.properties import examples

NODE = read_node(
    {
        "metadata": {"name": "n", "uid": "u", "resourceVersion": "7"},
        "spec": {"taints": [{"key": TAINT, "effect": "NoSchedule"}]},
    }
)
POOL = build_pool(
    name="p", created=0.0, mig_config=None, policy=RolloutPolicy(quarantine=True, max_unavailable=2)
)


def member(
    name: str = "n",
    *,
    status: Literal["True", "False", "Unknown"] = "False",
    mismatch: bool = True,
    stuck: bool = True,
    node: Node = NODE,
) -> Member:
    return Member(
        node=replace(node, name=name),
        assessment=Assessment(status=status, reason="GpuLost", message="m", mismatch=mismatch),
        settling=False,
        changed=0.0,
        warns=stuck,
        stuck=stuck,
        joining=False,
    )


def emptied(name: str) -> Member:
    return member(name, node=replace(NODE, taint_keys=(TAINT, "x", TAINT), quarantine_at=2))


def named(members: Sequence[Member], pool: Pool = POOL) -> list[str]:
    return [one.node for one in quarantine(pool, members) if isinstance(one, QuarantineNode)]


def test_a_node_that_stays_wrong_is_emptied_and_the_log_says_why() -> None:
    assert quarantine(POOL, [member()]) == (QuarantineNode(node="n", version="7", why="GpuLost"),)


@pytest.mark.parametrize(
    "spared",
    [
        member(stuck=False),
        member(mismatch=False),
        member(node=replace(NODE, taint_keys=())),
        emptied("n"),
    ],
    ids=["it may pass", "nobody has found it wrong", "not held yet", "emptied already"],
)
def test_no_other_node_is(spared: Member) -> None:
    assert quarantine(POOL, [spared]) == ()


def test_without_the_policy_pods_stay() -> None:
    assert quarantine(replace(POOL, policy=RolloutPolicy()), [member()]) == ()


def test_never_are_more_emptied_than_may_be_unavailable() -> None:
    """Where a whole pool is found wrong, it is what was wanted that is wrong."""
    assert named([member(f"n{i}") for i in range(9)]) == ["n0", "n1"]
    assert named([emptied("n0"), *(member(f"n{i}") for i in range(1, 9))]) == ["n1"]
    assert named([emptied("n0"), emptied("n1"), emptied("n2"), member("n3")]) == []


def test_it_ends_with_the_policy() -> None:
    without = replace(POOL, policy=RolloutPolicy())
    assert quarantine(without, [emptied("n0"), member("n1")]) == (
        EndQuarantine(node="n0", version="7", position=2),
    )


_members = st.lists(
    st.tuples(st.booleans(), st.booleans(), st.booleans(), st.booleans()), max_size=8
)


@settings(max_examples=examples(300))
@given(facts=_members, limit=st.integers(1, 4), wanted=st.booleans())
def test_for_any_pool_only_what_is_wrong_is_emptied_and_within_the_limit(
    facts: list[tuple[bool, bool, bool, bool]], limit: int, wanted: bool
) -> None:
    members = []
    for i, (held, mismatch, stuck, before) in enumerate(facts):
        taints = (TAINT, TAINT) if before else (TAINT,) if held else ()
        node = replace(NODE, taint_keys=taints, quarantine_at=1 if before else None)
        members.append(member(f"n{i}", mismatch=mismatch, stuck=stuck, node=node))
    policy = RolloutPolicy(quarantine=wanted, max_unavailable=limit)
    done = quarantine(replace(POOL, policy=policy), members)
    by_name = {one.node.name: one for one in members}
    before = sum(one.node.quarantine_at is not None for one in members)
    added = [one for one in done if isinstance(one, QuarantineNode)]
    assert before + len(added) <= max(limit, before)
    for one in added:
        of = by_name[one.node]
        assert wanted
        assert of.stuck
        assert of.assessment.mismatch
        assert of.node.held
    ended = [one for one in done if isinstance(one, EndQuarantine)]
    assert len(ended) == (0 if wanted else before)


def test_a_nodes_quarantine_is_read_with_its_place() -> None:
    taints = [
        {"key": TAINT, "effect": "NoSchedule"},
        {"key": "another", "effect": "NoExecute"},
        {"key": TAINT, "effect": "NoExecute"},
    ]
    raw = {"metadata": {"name": "n", "uid": "u"}, "spec": {"taints": taints}}
    assert read_node(raw).quarantine_at == 2
    raw["spec"] = {"taints": taints[:2]}
    assert read_node(raw).quarantine_at is None
