"""The network of a GKE cluster: what the stack file may say, the plan, and the resources."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from slicewright.infra import manifests, plan, stack_file
from tests.recorder import Made

INPUTS = Path(__file__).parents[2] / "inputs"
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
    found = plan.read(json.dumps(raw), stack_file.Source("fleet", raw))
    assert isinstance(found, plan.GkeFleetPlan)
    return found


@pytest.fixture
def cluster(record_cloud: Callable[..., list[Made]]) -> Callable[[str], dict[str, Any]]:
    """What the cluster of a fleet is asked for with; nothing of a network is made beside it."""

    def asked(text: str) -> dict[str, Any]:
        made = record_cloud("gke-h100", fleet=text)
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


def test_a_shared_vpc_is_looked_up_in_its_host_project(
    cluster: Callable[[str], dict[str, Any]],
) -> None:
    asked = cluster(fleet(SHARED))
    assert asked["network"] == SHARED
    assert asked["subnetwork"] == "projects/net-host/regions/us-central1/subnetworks/gpu-nodes"


def test_a_note_says_that_the_owner_of_an_existing_network_provides_egress() -> None:
    (note,) = [n for n in plan.notes(planned(fleet(SHARED))) if n.startswith("cluster main:")]
    assert "VPC shared of project net-host" in note
    assert "Cloud NAT" in note


def test_an_existing_network_needs_no_right_to_create_networks() -> None:
    rights = {need.right for need in manifests.rights(planned(fleet("main")))}
    assert not {r for r in rights if r.startswith(("compute.networks.", "compute.subnetworks."))}


def test_pods_and_services_need_separate_ranges(broken: Callable[[str], str]) -> None:
    said = broken(fleet("main", services_range="pods"))
    assert "cluster.network.services_range: pods is also pods_range" in said


@pytest.mark.parametrize(
    "vpc",
    ["projects/net-host/networks/shared", "https://x/y", "Main", "projects/a/global/networks/b"],
)
def test_a_vpc_is_a_name_or_the_path_of_one(broken: Callable[[str], str], vpc: str) -> None:
    assert "is not a VPC network: its name, or its path" in broken(fleet(vpc))


def test_an_existing_cluster_keeps_its_network(broken: Callable[[str], str]) -> None:
    said = broken(fleet("main").replace("  name: main", "  name: main\n  existing: true"))
    assert "cluster.network: the cluster exists already" in said


def test_a_stack_without_the_newer_keys_makes_the_same_requests(
    record_cloud: Callable[..., list[Made]],
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
        for made in record_cloud("gke-h100")
        if made.type.removeprefix("gcp:") in types
    }
    assert asked == json.loads((INPUTS / "gke-cluster.json").read_text())


PRIVATE = """\
cloud: gke
cluster:
  name: main
  location: us-central1-c
  private_nodes: true
  control_plane: CONTROL_PLANE
node_pools:
- {name: a, machine_type: a2-highgpu-1g, nodes: {count: 1}}
"""
DNS = "{dns_endpoint: true, private_endpoint: true}"


def private(control_plane: str = DNS) -> str:
    return PRIVATE.replace("CONTROL_PLANE", control_plane)


def test_private_nodes_in_a_network_of_the_stacks_own_get_cloud_nat(
    record_cloud: Callable[..., list[Made]],
) -> None:
    made = {
        m.type: m.inputs
        for m in record_cloud("gke-h100", fleet=private())
        if m.type.startswith("gcp:")
    }
    assert made["gcp:compute/routerNat:RouterNat"]["natIpAllocateOption"] == "AUTO_ONLY"
    assert made["gcp:compute/router:Router"]["region"] == "us-central1"
    assert made["gcp:container/nodePool:NodePool"]["networkConfig"] == {"enablePrivateNodes": True}
    rights = {need.right for need in manifests.rights(planned(private()))}
    assert {"compute.routers.create", "container.clusters.connect"} <= rights


def test_in_a_network_that_exists_nothing_is_routed(
    record_cloud: Callable[..., list[Made]],
) -> None:
    text = fleet("main").replace("  network:", "  private_nodes: true\n  network:")
    made = record_cloud("gke-h100", fleet=text)
    assert not [m for m in made if m.type.startswith("gcp:compute/")]
    rights = {need.right for need in manifests.rights(planned(text))}
    assert not {r for r in rights if r.startswith("compute.routers.")}


def test_the_kubeconfig_of_a_dns_endpoint_trusts_its_public_certificate(
    record: Callable[..., list[Made]],
) -> None:
    (provider,) = [
        m for m in record("gke-h100", fleet=private()) if m.type == "pulumi:providers:kubernetes"
    ]
    kubeconfig = json.loads(provider.inputs["kubeconfig"])
    assert kubeconfig["clusters"][0]["cluster"] == {"server": "https://gke-1.us-central1.gke.goog"}


def test_a_private_endpoint_comes_with_authorized_networks(
    record_cloud: Callable[..., list[Made]],
) -> None:
    made = record_cloud("gke-h100", fleet=private("{private_endpoint: true}"))
    (cluster,) = [m.inputs for m in made if m.type == "gcp:container/cluster:Cluster"]
    assert cluster["privateClusterConfig"] == {
        "enablePrivateEndpoint": True,
        "enablePrivateNodes": True,
    }
    assert cluster["masterAuthorizedNetworksConfig"] == {"cidrBlocks": []}


def test_the_plan_says_from_where_up_can_run() -> None:
    assert (
        "run `pulumi up` in its VPC" in plan.notes(planned(private("{private_endpoint: true}")))[0]
    )
    open_to = private("{authorized_networks: [{cidr: 203.0.113.0/24}]}")
    assert "from its authorized_networks only" in plan.notes(planned(open_to))[0]
    assert not [n for n in plan.notes(planned(private())) if n.startswith("cluster")]


def test_a_private_endpoint_takes_private_addresses_only(broken: Callable[[str], str]) -> None:
    networks = "{private_endpoint: true, authorized_networks: [{cidr: 203.0.113.0/24}]}"
    said = broken(private(networks))
    assert "authorized_networks[0].cidr: 203.0.113.0/24 is not in a private range" in said
