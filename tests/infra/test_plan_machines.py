"""A machine that is not right is refused with the nearest ones and where all are, never with a hundred names."""

from __future__ import annotations

import json
from typing import Any

import pytest

from infra import catalog, plan, spec

CLUSTER = {"gke": {"name": "c", "location": "us-central1-a"}, "eks": {"name": "c", "region": "eu-west-1"}}


def refusals(cloud: str, machine: str, **fleet: Any) -> list[spec.Problem]:
    pool = {"name": "a", "machine_type": machine, "nodes": {"count": 1}}
    raw = {"cloud": cloud, "cluster": CLUSTER[cloud], "node_pools": [pool], **fleet}
    with pytest.raises(spec.SpecError) as refused:
        plan.read(json.dumps(raw), spec.Source("test", raw))
    return list(refused.value.problems)


@pytest.mark.parametrize(
    ("cloud", "machine", "reason", "first"),
    [
        ("eks", "p4d.24xl", "is not in the catalog", "did you mean p4d.24xlarge?"),
        ("eks", "dgx", "is not in the catalog", "nearest by name:"),
        ("eks", "m7i.large", "m7i.large has no GPU", "nearest in size with GPUs: g4dn.xlarge (1 x T4)"),
        ("eks", "a2-highgpu-8g", "is a machine type of gke", "nearest on eks: p4d.24xlarge (8 x A100-40)"),
        ("gke", "p5.48xlarge", "is a machine type of eks", "nearest on gke: a3-highgpu-8g (8 x H100-80)"),
        ("gke", "e2-standard-4", "has no GPU", "nearest in size with GPUs: g2-standard-4 (1 x L4)"),
    ],
)
def test_the_nearest_machine_is_named_first(cloud: str, machine: str, reason: str, first: str) -> None:
    (problem,) = refusals(cloud, machine)
    assert reason in problem.reason
    assert problem.instead.startswith(first)


@pytest.mark.parametrize(
    ("cloud", "machine"),
    [
        *(("eks", name) for name in ("p4d.24xl", "zzz", "m7i.large", "a2-highgpu-8g", "n1-standard-4")),
        *(("gke", name) for name in ("a2", "zzz", "e2-medium", "m7i.large", "p4d.24xlarge", "n1-standard-4")),
    ],
)
def test_no_refusal_lists_the_whole_catalog(cloud: str, machine: str) -> None:
    names = {name for _, name in catalog.load().machines}
    for problem in refusals(cloud, machine):
        named = [word for word in problem.instead.replace(",", " ").replace("?", " ").replace(";", " ").split() if word in names]
        assert len(named) <= 3
        if problem.path[-1] == "machine_type":
            assert "infra/catalog/machines.toml" in problem.instead


@pytest.mark.parametrize(
    ("cloud", "machine", "said"),
    [
        ("gke", "a2-highgpu-1g", "which the system pool would leave idle"),
        ("gke", "e2-medum", "did you mean e2-medium?"),
        ("eks", "e2-standard-4", "nearest on eks: m6i.xlarge"),
    ],
)
def test_a_system_pool_is_offered_machines_without_gpus(cloud: str, machine: str, said: str) -> None:
    good = "a2-highgpu-1g" if cloud == "gke" else "p4d.24xlarge"
    (problem,) = refusals(cloud, good, system_pool={"machine_type": machine})
    assert said in f"{problem.reason}; {problem.instead}"
    with_gpus = [m.name for m in catalog.load().machines.values() if m.gpu]
    assert not [name for name in with_gpus if f" {name}" in problem.instead]


def test_a_machine_with_arm64_processors_is_planned_and_not_built() -> None:
    raw = {
        "cloud": "gke",
        "cluster": CLUSTER["gke"],
        "node_pools": [{"name": "a", "machine_type": "a4x-highgpu-4g", "nodes": {"count": 1}}],
    }
    (problem,) = plan.unbuildable(plan.read(json.dumps(raw), spec.Source("test", raw)))
    assert problem.path == ("node_pools", 0, "machine_type")
    assert "arm64" in problem.reason


def test_gvnic_cannot_be_left_out_where_the_machine_needs_it() -> None:
    pool = {"name": "a", "machine_type": "a3-highgpu-8g", "nodes": {"count": 1}, "features": {"gvnic": False}}
    raw = {"cloud": "gke", "cluster": CLUSTER["gke"], "node_pools": [pool]}
    with pytest.raises(spec.SpecError, match="a3-highgpu-8g needs gVNIC"):
        plan.read(json.dumps(raw), spec.Source("test", raw))
