from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from slicewright.apis.desired_state import (
    Desired,
    DesiredError,
    DesiredGpu,
    DesiredShares,
    DesiredSharing,
    dump,
    hash_of,
    parse,
)

FULL = Desired(
    pool="all-of-it",
    partitioner="mig-manager",
    gpu_count=3,
    gpu_models=("NVIDIA A100-SXM4-40GB",),
    gpu_memory_mib=40960,
    minimum_driver="525.60.13",
    gpus=(
        DesiredGpu(index=0, mig=True, instances={"1g.5gb": 7}),
        DesiredGpu(index=1, mig=True, instances={"1c.3g.20gb": 3, "1g.5gb+me": 1}),
        DesiredGpu(index=2, mig=False),
    ),
    resources={"nvidia.com/mig-1g.5gb": 14, "nvidia.com/gpu": 1},
    sharing=(
        DesiredSharing(resource="nvidia.com/mig-1g.5gb", strategy="time-slicing", replicas=2),
    ),
    labels={"nvidia.com/gpu.product": ("NVIDIA-A100-PCIE-40GB", "NVIDIA-A100-SXM4-40GB")},
)


def test_parse_inverts_dump() -> None:
    assert parse(dump(FULL)) == FULL


SHARED = replace(
    FULL,
    gpus=(DesiredGpu(index="all", mig=False),),
    sharing=(),
    resources={"volcano.sh/vgpu-number": 30},
    shares=DesiredShares(engine="volcano", slots=10, memory_percent=150, memory_unit_mib=2),
)


def test_parse_inverts_dump_of_a_node_with_shares() -> None:
    assert parse(dump(SHARED)) == SHARED
    assert hash_of(SHARED) != hash_of(replace(SHARED, shares=None))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda r: r["shares"].update(engine="kai"), "shares.engine: must be one of hami, volcano"),
        (lambda r: r["shares"].pop("slots"), "shares.slots: missing"),
        (lambda r: r["shares"].update(slots=0), "shares.slots: 0; must be at least 1"),
        (lambda r: r["shares"].update(memory_percent=50), "memory_percent: 50; must be at least"),
        (lambda r: r.update(shares=3), "shares: must be an object, is 3"),
        (lambda r: r["gpus"][0].update(mig=True), "leave out MIG and sharing"),
    ],
)
def test_contradictions_of_shares_are_named(
    change: Callable[[dict[str, Any]], None], problem: str
) -> None:
    raw = json.loads(dump(SHARED))
    change(raw)
    with pytest.raises(DesiredError, match=r"1 problem") as refused:
        parse(json.dumps(raw))
    assert problem in str(refused.value)


def test_order_of_building_changes_neither_text_nor_hash() -> None:
    shuffled = replace(
        FULL, gpus=tuple(reversed(FULL.gpus)), resources=dict(reversed(FULL.resources.items()))
    )
    assert dump(shuffled) == dump(FULL)
    assert hash_of(shuffled) == hash_of(FULL)


def test_hash_of_a_layout_never_changes() -> None:
    """It stands in running clusters: a change rolls every agent and makes every pool be proven
    again.
    """
    plain = Desired(
        pool="p",
        partitioner="gke",
        gpu_count=8,
        gpu_models=("NVIDIA H100 80GB HBM3",),
        gpus=(DesiredGpu(index="all", mig=True, instances={"3g.40gb": 2}),),
        resources={"nvidia.com/gpu": 16},
    )
    assert hash_of(plain) == "20104653f68786391a7d42bc1908517ca8e7e53836dba23d862cf5fe6ea74538"


def test_any_difference_changes_the_hash() -> None:
    others = [
        replace(FULL, pool="other"),
        replace(FULL, partitioner="none"),
        replace(FULL, gpu_models=("NVIDIA A100-SXM4-80GB",)),
        replace(FULL, minimum_driver=None),
        replace(FULL, gpu_memory_mib=None),
        replace(FULL, resources={**FULL.resources, "nvidia.com/gpu": 2}),
        replace(FULL, sharing=()),
        replace(FULL, labels={}),
    ]
    assert len({hash_of(d) for d in [FULL, *others]}) == len(others) + 1


def _without(key: str) -> Callable[[dict[str, object]], None]:
    return lambda raw: raw.pop(key) and None


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda r: r.update(version="v2"), "version: must be v1"),
        (_without("gpus"), "gpus: missing"),
        (lambda r: r.update(gpuz=[]), "gpuz: unknown key; the keys are version, pool"),
        (lambda r: r.update(pool=""), "pool: is empty"),
        (lambda r: r.update(pool=3), "pool: must be a string, is 3"),
        (
            lambda r: r.update(partitioner="me"),
            'partitioner: must be one of gke, bottlerocket, mig-manager, none, is "me"',
        ),
        (lambda r: r.update(gpu_count=True), "gpu_count: must be a whole number, is true"),
        (lambda r: r.update(gpu_count=2.0), "gpu_count: must be a whole number, is 2.0"),
        (lambda r: r.update(gpu_count=0, gpus=[]), "gpu_count: 0; must be at least 1"),
        (lambda r: r.update(gpu_models=[]), "gpu_models: name at least one"),
        (lambda r: r.update(gpu_models="H100"), 'gpu_models: must be a list, is "H100"'),
        (
            lambda r: r["gpus"].pop(),
            'gpus: indexes [0, 1]; write one entry "all", or each of 0 to 2 once',
        ),
        (lambda r: r["gpus"][0].update(index="all"), "write one entry"),
        (
            lambda r: r["gpus"][0].update(index="first"),
            'gpus[0].index: must be a whole number, is "first"',
        ),
        (lambda r: r["gpus"][2].update(instances={"1g.5gb": 1}), "gpus[2]: instances without MIG"),
        (
            lambda r: r["gpus"][0].update(instances={"1g5gb": 1}),
            "gpus[0].instances: '1g5gb' is not a MIG profile",
        ),
        (
            lambda r: r["gpus"][0].update(instances={"1g.5gb": 0}),
            "gpus[0].instances.1g.5gb: 0; must be at least 1",
        ),
        (lambda r: r["gpus"][0].update(mig="yes"), 'gpus[0].mig: must be true or false, is "yes"'),
        (lambda r: r.update(gpus=[1]), "gpus[0]: must be an object, is 1"),
        (lambda r: r.update(resources={"gpu": 1}), "resources: 'gpu' is not an extended resource"),
        (
            lambda r: r["resources"].update({"nvidia.com/gpu": -1}),
            "resources.nvidia.com/gpu: -1; must be 0 or more",
        ),
        (lambda r: r.update(minimum_driver="new"), "minimum_driver: 'new' is not a driver version"),
        (lambda r: r.update(gpu_memory_mib=0), "gpu_memory_mib: 0"),
        (
            lambda r: r["sharing"][0].update(resource="nvidia.com/x"),
            "sharing[0].resource: 'nvidia.com/x' is not in resources",
        ),
        (
            lambda r: r["sharing"][0].update(replicas=3),
            "sharing[0].replicas: 3; must be at least 2 and divide",
        ),
        (
            lambda r: r["sharing"][0].update(strategy="luck"),
            "sharing[0].strategy: must be one of time-slicing, mps",
        ),
        (lambda r: r.update(labels={"a": "b"}), 'labels.a: must be a list, is "b"'),
        (lambda r: r.update(labels={"a": [1]}), "labels.a[0]: must be a string, is 1"),
        (lambda r: r.update(labels={"a": []}), "labels.a: has no value"),
        (lambda r: r.update(labels=[]), "labels: must be an object of lists, is []"),
    ],
)
def test_an_invalid_value_is_refused_with_its_path(
    change: Callable[[dict[str, object]], None], problem: str
) -> None:
    raw = json.loads(dump(FULL))
    change(raw)
    with pytest.raises(DesiredError) as refused:
        parse(json.dumps(raw), source="desired.json")
    assert problem in str(refused.value)
    assert str(refused.value).startswith("desired.json: ")


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "3", '"x"', "\x00"])
def test_anything_but_an_object_is_refused(text: str) -> None:
    with pytest.raises(DesiredError):
        parse(text)


def test_all_problems_come_at_once() -> None:
    raw = json.loads(dump(FULL))
    raw.update(pool="", gpu_models=[], minimum_driver="x")
    with pytest.raises(DesiredError) as refused:
        parse(json.dumps(raw))
    assert "3 problems" in str(refused.value)


def test_an_invalid_state_cannot_be_dumped() -> None:
    with pytest.raises(DesiredError, match="gpu_count: 0"):
        dump(replace(FULL, gpu_count=0, gpus=()))


def test_a_gpu_is_found_by_its_index() -> None:
    assert FULL.gpu(2) == DesiredGpu(index=2, mig=False)
    everywhere = replace(FULL, gpus=(DesiredGpu(index="all", mig=False),))
    assert everywhere.gpu(1).index == "all"
    with pytest.raises(KeyError):
        everywhere.gpu(3)
