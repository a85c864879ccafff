"""NVIDIA's own GPU feature discovery, unchanged, on simulated silicon: the labels that it derives."""

from __future__ import annotations

from typing import Any

import pytest

from rehearsal.silicon import state


def _labels(node: Any, strategy: str) -> dict[str, str]:
    code, output = node.run(
        node.toolchain.gpu_feature_discovery,
        "--oneshot",
        "--use-node-feature-api=false",
        "-o=",
        "--no-timestamp",
        f"--mig-strategy={strategy}",
        "--machine-type-file=/sys/class/dmi/id/product_name",
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
        state.recut(node.files.silicon, index, ["1g.10gb"] * 7)
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
        state.recut(node.files.silicon, index, ["3g.40gb", "2g.20gb", "1g.10gb", "1g.10gb+me"])
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
    state.recut(node.files.silicon, 0, ["1g.10gb"] * 7)
    state.recut(node.files.silicon, 1, ["3g.40gb"] * 2)
    labels = _labels(node, "single")
    assert (labels["gpu.product"], labels["gpu.count"]) == ("NVIDIA-H100-80GB-HBM3-MIG-INVALID", "0")


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
def test_other_models_are_known_by_their_own_names(make_node: Any, model: str, product: str, family: str) -> None:
    labels = _labels(make_node(model, 1, "580.65.06"), "none")
    assert (labels["gpu.product"], labels["gpu.family"]) == (product, family)
