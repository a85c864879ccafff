"""Labels of pools are refused by who writes or reads them, not by a list of names."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slicewright.infra import plan, stack_file

ACCELERATOR = "k8s.amazonaws.com/accelerator"
P4D: dict[str, Any] = {
    "name": "a100",
    "machine_type": "p4d.24xlarge",
    "nodes": {"min": 0, "max": 4},
    "partition": {"mode": "operator", "config": "all-1g.5gb"},
}
T4: dict[str, Any] = {"name": "t4", "machine_type": "g4dn.xlarge", "nodes": {"min": 0, "max": 2}}


def planned(pool: dict[str, Any], key: str, value: str = "x") -> None:
    raw = {
        "cloud": "eks",
        "cluster": {"name": "c", "region": "us-west-2", "version": "1.35"},
        "node_pools": [pool | {"labels": {key: value}}],
    }
    plan.read(json.dumps(raw), stack_file.Source("test", raw))


def refusal(pool: dict[str, Any], key: str) -> str:
    with pytest.raises(stack_file.SpecError) as raised:
        planned(pool, key)
    return str(raised.value)


def test_accelerator_label_is_refused_on_nodes_that_never_offer_a_whole_gpu() -> None:
    """cluster-autoscaler would take them for unready for ever."""
    said = refusal(P4D, ACCELERATOR)
    assert "cluster-autoscaler takes a node with this label for unready" in said
    assert "stop all scaling" in said
    assert "leave it out" in said
    planned(T4, ACCELERATOR, "nvidia-tesla-t4")


@pytest.mark.parametrize(
    "key",
    [
        *("nvidia.com/gpu.product", "nvidia.com/gpu.count", "nvidia.com/gpu.replicas"),
        *("nvidia.com/mig-1g.5gb.count", "nvidia.com/mig.strategy", "nvidia.com/gfd.timestamp"),
        *("nvidia.com/cuda.driver.major", "nvidia.com/gpu.sharing-strategy"),
    ],
)
@pytest.mark.parametrize("pool", [P4D, T4], ids=["partitioned", "whole"])
def test_labels_of_feature_discovery_are_refused(pool: dict[str, Any], key: str) -> None:
    said = refusal(pool, key)
    assert f'labels."{key}"' in said
    assert "GPU feature discovery" in said or "the GPU Operator sets it" in said


@pytest.mark.parametrize("key", ["hami.io/gpu", "volcano.sh/vgpu"])
def test_labels_that_engines_of_fractions_read_are_refused(key: str) -> None:
    assert "would hand out the GPUs of these nodes" in refusal(T4, key)


@pytest.mark.parametrize("key", ["team", "example.com/gpu.product", "nvidia.com/team"])
def test_labels_without_another_owner_are_accepted(key: str) -> None:
    planned(P4D, key)
