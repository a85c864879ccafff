"""Properties of stack files drawn at random: whatever `check` accepts, the clouds accept, which
carry out every request that the program makes; and where `plan --diff` says that a change is done
in place, they keep every node.

The accounts have quota, the reservations and the network that the file names, and its zones.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from slicewright.infra import catalog, plan
from slicewright.infra.catalog import Cloud
from slicewright.rehearsal.clouds.aws.account import ORDINARY_VCPUS
from tests.infra.applied import PROJECT, Applied, applied
from tests.infra.google_project import let_gke_make_networks, make_network, share
from tests.infra.plan.test_change_keys import planned
from tests.infra.stack_files import ROLES, changed_in_place, joining, stack_files, subnets_of
from tests.properties import examples

# Each example is the whole program, its plan carried out in a simulated cloud: not for `make unit`.
pytestmark = pytest.mark.clouds

CLOUDS: tuple[Cloud, ...] = ("gke", "eks")


def account(fleet: plan.FleetPlan) -> Mapping[str, Any]:
    """Settings of an AWS account with room for the fleet."""
    reservations = {}
    if isinstance(fleet, plan.EksFleetPlan):
        for pool in fleet.pools:
            if reserved := getattr(pool.settings.capacity, "reservation", None):
                reservations[reserved] = {
                    "instance_type": pool.settings.machine.name,
                    "zone": pool.settings.zones[0],
                    "count": 99,
                    "kind": "capacity-block"
                    if pool.settings.capacity.mode == "capacity-block"
                    else "default",
                }
    return {
        "vcpus": dict.fromkeys(ORDINARY_VCPUS, 1_000_000),
        "elastic_ips": 99,
        "reservations": reservations,
    }


def make_room(stack: Applied, fleet: plan.FleetPlan) -> None:
    """In Google's project: the network that the file names, and a role for GKE's service agent. In
    AWS's account: the roles of pods.
    """
    if not isinstance(fleet, plan.GkeFleetPlan):
        make_roles(stack)
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


def make_roles(stack: Applied) -> None:
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": "pods.eks.amazonaws.com"},
        "Action": ["sts:AssumeRole", "sts:TagSession"],
    }
    trust = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    for name in ROLES:
        asked = {"RoleName": name, "AssumeRolePolicyDocument": trust}
        stack.cloud.call("aws-iam", "CreateRole", {"region": "us-east-1"}, asked)


def with_subnets(stack: Applied, raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """The file with subnets that the account has, private ones in a network with a NAT gateway,
    where it names some.
    """
    network = raw["cluster"].get("network")
    if raw["cloud"] == "gke" or not (isinstance(network, dict) and network["mode"] == "existing"):
        return raw
    region = {"region": raw["cluster"]["region"]}

    def ec2(operation: str, **body: Any) -> dict[str, Any]:
        return dict(stack.cloud.call("ec2", operation, region, body))

    def subnet(number: int, zone: str, table: str) -> str:
        key = "AvailabilityZoneId" if catalog.is_zone_id(zone) else "AvailabilityZone"
        place = {"VpcId": vpc, "CidrBlock": f"10.0.{number * 16}.0/20", key: zone}
        made = str(ec2("CreateSubnet", **place)["Subnet"]["SubnetId"])
        ec2("AssociateRouteTable", RouteTableId=table, SubnetId=made)
        return made

    def table(**target: str) -> str:
        made = str(ec2("CreateRouteTable", VpcId=vpc)["RouteTable"]["RouteTableId"])
        ec2("CreateRoute", RouteTableId=made, DestinationCidrBlock="0.0.0.0/0", **target)
        return made

    vpc = ec2("CreateVpc", CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    gateway = ec2("CreateInternetGateway")["InternetGateway"]["InternetGatewayId"]
    ec2("AttachInternetGateway", InternetGatewayId=gateway, VpcId=vpc)
    zones = [*subnets_of(raw).values()]
    public = subnet(len(zones), zones[0], table(GatewayId=gateway))
    address = ec2("AllocateAddress", Domain="vpc")["AllocationId"]
    nat = ec2("CreateNatGateway", SubnetId=public, AllocationId=address)["NatGateway"]
    assert stack.cloud.tasks.wait(30)
    private = table(NatGatewayId=nat["NatGatewayId"])
    subnets = [subnet(number, zone, private) for number, zone in enumerate(zones)]
    there = {"mode": "existing", "subnets": subnets}
    return {**raw, "cluster": {**raw["cluster"], "network": there}}


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
def test_the_cloud_accepts_every_file_that_check_accepts(cloud: Cloud, data: st.DataObject) -> None:
    raw = data.draw(stack_files(cloud))
    with applied(**account(planned(raw))) as stack:
        make_room(stack, planned(raw))
        fleet = planned(with_subnets(stack, raw))
        stack.up(fleet)
        stack.up(fleet)


@pytest.mark.parametrize("cloud", CLOUDS)
@settings(max_examples=examples(15), phases=(Phase.explicit, Phase.generate), derandomize=True)
@given(data=st.data())
def test_the_cloud_accepts_every_existing_cluster_that_check_accepts(
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
        # What was there before is left alone. A pool of the stack may have the label of another.
        assert all(nodes <= now[pool] for pool, nodes in there.items()), (there, now)


@pytest.mark.parametrize("cloud", CLOUDS)
@settings(max_examples=examples(25), phases=(Phase.explicit, Phase.generate), derandomize=True)
@given(data=st.data())
def test_changes_that_plan_calls_in_place_keep_every_node(
    cloud: Cloud, data: st.DataObject
) -> None:
    raw = data.draw(stack_files(cloud))
    changed = data.draw(changed_in_place(raw))
    with applied(**account(planned(raw))) as stack:
        make_room(stack, planned(raw))
        there_before = with_subnets(stack, raw)
        network = {k: v for k, v in there_before["cluster"].items() if k == "network"}
        before = planned(there_before)
        after = planned({**changed, "cluster": {**changed["cluster"], **network}})
        stack.up(before)
        there = stack.nodes(before.cluster.name)
        stack.up(after)
        now = stack.nodes(after.cluster.name)
    for pool, nodes in there.items():
        assert nodes <= now[pool] or now[pool] <= nodes, f"{pool}: nodes were lost"
