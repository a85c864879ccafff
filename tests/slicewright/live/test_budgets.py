"""Evictions are counted together against disruption budgets, as the API server counts them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewright.apis.gpu_pool.rollout_policy import DrainPolicy
from slicewright.live.blockers import blockers
from slicewright.live.budgets import refusals
from tests.slicewright.live.hostile import budget, pod

POLICY = DrainPolicy()


def _pods(count: int, on: str = "n0") -> list[dict[str, Any]]:
    return [pod(f"{on}-{n}", on) for n in range(count)]


def _refused(pods: list[Any], *budgets: Any) -> dict[str, str]:
    return refusals([(pods, POLICY)], budgets)


def test_a_budget_that_allows_two_of_six_holds_four() -> None:
    found = _refused(_pods(6), budget("infer", allowed=2, needs=4, pods=6))
    assert [*found] == [f"ai/n0-{n}" for n in (2, 3, 4, 5)]
    assert found["ai/n0-2"] == (
        "disruption budget infer allows 2 evictions at a time (it needs 4 healthy pods): waits "
        "until other pods run again elsewhere"
    )


def test_nodes_that_are_drained_together_share_the_allowed_disruptions() -> None:
    shared = budget("infer", allowed=3, needs=1, pods=4)
    drains = [(_pods(2, "n0"), POLICY), (_pods(2, "n1"), POLICY)]
    assert [*refusals(drains, [shared])] == ["ai/n1-1"]


def test_a_budget_that_can_never_be_met_says_so() -> None:
    (why,) = _refused(_pods(1), budget("infer", allowed=0, needs=6, pods=6)).values()
    assert why == (
        "disruption budget infer never allows an eviction: it needs all of its 6 healthy pods"
    )
    (why,) = _refused(_pods(1), budget("infer", allowed=0, needs=4, pods=6)).values()
    assert (
        why == "disruption budget infer allows no eviction now: it needs 4 healthy pods and has 4"
    )


def test_a_pod_with_two_budgets_cannot_be_evicted_and_both_are_named() -> None:
    two = [budget(name, allowed=5, needs=1, pods=6) for name in ("a", "b")]
    (why,) = _refused(_pods(1), *two).values()
    assert "disruption budgets a and b select it" in why


@pytest.mark.parametrize(
    ("phase", "ready", "policy", "healthy", "held"),
    [
        ("Running", "True", None, 4, True),
        ("Pending", "False", None, 4, False),
        ("Running", "False", None, 4, False),
        ("Running", "False", "IfHealthyBudget", 3, True),
        ("Running", "False", "AlwaysAllow", 3, False),
        ("Running", "True", "AlwaysAllow", 3, True),
    ],
)
def test_unhealthy_pods_leave_if_the_budget_allows_it(
    phase: str, ready: str, policy: str | None, healthy: int, held: bool
) -> None:
    one = budget("infer", allowed=0, needs=4, pods=6)
    one["status"]["currentHealthy"] = healthy
    one["spec"]["unhealthyPodEvictionPolicy"] = policy
    status = {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]}
    assert bool(_refused([pod("a", "n0", status=status)], one)) is held


def test_a_budget_that_has_just_changed_is_not_believed() -> None:
    one = budget("infer", allowed=5, needs=1, pods=6)
    one["metadata"]["generation"] = 2
    (why,) = _refused(_pods(1), one).values()
    assert "has changed, and its status is not yet updated" in why


def test_pods_that_stay_or_are_ending_use_no_budget() -> None:
    ending = pod("a", "n0")
    ending["metadata"]["deletionTimestamp"] = "2026-11-27T00:00:00Z"
    bare = pod("b", "n0")
    bare["metadata"]["ownerReferences"] = []
    pods = [ending, bare, pod("c", "n0")]
    assert _refused(pods, budget("infer", allowed=1, needs=1, pods=3)) == {}


def test_no_pod_is_listed_for_eviction_without_a_drain() -> None:
    (found,) = blockers(_pods(1), [], POLICY, stands="the rollout is paused")
    assert (found.why, found.leaves) == ("the rollout is paused", False)


@given(st.lists(st.integers(0, 5), max_size=5), st.integers(0, 12))
def test_never_more_leave_than_are_allowed_and_never_fewer(sizes: list[int], allowed: int) -> None:
    drains = [(_pods(size, f"n{at}"), POLICY) for at, size in enumerate(sizes)]
    found = refusals(drains, [budget("infer", allowed=allowed, needs=1, pods=99)])
    assert len(found) == max(0, sum(sizes) - allowed)
