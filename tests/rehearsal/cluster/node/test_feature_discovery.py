"""NVIDIA's GPU feature discovery, unchanged, with the fake NVML: the labels that it derives."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from slicewright.infra import catalog
from slicewright.infra.plan.model.offers import ReplicatedResource
from slicewright.infra.plan.partition.feature_labels import feature_labels
from slicewright.rehearsal.cluster.node.launcher import Bind
from slicewright.rehearsal.cluster.silicon import state


def _labels(node: Any, strategy: str, *flags: str, binds: tuple[Bind, ...] = ()) -> dict[str, str]:
    code, output = node.run(
        node.toolchain.gpu_feature_discovery,
        "--oneshot",
        "--use-node-feature-api=false",
        "-o=",
        "--no-timestamp",
        f"--mig-strategy={strategy}",
        "--machine-type-file=/sys/class/dmi/id/product_name",
        *flags,
        binds=binds,
    )
    assert code == 0, output
    pairs = [line.split("=", 1) for line in output.splitlines() if line.startswith("nvidia.com/")]
    return {key.removeprefix("nvidia.com/"): value for key, value in pairs}


def test_a_node_without_mig_is_labelled_with_its_gpus(make_node: Any) -> None:
    labels = _labels(make_node(machine_type="p5.48xlarge"), "none")
    expected = {
        "gpu.product": "NVIDIA-H100-80GB-HBM3",
        "gpu.count": "8",
        "gpu.replicas": "1",
        "gpu.memory": "81559",
        "gpu.family": "hopper",
        "gpu.compute.major": "9",
        "gpu.compute.minor": "0",
        "gpu.machine": "p5.48xlarge",
        "mig.capable": "true",
        "cuda.driver-version.full": "550.90.07",
        "cuda.runtime-version.full": "12.4",
    }
    assert {key: labels.get(key) for key in expected} == expected


def test_single_labels_the_partition_as_the_product(make_node: Any) -> None:
    node = make_node()
    for index in range(8):
        state.repartition(node.files.silicon, index, ["1g.10gb"] * 7)
    labels = _labels(node, "single")
    expected = {
        "gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb",
        "gpu.count": "56",
        "gpu.memory": "9984",
        "gpu.multiprocessors": "16",
        "gpu.slices.gi": "1",
        "gpu.engines.decoder": "1",
        "mig.strategy": "single",
    }
    assert {key: labels.get(key) for key in expected} == expected


def test_mixed_labels_every_profile(make_node: Any) -> None:
    node = make_node()
    for index in range(8):
        state.repartition(
            node.files.silicon, index, ["3g.40gb", "2g.20gb", "1g.10gb", "1g.10gb+me"]
        )
    labels = _labels(node, "mixed")
    expected = {
        "gpu.product": "NVIDIA-H100-80GB-HBM3",
        "gpu.count": "8",
        "mig-1g.10gb.count": "8",
        "mig-1g.10gb.me.count": "8",
        "mig-2g.20gb.memory": "20096",
        "mig-3g.40gb.multiprocessors": "60",
        "mig-3g.40gb.slices.ci": "3",
        "mig-3g.40gb.product": "NVIDIA-H100-80GB-HBM3-MIG-3g.40gb",
    }
    assert {key: labels.get(key) for key in expected} == expected


def test_single_on_a_mixed_node_is_labelled_invalid(make_node: Any) -> None:
    node = make_node(count=2)
    state.repartition(node.files.silicon, 0, ["1g.10gb"] * 7)
    state.repartition(node.files.silicon, 1, ["3g.40gb"] * 2)
    labels = _labels(node, "single")
    assert (labels["gpu.product"], labels["gpu.count"]) == (
        "NVIDIA-H100-80GB-HBM3-MIG-INVALID",
        "0",
    )
    state.repartition(node.files.silicon, 1, ["1g.10gb"] * 7)
    labels = _labels(node, "single")
    assert (labels["gpu.product"], labels["gpu.count"]) == (
        "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb",
        "14",
    )


_P = "NVIDIA-H100-80GB-HBM3"
_SEVEN, _MIXED = ["1g.10gb"] * 7, ["1g.20gb"] * 3 + ["1g.10gb"]
_ALL = ("product", "count", "replicas", "sharing-strategy", "memory")


def _row(product: str, count: int, replicas: int, sharing: str, memory: int) -> dict[str, str]:
    return dict(zip(_ALL, (product, str(count), str(replicas), sharing, str(memory)), strict=True))


_ROWS: list[tuple[str, tuple[list[str], list[str]], dict[str, int], dict[str, dict[str, str]]]] = [
    ("none", ([], []), {}, {"gpu": _row(_P, 2, 1, "none", 81559)}),
    ("none", ([], []), {"gpu": 4}, {"gpu": _row(f"{_P}-SHARED", 2, 4, "time-slicing", 81559)}),
    # GPUs in MIG mode are labelled without sharing, and with 0 replicas (its code: a nil config).
    ("none", (_SEVEN, _SEVEN), {}, {"gpu": _row(_P, 2, 0, "none", 81559)}),
    ("none", (_SEVEN, _SEVEN), {"gpu": 4}, {"gpu": _row(_P, 2, 0, "none", 81559)}),
    ("single", ([], []), {"gpu": 4}, {"gpu": _row(f"{_P}-SHARED", 2, 4, "time-slicing", 81559)}),
    ("single", (_SEVEN, _SEVEN), {}, {"gpu": _row(f"{_P}-MIG-1g.10gb", 14, 1, "none", 9984)}),
    (
        "single",
        (_SEVEN, _SEVEN),
        {"gpu": 4},
        {"gpu": _row(f"{_P}-MIG-1g.10gb-SHARED", 14, 4, "time-slicing", 9984)},
    ),
    ("single", ([], _SEVEN), {"gpu": 4}, {"gpu": _row(f"{_P}-MIG-INVALID", 0, 0, "", 0)}),
    ("single", (_MIXED, _MIXED), {"gpu": 4}, {"gpu": _row(f"{_P}-MIG-INVALID", 0, 0, "", 0)}),
    (
        "mixed",
        (_SEVEN, _SEVEN),
        {"mig-1g.10gb": 2},
        {
            "gpu": _row(_P, 2, 0, "none", 81559),
            "mig-1g.10gb": _row(f"{_P}-MIG-1g.10gb-SHARED", 14, 2, "time-slicing", 9984),
        },
    ),
    (
        "mixed",
        ([], _MIXED),
        {"gpu": 4, "mig-1g.10gb": 2},
        {
            "gpu": _row(f"{_P}-SHARED", 2, 4, "time-slicing", 81559),
            "mig-1g.10gb": _row(f"{_P}-MIG-1g.10gb-SHARED", 1, 2, "time-slicing", 9984),
            "mig-1g.20gb": _row(f"{_P}-MIG-1g.20gb", 3, 1, "none", 20096),
        },
    ),
]


@pytest.mark.parametrize(
    ("strategy", "cut", "replicas", "expected", "rename"),
    [(*row, rename) for row in _ROWS for rename in (False, True) if row[2] or not rename],
)
def test_every_strategy_with_and_without_time_slicing(
    make_node: Any,
    strategy: str,
    cut: tuple[list[str], list[str]],
    replicas: dict[str, int],
    expected: dict[str, dict[str, str]],
    rename: bool,
) -> None:
    """As its code derives them (internal/lm of k8s-device-plugin 0.19.0): a renamed resource's
    product is not called shared.
    """
    node = make_node(count=2)
    for index, profiles in enumerate(cut):
        if profiles:
            state.repartition(node.files.silicon, index, profiles)
    flag, bind = node.sharing(
        {f"nvidia.com/{name}": count for name, count in replicas.items()}, rename=rename
    )
    labels = _labels(node, strategy, flag, binds=(bind,)) if replicas else _labels(node, strategy)
    named = {key.rpartition(".count")[0] for key in labels if key.endswith(".count")}
    assert {name: {key: labels.get(f"{name}.{key}") for key in _ALL} for name in named} == {
        name: {
            **row,
            "product": row["product"].removesuffix("-SHARED") if rename else row["product"],
        }
        for name, row in expected.items()
    }
    assert labels.get("mig.strategy") == (None if strategy == "none" else strategy)
    if "INVALID" in str(expected):
        return  # refused by the plan
    planned = feature_labels(
        catalog.load().gpus["H100-80"],
        [dict(Counter(profiles)) for profiles in cut],
        strategy,  # type: ignore[arg-type]
        [
            ReplicatedResource(
                resource=f"nvidia.com/{name}",
                advertised=f"nvidia.com/{name}{'.shared' * rename}",
                strategy="time-slicing",
                replicas=count,
                fail_requests_greater_than_one=True,
            )
            for name, count in replicas.items()
        ],
    )
    assert {key.removeprefix("nvidia.com/"): value for key, (value, *_) in planned.items()} == {
        key: value
        for key, value in labels.items()
        if key.endswith((".product", ".count", ".replicas"))
    }


def test_mig_mode_without_partitions_is_invalid_as_single_and_nothing_as_mixed(
    make_node: Any,
) -> None:
    node = make_node(count=2)
    for index in range(2):
        state.repartition(node.files.silicon, index, [])
    single, mixed = _labels(node, "single"), _labels(node, "mixed")
    assert (single["gpu.product"], single["gpu.count"], single["gpu.replicas"]) == (
        f"{_P}-MIG-INVALID",
        "0",
        "0",
    )
    assert (mixed["gpu.product"], mixed["gpu.count"], mixed["gpu.replicas"]) == (_P, "2", "0")
    assert [key for key in mixed if key.startswith("mig-")] == []


@pytest.mark.parametrize(
    ("model", "product", "family"),
    [
        ("T4", "Tesla-T4", "turing"),
        ("L4", "NVIDIA-L4", "ada-lovelace"),
        ("A10G", "NVIDIA-A10G", "ampere"),
        ("H200", "NVIDIA-H200", "hopper"),
        ("B200", "NVIDIA-B200", "blackwell"),
        ("RTX-PRO-6000", "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", "blackwell"),
    ],
)
def test_other_models_are_labelled_with_their_names(
    make_node: Any, model: str, product: str, family: str
) -> None:
    labels = _labels(make_node(model, 1, "580.65.06"), "none")
    assert (labels["gpu.product"], labels["gpu.family"]) == (product, family)
