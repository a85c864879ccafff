"""The Node objects of an existing cluster: what the stack file's pools say, and nothing of ours."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from slicewright.apis.names import POOL_LABEL
from slicewright.infra import catalog, plan, stack_file
from slicewright.infra.plan import ExistingFleetPlan
from slicewright.rehearsal.cluster.node import machine
from slicewright.rehearsal.cluster.silicon.models import models
from slicewright.rehearsal.scenario.environment import PROJECT
from slicewright.rehearsal.scenario.existing_cluster.nodes import fake_key, node_objects


@pytest.fixture
def s4() -> Mapping[str, dict[str, Any]]:
    fleet = plan.read_file(PROJECT / "stacks" / "Pulumi.existing-a100-t4.yaml")
    assert isinstance(fleet, ExistingFleetPlan)
    return {node["metadata"]["name"]: node for node in node_objects(fleet)}


def of(**pool: Any) -> list[dict[str, Any]]:
    raw = {
        "cloud": "byo",
        "cluster": {"name": "ours", "context": "ours"},
        "node_pools": [{"name": "p", "gpu": {"model": "T4", "count": 1}, **pool}],
    }
    fleet = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    assert isinstance(fleet, ExistingFleetPlan)
    return [n for n in node_objects(fleet) if machine.ANNOTATION in n["metadata"]["annotations"]]


def test_cluster_has_one_node_per_pool_and_two_without_gpus(
    s4: Mapping[str, dict[str, Any]],
) -> None:
    assert sorted(s4) == ["a100-40gb-1", "system-1", "system-2", "tesla-t4-1"]


@pytest.mark.parametrize(("node", "gpu"), [("a100-40gb-1", "A100-40"), ("tesla-t4-1", "T4")])
def test_a_node_has_the_gpus_that_its_pool_names(
    s4: Mapping[str, dict[str, Any]], node: str, gpu: str
) -> None:
    found = machine.read(s4[node]["metadata"]["annotations"][machine.ANNOTATION])
    assert (found.gpu_model, found.gpu_count) == (gpu, 1)
    assert found.driver_version
    assert found.toolkit_in_image
    assert not found.nvidia_by_default


def test_a_node_has_the_labels_that_its_pool_selects_by() -> None:
    select = {"example.org/rack": "7", "tier": "gpu"}
    (node,) = of(select=select, nodes={"count": 1})
    assert select.items() <= node["metadata"]["labels"].items()
    assert POOL_LABEL not in node["metadata"]["labels"]


def test_cluster_has_the_nodes_and_gpus_of_the_pool() -> None:
    nodes = of(nodes={"count": 3}, gpu={"model": "A100-80", "count": 8})
    read = [machine.read(n["metadata"]["annotations"][machine.ANNOTATION]) for n in nodes]
    assert [(m.gpu_model, m.gpu_count) for m in read] == [("A100-80", 8)] * 3


def test_no_node_has_a_taint_or_an_annotation_of_slicewright(
    s4: Mapping[str, dict[str, Any]],
) -> None:
    assert all(node["spec"]["taints"] == [] for node in s4.values())
    annotations = {name for node in s4.values() for name in node["metadata"]["annotations"]}
    assert not [name for name in annotations if name.startswith("slicewright.io/")]


def test_most_gpus_of_the_catalog_are_simulated() -> None:
    lacking = [gpu.name for gpu in catalog.load().gpus.values() if fake_key(gpu) not in models()]
    assert lacking == ["H100-96", "GB300"]
