"""The proofs of a pool, and the words of `plan` about them."""

from __future__ import annotations

import io

import pytest
import yaml
from rich.console import Console

from slicewright.infra import plan, stack_file
from slicewright.show.plan_text import show_plan

EKS = """\
cloud: eks
cluster: {name: c, region: us-east-1}
node_pools:
  - name: a
    machine_type: p4d.24xlarge
    nodes: {count: 1}
"""
GKE = """\
cloud: gke
cluster: {name: c, location: us-central1-a}
node_pools:
  - name: a
    machine_type: a2-highgpu-1g
    zones: [us-central1-a]
    nodes: {count: 1}
"""
OFF = "verification: {compute: false}\n"


def _plan(text: str) -> plan.FleetPlan:
    source = stack_file.Source(name="test", raw=yaml.safe_load(text))
    return plan.read_source(source)


def _shown(fleet: plan.FleetPlan) -> str:
    console = Console(width=200, record=True, file=io.StringIO())
    show_plan("test", fleet, console)
    return console.export_text()


@pytest.mark.parametrize("text", [EKS, GKE])
@pytest.mark.parametrize("sharing", ["", "    sharing: {mode: time-slicing, replicas: 2}\n"])
def test_partitions_are_computed_on_by_default(text: str, sharing: str) -> None:
    fleet = _plan(text + sharing)
    assert fleet.pools[0].verification == plan.PoolVerification(compute=True)
    assert "each device is listed by NVML as declared, and has run a CUDA program" in _shown(fleet)


@pytest.mark.parametrize("text", [EKS, GKE])
def test_the_stack_file_may_leave_the_program_out(text: str) -> None:
    fleet = _plan(text + OFF)
    assert not fleet.pools[0].verification.compute
    assert "not run: verification.compute is false" in _shown(fleet)


@pytest.mark.parametrize(
    "text",
    [
        EKS + "    sharing: {mode: mps, replicas: 2}\ngpu_operator: {mig_strategy: none}\n",
        GKE + "    sharing: {mode: mps, replicas: 2}\n",
    ],
)
def test_pools_that_share_by_mps_are_listed_only(text: str) -> None:
    fleet = _plan(text)
    assert not fleet.pools[0].verification.compute
    assert "not run: the pool shares its GPUs by MPS" in _shown(fleet)
