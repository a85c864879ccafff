"""Networks between the GPUs of a GKE pool: what the stack file may say, and what is asked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from slicewright.infra import plan, stack_file
from slicewright.infra.components.gke.node_pools import REPLACE_ON_CHANGES
from tests.recorder import Made

POOL = {
    "name": "a",
    "machine_type": "a3-ultragpu-8g",
    "zones": ["us-central1-b"],
    "nodes": {"count": 1},
    "disk": {"type": "hyperdisk-balanced"},
    "gpu_network": "dranet",
}
LABELS = {
    "cloud.google.com/gke-networking-dra-driver": "true",
    "gke.networks.io/accelerator-network-profile": "auto",
}


def fleet(cluster: dict[str, Any] | None = None, **pool: Any) -> str:
    where = {"name": "main", "location": "us-central1", **(cluster or {})}
    stated = {k: v for k, v in {**POOL, **pool}.items() if v is not None}
    return yaml.safe_dump({"cloud": "gke", "cluster": where, "node_pools": [stated]})


@pytest.fixture
def pools(record_cloud: Callable[..., list[Made]]) -> Callable[[str], dict[str, dict[str, Any]]]:
    """The node pools that are asked for, by name."""

    def of(text: str) -> dict[str, dict[str, Any]]:
        made = record_cloud("gke-h100", fleet=text)
        found = [m.inputs for m in made if m.type == "gcp:container/nodePool:NodePool"]
        return {inputs["name"]: dict(inputs) for inputs in found}

    return of


def notes(text: str) -> list[str]:
    raw = yaml.safe_load(text)
    return list(plan.notes(plan.read(json.dumps(raw), stack_file.Source("test", raw))))


def test_gke_makes_the_networks_of_the_pool_that_asks_and_of_no_other(
    pools: Callable[[str], dict[str, dict[str, Any]]],
) -> None:
    found = pools(fleet())
    assert found["a"]["networkConfig"] == {"acceleratorNetworkProfile": "auto"}
    assert found["a"]["nodeConfig"]["labels"].items() >= LABELS.items()
    assert "networkConfig" not in found["system"]


def test_private_nodes_and_gpu_networks_go_together(
    pools: Callable[[str], dict[str, dict[str, Any]]],
) -> None:
    found = pools(fleet({"private_nodes": True}))
    private = {"enablePrivateNodes": True}
    assert found["a"]["networkConfig"] == {"acceleratorNetworkProfile": "auto", **private}
    assert found["system"]["networkConfig"] == private


def test_a_pool_without_has_no_trace_of_it(
    pools: Callable[[str], dict[str, dict[str, Any]]],
) -> None:
    found = pools(fleet(gpu_network=None))["a"]
    assert "networkConfig" not in found
    assert not LABELS.keys() & found["nodeConfig"]["labels"].keys()


def test_the_label_that_goes_with_it_replaces_the_pool() -> None:
    """The provider keeps a network profile that is no longer stated."""
    label = "gke.networks.io/accelerator-network-profile"
    assert label in LABELS
    assert f'nodeConfig.labels["{label}"]' in REPLACE_ON_CHANGES


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            fleet(machine_type="a3-megagpu-8g", zones=["us-central1-a"]),
            "a3-megagpu-8g connects its GPUs by GPUDirect-TCPXO",
        ),
        (
            fleet(machine_type="a2-highgpu-8g", zones=["us-central1-a"], disk=None),
            "a2-highgpu-8g has no network interfaces for its GPUs",
        ),
        (
            fleet(zones=["us-central1-b", "us-central1-c"], nodes={"count": 2}),
            "a network between GPUs is in one zone",
        ),
        (fleet(gpu_network="rdma"), "rdma"),
        (
            fleet({"version": "1.34.1-gke.1431000"}),
            "cluster.version: 1.34.1-gke.1431000 is too old for gpu_network: dranet",
        ),
        (
            fleet({"version": "1.33", "release_channel": "EXTENDED"}),
            "cluster.version: 1.33 is too old for gpu_network: dranet",
        ),
    ],
)
def test_dranet_settings_that_gke_refuses_are_refused(
    broken: Callable[[str], str], text: str, said: str
) -> None:
    assert said in broken(text)


@pytest.mark.parametrize(
    ("version", "offers"),
    [
        ("1.34", True),
        ("1.34.1", True),
        ("1.34.1-gke.1829001", True),
        ("1.34.1-gke.1829000", False),
        ("1.34.0", False),
        ("1.35.0-gke.1", True),
        ("1.33.9", False),
        ("latest", True),
    ],
)
def test_a_version_that_is_cut_short_is_the_newest_that_it_can_be(
    version: str, offers: bool
) -> None:
    assert plan.offers_dranet(version) == offers


def test_a_note_says_who_creates_networks_and_how_pods_get_them() -> None:
    said = notes(fleet())
    assert [n for n in said if "needs roles/compute.networkAdmin" in n]
    (claims,) = [n for n in said if n.startswith("pool a: pods get network interfaces")]
    assert "partitions" not in claims
    cut = {"mode": "native", "profile": "1g.18gb"}
    assert [n for n in notes(fleet(partition=cut)) if "; partitions do not use them" in n]
    assert not [n for n in notes(fleet(gpu_network=None)) if "networkAdmin" in n]
