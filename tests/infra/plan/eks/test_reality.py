"""Where today's program would fail on a real EKS: each turns green with its mend.

The simulated EKS refuses what these lead to (tests/rehearsal/clouds/aws/wrong_requests.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import yaml

from slicewright.infra import catalog, plan, stack_file
from slicewright.rehearsal.clouds.aws.eks.checks import check_scaling
from slicewright.rehearsal.clouds.aws.zones import holds_control_planes

FLEET = """\
cloud: eks
cluster: {{name: c, region: {region}, version: "1.35", zones: [{zones}]}}
node_pools:
- {{name: a, machine_type: p4d.24xlarge, nodes: {nodes}, zones: [{region}{pool_zone}]}}
"""


def made(
    record_cloud: Callable[..., Any],
    kind: str,
    name: str = "",
    *,
    region: str = "us-west-2",
    zones: str = "",
    nodes: str = "{count: 1}",
    pool_zone: str = "b",
    live: Mapping[str, Mapping[str, int]] | None = None,
) -> Mapping[str, Any]:
    zones = zones or f"{region}a, {region}b"
    asked = {"region": region, "zones": zones, "nodes": nodes, "pool_zone": pool_zone}
    resources = record_cloud("x", fleet=FLEET.format(**asked), node_groups=live)
    (found,) = (m.inputs for m in resources if m.type.endswith(kind) and m.name.endswith(name))
    return dict(found)


@pytest.mark.parametrize(
    ("nodes", "desired"),
    [
        ("{min: 2, max: 4}", 3),
        ("{min: 1, max: 5}", 3),
        ("{min: 4, max: 5}", 4),
        ("{min: 0, max: 2}", 2),
    ],
)
def test_the_limits_of_an_autoscaled_pool_are_sent_with_the_live_count(
    record_cloud: Callable[..., Any], nodes: str, desired: int
) -> None:
    """EKS refuses a minimum above the desired size (terraform-aws-modules/terraform-aws-eks #3683),
    and ends nodes for a smaller one than there are.
    """
    live = {"a": {"minSize": 1, "desiredSize": 3, "maxSize": 4}}
    sent = made(record_cloud, ":NodeGroup", "-a", nodes=nodes, live=live)["scalingConfig"]
    check_scaling(sent)
    assert sent["desiredSize"] == desired


def test_a_new_autoscaled_pool_starts_with_the_fewest(record_cloud: Callable[..., Any]) -> None:
    sent = made(record_cloud, ":NodeGroup", "-a", nodes="{min: 0, max: 4}")["scalingConfig"]
    assert sent == {"minSize": 0, "desiredSize": 0, "maxSize": 4}


@pytest.mark.parametrize("group", ["-a", "-system"])
def test_node_groups_rise_with_their_cluster(record_cloud: Callable[..., Any], group: str) -> None:
    assert made(record_cloud, ":NodeGroup", group)["version"] == "1.35"


def test_another_zone_for_a_pool_leaves_the_clusters_subnets(
    record_cloud: Callable[..., Any],
) -> None:
    """EKS takes subnets of the zones of the cluster's creation only (aws/containers-roadmap
    #2258); a pool's zone needs a subnet, not the cluster's.
    """
    two = made(record_cloud, ":Cluster")["vpcConfig"]["subnetIds"]
    assert two == ["eks-us-west-2a-id", "eks-us-west-2b-id"]
    assert made(record_cloud, ":Cluster", pool_zone="c")["vpcConfig"]["subnetIds"] == two
    assert made(record_cloud, ":NodeGroup", "-a", pool_zone="c")["subnetIds"] == [
        "eks-us-west-2c-id"
    ]


@pytest.mark.parametrize(
    ("region", "partition", "principal"),
    [
        ("us-gov-west-1", "aws-us-gov", "ec2.amazonaws.com"),
        ("cn-north-1", "aws-cn", "ec2.amazonaws.com.cn"),
        ("eu-west-1", "aws", "ec2.amazonaws.com"),
    ],
)
def test_policies_and_principals_are_of_the_regions_partition(
    record_cloud: Callable[..., Any], region: str, partition: str, principal: str
) -> None:
    attachment = made(
        record_cloud, ":RolePolicyAttachment", "AmazonEKSClusterPolicy", region=region
    )
    assert attachment["policyArn"] == f"arn:{partition}:iam::aws:policy/AmazonEKSClusterPolicy"
    for role, service in (("control-plane", "eks.amazonaws.com"), ("nodes", principal)):
        trust = json.loads(made(record_cloud, ":Role", role, region=region)["assumeRolePolicy"])
        assert trust["Statement"][0]["Principal"] == {"Service": service}


def test_zones_can_be_given_by_their_ids(record_cloud: Callable[..., Any]) -> None:
    """A zone's letter means another zone in another account: p4d is in euw1-az2, which is
    eu-west-1a in some accounts only.
    """
    fleet = _by_id("[euw1-az2, euw1-az3]", "[euw1-az2]")
    subnets = [
        m.inputs for m in record_cloud("ids", fleet=fleet) if m.type == "aws:ec2/subnet:Subnet"
    ]
    assert {s["availabilityZoneId"] for s in subnets} == {"euw1-az2", "euw1-az3"}
    assert not any("availabilityZone" in s for s in subnets)


@pytest.mark.parametrize(
    ("cluster", "pool", "said"),
    [
        (
            "[euw1-az2, euw1-az9]",
            "[euw1-az2]",
            "euw1-az9 is not a zone of eu-west-1; write",
        ),
        ("[use1-az2, euw1-az2]", "[euw1-az2]", "use1-az2 is not a zone of eu-west-1"),
        ("[euw1-az2, euw1-az3]", "[eu-west-1a]", "which zone a name means differs from account"),
        (
            "[euw1-az2, euw1-az3]",
            "[euw1-az1]",
            "p4d.24xlarge is not offered in euw1-az1; zones of eu-west-1 that have it: euw1-az2",
        ),
        ("", "[euw1-az2]", "cluster.zones: is required: euw1-az2 is a zone's id"),
        ("null", "[eu-west-1a]", "cluster.zones: has no value"),
        (
            "[eu-west-1a, eu-west-1z]",
            "[eu-west-1a]",
            "eu-west-1z is not a zone of eu-west-1; write",
        ),
    ],
)
def test_wrong_zones_are_refused(
    broken: Callable[[str], str], cluster: str, pool: str, said: str
) -> None:
    assert said in broken(_by_id(cluster, pool))


def _by_id(cluster: str, pool: str) -> str:
    stated = FLEET.format(region="eu-west-1", zones="x", nodes="{count: 1}", pool_zone="b")
    stated = stated.replace("zones: [x]", f"zones: {cluster}" if cluster else "secrets_key: null")
    return stated.replace("[eu-west-1b]", pool)


@pytest.mark.parametrize("zone", ["use1-az3", "us-east-1-bos-1a"])
def test_a_zone_that_cannot_hold_a_control_plane_is_for_pools_only(
    broken: Callable[[str], str], zone: str
) -> None:
    by_name = zone.startswith("us-east")
    good = ["us-east-1a", "us-east-1b"] if by_name else ["use1-az1", "use1-az6"]
    fleet = FLEET.format(region="us-east-1", zones="x", nodes="{count: 1}", pool_zone="b")
    fleet = fleet.replace("p4d.24xlarge", "m").replace("m,", "g4dn.xlarge,")
    refused = broken(fleet.replace("[x]", f"[{good[0]}, {zone}]").replace("us-east-1b", good[0]))
    assert f"EKS makes no control plane in {zone}" in refused
    text = fleet.replace("[x]", str(good)).replace("[us-east-1b]", f"[{zone}]")
    raw = yaml.safe_load(text)
    stack_file.parse(json.dumps(raw), stack_file.Source("x", raw))


def test_the_catalogs_zones_without_control_planes_are_those_that_eks_refuses() -> None:
    known = catalog.aws()
    for region in known.regions.values():
        for zone in {*region.zones, *known.no_control_plane}:
            assert holds_control_planes("x", zone, region.name) is (
                zone not in known.no_control_plane
            )


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("us-west-2", "us-west-9", "cluster.region: us-west-9 is not a region that AWS had on "),
        ("us-west-2", "us-west-9", "did you mean us-west-"),
        ('"1.35"', '"9.9"', "9.9 is not a Kubernetes version that EKS had on 2026-11-28; known: "),
        ("p4d.24xlarge", "p6-b200.48xlarge", "p6-b200.48xlarge"),
    ],
)
def test_regions_zones_and_machines_that_aws_lacks_are_refused(
    broken: Callable[[str], str], old: str, new: str, said: str
) -> None:
    fleet = FLEET.format(
        region="us-west-2", zones="us-west-2a, us-west-2b", nodes="{count: 1}", pool_zone="b"
    )
    if new.startswith("p6"):
        fleet = fleet.replace("us-west-2", "eu-west-1")
    refused = broken(fleet.replace(old, new))
    assert said in refused
    assert "1 problem," in refused


def test_an_image_of_another_kubernetes_is_refused(broken: Callable[[str], str]) -> None:
    fleet = FLEET.format(
        region="us-west-2", zones="us-west-2a, us-west-2b", nodes="{count: 1}", pool_zone="b"
    )
    said = broken(fleet.replace("p4d.24xlarge,", "p4d.24xlarge, release_version: 1.34.0-20260714,"))
    assert "1.34.0-20260714 has Kubernetes 1.34, and the cluster has 1.35" in said
    assert "write a release of 1.35, like 1.35.0-20260714, or leave it out" in said


def test_images_of_two_kubernetes_versions_in_one_cluster_are_refused(
    broken: Callable[[str], str],
) -> None:
    fleet = FLEET.format(
        region="us-west-2",
        zones="us-west-2a, us-west-2b",
        nodes="{count: 1}, release_version: 1.34.0-20260714",
        pool_zone="b",
    ).replace('version: "1.35", ', "")
    raw = yaml.safe_load(fleet)
    (pool,) = raw["node_pools"]
    same = pool | {"name": "b"}
    other = pool | {"name": "c", "release_version": "1.35.0-20260714"}
    said = broken(yaml.safe_dump(raw | {"node_pools": [pool, same, other]}))
    assert "1.35.0-20260714 has Kubernetes 1.35, and the image of node_pools[0] has 1.34" in said
    assert "1 problem," in said


def test_a_release_without_a_version_of_the_cluster_is_noted() -> None:
    def noted(version: str) -> str:
        text = FLEET.format(
            region="us-west-2",
            zones="us-west-2a, us-west-2b",
            nodes="{count: 1}, release_version: 1.35.0-20260714",
            pool_zone="a",
        )
        raw = yaml.safe_load(text.replace('version: "1.35", ', version))
        return "\n".join(plan.notes(plan.read(json.dumps(raw), stack_file.Source("x", raw))))

    assert "in clusters of Kubernetes 1.35 only" in noted("")
    assert "1.35 only" not in noted('version: "1.35", ')
    assert "1.35 only" not in noted("existing: true, ")


def test_zone_letters_are_noted_if_some_zone_lacks_the_offer() -> None:
    def noted(region: str, zones: str, pool: str) -> str:
        stated = FLEET.format(region=region, zones="x", nodes="{count: 1}", pool_zone="b")
        text = stated.replace("[x]", zones).replace(f"[{region}b]", pool)
        raw = yaml.safe_load(text)
        return "\n".join(plan.notes(plan.read(json.dumps(raw), stack_file.Source("x", raw))))

    by_letter = noted("us-east-1", "[us-east-1a, us-east-1b]", "[us-east-1a]")
    assert "EKS makes no control plane in use1-az3, and which zone us-east-1a or" in by_letter
    assert "p4d.24xlarge is offered in " in by_letter
    assert "differs" not in noted("us-east-1", "[use1-az1, use1-az2]", "[use1-az2]")
    assert "differs" not in noted("us-west-2", "[us-west-2a, us-west-2b]", "[us-west-2a]")
