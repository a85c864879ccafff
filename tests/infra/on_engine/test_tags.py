"""Tags of all that a stack makes, and labels of a GKE cluster, through the real engine and over the
simulated clouds: they are there, change in place with the listed rights, and go again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from slicewright.infra import plan
from slicewright.rehearsal.clouds.core import call_log
from tests.infra.cloud_engine import PROJECT, REGION, CloudEngine
from tests.infra.existing_vpc import role_of_pods
from tests.infra.on_engine.test_every_key import nodes_of
from tests.infra.plan.test_change_keys import planned
from tests.rights_used import not_allowed

ROLE = "arn:aws:iam::111122223333:role"
TAGS = {"owner": "ml", "Cost-Center": "7"}
AS_MANY_AS_THERE_CAN_BE = {f"t{number}": "x" for number in range(46)} | {"owner": "vision"}


def eks(engine: CloudEngine) -> dict[str, Any]:
    """With all that can be tagged."""
    trainer = {"namespace": "a", "service_account": "b", "role": role_of_pods(engine, "trainer")}
    return {
        "cloud": "eks",
        "cluster": {
            "name": "c",
            "region": REGION,
            "version": "1.35",
            "zones": [f"{REGION}a", f"{REGION}b"],
            "network": "private",
            "autoscaler": "cluster-autoscaler",
            "access": {"entries": [{"principal": f"{ROLE}/ops", "groups": ["ops"]}]},
            "pod_identities": [trainer],
        },
        "node_pools": [
            {
                "name": "a",
                "machine_type": "p4d.24xlarge",
                "nodes": {"count": 1},
                "placement": "cluster",
            }
        ],
    }


def with_(fleet: Mapping[str, Any], **cluster: Any) -> dict[str, Any]:
    return {**fleet, "cluster": {**fleet["cluster"], **cluster}}


def settles(engine: CloudEngine, asked: Mapping[str, Any], *, changes: str = "") -> set[str]:
    """Brought up, then without any difference to the file and to the cloud. changes: all that is
    done to what is there. Returns what it is done to.
    """
    seen = engine.operations(asked) if changes else {}
    changed = {name: what for name, whats in seen.items() if (what := whats - {"same"})}
    assert {frozenset(what) for what in changed.values()} <= {frozenset({changes})}, changed
    for ran in (
        engine.up(asked),
        engine.up(asked, "--expect-no-changes"),
        engine.refresh("--expect-no-changes"),
    ):
        assert ran.code == 0, ran.output
    return set(changed)


def of_role(engine: CloudEngine) -> Mapping[str, str]:
    name = engine.ids()["Role", "eks-nodes"]
    found = engine.cloud.call("aws-iam", "GetRole", {"region": REGION}, {"RoleName": name})
    return {tag["Key"]: tag["Value"] for tag in found["Role"]["Tags"]}


def of_vpc(engine: CloudEngine) -> Mapping[str, str]:
    vpcs = engine.cloud.call("ec2", "DescribeVpcs", {"region": REGION}, {})["Vpcs"]
    return {tag["Key"]: tag["Value"] for vpc in vpcs for tag in vpc["Tags"]}


@pytest.mark.long(
    "tags of all that a stack makes, with the rights that they take: "
    "tests/rehearsal/scenario/whole_run/test_eks_fleet.py; that they change in place, without the "
    "engine: tests/infra/in_clouds/test_changes_in_clouds.py"
)
def test_tags_of_everything_change_in_place_with_the_listed_rights(engine: CloudEngine) -> None:
    first = len(call_log.read(engine.directory.parent))
    plain = eks(engine)
    by_hand = len(call_log.read(engine.directory.parent)) - first
    tagged = with_(plain, tags=TAGS)
    settles(engine, tagged)
    own = {"Name": "c", "slicewright.io/stack": "tiny/dev"}
    assert of_vpc(engine) == {**TAGS, **own}
    assert of_role(engine) == engine.ask("DescribeCluster", name="c")["cluster"]["tags"] == TAGS
    assert engine.group("c", "system")["tags"] == TAGS
    nodes = nodes_of(engine, "eks")

    other = with_(plain, tags=AS_MANY_AS_THERE_CAN_BE)
    everything = settles(engine, other, changes="update")
    assert of_vpc(engine) == {**AS_MANY_AS_THERE_CAN_BE, **own}
    assert of_role(engine) == AS_MANY_AS_THERE_CAN_BE
    # The same key to IAM, and another one to EC2.
    renamed = with_(plain, tags={"OWNER": "vision"})
    assert settles(engine, renamed, changes="update") == everything
    assert of_role(engine) == {"OWNER": "vision"}

    assert settles(engine, plain, changes="update") == everything
    assert (of_vpc(engine), of_role(engine)) == (own, {})
    assert nodes_of(engine, "eks") == nodes
    gone = engine.destroy()
    assert gone.code == 0, gone.output
    fleets = [planned(one) for one in (plain, tagged, other, renamed)]
    calls = call_log.read(engine.directory.parent)[first + by_hand :]
    assert not_allowed([one for one in fleets if isinstance(one, plan.EksFleetPlan)], calls) == []


def of_instances(engine: CloudEngine) -> list[str]:
    """Who owns each."""
    found = engine.cloud.call("ec2", "DescribeInstances", {"region": REGION}, {})["Reservations"]
    return [
        tag["Value"]
        for reservation in found
        for instance in reservation["Instances"]
        for tag in instance["Tags"]
        if tag["Key"] == "owner"
    ]


@pytest.mark.long(
    "in the clouds without the engine: tests/infra/in_clouds/test_changes_in_clouds.py"
)
def test_tags_of_instances_come_with_a_launch_template_and_roll_the_nodes(
    engine: CloudEngine,
) -> None:
    first = len(call_log.read(engine.directory.parent))
    pool = {"name": "a", "machine_type": "g6.xlarge", "nodes": {"count": 2}}
    plain = {"cloud": "eks", "cluster": {"name": "c", "region": REGION}, "node_pools": [pool]}
    tagged = with_(plain, instance_tags={"owner": "ml"})
    settles(engine, tagged)
    assert of_instances(engine) == ["ml"] * 3
    before, groups = nodes_of(engine, "eks"), [engine.group("c", n) for n in ("system", "a")]
    other = with_(plain, instance_tags={"owner": "vision"})
    changed = settles(engine, other, changes="update")
    assert changed == {"eks-system", "eks-a"}
    assert of_instances(engine) == ["vision"] * 3
    after = nodes_of(engine, "eks")
    assert not set().union(*before.values()) & set().union(*after.values())
    same = [engine.group("c", n)["nodegroupArn"] for n in ("system", "a")]
    assert same == [one["nodegroupArn"] for one in groups]
    gone = engine.destroy()
    assert gone.code == 0, gone.output
    fleets = [planned(one) for one in (tagged, other)]
    calls = call_log.read(engine.directory.parent)[first:]
    calls = [one for one in calls if one.operation != "DescribeInstances"]
    assert not_allowed([one for one in fleets if isinstance(one, plan.EksFleetPlan)], calls) == []


def test_labels_of_a_cluster_change_in_place_with_the_listed_rights(engine: CloudEngine) -> None:
    plain = {
        "cloud": "gke",
        "cluster": {"name": "c", "location": "us-central1-a"},
        "node_pools": [
            {
                "name": "a",
                "machine_type": "a2-highgpu-1g",
                "nodes": {"count": 1},
                "resource_labels": {"team": "vision"},
            }
        ],
    }

    def labels() -> Mapping[str, str]:
        where = {"name": f"projects/{PROJECT}/locations/us-central1-a/clusters/c"}
        found = engine.cloud.call("container", "projects.locations.clusters.get", where, {})
        return dict(found.get("resourceLabels") or {})

    settles(engine, with_(plain, resource_labels={"owner": "ml"}))
    assert labels() == {"owner": "ml"}
    nodes = nodes_of(engine, "gke")
    many = {f"l{number}": "x" for number in range(63)}
    changed = with_(plain, resource_labels=many)
    assert settles(engine, changed, changes="update") == {"gke"}
    assert labels() == many
    assert settles(engine, plain, changes="update") == {"gke"}
    assert labels() == {}
    assert nodes_of(engine, "gke") == nodes
    fleet = planned(plain)
    assert isinstance(fleet, plan.GkeFleetPlan)
    assert not_allowed([fleet], call_log.read(engine.directory.parent)) == []
