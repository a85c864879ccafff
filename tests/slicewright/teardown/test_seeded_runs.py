"""Runs with random leftovers, random faults of the clouds, and kills: nothing is ever left."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from rehearsal.clouds.core.node_api import VOLUME_SNAPSHOTS
from slicewright.doctor.findings import CannotAsk
from slicewright.teardown.report import Report
from slicewright.teardown.teardown import Choices, Stopped
from tests.slicewright.teardown.stacks import (
    FAST,
    Killed,
    World,
    claim,
    keep_address,
    service,
    snapshot,
    volume,
)

RUNS = 100
"""Attempts of one destruction; faults end after fewer."""
_FAULTS = {
    "eks": (
        "ec2.DeleteNetworkInterface",
        "ec2.DeleteSecurityGroup",
        "ec2.DeleteSnapshot",
        "ec2.DeleteVolume",
        "ec2.DescribeNetworkInterfaces",
        "ec2.DescribeSecurityGroups",
        "ec2.DescribeSnapshots",
        "ec2.DeleteSubnet",
        "ec2.DeleteVpc",
        "eks.DeleteCluster",
        "eks.DescribeCluster",
        "elb.DeleteLoadBalancer",
        "elb.DescribeTags",
        "elbv2.DeleteTargetGroup",
        "elbv2.DescribeLoadBalancers",
        "elbv2.DescribeTargetGroups",
        "logs.DeleteLogGroup",
    ),
    "gke": (
        "compute.disks.aggregatedList",
        "compute.disks.delete",
        "compute.snapshots.list",
        "compute.snapshots.delete",
        "compute.addresses.aggregatedList",
        "compute.addresses.delete",
        "compute.firewalls.delete",
        "compute.firewalls.list",
        "compute.forwardingRules.delete",
        "compute.networkEndpointGroups.aggregatedList",
        "compute.networks.delete",
        "compute.subnetworks.delete",
        "compute.targetPools.delete",
        "container.projects.locations.clusters.delete",
    ),
}
SEEDS = [pytest.param(seed, marks=[] if seed < 10 else [pytest.mark.soak]) for seed in range(30)]
"""Of each cloud; those after the first ten, in which more can meet, are of `make soak`."""
_KINDS = ("throttling", "connection-reset", "api-error")


def leave(world: World, chance: random.Random) -> None:
    """What people made in the cluster."""
    on_eks = world.subject.cloud == "eks"
    asked = (
        {},
        {"service.beta.kubernetes.io/aws-load-balancer-type": "nlb"}
        if on_eks
        else {"networking.gke.io/load-balancer-type": "Internal"},
        {} if on_eks else {"cloud.google.com/neg": '{"ingress": true}'},
    )
    for number in range(chance.randint(0, 4)):
        one = service(f"s{number}", **chance.choice(asked))
        world.api.objects.add_object("/api/v1/services", one)
    for number in range(chance.randint(0, 3)):
        name = f"v{number}"
        source = (
            {"driver": "ebs.csi.aws.com", "volumeHandle": f"vol-{number:017x}"}
            if on_eks
            else {
                "driver": "pd.csi.storage.gke.io",
                "volumeHandle": f"projects/acme/zones/us-central1-a/disks/{name}",
            }
        )
        policy = chance.choice(("Delete", "Retain"))
        world.api.objects.add_object("/api/v1/persistentvolumeclaims", claim(name))
        world.api.objects.add_object(
            "/api/v1/persistentvolumes", volume(name, source, policy=policy)
        )
        # Of a disk that its cluster deletes, Google shows nothing that tells whose it was.
        for copy in range(chance.randint(0, 2) if on_eks or policy == "Retain" else 0):
            world.api.objects.add_object(VOLUME_SNAPSHOTS, snapshot(f"{name}-{copy}", source))
    if chance.random() < 0.5:
        keep_address(world)
    world.api.deaf = chance.random() < 0.5
    world.api.unreachable = chance.random() < 0.2


def break_calls(world: World, environment: Path, chance: random.Random) -> None:
    faults = []
    for method in chance.sample(_FAULTS[world.subject.cloud], chance.randint(1, 5)):
        kind = chance.choice(_KINDS)
        fault = {"fault": kind, "method": method, "times": chance.randint(1, 4)}
        if kind == "connection-reset":
            fault["carried_out"] = chance.random() < 0.5
        faults.append(fault)
    (environment / "faults.json").write_text(json.dumps(faults))


def until_clean(world: World, chance: random.Random) -> Report:
    choices = replace(FAST, disks="delete", unreachable=world.api.unreachable)
    for _ in range(RUNS):
        world.kill_at = chance.randint(1, 12) if chance.random() < 0.3 else None
        try:
            report = _run(world, choices)
        except (Killed, Stopped, CannotAsk):
            continue
        if report.clean:
            return report
    raise AssertionError(f"still not clean: {report}")


def _run(world: World, choices: Choices) -> Report:
    teardown = world.teardown(choices)
    return teardown.run(teardown.look())


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("cloud", ["on_eks", "on_gke"])
def test_nothing_is_left_whatever_fails_on_the_way(
    clouds_over_http: None,
    cloud: str,
    seed: int,
    request: pytest.FixtureRequest,
    tmp_path: Path,
) -> None:
    """A run that says that nothing is left is right, whatever it was told before."""
    world: World = request.getfixturevalue(cloud)
    chance = random.Random(seed)
    leave(world, chance)
    break_calls(world, tmp_path, chance)
    report = until_clean(world, chance)
    left = world.inventory()
    if cloud == "on_gke":
        # Google's CSI driver gives them no label, and those of a disk that is gone prove nothing.
        left.pop("compute.snapshot", None)
    assert left == {}, report
