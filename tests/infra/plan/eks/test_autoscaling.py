"""What cluster-autoscaler is told of an EKS pool's nodes, which it may have to add to none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from slicewright.infra import plan, stack_file

PREFIX = "k8s.io/cluster-autoscaler/node-template/resources/"
CUT: Mapping[str, Any] = {"mode": "operator", "layout": {"1g.5gb": 7}}
BY_INDEX: Mapping[str, Any] = {
    "mode": "operator",
    "gpus": [
        {"index": [0], "layout": {"3g.20gb": 2}},
        {"index": [1, 2, 3, 4, 5, 6, 7], "layout": {}},
    ],
}


def planned(**pool: Any) -> plan.EksFleetPlan:
    strategy = pool.pop("strategy", "mixed")
    raw = {
        "cloud": "eks",
        "cluster": {"name": "c", "region": "us-west-2"},
        "node_pools": [
            {"name": "a", "machine_type": "p4d.24xlarge", "nodes": {"min": 0, "max": 2}, **pool}
        ],
        "gpu_operator": {"mig_strategy": strategy},
    }
    found = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    assert isinstance(found, plan.EksFleetPlan)
    return found


@pytest.mark.parametrize(
    ("pool", "resources"),
    [
        ({}, {"nvidia.com/gpu": "8"}),
        ({"partition": CUT}, {"nvidia.com/gpu": "0", "nvidia.com/mig-1g.5gb": "56"}),
        ({"partition": CUT, "strategy": "single"}, {"nvidia.com/gpu": "56"}),
        ({"partition": BY_INDEX}, {"nvidia.com/gpu": "7", "nvidia.com/mig-3g.20gb": "2"}),
        ({"sharing": {"mode": "time-slicing", "replicas": 4}}, {"nvidia.com/gpu": "32"}),
        (
            {"sharing": {"mode": "time-slicing", "replicas": 4, "rename_by_default": True}},
            {"nvidia.com/gpu": "0", "nvidia.com/gpu.shared": "32"},
        ),
    ],
)
def test_the_tags_say_what_a_node_offers_and_that_it_has_no_other_gpu(
    pool: dict[str, Any], resources: dict[str, str]
) -> None:
    """Without the zero, the autoscaler counts the machine's eight GPUs, for pods that no node of
    the pool can run (kubernetes/autoscaler, buildNodeFromTemplate).
    """
    (made,) = planned(**pool).pools
    assert made.settings.tags == {f"{PREFIX}{name}": count for name, count in resources.items()}


def test_a_pool_of_a_fixed_size_has_no_such_tags() -> None:
    (made,) = planned(nodes={"count": 2}, partition=CUT).pools
    assert made.settings.tags == {}


def test_the_plan_says_that_nothing_scales() -> None:
    words = "nothing adds or removes its nodes between 0 and 2"
    assert any(words in note for note in plan.notes(planned()))
    assert not any(
        "nothing adds or removes" in note for note in plan.notes(planned(nodes={"count": 1}))
    )
