"""Properties of stack files drawn at random: whatever `check` accepts, the clouds accept, which
carry out every request that the program makes; and where `plan --diff` says that a change is done
in place, they keep every node.

The accounts have quota, the reservations and the network that the file names, and its zones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from infra import plan
from infra.catalog import Cloud
from rehearsal.clouds.aws.account import ORDINARY_VCPUS
from tests.infra.applied import PROJECT, Applied, applied
from tests.infra.google_project import let_gke_make_networks, make_network, share
from tests.infra.stack_files import changed_in_place, joining, stack_files
from tests.infra.test_plan_change_keys import planned
from tests.properties import examples

# Each example is the whole program, its plan carried out in a simulated cloud: not for `make unit`.
pytestmark = pytest.mark.clouds

CLOUDS: tuple[Cloud, ...] = ("gke", "eks")


def account(fleet: plan.FleetPlan) -> Mapping[str, Any]:
    """Settings of an AWS account with room for the fleet."""
    reservations = {}
    if isinstance(fleet, plan.EksFleetPlan):
        for pool in fleet.pools:
            if reserved := getattr(pool.capacity, "reservation", None):
                reservations[reserved] = {
                    "instance_type": pool.machine.name,
                    "zone": pool.zones[0],
                    "count": 99,
                    "kind": "capacity-block"
                    if pool.capacity.mode == "capacity-block"
                    else "default",
                }
    return {
        "vcpus": dict.fromkeys(ORDINARY_VCPUS, 1_000_000),
        "elastic_ips": 99,
        "reservations": reservations,
    }


def make_room(stack: Applied, fleet: plan.FleetPlan) -> None:
    """In Google's project: the network that the file names, and a role for GKE's service agent."""
    if not isinstance(fleet, plan.GkeFleetPlan):
        return
    let_gke_make_networks(stack.cloud, PROJECT)
    network = fleet.cluster.network
    if network is None:
        return
    host = network.project or PROJECT
    make_network(
        stack.cloud,
        host,
        fleet.cluster.region,
        network.vpc,
        subnet=network.subnet,
        pods=network.pods_range,
        services=network.services_range,
    )
    if host != PROJECT:
        share(stack.cloud, host=host, project=PROJECT)


def make_cluster(stack: Applied, fleet: plan.FleetPlan) -> None:
    """Somebody else's: on EKS by another stack; of GKE's, the account of the nodes would clash."""
    if isinstance(fleet, plan.EksFleetPlan):
        stack.beside().up(fleet)
        # Another's nodes have other names.
        own = {"clusterName": fleet.cluster.name, "nodegroupName": fleet.system.name}
        stack.cloud.call("eks", "DeleteNodegroup", {"region": fleet.cluster.region}, own)
        assert stack.cloud.tasks.wait(60)
        return
    assert isinstance(fleet, plan.GkeFleetPlan)
    make_network(
        stack.cloud,
        PROJECT,
        fleet.cluster.region,
        "theirs",
        subnet="theirs",
        pods="pods",
        services="services",
    )
    cluster = {
        "name": fleet.cluster.name,
        "initialNodeCount": 1,
        "network": "theirs",
        "subnetwork": "theirs",
        "workloadIdentityConfig": {"workloadPool": f"{PROJECT}.svc.id.goog"},
    }
    parent = {"parent": f"projects/{PROJECT}/locations/{fleet.cluster.location}"}
    create = "projects.locations.clusters.create"
    stack.cloud.call("container", create, parent, {"cluster": cluster})
    assert stack.cloud.tasks.wait(60)


@pytest.mark.parametrize("cloud", CLOUDS)
@settings(max_examples=examples(25), phases=(Phase.explicit, Phase.generate), derandomize=True)
@given(data=st.data())
def test_what_check_accepts_the_cloud_accepts(cloud: Cloud, data: st.DataObject) -> None:
    fleet = planned(data.draw(stack_files(cloud)))
    with applied(**account(fleet)) as stack:
        make_room(stack, fleet)
        stack.up(fleet)
        stack.up(fleet)


@pytest.mark.parametrize("cloud", CLOUDS)
@settings(max_examples=examples(15), phases=(Phase.explicit, Phase.generate), derandomize=True)
@given(data=st.data())
def test_what_check_accepts_for_a_cluster_that_exists_the_cloud_accepts(
    cloud: Cloud, data: st.DataObject
) -> None:
    new, brought = map(planned, data.draw(joining(cloud)))
    with applied(**account(brought)) as stack:
        make_room(stack, brought)
        make_cluster(stack, new)
        there = stack.nodes(new.cluster.name)
        stack.up(brought)
        stack.up(brought)
        now = stack.nodes(new.cluster.name)
        # What was there before is left alone.
        assert {pool: now[pool] for pool in there} == there


@pytest.mark.parametrize("cloud", CLOUDS)
@settings(max_examples=examples(25), phases=(Phase.explicit, Phase.generate), derandomize=True)
@given(data=st.data())
def test_what_plan_says_is_done_in_place_keeps_every_node(
    cloud: Cloud, data: st.DataObject
) -> None:
    raw = data.draw(stack_files(cloud))
    before, after = planned(raw), planned(data.draw(changed_in_place(raw)))
    with applied(**account(before)) as stack:
        make_room(stack, before)
        stack.up(before)
        there = stack.nodes(before.cluster.name)
        stack.up(after)
        now = stack.nodes(after.cluster.name)
    for pool, nodes in there.items():
        assert nodes <= now[pool] or now[pool] <= nodes, f"{pool}: nodes were lost"
