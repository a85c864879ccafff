"""Which pods hold a drain, by policy and by disruption budgets."""

from __future__ import annotations

from typing import Any

import pytest

from slicewright.apis.gpu_pool.rollout_policy import DrainPolicy
from slicewright.live.blockers import Blocker, blockers, selects


def _pod(name: str, *, owner: str = "ReplicaSet", **more: Any) -> dict[str, Any]:
    owners = [{"kind": owner, "controller": True}] if owner else []
    meta = {
        "namespace": "ai",
        "name": name,
        "uid": name,
        "labels": {"app": name},
        "ownerReferences": owners,
    }
    resources = {"requests": {"nvidia.com/mig-1g.5gb": "1"}}
    return {
        "metadata": {**meta, **more.pop("metadata", {})},
        "spec": {"containers": [{"resources": resources}], **more},
    }


def _budget(name: str, app: str, allowed: int) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "ai", "name": name},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": allowed},
    }


def test_those_that_cannot_be_evicted_come_first_with_why() -> None:
    pods = [
        _pod("a"),
        _pod("b", owner=""),
        _pod("c", volumes=[{"emptyDir": {}}]),
        _pod("d", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
        _pod("e"),
        _pod("f", owner="DaemonSet"),
    ]
    found = blockers(pods, [_budget("pdb", "a", 0), _budget("roomy", "e", 1)], DrainPolicy())
    assert found == (
        Blocker(pod="ai/a", why="disruption budget pdb allows no eviction now", leaves=False),
        Blocker(pod="ai/b", why="no controller would recreate it", leaves=False),
        Blocker(pod="ai/c", why="has data in an emptyDir", leaves=False),
        Blocker(pod="ai/f", why="belongs to a DaemonSet", leaves=False),
        Blocker(pod="ai/d", why="is ending", leaves=True),
        Blocker(pod="ai/e", why="will be evicted", leaves=True),
    )


def test_a_pod_without_gpus_blocks_nothing_unless_all_leave() -> None:
    plain = _pod("p")
    plain["spec"]["containers"] = [{}]
    assert blockers([plain], [], DrainPolicy()) == ()
    assert [one.pod for one in blockers([plain], [], DrainPolicy(pods="All"))] == ["ai/p"]


def test_a_budget_of_another_namespace_counts_for_nothing() -> None:
    other = _budget("pdb", "a", 0)
    other["metadata"]["namespace"] = "web"
    (found,) = blockers([_pod("a")], [other], DrainPolicy())
    assert found.leaves


def test_names_reach_a_terminal_without_control_characters() -> None:
    (found,) = blockers([_pod("a\x1b[2J")], [], DrainPolicy())
    assert found.pod == "ai/a\\x1b[2J"


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"app": "web"}}, True),
        ({"matchLabels": {"app": "web", "tier": "x"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["x"]}]}, True),
        ({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}, True),
    ],
)
def test_selectors_are_read_as_the_api_server_reads_them(
    selector: dict[str, Any] | None, selected: bool
) -> None:
    assert selects(selector, {"app": "web"}) is selected
