"""GPUs of existing nodes by NVML's product: whole and shared use needs no MIG profiles."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slicewright.infra import catalog, plan, stack_file
from slicewright.infra.catalog import gpu_names

SLICED = {"mode": "time-slicing", "replicas": 4}


def raw_fleet(gpu: Any, **pool: Any) -> dict[str, Any]:
    one = {"name": "a", "gpu": gpu, "nodes": {"count": 1}, **pool}
    return {"cloud": "byo", "cluster": {"name": "c", "context": "c"}, "node_pools": [one]}


def planned(gpu: Any, **pool: Any) -> plan.PoolPlan:
    raw = raw_fleet(gpu, **pool)
    return plan.read(json.dumps(raw), stack_file.Source("test", raw)).pools[0]


def problem(gpu: Any, **pool: Any) -> stack_file.Problem:
    raw = raw_fleet(gpu, **pool)
    with pytest.raises(stack_file.SpecError) as refused:
        plan.read(json.dumps(raw), stack_file.Source("test", raw))
    (only,) = refused.value.problems
    return only


@pytest.mark.parametrize(
    ("product", "memory_mib"),
    [("NVIDIA A10", 23028), ("NVIDIA A40", 46068), ("NVIDIA L40", None), ("NVIDIA T4G", None)],
)
def test_a_gpu_without_profiles_is_whole_and_time_sliced(
    product: str, memory_mib: int | None
) -> None:
    pool = planned({"product": product, "count": 2}, sharing=SLICED)
    assert pool.offer.resources == {"nvidia.com/gpu": 8}
    assert pool.offer.expected.gpu_models == (product,)
    assert pool.offer.expected.gpu_memory_mib == memory_mib
    assert pool.offer.expected.minimum_driver is None


def test_a_product_of_the_catalog_is_its_model_with_its_partitions() -> None:
    layout = {"mode": "operator", "layout": {"1g.5gb": 7}}
    pool = planned({"product": "NVIDIA A100-SXM4-40GB", "count": 1}, partition=layout)
    assert pool.gpu is catalog.load().gpus["A100-40"]


def test_a_product_in_another_spelling_is_the_same_gpu() -> None:
    assert planned({"product": "nvidia a10", "count": 1}).gpu.products == ("NVIDIA A10",)


def test_every_named_gpu_can_be_used_whole() -> None:
    for gpu in gpu_names._whole_gpus().values():
        pool = planned({"product": gpu.products[0], "count": 2})
        assert pool.offer.resources == {"nvidia.com/gpu": 2}
        assert gpu.products[0] in pool.offer.expected.gpu_models


def test_every_model_of_the_catalog_but_two_is_in_the_table_of_names() -> None:
    names = set(gpu_names._whole_gpus())
    lacking = {
        gpu.name
        for gpu in catalog.load().gpus.values()
        if not names & {gpu_names._folded(product) for product in gpu.products}
    }
    assert lacking <= {"T4", "H100-96"}


def test_a_product_that_no_table_has_is_taken_as_written_with_a_note() -> None:
    name = "NVIDIA GeForce RTX 2080 Ti"
    raw = raw_fleet({"product": name, "count": 1}, sharing=SLICED)
    fleet = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    assert fleet.pools[0].offer.expected.gpu_models == (name,)
    assert any(f"slicewright knows no GPU {name}" in note for note in plan.notes(fleet))
    known = raw_fleet({"product": "NVIDIA A10", "count": 1})
    other = plan.read(json.dumps(known), stack_file.Source("test", known))
    assert not any("knows no GPU" in note for note in plan.notes(other))


@pytest.mark.parametrize(
    ("product", "reason"),
    [
        ("NVIDIA A800-SXM4-40GB", "has MIG, but its profiles are not in the catalog"),
        ("NVIDIA A10", "has no MIG: it cannot be partitioned"),
    ],
)
def test_a_gpu_named_by_product_cannot_be_partitioned(product: str, reason: str) -> None:
    layout = {"mode": "operator", "layout": {"1g.5gb": 7}}
    assert reason in problem({"product": product, "count": 1}, partition=layout).reason


@pytest.mark.parametrize("gpu", [{"count": 1}, {"model": "T4", "product": "Tesla T4", "count": 1}])
def test_exactly_one_of_model_and_product_is_stated(gpu: dict[str, Any]) -> None:
    assert problem(gpu).reason == "must have exactly one of model and product"


@pytest.mark.parametrize(
    ("model", "instead"),
    [
        ("L40", "to use its GPUs whole, write product: NVIDIA L40"),
        ("A10", "to use its GPUs whole, write product: NVIDIA A10"),
        ("RTX A6000", "to use its GPUs whole, write product: NVIDIA RTX A6000"),
        ("a100_40", "did you mean A100-40?"),
        ("H100-NVL", "did you mean H100-94?"),
        ("H900", "known: "),
    ],
)
def test_a_wrong_model_is_never_answered_by_another_model(model: str, instead: str) -> None:
    answer = problem({"model": model, "count": 1}).instead
    assert answer.startswith(instead)
    if not instead.startswith("did you"):
        assert "did you mean" not in answer


def test_two_models_in_a_node_are_refused_plainly() -> None:
    two = [{"model": "A10G", "count": 2}, {"model": "T4", "count": 2}]
    assert "two models in one node" in problem(two).instead


@pytest.mark.parametrize(
    ("key", "value", "place"),
    [
        ("mig_strategy", "single", "gpu_operator.mig_strategy"),
        ("cluster_policy", "x", "gpu_operator.cluster_policy"),
        ("startup_taint", "none", "startup_taint"),
    ],
)
def test_an_unknown_key_says_where_it_belongs(key: str, value: str, place: str) -> None:
    refused = problem({"model": "T4", "count": 1}, **{key: value})
    assert refused.reason == "unknown key"
    assert place in refused.instead


@pytest.mark.parametrize("replicas", [1, 49])
def test_mps_shares_a_gpu_among_2_to_48_pods(replicas: int) -> None:
    raw = raw_fleet({"model": "T4", "count": 1}, sharing={"mode": "mps", "replicas": replicas})
    raw["gpu_operator"] = {"mig_strategy": "none"}
    with pytest.raises(stack_file.SpecError) as refused:
        plan.read(json.dumps(raw), stack_file.Source("test", raw))
    (only,) = refused.value.problems
    assert "write 2 to 48" in only.instead
