"""The network of a GKE cluster: what the stack file may say, the plan, and the resources."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra import plan, spec, values
from tests.recorder import Made

INPUTS = Path(__file__).parent / "inputs"
FLEET = """\
cloud: gke
cluster:
  name: main
  location: us-central1-c
  network: {vpc: VPC, subnet: gpu-nodes, pods_range: pods, services_range: RANGE}
node_pools:
- {name: a, machine_type: a2-highgpu-1g, nodes: {count: 1}}
"""
SHARED = "projects/net-host/global/networks/shared"


def fleet(vpc: str, services_range: str = "services") -> str:
    return FLEET.replace("VPC", vpc).replace("RANGE", services_range)


def planned(text: str) -> plan.GkeFleetPlan:
    raw = yaml.safe_load(text)
    found = plan.read(json.dumps(raw), spec.Source("fleet", raw))
    assert isinstance(found, plan.GkeFleetPlan)
    return found


@pytest.fixture
def cluster(record: Callable[..., list[Made]]) -> Callable[[str], dict[str, Any]]:
    """What the cluster of a fleet is asked for with; nothing of a network is made beside it."""

    def asked(text: str) -> dict[str, Any]:
        made = record("s0", fleet=text)
        assert not [m for m in made if m.type.startswith("gcp:compute/")]
        (one,) = [m for m in made if m.type == "gcp:container/cluster:Cluster"]
        return dict(one.inputs)

    return asked


def test_a_network_of_the_project_is_used_and_nothing_of_it_is_made(
    cluster: Callable[[str], dict[str, Any]],
) -> None:
    asked = cluster(fleet("main"))
    project = asked["network"].split("/")[1]
    assert asked["network"] == f"projects/{project}/global/networks/main"
    assert asked["subnetwork"] == f"projects/{project}/regions/us-central1/subnetworks/gpu-nodes"
    assert asked["ipAllocationPolicy"] == {
        "clusterSecondaryRangeName": "pods",
        "servicesSecondaryRangeName": "services",
    }


def test_a_shared_vpc_is_found_in_its_host_project(
    cluster: Callable[[str], dict[str, Any]],
) -> None:
    asked = cluster(fleet(SHARED))
    assert asked["network"] == SHARED
    assert asked["subnetwork"] == "projects/net-host/regions/us-central1/subnetworks/gpu-nodes"


def test_the_plan_says_that_the_way_out_of_an_existing_network_is_its_owners() -> None:
    (note,) = [n for n in plan.notes(planned(fleet(SHARED))) if n.startswith("cluster main:")]
    assert "VPC shared of project net-host" in note
    assert "Cloud NAT" in note


def test_no_right_to_make_networks_is_needed_where_one_exists() -> None:
    rights = {need.right for need in values.rights(planned(fleet("main")))}
    assert not {r for r in rights if r.startswith(("compute.networks.", "compute.subnetworks."))}


def test_pods_and_services_need_ranges_of_their_own(broken: Callable[[str], str]) -> None:
    said = broken(fleet("main", services_range="pods"))
    assert "cluster.network.services_range: pods is the range of the pods too" in said


@pytest.mark.parametrize(
    "vpc",
    ["projects/net-host/networks/shared", "https://x/y", "Main", "projects/a/global/networks/b"],
)
def test_a_vpc_is_a_name_or_the_path_of_one(broken: Callable[[str], str], vpc: str) -> None:
    assert "is not a VPC network: its name, or its path" in broken(fleet(vpc))


def test_an_existing_cluster_keeps_its_network(broken: Callable[[str], str]) -> None:
    said = broken(fleet("main").replace("  name: main", "  name: main\n  existing: true"))
    assert "cluster.network: the cluster exists already" in said


def test_a_stack_without_the_newer_keys_asks_for_what_it_always_did(
    record: Callable[..., list[Made]],
) -> None:
    """Another input here is a difference in the next `up` of every stack that exists.

    inputs/gke-cluster.json is what the version of 2026-11-22 asked for.
    """
    types = (
        "container/cluster:Cluster",
        "compute/network:Network",
        "compute/subnetwork:Subnetwork",
    )
    asked = {
        f"{made.type} {made.name}": made.inputs
        for made in record("s0")
        if made.type.removeprefix("gcp:") in types
    }
    assert asked == json.loads((INPUTS / "gke-cluster.json").read_text())
