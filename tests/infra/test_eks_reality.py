"""Where today's program would fail on a real EKS: each turns green with its mend.

The simulated EKS refuses what these lead to (tests/rehearsal/clouds/aws/wrong_requests.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import yaml

from infra import spec
from rehearsal.clouds.aws.eks.checks import check_scaling

FLEET = """\
cloud: eks
cluster: {{name: c, region: {region}, version: "1.35", zones: [{zones}]}}
node_pools:
- {{name: a, machine_type: p4d.24xlarge, nodes: {nodes}, zones: [{region}{pool_zone}]}}
"""


def made(
    record: Callable[..., Any],
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
    resources = record("x", fleet=FLEET.format(**asked), node_groups=live)
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
    record: Callable[..., Any], nodes: str, desired: int
) -> None:
    """EKS refuses a minimum above the desired size (terraform-aws-modules/terraform-aws-eks #3683),
    and ends nodes for a smaller one than there are.
    """
    live = {"a": {"minSize": 1, "desiredSize": 3, "maxSize": 4}}
    sent = made(record, ":NodeGroup", "-a", nodes=nodes, live=live)["scalingConfig"]
    check_scaling(sent)
    assert sent["desiredSize"] == desired


def test_a_new_autoscaled_pool_starts_with_the_fewest(record: Callable[..., Any]) -> None:
    sent = made(record, ":NodeGroup", "-a", nodes="{min: 0, max: 4}")["scalingConfig"]
    assert sent == {"minSize": 0, "desiredSize": 0, "maxSize": 4}


@pytest.mark.parametrize("group", ["-a", "-system"])
def test_node_groups_rise_with_their_cluster(record: Callable[..., Any], group: str) -> None:
    assert made(record, ":NodeGroup", group)["version"] == "1.35"


def test_another_zone_for_a_pool_leaves_the_clusters_subnets(record: Callable[..., Any]) -> None:
    """EKS takes subnets of the zones of the cluster's creation only (aws/containers-roadmap
    #2258); a pool's zone needs a subnet, not the cluster's.
    """
    two = made(record, ":Cluster")["vpcConfig"]["subnetIds"]
    assert two == ["eks-us-west-2a-id", "eks-us-west-2b-id"]
    assert made(record, ":Cluster", pool_zone="c")["vpcConfig"]["subnetIds"] == two
    assert made(record, ":NodeGroup", "-a", pool_zone="c")["subnetIds"] == ["eks-us-west-2c-id"]


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="policies of GovCloud are arn:aws-us-gov: (and arn:aws-cn: in China)",
)
def test_policies_are_of_the_regions_partition(record: Callable[..., Any]) -> None:
    attachment = made(
        record, ":RolePolicyAttachment", "AmazonEKSClusterPolicy", region="us-gov-west-1"
    )
    assert attachment["policyArn"].startswith("arn:aws-us-gov:iam::aws:policy/")


@pytest.mark.xfail(
    strict=True,
    raises=spec.SpecError,
    reason="a zone's letter means another zone in another account: p4d is in euw1-az2, which is "
    "eu-west-1a in some accounts only",
)
def test_zones_can_be_given_by_their_ids() -> None:
    text = FLEET.format(
        region="eu-west-1", zones="euw1-az2, euw1-az3", nodes="{count: 1}", pool_zone="b"
    )
    fleet = yaml.safe_load(text.replace("[eu-west-1b]", "[euw1-az2]"))
    spec.parse(json.dumps(fleet), spec.Source("x", fleet))


def test_an_image_of_another_kubernetes_is_refused(broken: Callable[[str], str]) -> None:
    fleet = FLEET.format(
        region="us-west-2", zones="us-west-2a, us-west-2b", nodes="{count: 1}", pool_zone="b"
    )
    said = broken(fleet.replace("p4d.24xlarge,", "p4d.24xlarge, release_version: 1.34.0-20260714,"))
    assert "1.34.0-20260714 has Kubernetes 1.34, and the cluster has 1.35" in said
    assert "write a release of 1.35, like 1.35.0-20260714, or leave it out" in said
