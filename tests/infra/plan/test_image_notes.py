"""The images of a stack, and what is said of their registries before `pulumi up`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slicewright.infra import plan, stack_file
from slicewright.infra.plan.images.stack_images import OWN_INDEX, stack_images

CUT = {"mode": "operator", "layout": {"1g.10gb": 7}}
OTHER = "docker.io/library/python:3.13-slim@sha256:" + "0" * 64
HUB = f"docker.io/library/python:3.13-slim@{OWN_INDEX}"


def eks(*, nodes: int = 2, network: Any = None, region: str = "us-east-1", **more: Any) -> Any:
    machine = more.pop("machine_type", "p5.48xlarge")
    pool = {"name": "a", "machine_type": machine, "nodes": {"count": nodes}, "partition": CUT}
    cluster = {"name": "c", "region": region, **({"network": network} if network else {})}
    zones = [f"{region}a", f"{region}b"]
    system = {"machine_type": "m7i.large", "nodes": {"count": 1}, "zones": zones}
    return {
        "cloud": "eks",
        "cluster": cluster,
        "system_pool": system,
        "node_pools": [pool],
        "allow_unlisted": True,
        **more,
    }


def gke(*, nodes: int = 2, **more: Any) -> Any:
    pool = {
        "name": "a",
        "machine_type": "a2-highgpu-1g",
        "zones": ["us-central1-a"],
        "nodes": {"count": nodes},
        "partition": {"mode": "native", "profile": "1g.5gb"},
    }
    cluster = {"name": "c", "location": "us-central1"}
    return {"cloud": "gke", "cluster": cluster, "node_pools": [pool], **more}


def byo(*, nodes: int = 2, **more: Any) -> Any:
    pool = {
        "name": "a",
        "gpu": {"model": "H100-80", "count": 8},
        "select": {"pool": "a"},
        "nodes": {"count": nodes},
        "partition": CUT,
    }
    return {
        "cloud": "byo",
        "cluster": {"name": "c", "context": "k"},
        "node_pools": [pool],
        **more,
    }


def planned(stack: Any) -> plan.FleetPlan:
    return plan.read(json.dumps(stack), stack_file.Source("test", stack))


def image_notes(stack: Any) -> list[str]:
    return [note for note in plan.notes(planned(stack)) if note.startswith("images:")]


def test_each_cloud_has_the_same_index_from_a_registry_that_serves_its_nodes() -> None:
    images = {name: planned(of()).image for name, of in (("e", eks), ("g", gke), ("b", byo))}
    assert images == {
        "e": f"public.ecr.aws/docker/library/python:3.13-slim@{OWN_INDEX}",
        "g": HUB,
        "b": HUB,
    }


def test_an_image_that_is_stated_stays() -> None:
    assert planned(eks(image=HUB)).image == HUB


def test_a_pull_secret_is_named_once() -> None:
    assert planned(eks(image_pull_secrets=["a", "b", "a"])).image_pull_secrets == ("a", "b")


def test_a_small_fleet_has_no_note_of_images() -> None:
    for stack in (eks(), gke(), byo(), eks(image=HUB, network="private")):
        assert image_notes(stack) == []


@pytest.mark.parametrize(
    ("stack", "words"),
    [
        (eks(nodes=99, image=HUB, network="private"), "up to 101 pulls"),
        (eks(nodes=99, image=HUB, network="private"), "behind one address share"),
        (
            eks(nodes=150, image=HUB, network={"mode": "private", "nat_gateways": "per-zone"}),
            "behind 2 NAT gateways share",
        ),
        (byo(nodes=49), "up to 51 pulls of docker.io/library/python:3.13-slim"),
    ],
)
def test_a_note_warns_of_docker_hubs_limit_of_pulls(stack: Any, words: str) -> None:
    (note,) = image_notes(stack)
    assert words in note
    assert "in image, or a login in image_pull_secrets" in note


@pytest.mark.parametrize(
    "stack",
    [
        eks(nodes=400, network="private"),
        eks(nodes=400, image=HUB, network="public"),
        eks(nodes=400, image=HUB, network="private", image_pull_secrets=["hub"]),
        eks(nodes=98, image=HUB, network={"mode": "private", "nat_gateways": "per-zone"}),
        gke(nodes=400),
        byo(nodes=48),
    ],
)
def test_elsewhere_nothing_is_limited(stack: Any) -> None:
    assert image_notes(stack) == []


def test_a_note_names_every_key_of_registries_that_a_region_cannot_reach() -> None:
    operator = {"registry": "1.dkr.ecr.cn-north-1.amazonaws.com.cn/nvidia"}
    (note,) = image_notes(eks(region="cn-north-1"))
    assert "nvcr.io, public.ecr.aws, registry.k8s.io" in note
    assert "name it in image, gpu_operator.registry (" in note
    (note,) = image_notes(eks(region="cn-north-1", gpu_operator=operator))
    assert "can rarely reach public.ecr.aws;" in note
    own = "1.dkr.ecr.cn-north-1.amazonaws.com.cn/python:3.13"
    assert image_notes(eks(region="cn-north-1", gpu_operator=operator, image=own)) == []


def test_an_image_of_ones_own_must_have_the_processors_of_the_pools() -> None:
    arm = eks(machine_type="p6e-gb200.36xlarge")
    block = {"mode": "capacity-block", "reservation": "cr-0123456789abcdef0"}
    arm["node_pools"][0] |= {"partition": "none", "capacity": block}
    assert image_notes(arm) == []
    (note,) = image_notes({**arm, "image": OTHER})
    assert "must have arm64 for pool a" in note
    assert image_notes(eks(image=OTHER)) == []


def test_every_part_of_a_stack_that_runs_pods_is_among_its_images() -> None:
    stack = eks(
        monitoring={"prometheus": "stack"},
        image_pull_secrets=["mine"],
    )
    stack["cluster"]["autoscaler"] = {"mode": "cluster-autoscaler"}
    stack["cluster"]["version"] = "1.34"
    images = stack_images(planned(stack))
    assert {(one.key, one.registry) for one in images} >= {
        ("image", "public.ecr.aws"),
        ("gpu_operator.registry", "nvcr.io"),
        ("gpu_operator.registry", "registry.k8s.io"),
        ("monitoring.registry", "quay.io"),
        ("monitoring.registry", "registry.k8s.io"),
        ("cluster.autoscaler.image", "registry.k8s.io"),
    }
    assert images[0].pull_secrets == ("mine",)
