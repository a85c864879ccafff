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
POD = "verification: {pod: true}\n"
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
    assert fleet.pools[0].verification.compute
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


@pytest.mark.parametrize(
    ("pool", "requested"),
    [
        ("", [("nvidia.com/gpu", "gpu")]),
        (
            "    partition: {mode: operator, layout: {1g.5gb: 2, 2g.10gb: 1}}\n",
            [("nvidia.com/mig-1g.5gb", "1g.5gb"), ("nvidia.com/mig-2g.10gb", "2g.10gb")],
        ),
        (
            "    partition: {mode: operator, layout: {1g.5gb+me: 1}}\n",
            [("nvidia.com/mig-1g.5gb.me", "1g.5gb+me")],
        ),
        (
            "    partition: {mode: operator, gpus: [{index: [0], layout: {}}, "
            "{index: [1, 2, 3, 4, 5, 6, 7], layout: {7g.40gb: 1}}]}\n",
            [("nvidia.com/gpu", "gpu"), ("nvidia.com/mig-7g.40gb", "7g.40gb")],
        ),
        (
            "    sharing: {mode: time-slicing, replicas: 2, rename_by_default: true}\n",
            [("nvidia.com/gpu.shared", "gpu")],
        ),
    ],
)
def test_the_pod_requests_one_device_of_each_resource(
    pool: str, requested: list[tuple[str, str]]
) -> None:
    fleet = _plan(EKS + pool + POD)
    devices = fleet.pools[0].verification.pod
    assert [(device.resource, device.device) for device in devices] == requested
    assert f"; a pod has computed on {requested[0][0]}" in _shown(fleet)


@pytest.mark.parametrize(
    ("partition", "device"),
    [("", "gpu"), ("    partition: {mode: native, profile: 1g.5gb}\n", "1g.5gb")],
)
def test_on_gke_every_device_is_called_a_gpu(partition: str, device: str) -> None:
    (requested,) = _plan(GKE + partition + POD).pools[0].verification.pod
    assert (requested.resource, requested.device) == ("nvidia.com/gpu", device)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (EKS, "verification.pod is false"),
        (GKE + "    sharing: {mode: mps, replicas: 2}\n" + POD, "the pool shares its GPUs by MPS"),
    ],
)
def test_a_pool_without_a_proof_pod_has_a_reason(text: str, why: str) -> None:
    verification = _plan(text).pools[0].verification
    assert verification.pod == ()
    assert verification.why_no_pod.startswith(why)
