"""The layouts that mig-manager knows by name: all that a node may still carry."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from slicewright.infra import catalog, geometry, manifests, plan, stack_file
from slicewright.infra.catalog import Gpu
from slicewright.infra.plan.partition.layout_names import layout_name, uniform_layouts

MIG_GPUS = [gpu for gpu in catalog.load().gpus.values() if gpu.family]
by_model = pytest.mark.parametrize("gpu", MIG_GPUS, ids=lambda gpu: gpu.name)


def fleet(*partitions: Any, model: str = "A100-40") -> plan.FleetPlan:
    """A pool per partition, in an existing cluster: `a`, `b`, …"""
    raw: dict[str, Any] = {
        "cloud": "byo",
        "cluster": {"name": "c", "context": "c"},
        "node_pools": [
            {
                "name": chr(ord("a") + i),
                "gpu": {"model": model, "count": 2},
                "nodes": {"count": 1},
                "partition": partition,
            }
            for i, partition in enumerate(partitions)
        ],
    }
    return plan.read(json.dumps(raw), stack_file.Source("test", raw))


def cut(**layout: int) -> dict[str, Any]:
    return {"mode": "operator", "layout": {k.replace("_", "."): n for k, n in layout.items()}}


def configs(made: plan.FleetPlan) -> dict[str, Any]:
    named: dict[str, Any] = manifests.mig_parted_config(made.pools)["mig-configs"]
    return named


@by_model
def test_every_layout_has_a_name_of_its_own_that_is_a_label(gpu: Gpu) -> None:
    named = uniform_layouts(gpu)
    assert len(named) == len(geometry.layouts(gpu)) + 1
    for name, layout in named.items():
        assert re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", name), name
        assert len(name) <= 63
        assert layout_name("pool", gpu, (layout,) * 8) == name


@by_model
def test_nvidias_layout_names_have_nvidias_meaning(gpu: Gpu) -> None:
    named = uniform_layouts(gpu)
    for name, config in catalog.load().named_configs[gpu.name].items():
        if name != "all-enabled":  # MIG without instances is no layout
            assert named[name] == config.layout


@pytest.mark.parametrize(
    ("layout", "name"),
    [
        ({"1g.5gb": 7}, "all-1g.5gb"),
        ({"1g.5gb": 2, "2g.10gb": 1, "3g.20gb": 1}, "all-balanced"),
        ({"3g.20gb": 1, "1g.5gb+me": 1, "1g.5gb": 2}, "3g.20gb-1_1g.5gb.me-1_1g.5gb-2"),
        ({}, "all-disabled"),
    ],
)
def test_a_name_can_be_read(layout: dict[str, int], name: str) -> None:
    assert layout_name("pool", catalog.load().gpus["A100-40"], (layout, layout)) == name


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (cut(**{"3g_20gb": 2}), cut(**{"1g_5gb": 3})),
        ({"mode": "operator", "config": "all-balanced"}, "none"),
        ("none", {"mode": "operator", "config": "all-1g.5gb"}),
    ],
)
def test_a_change_keeps_the_old_layout_and_the_config_as_it_is(before: Any, after: Any) -> None:
    old, new = fleet(before), fleet(after)
    assert old.pools[0].offer.mig_config != new.pools[0].offer.mig_config
    assert (
        configs(new)[str(old.pools[0].offer.mig_config)]
        == configs(old)[str(old.pools[0].offer.mig_config)]
    )
    # So neither the ConfigMap nor the operator's release changes, and no mig-manager restarts.
    assert manifests.mig_parted_config(old.pools) == manifests.mig_parted_config(new.pools)


def test_one_name_can_have_a_layout_for_each_gpu_model() -> None:
    """As in NVIDIA's own all-1g.10gb: 7 on an A100 with 80 GB, 4 on one with 40 GB."""
    a100_40, a100_80 = fleet(cut(**{"1g_10gb": 4})), fleet(cut(**{"1g_10gb": 7}), model="A100-80")
    made = manifests.mig_parted_config([*a100_40.pools, *a100_80.pools])["mig-configs"][
        "all-1g.10gb"
    ]
    assert [(entry["device-filter"][0], entry["mig-devices"]) for entry in made] == [
        ("0x20B010DE", {"1g.10gb": 4}),
        ("0x20B210DE", {"1g.10gb": 7}),
    ]


def test_gpus_without_mig_have_no_layouts() -> None:
    assert set(configs(fleet("none", model="T4"))) == {"all-disabled"}


def test_layouts_by_index_have_the_pools_name() -> None:
    by_index = {
        "mode": "operator",
        "gpus": [{"index": [0], "layout": {"1g.5gb": 7}}, {"index": [1], "layout": {}}],
    }
    made = fleet("none", by_index)
    name = made.pools[1].offer.mig_config
    assert name is not None
    assert re.fullmatch(r"b-[0-9a-f]{8}", name)
    assert [(e["devices"], e["mig-enabled"]) for e in configs(made)[name]] == [
        ([0], True),
        ([1], False),
    ]


def test_earlier_layouts_by_index_are_kept_if_the_stack_file_lists_them() -> None:
    """They are too many to have all of them."""
    old = [{"index": [0], "layout": {"1g.5gb": 7}}, {"index": [1], "layout": {}}]
    new = [{"index": [1], "layout": {"1g.5gb": 7}}, {"index": [0], "layout": {}}]
    before = fleet({"mode": "operator", "gpus": old})
    name = before.pools[0].offer.mig_config
    assert name is not None
    for now in ({"gpus": new}, {"layout": {"1g.5gb": 7}}, {"config": "all-disabled"}):
        after = fleet({"mode": "operator", **now, "previous": [old]})
        assert after.pools[0].offer.mig_config != name
        assert configs(after)[name] == configs(before)[name]


def test_an_earlier_layout_is_checked_like_any_other() -> None:
    one = {"mode": "operator", "layout": {"1g.5gb": 7}}
    with pytest.raises(stack_file.SpecError, match=r"previous\[0\].*has no layout for GPU 1"):
        fleet({**one, "previous": [[{"index": [0], "layout": {"1g.5gb": 7}}]]})


def test_an_earlier_layout_must_suit_the_strategy_too() -> None:
    """A node that still has it would lose its device plugin."""
    old = [{"index": [0], "layout": {"1g.5gb": 7}}, {"index": [1], "layout": {}}]
    raw: dict[str, Any] = {
        "cloud": "byo",
        "cluster": {"name": "c", "context": "c"},
        "gpu_operator": {"mig_strategy": "single"},
        "node_pools": [
            {
                "name": "a",
                "gpu": {"model": "A100-40", "count": 2},
                "nodes": {"count": 1},
                "partition": {**cut(**{"1g_5gb": 7}), "previous": [old]},
            }
        ],
    }
    with pytest.raises(
        stack_file.SpecError, match=r"previous\[0\].*leaves some GPUs unpartitioned"
    ):
        plan.read(json.dumps(raw), stack_file.Source("test", raw))


@pytest.mark.parametrize("listed", [False, True])
def test_the_diff_names_an_earlier_layout_by_index_that_is_dropped(listed: bool) -> None:
    old = [{"index": [0], "layout": {"1g.5gb": 7}}, {"index": [1], "layout": {}}]
    before = fleet({"mode": "operator", "gpus": old})
    after = fleet({"mode": "operator", "config": "all-1g.5gb", "previous": [old] if listed else []})
    (pool,) = plan.compare(before, after).pools
    warned = [c for c in pool.changes if "list it under partition.previous" in c.rule.why]
    assert len(warned) == (0 if listed else 1)
