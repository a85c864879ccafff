"""The network of an EKS plan: what the stack file may say, and what the plan says of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from slicewright.infra import plan, stack_file
from slicewright.infra.plan import ExistingSubnet

FLEET = """\
cloud: eks
cluster: {{name: c, region: us-west-2, zones: [us-west-2a, us-west-2b], network: {network}{more}}}
node_pools:
- {{name: a, machine_type: gr6.4xlarge, nodes: {{count: 1}}, zones: [us-west-2b]}}
"""


def planned(network: str, more: str = "") -> plan.EksFleetPlan:
    raw = yaml.safe_load(FLEET.format(network=network, more=more))
    found = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    assert isinstance(found, plan.EksFleetPlan)
    return found


def test_a_note_names_nat_gateways_as_a_cost() -> None:
    (one,) = plan.notes(planned("private"))
    assert one.startswith("cluster c: a NAT gateway in us-west-2a: AWS bills each by the hour")
    (each,) = plan.notes(planned("{mode: private, nat_gateways: per-zone}"))
    assert each.startswith("cluster c: 2 NAT gateways in us-west-2a, us-west-2b: ")
    assert plan.notes(planned("public")) == ()


@pytest.mark.parametrize(
    ("network", "said"),
    [
        ("{mode: existing}", "cluster.network.subnets: is missing"),
        ("{mode: existing, subnets: []}", "must not be empty: cluster and nodes need subnets"),
        ("{mode: existing, subnets: [vpc-01234567]}", "is not the ID of a subnet"),
        ("existing", "subnets"),
        ("{mode: privat}", "did you mean private?"),
        ("{mode: private, nat_gateways: two}", "one"),
        ("{nat_gateways: one}", "write mode: "),
    ],
)
def test_a_wrong_network_is_refused(broken: Callable[[str], str], network: str, said: str) -> None:
    refused = broken(FLEET.format(network=network, more=""))
    assert said in refused
    assert "1 problem," in refused


def test_nodes_behind_nat_gateways_are_in_private_subnets(record_cloud: Callable[..., Any]) -> None:
    made = record_cloud("x", fleet=FLEET.format(network="private", more=""))
    groups = [m.inputs["subnetIds"] for m in made if m.type.endswith(":NodeGroup")]
    assert sorted(groups) == [
        ["eks-us-west-2a-private-id", "eks-us-west-2b-private-id"],
        ["eks-us-west-2b-private-id"],
    ]


def subnet(number: int, zone: str, *, public: bool = False, vpc: str = "vpc-1") -> ExistingSubnet:
    return ExistingSubnet(
        id=f"subnet-{number}",
        vpc=vpc,
        zone=f"us-west-2{zone}",
        zone_id=f"usw2-az{'abcd'.index(zone) + 1}",
        gives_public_addresses=public,
        free_addresses=100,
    )


def test_nodes_use_the_private_subnets_of_a_zone_if_there_are_any() -> None:
    cluster = planned("{mode: existing, subnets: [subnet-01234567]}").cluster
    there = [
        subnet(1, "a", public=True),
        subnet(2, "b", public=True),
        subnet(3, "b"),
        subnet(4, "c"),
    ]
    assert plan.misfits(cluster, there) == []
    assert plan.node_subnet_ids(cluster, there) == {
        "us-west-2a": ["subnet-1"],
        "us-west-2b": ["subnet-3"],
    }
    # Not that of a zone that nothing uses: EKS keeps to the zones of the cluster's creation.
    assert plan.cluster_subnet_ids(cluster, there) == ["subnet-1", "subnet-2", "subnet-3"]


def test_all_misfits_of_subnets_are_reported_at_once() -> None:
    cluster = planned("{mode: existing, subnets: [subnet-01234567]}").cluster
    first, second = plan.misfits(cluster, [subnet(1, "a"), subnet(4, "c", vpc="vpc-2")])
    assert "subnet-1 is in vpc-1, subnet-4 is in vpc-2" in first
    assert second.startswith("none of them is in us-west-2b")


@pytest.mark.parametrize(
    ("endpoint", "said"),
    [
        ("{public: false}", "cluster.endpoint: is neither public nor private"),
        (
            "{public: false, private: true, public_cidrs: [203.0.113.0/24]}",
            "cluster.endpoint.public_cidrs: the endpoint is not public",
        ),
        ("{public_cidrs: [203.0.113.0/24]}", "write private: true beside it"),
        (
            "{private: true, public_cidrs: [203.0.113.0/24, 10.1.0.0/16]}",
            "public_cidrs[1]: 10.1.0.0/16 is a private range",
        ),
        ("{private: true, public_cidrs: ['2001:db8::/32']}", "is a range of IPv6"),
        ("{private: true, public_cidrs: [203.0.113.7/24]}", "write it like 203.0.113.0/24"),
    ],
)
def test_an_endpoint_that_eks_refuses_or_nodes_do_not_reach_is_refused(
    broken: Callable[[str], str], endpoint: str, said: str
) -> None:
    refused = broken(FLEET.format(network="public", more=f", endpoint: {endpoint}"))
    assert said in refused
    assert "1 problem," in refused


def test_notes_explain_a_private_endpoint_and_logs() -> None:
    more = ", endpoint: {public: false, private: true}, logs: [audit]"
    reach, logs = plan.notes(planned("public", more))
    assert "`pulumi up` and kubectl must run where the VPC is reached" in reach
    assert "/aws/eks/c/cluster, stays when the cluster is deleted" in logs


KEY = "arn:aws:kms:us-west-2:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"


def test_the_key_of_secrets_is_given_to_the_cluster(record_cloud: Callable[..., Any]) -> None:
    made = record_cloud("x", fleet=FLEET.format(network="public", more=f", secrets_key: '{KEY}'"))
    (cluster,) = (m.inputs for m in made if m.type == "aws:eks/cluster:Cluster")
    config = {"provider": {"keyArn": KEY}, "resources": ["secrets"]}
    assert cluster["encryptionConfig"] == config
    (note,) = plan.notes(planned("public", f", secrets_key: '{KEY}'"))
    assert "if its secrets_key is deleted, the cluster cannot be recovered" in note
    without = record_cloud("x", fleet=FLEET.format(network="public", more=""))
    (cluster,) = (m.inputs for m in without if m.type == "aws:eks/cluster:Cluster")
    assert "encryptionConfig" not in cluster


@pytest.mark.parametrize(
    ("key", "said"),
    [
        (KEY.replace("us-west-2", "us-east-1"), "is a key of us-east-1 in partition aws, and the"),
        (KEY.replace(":key/", ":alias/"), "is not the ARN of a KMS key"),
    ],
)
def test_a_key_of_secrets_that_eks_refuses_is_refused(
    broken: Callable[[str], str], key: str, said: str
) -> None:
    refused = broken(FLEET.format(network="public", more=f", secrets_key: '{key}'"))
    assert "cluster.secrets_key: " in refused
    assert said in refused
    assert "1 problem," in refused


EXISTING = """\
cloud: eks
cluster: {{name: c, region: us-west-2, existing: true{more}}}
node_pools:
- {{name: a, machine_type: gr6.4xlarge, nodes: {{count: 1}}, zones: [us-west-2b]}}
"""


def test_in_a_cluster_that_exists_everything_is_deleted_by_itself(
    record_cloud: Callable[..., Any],
) -> None:
    """Not with the cluster, which stays; and the cluster is read, not made."""
    made = record_cloud("x", fleet=EXISTING.format(more=""))
    (cluster,) = (m for m in made if m.type == "aws:eks/cluster:Cluster")
    assert cluster.read == "c"
    assert not [m for m in made if m.type in ("aws:eks/addon:Addon", "aws:ec2/vpc:Vpc")]
    groups = {m.name: m.inputs for m in made if m.type.endswith(":NodeGroup")}
    assert groups["eks-a"]["subnetIds"] == ["subnet-b"]
    assert groups["eks-system"]["subnetIds"] == ["subnet-a", "subnet-b"]
    assert {g["version"] for g in groups.values()} == {"1.35"}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("version", "'1.35'"),
        ("endpoint", "{private: true}"),
        ("logs", "[api]"),
        ("secrets_key", f"'{KEY}'"),
        ("network", "private"),
    ],
)
def test_settings_of_an_existing_cluster_are_refused(
    broken: Callable[[str], str], key: str, value: str
) -> None:
    refused = broken(EXISTING.format(more=f", {key}: {value}"))
    assert f"cluster.{key}: the cluster exists already, and slicewright does not change it" in (
        refused
    )
    assert "1 problem," in refused
