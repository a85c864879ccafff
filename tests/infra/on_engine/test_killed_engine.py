"""The engine killed in the middle of `up` and of `destroy`: the next run goes on, nothing is made
twice, and nothing is left behind.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from slicewright.rehearsal.host.toolchain import Toolchain
from tests.infra.cloud_engine import REGION
from tests.infra.on_engine.killed_engine import KilledEngine, killed_engine

POOLS = {"machine_type": "g6.xlarge", "nodes": {"count": 1}}
FLEETS: Mapping[str, Mapping[str, Any]] = {
    "gke": {
        "cloud": "gke",
        "cluster": {
            "name": "main",
            "location": "us-central1-c",
            "private_nodes": True,
            "control_plane": {"dns_endpoint": True, "private_endpoint": True},
        },
        "node_pools": [
            {"name": "a", "machine_type": "a2-highgpu-1g", "nodes": {"count": 1}},
            {"name": "b", "machine_type": "a2-highgpu-1g", "nodes": {"count": 1}},
        ],
    },
    "eks": {
        "cloud": "eks",
        "cluster": {
            "name": "c",
            "region": REGION,
            "zones": [f"{REGION}a", f"{REGION}b"],
            "network": {"mode": "private", "nat_gateways": "one"},
            "autoscaler": "cluster-autoscaler",
            "version": "1.36",
        },
        "node_pools": [
            {"name": "a", **POOLS, "disk": {"size_gb": 200, "encrypted": True}},
            {"name": "b", **POOLS, "nodes": {"min": 0, "max": 2}},
        ],
    },
}
# Each is a life: an `up` cut off, gone on with, a `destroy` cut off, gone on with.
SEEDS = range(20)
FEW = (3,)
"""Of `make test`: four moments, two of each cloud."""


@pytest.mark.parametrize(
    "cloud",
    [
        pytest.param(
            "gke",
            marks=pytest.mark.long(
                "an engine that is killed on GKE: "
                "tests/rehearsal/plugins/providers/gcp/test_killed_engine.py"
            ),
        ),
        "eks",
    ],
)
@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(FEW, id="few"),
        pytest.param([s for s in SEEDS if s not in FEW], id="all", marks=pytest.mark.soak),
    ],
)
@pytest.mark.timeout(3600)
def test_work_that_a_killed_run_began_is_continued_once(
    cloud: str, seeds: list[int], tmp_path: Path, toolchain: Toolchain
) -> None:
    with killed_engine(tmp_path, toolchain, FLEETS[cloud]) as stack:
        ups, made = stack.undisturbed("up"), stack.inventory()
        downs, left = stack.undisturbed("destroy"), stack.inventory()
        assert left == {}
        for seed in seeds:
            _lives(stack, random.Random(f"{cloud} {seed}"), ups, downs, made)


def _lives(
    stack: KilledEngine, drawn: random.Random, ups: int, downs: int, made: Mapping[str, int]
) -> None:
    moment = drawn.randint(1, ups), drawn.random() < 0.7
    last = stack.killed("up", moment[0], carried_out=moment[1])
    assert last, f"`up` changed the cloud by fewer than {moment[0]} calls"
    where = f"up, call {moment[0]}: {last}, carried out: {moment[1]}"
    said = stack.as_documented()
    stack.again("up")
    assert stack.inventory() == made, f"{where}\n{said}"
    stack.unchanged()

    moment = drawn.randint(1, downs), drawn.random() < 0.7
    last = stack.killed("destroy", moment[0], carried_out=moment[1])
    assert last, f"`destroy` changed the cloud by fewer than {moment[0]} calls"
    where = f"destroy, call {moment[0]}: {last}, carried out: {moment[1]}"
    said = stack.as_documented()
    stack.again("destroy")
    assert stack.inventory() == {}, f"{where}\n{said}"
