"""The demand on GPUs shared by time: how many replicas of a class one GPU serves."""

from __future__ import annotations

from pathlib import Path

import pytest

from slicewright.infra import planner
from slicewright.infra.plan.demand.problem import read_demand
from slicewright.infra.plan.demand.time_slicing import time_sliced

STACK = """
config:
  slicewright:fleet:
    cloud: eks
    cluster: { name: demand, region: us-east-1 }
    demand:
      machine_types: [p4de.24xlarge]
      headroom_percent: 50
      classes: [{ name: one, %s }]
"""


@pytest.mark.parametrize(
    ("needs", "per_gpu", "gpus"),
    [
        ("replicas: 16, memory: 38Gi", 2, 16),  # 24 replicas, on nodes with 8 GPUs
        ("replicas: 30, memory: 8Gi", 7, 8),
        ("replicas: 30, memory: 70Gi", 1, 48),
        ("replicas: 30", 7, 8),
        ("replicas: 30, memory: 1Gi, compute_slices: 3", 2, 24),
        ("replicas: 30, profiles: [3g.40gb]", 2, 24),
        ("replicas: 30, profiles: [1g.10gb]", 7, 8),
        ("replicas: 3, gpus: 2", 1, 16),
        ("requests_per_second: 100, throughput: { A100-80: { 1g.10gb: 10, whole: 75 } }", 75000, 8),
    ],
)
def test_a_gpu_serves_what_its_memory_and_compute_allow(
    tmp_path: Path, needs: str, per_gpu: int, gpus: int
) -> None:
    file = tmp_path / "Pulumi.demand.yaml"
    file.write_text(STACK % needs)
    fleet, problem = read_demand(file)
    assert fleet.demand is not None
    shared = time_sliced(fleet.demand, problem)
    (demand,) = shared.classes
    assert set(demand.yields.values()) == {per_gpu}
    answer = planner.optimise(shared)
    assert answer.gpus == gpus
    assert {pool.layout == {} for pool in answer.pools} == {True}


def test_a_rate_without_the_throughput_of_a_whole_gpu_cannot_be_compared(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.demand.yaml"
    file.write_text(STACK % "requests_per_second: 9, throughput: { A100-80: { 1g.10gb: 10 } }")
    fleet, problem = read_demand(file)
    assert fleet.demand is not None
    with pytest.raises(planner.Infeasible):
        planner.optimise(time_sliced(fleet.demand, problem))
