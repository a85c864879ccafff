"""Words for systems that slicewright does not manage get an answer, not the most similar key."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slicewright.infra import plan, stack_file

POOL: dict[str, Any] = {
    "name": "a100",
    "gpu": {"model": "A100-40", "count": 1},
    "nodes": {"count": 1},
    "partition": {"mode": "operator", "config": "all-balanced"},
}
FLEET: dict[str, Any] = {
    "cloud": "byo",
    "cluster": {"name": "lab", "context": "lab"},
    "node_pools": [POOL],
}


def refusal(fleet: dict[str, Any]) -> str:
    with pytest.raises(stack_file.SpecError) as raised:
        plan.read(json.dumps(fleet), stack_file.Source("test", fleet))
    return str(raised.value)


@pytest.mark.parametrize("cloud", ["aks", "oke", "azure", "openshift", "k3s", "OKE"])
def test_cloud_that_is_not_managed_is_used_as_an_existing_cluster(cloud: str) -> None:
    said = refusal(FLEET | {"cloud": cloud})
    assert "1 problem" in said
    assert "write cloud: byo with the context of its kubeconfig" in said
    assert "did you mean" not in said


@pytest.mark.parametrize(
    ("key", "answer"),
    [
        ("dra", "not by DRA"),
        ("resourceClaimTemplates", "not by DRA"),
        ("device_class", "not by DRA"),
        ("kueue", "set its quotas on the resources"),
        ("compute_class", "create node pools that nothing verifies"),
        ("computeClass", "create node pools that nothing verifies"),
        ("node_auto_provisioning", "list the pools here"),
        ("autopilot", "use a GKE Standard cluster"),
        ("auto_mode", "cannot partition GPUs"),
    ],
)
def test_word_of_another_system_says_what_to_do_instead(key: str, answer: str) -> None:
    for fleet in (
        FLEET | {key: True},
        FLEET | {"cluster": FLEET["cluster"] | {key: True}},
        FLEET | {"node_pools": [POOL | {key: True}]},
    ):
        said = refusal(fleet)
        assert "1 problem" in said
        assert answer in said


def test_partition_by_dra_says_what_to_do_instead() -> None:
    said = refusal(FLEET | {"node_pools": [POOL | {"partition": {"mode": "dra"}}]})
    assert "not by DRA" in said


@pytest.mark.parametrize(
    ("key", "value", "answer"),
    [
        (
            "sharing",
            {"mode": "time-slicing", "replicas": {"gpu": 2}, "devices": [0]},
            "NVIDIA's device plugin shares all GPUs of a node or none",
        ),
        (
            "sharing",
            {"mode": "mps", "replicas": {"gpu": 2}, "devices": [0]},
            "NVIDIA's device plugin shares all GPUs of a node or none",
        ),
        ("mig_strategy", "single", "write gpu_operator.mig_strategy: one strategy for all pools"),
    ],
)
def test_key_that_belongs_elsewhere_says_where(key: str, value: Any, answer: str) -> None:
    whole = {name: field for name, field in POOL.items() if name != "partition"}
    said = refusal(FLEET | {"node_pools": [whole | {key: value}]})
    assert answer in said
    assert "known keys" not in said


def test_confidential_nodes_are_refused_with_the_reason() -> None:
    pool = {"name": "a", "machine_type": "a3-highgpu-1g", "nodes": {"count": 1}}
    cluster = {"name": "c", "location": "us-central1"}
    fleet = {"cloud": "gke", "cluster": cluster, "node_pools": [pool | {"confidential": True}]}
    assert "slicewright makes no confidential nodes" in refusal(fleet)
