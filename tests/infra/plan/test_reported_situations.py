"""Stack files for situations that users have reported in public, and the plan's answer to each."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slicewright.infra import plan, stack_file

NODE = {"nodes": {"count": 1}}
P5 = {"machine_type": "p5.48xlarge", **NODE}
G5 = {
    "machine_type": "g5.xlarge",
    "nodes": {"min": 0, "max": 2},
    "release_version": "1.35.0-20260714",
}
A2 = {"machine_type": "a2-highgpu-1g", "zones": ["us-central1-a"], **NODE}
G2 = {"machine_type": "g2-standard-8", "zones": ["us-central1-a"], **NODE}
EKS = {"name": "c", "region": "us-east-1", "version": "1.35"}
KARPENTER = EKS | {"autoscaler": "karpenter"}


def read(fleet: dict[str, Any]) -> Any:
    return plan.read(json.dumps(fleet), stack_file.Source("test", fleet))


def eks(*pools: dict[str, Any], cluster: dict[str, Any] = EKS) -> dict[str, Any]:
    return {"cloud": "eks", "cluster": cluster, "node_pools": named(pools)}


def gke(*pools: dict[str, Any]) -> dict[str, Any]:
    cluster = {"name": "c", "location": "us-central1"}
    return {"cloud": "gke", "cluster": cluster, "node_pools": named(pools)}


def existing(*pools: dict[str, Any], strategy: str = "none", **keys: Any) -> dict[str, Any]:
    return {
        "cloud": "byo",
        "cluster": {"name": "c", "context": "c"},
        "node_pools": named(pools),
        "gpu_operator": {"mig_strategy": strategy},
        **keys,
    }


def named(pools: tuple[dict[str, Any], ...]) -> list[dict[str, Any]]:
    return [{"name": f"pool-{n}", **pool} for n, pool in enumerate(pools)]


def shared(replicas: Any, mode: str = "time-slicing", **keys: Any) -> dict[str, Any]:
    return {"sharing": {"mode": mode, "replicas": replicas, **keys}}


def gpus(model: str, count: int = 1) -> dict[str, Any]:
    return {"gpu": {"model": model, "count": count}, **NODE}


def operator(**keys: Any) -> dict[str, Any]:
    return {"partition": {"mode": "operator", **keys}}


SERVER = {
    "name": "llm",
    "kind": "vllm",
    "pool": "pool-0",
    "image": "vllm/vllm-openai:v0.19.1",
    "model": {"name": "example/model", "parameters": "12B"},
}
WHOLE_HALF = [{"index": [0], "layout": {"1g.10gb": 7}}, {"index": [1], "layout": {}}]


@pytest.mark.parametrize(
    ("source", "fleet", "words"),
    [
        (
            "NVIDIA/mig-parted #129",
            eks(P5 | operator(gpus=[{"index": [4, 5, 6, 7], "layout": {"1g.10gb": 7}}])),
            ("has no layout for GPU 0, 1, 2, 3", "add {index: [0, 1, 2, 3], layout: {}}"),
        ),
        (
            "aws/containers-roadmap #2465",
            eks(P5 | {"labels": {"node-role.kubernetes.io/gpu": "true"}}),
            ("EKS refuses labels", "choose another key"),
        ),
        (
            "kubernetes-sigs/karpenter #729",
            eks(G5 | shared(4), cluster=KARPENTER),
            ("offers 4 nvidia.com/gpu, and Karpenter counts 1", "rename_by_default: true"),
        ),
        (
            "terraform-google-kubernetes-engine #1506: every partition for 48 pods",
            gke(A2 | {"partition": {"mode": "native", "profile": "1g.5gb"}} | shared(48)),
            ("110 pods are too few for 336 replicas", "use fewer replicas"),
        ),
        (
            "NVIDIA/k8s-device-plugin #1022: more replicas than addresses for pods",
            eks(P5 | operator(config="all-1g.10gb") | shared({"mig-1g.10gb": 4})),
            ("a node advertises 224 devices", "use fewer replicas, or larger partitions"),
        ),
        (
            "kubernetes-sigs/dra-driver-nvidia-gpu #1364",
            existing(
                gpus("H100-80", 2) | operator(config="all-3g.40gb"),
                strategy="mixed",
                workloads=[SERVER | {"tensor_parallel": 2}],
            ),
            ("2 partitions of one pod cannot reach each other's memory", "write 1"),
        ),
        (
            "NVIDIA/gpu-operator #981",
            existing(gpus("A100-80", 2) | operator(gpus=WHOLE_HALF), strategy="single"),
            ("leaves some GPUs unpartitioned", "mig_strategy: mixed"),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_reported_mistake_is_refused_with_what_to_write(
    source: str, fleet: dict[str, Any], words: tuple[str, ...]
) -> None:
    with pytest.raises(stack_file.SpecError) as refused:
        read(fleet)
    (problem,) = refused.value.problems
    for text in words:
        assert text in str(problem), source


@pytest.mark.parametrize(
    ("source", "fleet", "resources"),
    [
        (
            "kubernetes-sigs/karpenter #729",
            eks(G5 | shared(4, rename_by_default=True), cluster=KARPENTER),
            {"nvidia.com/gpu.shared": 4},
        ),
        (
            "NVIDIA/gpu-operator #1144: one pool shared, the other whole",
            existing(gpus("T4") | shared(2), gpus("T4")),
            {"nvidia.com/gpu": 2},
        ),
        (
            "terraform-google-kubernetes-engine #1506",
            gke(G2 | shared(20, mode="mps")),
            {"nvidia.com/gpu": 20},
        ),
        (
            "bottlerocket-os/bottlerocket-core-kit #399",
            eks(
                P5
                | {"ami_type": "BOTTLEROCKET_x86_64_NVIDIA"}
                | {"partition": {"mode": "native", "profile": "1g.20gb"}}
                | shared(2)
            ),
            {"nvidia.com/gpu": 64},
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_reported_wish_is_planned(
    source: str, fleet: dict[str, Any], resources: dict[str, int]
) -> None:
    planned = read(fleet)
    assert dict(planned.pools[0].offer.resources) == resources, source


def test_pool_without_sharing_beside_a_shared_one_stays_whole() -> None:
    """Source: NVIDIA/gpu-operator #1144."""
    shared_pool, whole = read(existing(gpus("T4") | shared(2), gpus("T4"))).pools
    assert [len(pool.offer.sharing) for pool in (shared_pool, whole)] == [1, 0]
    assert dict(whole.offer.resources) == {"nvidia.com/gpu": 1}


def test_efa_of_a_reservation_makes_no_placement_group() -> None:
    """Source: terraform-aws-modules/terraform-aws-eks #3730."""
    reserved = {
        "machine_type": "p5.48xlarge",
        "zones": ["use1-az6"],
        "nodes": {"min": 0, "max": 2},
        "capacity": {"mode": "reservation", "reservation": "cr-0123456789abcdef0"},
        "efa": True,
    }
    cluster = EKS | {"network": "private", "zones": ["use1-az6", "use1-az4"]}
    (pool,) = read(eks(reserved, cluster=cluster)).pools
    assert pool.settings.template is not None
    assert pool.settings.template.placement is None
