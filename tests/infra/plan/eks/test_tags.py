"""Tags of an EKS plan: what the stack file may say, and what gets them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import pytest
import yaml

from slicewright.infra import manifests, plan, stack_file
from slicewright.rehearsal.plugins.providers.aws.provider import AwsProvider
from tests.recorder import Made

Record = Callable[..., list[Made]]
ROLE = "arn:aws:iam::111122223333:role"
FLEET = """\
cloud: eks
cluster: {{name: c, region: us-west-2, version: "1.35"{cluster}}}
node_pools:
- {{name: a, machine_type: g6.xlarge, nodes: {{count: 1}}{pool}}}
"""
EVERYTHING = f"""\
cloud: eks
cluster:
  name: c
  region: us-west-2
  version: "1.35"
  network: private
  autoscaler: cluster-autoscaler
  addons: {{aws-ebs-csi-driver: {{}}}}
  access: {{entries: [{{principal: "{ROLE}/ops", groups: [ops]}}]}}
  pod_identities: [{{namespace: a, service_account: b, role: "{ROLE}/trainer"}}]
  tags: {{owner: ml, cost-center: "7"}}
node_pools:
- {{name: a, machine_type: p4d.24xlarge, nodes: {{count: 1}}, placement: cluster}}
- name: b
  machine_type: g6.xlarge
  nodes: {{min: 0, max: 2}}
  tags: {{owner: vision}}
  instance_tags: {{team: vision}}
"""
TAGS = {"owner": "ml", "cost-center": "7"}
INSTANCES = ", instance_tags: {team: ml, a: b}"
SCALED = "nodes: {min: 0, max: 1}, release_version: 1.35.0-20260714"
SCHEMA = AwsProvider.schema
TAGGABLE = {kind for kind in SCHEMA.resources if "tags" in SCHEMA.inputs(kind)}


def written(tags: str, pool: str = "", cluster: str = "") -> str:
    return FLEET.format(cluster=f", tags: {tags}{cluster}", pool=pool and f", {pool}")


def planned(text: str) -> plan.EksFleetPlan:
    raw = yaml.safe_load(text)
    found = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    assert isinstance(found, plan.EksFleetPlan)
    return found


def tagged(made: list[Made]) -> Mapping[tuple[str, str], Mapping[str, str]]:
    """Type and name of what AWS can tag -> its tags."""
    return {
        (m.type, m.name): m.inputs.get("tags") or {}
        for m in made
        if m.type in TAGGABLE and not m.read
    }


def test_all_that_aws_can_tag_has_them(record_cloud: Record) -> None:
    found = tagged(record_cloud("test", fleet=EVERYTHING))
    # None of its kinds is left out of the file above.
    assert {kind for kind, _ in found} == TAGGABLE
    of_pool = ("aws:eks/nodeGroup:NodeGroup", "eks-b")
    assert {one: tags for one, tags in found.items() if not tags.items() >= TAGS.items()} == {
        of_pool: found[of_pool]
    }


def test_a_pools_own_tags_go_before_them_and_slicewrights_stay(record_cloud: Record) -> None:
    found = tagged(record_cloud("test", fleet=EVERYTHING))
    assert found["aws:eks/nodeGroup:NodeGroup", "eks-b"] == {
        "owner": "vision",
        "cost-center": "7",
        "k8s.io/cluster-autoscaler/node-template/resources/nvidia.com/gpu": "1",
    }
    assert found["aws:ec2/subnet:Subnet", "eks-us-west-2a-private"] == {
        **TAGS,
        "Name": "c-us-west-2a-private",
        "kubernetes.io/role/internal-elb": "1",
        "slicewright.io/stack": "slicewright/test",
    }


def test_cluster_tags_are_not_on_instances_and_disks(record_cloud: Record) -> None:
    """They would need a launch template: a pool that has none would be replaced for a tag."""
    made = record_cloud("test", fleet=EVERYTHING)
    templates = {m.name: m.inputs for m in made if m.type.endswith(":LaunchTemplate")}
    assert "tagSpecifications" not in templates["eks-a"]
    assert [s["tags"] for s in templates["eks-b"]["tagSpecifications"]] == 2 * [{"team": "vision"}]
    plain = record_cloud("test", fleet=written("{owner: ml}"))
    assert not [m for m in plain if m.type.endswith(":LaunchTemplate")]
    karpenter = planned(
        written("{owner: ml}", cluster=", autoscaler: karpenter").replace(
            "nodes: {count: 1}", SCALED
        )
    )
    kind = manifests.node_class(karpenter.pools[0], role="r", subnet_ids=[], security_group="g")
    assert "tags" not in kind


def test_tags_of_all_instances_are_in_every_launch_template(record_cloud: Record) -> None:
    text = written("{owner: ml}", "instance_tags: {team: vision, b: c}", INSTANCES)
    made = record_cloud("test", fleet=text)
    templates = {m.name: m.inputs for m in made if m.type.endswith(":LaunchTemplate")}
    of_instances = {}
    for name, template in templates.items():
        instance, volume = template["tagSpecifications"]
        assert (instance["resourceType"], volume["resourceType"]) == ("instance", "volume")
        assert instance["tags"] == volume["tags"]
        of_instances[name] = instance["tags"]
    assert of_instances == {
        "eks-system": {"team": "ml", "a": "b"},
        "eks-a": {"team": "vision", "a": "b", "b": "c"},
    }
    groups = {m.name: m.inputs["launchTemplate"] for m in made if m.type.endswith(":NodeGroup")}
    assert {name: one["id"] for name, one in groups.items()} == {
        name: f"{name}-id" for name in templates
    }
    karpenter = planned(
        written("{}", cluster=f", autoscaler: karpenter{INSTANCES}").replace(
            "nodes: {count: 1}", SCALED
        )
    )
    kind = manifests.node_class(karpenter.pools[0], role="r", subnet_ids=[], security_group="g")
    assert kind["tags"] == {"team": "ml", "a": "b"}


def test_a_first_tag_of_instances_replaces_node_groups_and_another_rolls_them() -> None:
    before, first, other = (
        planned(written("{}", cluster=more))
        for more in ("", INSTANCES, INSTANCES.replace("ml", "vision"))
    )
    found = plan.compare(before, first)
    assert max(c.effect for c in found.fleet) is plan.ChangeEffect.REPLACE
    assert [p.effect for p in found.pools] == [plan.ChangeEffect.REPLACE]
    assert not found.everything
    found = plan.compare(first, other)
    assert [c.effect for c in found.fleet] == [plan.ChangeEffect.ROLL]
    assert [p.effect for p in found.pools] == [plan.ChangeEffect.ROLL]


def test_only_parts_of_the_network_have_tags_by_default(record_cloud: Record) -> None:
    found = tagged(record_cloud("test", fleet=FLEET.format(cluster="", pool="")))
    assert {kind for (kind, _), tags in found.items() if tags} == {
        f"aws:ec2/{kind}"
        for kind in (
            "internetGateway:InternetGateway",
            "routeTable:RouteTable",
            "subnet:Subnet",
            "vpc:Vpc",
        )
    }


def test_only_created_resources_of_an_existing_cluster_have_tags(record_cloud: Record) -> None:
    text = FLEET.format(cluster=", existing: true, tags: {owner: ml}", pool="").replace(
        'version: "1.35", ', ""
    )
    made = record_cloud("test", fleet=text)
    found = tagged(made)
    assert {kind for kind, _ in found} == {"aws:eks/nodeGroup:NodeGroup", "aws:iam/role:Role"}
    assert all(tags == {"owner": "ml"} for tags in found.values())
    (there,) = (m for m in made if m.type == "aws:eks/cluster:Cluster")
    assert there.read


def many(count: int) -> str:
    return str({f"t{number}": "x" for number in range(count)})


@pytest.mark.parametrize(
    ("tags", "said"),
    [
        ("{Name: a}", "cluster.tags.Name: reserved: slicewright sets Name itself"),
        ("{slicewright.io/stack: a}", "reserved: slicewright finds a stack's resources by it"),
        ("{kubernetes.io/cluster/c: owned}", "find a cluster's resources by it"),
        ("{k8s.io/cluster-autoscaler/enabled: 'true'}", "reserved: cluster-autoscaler reads"),
        ("{karpenter.sh/nodepool: a}", "reserved: Karpenter finds its resources by it"),
        ("{'eks:cluster-name': c}", "EKS sets such tags itself"),
        ("{'aws:x': y}", "without the reserved prefix aws:"),
        ("{Team: a, team: b}", "team: differs from Team in upper and lower case only"),
        ("{'R&D': a}", "has &, and IAM takes letters, digits, spaces"),
        ("{team: 'a,b;'}", "cluster.tags.team: has , ;, and IAM takes"),
        (many(48), "48 tags are too many: AWS allows 50 on a resource"),
    ],
)
def test_a_tag_that_aws_refuses_or_slicewright_sets_is_refused(
    broken: Callable[[str], str], tags: str, said: str
) -> None:
    refused = broken(written(tags))
    assert said in refused
    assert " 1 problem," in refused


@pytest.mark.parametrize(
    ("cluster", "pool", "said"),
    [
        (many(46), "{}", "cluster.instance_tags: 46 tags are too many: AWS allows 50 on an inst"),
        (many(44), "{a: b, c: d}", "46 tags are too many: AWS allows 50 on an instance"),
        (
            "{'eks:x': y}",
            "{}",
            'cluster.instance_tags."eks:x": reserved: EKS sets such tags itself',
        ),
    ],
)
def test_tags_of_instances_that_aws_refuses_are_refused(
    broken: Callable[[str], str], cluster: str, pool: str, said: str
) -> None:
    refused = broken(written("{}", f"instance_tags: {pool}", f", instance_tags: {cluster}"))
    assert said in refused
    assert " 1 problem," in refused


def test_a_node_group_has_at_most_fifty_of_all_kinds(broken: Callable[[str], str]) -> None:
    text = written(many(47), pool="tags: {a: b, c: d, t0: own, e: f}")
    assert planned(text), "46 and 4"
    refused = broken(text.replace("count: 1", "min: 0, max: 1"))
    assert (
        "51 tags are too many (4 its own, 46 of cluster.tags, 1 by which "
        "cluster-autoscaler knows its nodes): AWS allows 50 on a node group"
    ) in refused
    assert " 1 problem," in refused


@pytest.mark.parametrize("tags", [many(47), "{équipe: größe 1, 'a_.:/=+-@b': 'x=+-@/:._'}"])
def test_tags_that_every_service_takes_are_accepted(tags: str) -> None:
    assert planned(written(tags)).cluster.tags == dict(sorted(yaml.safe_load(tags).items()))
