"""A wrong machine type is refused with the nearest ones, not with a list of all."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slicewright.infra import catalog, plan, stack_file
from slicewright.rehearsal.clouds.core.fake_control_planes import fake_nodes
from tests.infra.applied import applied

CLUSTER = {
    "gke": {"name": "c", "location": "us-central1-a"},
    "eks": {"name": "c", "region": "eu-west-1"},
}


def refusals(cloud: str, machine: str, **fleet: Any) -> list[stack_file.Problem]:
    pool = {"name": "a", "machine_type": machine, "nodes": {"count": 1}}
    raw = {"cloud": cloud, "cluster": CLUSTER[cloud], "node_pools": [pool], **fleet}
    with pytest.raises(stack_file.SpecError) as refused:
        plan.read(json.dumps(raw), stack_file.Source("test", raw))
    return list(refused.value.problems)


@pytest.mark.parametrize(
    ("cloud", "machine", "reason", "first"),
    [
        ("eks", "p4d.24xl", "is not in the catalog", "did you mean p4d.24xlarge?"),
        ("eks", "dgx", "is not in the catalog", "nearest by name:"),
        ("gke", "n1-standard-7", "is not in the catalog", "did you mean n1-standard-8?"),
        (
            "eks",
            "m7i.large",
            "m7i.large has no GPU",
            "nearest in size with GPUs: g4dn.xlarge (1 x T4)",
        ),
        (
            "eks",
            "a2-highgpu-8g",
            "is a machine type of gke",
            "nearest on eks: p4d.24xlarge (8 x A100-40)",
        ),
        (
            "gke",
            "p5.48xlarge",
            "is a machine type of eks",
            "nearest on gke: a3-highgpu-8g (8 x H100-80)",
        ),
        ("gke", "e2-standard-4", "has no GPU", "nearest in size with GPUs: g2-standard-4 (1 x L4)"),
    ],
)
def test_the_nearest_machine_is_named_first(
    cloud: str, machine: str, reason: str, first: str
) -> None:
    (problem,) = refusals(cloud, machine)
    assert reason in problem.reason
    assert problem.instead.startswith(first)


@pytest.mark.parametrize(
    ("cloud", "machine"),
    [
        *(
            ("eks", name)
            for name in ("p4d.24xl", "zzz", "m7i.large", "a2-highgpu-8g", "n1-standard-4")
        ),
        *(
            ("gke", name)
            for name in ("a2", "zzz", "e2-medium", "m7i.large", "p4d.24xlarge", "n1-standard-4")
        ),
    ],
)
def test_no_refusal_lists_the_whole_catalog(cloud: str, machine: str) -> None:
    names = {name for _, name in catalog.load().machines}
    for problem in refusals(cloud, machine):
        named = [
            word
            for word in problem.instead.replace(",", " ")
            .replace("?", " ")
            .replace(";", " ")
            .split()
            if word in names
        ]
        assert len(named) <= 3
        if problem.path[-1] == "machine_type":
            assert "infra/catalog/data/machines.toml" in problem.instead


@pytest.mark.parametrize(
    ("cloud", "machine", "reason", "instead"),
    [
        (
            "gke",
            "g4-standard-12",
            "a vGPU of Google, which needs NVIDIA's vGPU driver and cannot be partitioned",
            "g4-standard-48",
        ),
        ("gke", "G4-standard-24", "a vGPU of Google", "g4-standard-48"),
        ("gke", "a4-highgpu-8g-lowmem", "no public list has its memory", "a4-highgpu-8g"),
        ("gke", "a4x-maxgpu-4g-metal", "does not have its GB300", "a4x-highgpu-4g"),
        ("eks", "g7.2xlarge", "RTX PRO 4500", "g7e.2xlarge, g6e.2xlarge"),
        (
            "eks",
            "g6f.large",
            "a vGPU of AWS, which needs",
            "g6.xlarge, gr6.4xlarge",
        ),
        (
            "eks",
            "gr6f.4xlarge",
            "a vGPU of AWS, which needs",
            "g6.xlarge, gr6.4xlarge",
        ),
        ("eks", "p3dn.24xlarge", "V100", "p4d.24xlarge, g4dn.xlarge"),
        ("eks", "g5g.xlarge", "T4g", "g4dn.xlarge"),
        (
            "eks",
            "p6e-gb300.36xlarge",
            "EC2's API model does not have it",
            "p6e-gb200.36xlarge, p6-b300.48xlarge",
        ),
    ],
)
def test_a_machine_left_out_of_the_catalog_is_refused_with_the_reason(
    cloud: str, machine: str, reason: str, instead: str
) -> None:
    (problem,) = refusals(cloud, machine)
    assert problem.reason.startswith(f"{machine} ")
    assert reason in problem.reason
    assert problem.instead.startswith(f"choose {instead}, or another")
    assert "did you mean" not in problem.instead


def test_a_system_pool_on_a_left_out_machine_is_offered_machines_without_gpus() -> None:
    (problem,) = refusals("gke", "a2-highgpu-1g", system_pool={"machine_type": "g4-standard-12"})
    assert problem.instead.startswith("choose one without GPUs")


@pytest.mark.parametrize(
    ("model", "instead"),
    [
        ("V100", "T4, A100-40"),
        ("v100-32", "T4, A100-40"),
        ("P100", "T4"),
        ("T4G", "T4"),
        ("RTX-PRO-4500", "RTX-PRO-6000"),
        ("rtx pro 5000", "RTX-PRO-6000"),
    ],
)
def test_a_gpu_left_out_of_the_catalog_is_refused_with_the_reason(model: str, instead: str) -> None:
    pool = {"name": "a", "gpu": {"model": model, "count": 1}, "nodes": {"count": 1}}
    raw = {"cloud": "byo", "cluster": {"name": "c", "context": "c"}, "node_pools": [pool]}
    with pytest.raises(stack_file.SpecError) as refused:
        plan.read(json.dumps(raw), stack_file.Source("test", raw))
    (problem,) = refused.value.problems
    assert problem.path[-1] == "model"
    assert problem.reason.startswith(f"{model} is not in the catalog")
    assert problem.instead.endswith(f"the catalog has {instead}")
    assert "did you mean" not in problem.instead


@pytest.mark.parametrize(
    ("cloud", "machine", "said"),
    [
        ("gke", "a2-highgpu-1g", "which would be idle in the system pool"),
        ("gke", "e2-medum", "did you mean e2-medium?"),
        ("eks", "e2-standard-4", "nearest on eks: m7i.xlarge, m6i.xlarge, t3.xlarge"),
    ],
)
def test_a_system_pool_is_offered_machines_without_gpus(
    cloud: str, machine: str, said: str
) -> None:
    good = "a2-highgpu-1g" if cloud == "gke" else "p4d.24xlarge"
    (problem,) = refusals(cloud, good, system_pool={"machine_type": machine})
    assert said in f"{problem.reason}; {problem.instead}"
    with_gpus = [m.name for m in catalog.load().machines.values() if m.gpu]
    assert not [name for name in with_gpus if f" {name}" in problem.instead]


def arm_pool(**pool: Any) -> plan.GkeFleetPlan:
    a = {
        "name": "a",
        "machine_type": "a4x-highgpu-4g",
        "nodes": {"count": 1},
        "disk": {"type": "hyperdisk-balanced"},
        **pool,
    }
    raw = {"cloud": "gke", "cluster": CLUSTER["gke"], "node_pools": [a]}
    found = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    assert isinstance(found, plan.GkeFleetPlan)
    return found


BY_OPERATOR = {"mode": "operator", "layout": {"1g.23gb": 7}}


def test_a_machine_with_arm64_processors_is_partitioned_by_the_operator() -> None:
    fleet = arm_pool(partition=BY_OPERATOR, image_type="UBUNTU_CONTAINERD")
    assert plan.unbuildable(fleet) == ()
    assert any("must be built for them" in note for note in plan.notes(fleet))


def test_a_note_says_that_gkes_partitioner_may_not_run_on_arm64() -> None:
    told = "whether its image runs on arm64 is not published"
    native = {"mode": "native", "profile": "1g.23gb"}
    assert any(told in note for note in plan.notes(arm_pool(partition=native)))
    operated = arm_pool(partition=BY_OPERATOR, image_type="UBUNTU_CONTAINERD")
    assert not any(told in note for note in plan.notes(operated))


def test_no_node_of_an_arm64_pool_has_gkes_taint_for_them() -> None:
    """Which neither the agent nor the operator's operands tolerate. Its label it has."""
    fleet = arm_pool(partition=BY_OPERATOR, image_type="UBUNTU_CONTAINERD")
    with applied() as stack:
        stack.up(fleet)
        stack.up(fleet)
        nodes = fake_nodes(stack.directory, fleet.cluster.name).read()
    (node,) = (n for n in nodes if n["metadata"]["labels"].get("slicewright.io/pool") == "a")
    assert node["metadata"]["labels"]["kubernetes.io/arch"] == "arm64"
    assert node["status"]["nodeInfo"]["architecture"] == "arm64"
    keys = [taint["key"] for taint in node["spec"]["taints"]]
    assert keys == ["startup-taint.cluster-autoscaler.kubernetes.io/slicewright", "nvidia.com/gpu"]


def test_an_arm64_machine_of_eks_is_built() -> None:
    pool = {
        "name": "a",
        "machine_type": "p6e-gb200.36xlarge",
        "nodes": {"count": 1},
        "capacity": {"mode": "capacity-block", "reservation": "cr-0123456789abcdef0"},
        "zones": ["us-east-1a"],
    }
    raw = {"cloud": "eks", "cluster": {"name": "c", "region": "us-east-1"}, "node_pools": [pool]}
    assert plan.unbuildable(plan.read(json.dumps(raw), stack_file.Source("test", raw))) == ()


def test_gvnic_cannot_be_disabled_on_machines_that_need_it() -> None:
    pool = {
        "name": "a",
        "machine_type": "a3-highgpu-8g",
        "nodes": {"count": 1},
        "features": {"gvnic": False},
    }
    raw = {"cloud": "gke", "cluster": CLUSTER["gke"], "node_pools": [pool]}
    with pytest.raises(stack_file.SpecError, match="a3-highgpu-8g needs gVNIC"):
        plan.read(json.dumps(raw), stack_file.Source("test", raw))
