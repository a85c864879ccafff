"""Two clusters of one name, one after the other, and others that only look like the second."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slicewright.rehearsal.clouds.aws.state import (
    LOAD_BALANCERS,
    SECURITY_GROUPS,
    SNAPSHOTS,
    VOLUMES,
)
from slicewright.rehearsal.clouds.core.node_api import VOLUME_SNAPSHOTS
from slicewright.rehearsal.clouds.gcp.state import DISKS
from slicewright.rehearsal.clouds.gcp.state import SNAPSHOTS as GOOGLE_SNAPSHOTS
from slicewright.rehearsal.clouds.service import Cloud
from slicewright.teardown.report import Report
from slicewright.teardown.teardown import Refused
from tests.rehearsal.clouds.conftest import Aws, Gcp
from tests.slicewright.teardown.stacks import (
    FAST,
    PROJECT_SNAPSHOTS,
    Killed,
    World,
    claim,
    eks_steps,
    gke_steps,
    snapshot,
    volume,
)

CLAIMS = "/api/v1/persistentvolumeclaims"
VOLUMES_PATH = "/api/v1/persistentvolumes"
API = "https://www.googleapis.com/compute/v1"
LONG_AGO = "2026-01-01T00:00:00.000Z"
LATER = "2126-01-01T00:00:00.000Z"
Made = Callable[[], World]


def csi(world: World, name: str) -> dict[str, str]:
    if world.subject.cloud == "eks":
        return {"driver": "ebs.csi.aws.com", "volumeHandle": f"vol-{name}"}
    handle = f"projects/acme/zones/us-central1-a/disks/{name}"
    return {"driver": "pd.csi.storage.gke.io", "volumeHandle": handle}


def use(world: World, name: str, *, policy: str = "Delete") -> str:
    """A claim with its volume; the ID of its disk."""
    source = csi(world, name)
    world.api.objects.add_object(CLAIMS, claim(name))
    world.api.objects.add_object(VOLUMES_PATH, volume(name, source, policy=policy))
    return source["volumeHandle"]


def copy(world: World, name: str, of: str, *, policy: str) -> str:
    """A snapshot that a VolumeSnapshot of the cluster made."""
    content = snapshot(name, csi(world, of), policy=policy)
    world.api.objects.add_object(VOLUME_SNAPSHOTS, content)
    return str(content["status"]["snapshotHandle"])


def run(world: World, **choices: Any) -> Report:
    teardown = world.teardown(replace(FAST, **choices))
    return teardown.run(teardown.look())


def ids(report: Report, kind: str = "disk") -> set[str]:
    return {one.id for one in report.leftovers if one.kind == kind}


def deleted(report: Report) -> set[str]:
    return {one.id for one in report.deleted}


@pytest.fixture(params=["on_eks", "on_gke"])
def world(clouds_over_http: None, request: pytest.FixtureRequest) -> World:
    found: World = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def again(world: World, served: Cloud, tmp_path: Path) -> Made:
    """`pulumi up` of the stack that was destroyed: a cluster of the same name."""

    def made() -> World:
        if world.subject.cloud == "eks":
            aws = Aws(served, tmp_path)
            aws.make_cluster()
            aws.make_group()
            world.pulumi.steps = eks_steps(aws).steps
        else:
            gcp = Gcp(served, tmp_path)
            gcp.make_cluster()
            world.pulumi.steps = gke_steps(gcp).steps
        world.pulumi.up()
        return world

    return made


def test_a_disk_that_was_kept_outlives_the_next_cluster_of_that_name(
    world: World, again: Made
) -> None:
    kept = use(world, "kept", policy="Retain")
    assert ids(run(world, disks="keep", logs="delete")) == {kept}
    second = again()
    second.api.deaf = True
    own = use(second, "own")
    looked = second.teardown().look()
    assert looked.obstacles == []
    assert kept in ids(looked)
    report = second.teardown().run(looked)
    assert own in deleted(report)
    assert ids(report) == {kept}
    assert "--disks delete" in next(one.held for one in report.leftovers if one.id == kept)
    agreed = run(second, disks="delete")
    assert deleted(agreed) == {kept}


def test_a_confirmation_deletes_only_listed_resources(world: World, again: Made) -> None:
    kept = use(world, "kept", policy="Retain")
    run(world, disks="keep", logs="delete")
    second = again()
    teardown = second.teardown(replace(FAST, disks="delete"))
    looked = teardown.look()
    late = put_disk(second, "late", created=LATER)
    report = teardown.run(looked)
    assert kept in deleted(report)
    assert ids(report) == {late}
    assert "it was not listed when you confirmed" in report.leftovers[0].held


def test_a_volume_that_appears_after_the_question_keeps_its_policy(world: World) -> None:
    teardown = world.teardown(replace(FAST, disks="delete"))
    looked = teardown.look()
    late = use(world, "late", policy="Retain")
    report = teardown.run(looked)
    assert ids(report) == {late}
    assert late not in deleted(report)


@pytest.mark.parametrize("created", [LONG_AGO, LATER, ""])
def test_disks_and_snapshots_that_others_marked_stay(world: World, created: str) -> None:
    """A self-managed cluster of that name has the same tags, and so has what anybody tags."""
    theirs = put_disk(world, "theirs", created=created)
    backup = put_snapshot(world, "backup", of=theirs, created=created)
    own = use(world, "own")
    world.api.deaf = True
    looked = world.teardown().look()
    assert {theirs, own} <= ids(looked)
    report = world.teardown(replace(FAST, logs="delete")).run(looked)
    assert own in deleted(report)
    assert ids(report) == {theirs}
    assert ids(report, "snapshot") == {backup}


def test_a_backup_of_the_clusters_own_disk_stays_and_the_disk_goes(world: World) -> None:
    """Whoever makes backups may copy the tags of the volume."""
    own = use(world, "own")
    backup = put_snapshot(world, "backup", of=own, created=LATER)
    world.api.deaf = True
    looked = world.teardown().look()
    assert ids(looked, "snapshot") == {backup}
    report = world.teardown().run(looked)
    assert own in deleted(report)
    assert backup not in deleted(report)


def test_snapshots_follow_the_policy_of_their_contents(world: World) -> None:
    use(world, "models")
    goes = copy(world, "goes", "models", policy="Delete")
    stays = copy(world, "stays", "models", policy="Retain")
    world.api.deaf = True
    with pytest.raises(Refused, match=r"snapshots of stays.*--disks"):
        run(world)
    report = run(world, disks="keep")
    assert {goes, stays} & deleted(report) == set()
    report = run(world, disks="delete", logs="delete")
    assert {goes, stays} <= deleted(report)


def test_a_snapshot_with_policy_delete_goes_without_a_question(world: World) -> None:
    use(world, "models")
    goes = copy(world, "goes", "models", policy="Delete")
    world.api.deaf = True
    assert goes in deleted(run(world))
    assert world.inventory() == {}


def test_a_volume_of_no_claim_goes_only_if_its_disk_is_younger_than_the_cluster(
    world: World,
) -> None:
    old = put_disk(world, "old", created=LONG_AGO)
    for name in ("old", "young"):
        one = volume(name, csi(world, name))
        del one["spec"]["claimRef"]
        world.api.objects.add_object(VOLUMES_PATH, one)
    report = run(world)
    assert csi(world, "young")["volumeHandle"] in deleted(report)
    assert ids(report) == {old}


def test_a_run_that_was_cut_off_leaves_its_proof_for_the_next(world: World) -> None:
    """The cluster is gone, and with it whose the disk was: but that was written down."""
    own = use(world, "own")
    theirs = put_disk(world, "theirs", created=LATER)
    world.api.deaf = True
    kill_once_the_cluster_is_gone(world)
    with pytest.raises(Killed):
        run(world)
    assert {own, theirs} <= disks_of(world)
    report = run(world)
    assert own in deleted(report)
    assert ids(report) == {theirs}
    assert world.pulumi.exported() == {"deployment": {"resources": []}}


def test_a_disk_without_that_proof_stays_and_is_shown(world: World) -> None:
    own = use(world, "own")
    world.api.deaf = True
    world.pulumi.read_only = True
    kill_once_the_cluster_is_gone(world)
    with pytest.raises(Killed):
        run(world)
    assert any("could not be written into Pulumi's state" in line for line in world.told)
    looked = world.teardown().look()
    assert ids(looked) == {own}
    assert ids(world.teardown().run(looked)) == {own}
    assert deleted(run(world, disks="delete", logs="delete")) >= {own}


def test_the_proof_stays_while_the_sweep_has_more_to_do(world: World, tmp_path: Path) -> None:
    """`pulumi destroy` has deleted all of the state, and the cloud refuses to delete the disk."""
    own = use(world, "own")
    world.api.deaf = True
    method = "ec2.DeleteVolume" if world.subject.cloud == "eks" else "compute.disks.delete"
    faults = [{"fault": "api-error", "method": method, "times": 1000}]
    (tmp_path / "faults.json").write_text(json.dumps(faults))
    report = run(world, wait_s=1.0)
    assert own in ids(report)
    assert report.state == {}
    (tmp_path / "faults.json").write_text("[]")
    assert deleted(run(world)) == {own}
    assert world.inventory() == {}


def test_a_record_of_an_earlier_life_proves_nothing_of_the_next(world: World, again: Made) -> None:
    """Its outputs were not written anew, as an `up` that failed leaves them."""
    use(world, "pool")
    world.api.deaf = True
    record = recorded(world)
    world.api.deaf = False
    run(world, logs="delete")
    again()
    world.pulumi.outputs = {"slicewright:destroy": record}
    theirs = put_disk(world, "pool", created=LATER)
    assert ids(run(world)) == {theirs}


def test_policies_that_a_cut_off_run_changed_are_set_back(world: World) -> None:
    """It was allowed to delete the disks; the next run is told to keep them."""
    kept = use(world, "kept", policy="Retain")
    teardown = world.teardown(replace(FAST, disks="delete"))
    looked = teardown.look()
    kill_at_deletion_of_claims(world)
    with pytest.raises(Killed):
        teardown.run(looked)
    (changed,) = world.api.objects.listed(VOLUMES_PATH)
    assert changed["spec"]["persistentVolumeReclaimPolicy"] == "Delete"
    assert world.teardown().look().obstacles
    report = run(world, disks="keep", logs="delete")
    assert kept not in deleted(report)
    assert kept in disks_of(world)


def kill_at_deletion_of_claims(world: World) -> None:
    """After volumes have got their policies."""
    nodes = len([n for n in world.api.objects.read() if not n["spec"].get("unschedulable")])
    world.kill_at = nodes + 1


def recorded(world: World) -> str:
    """What a run writes down before it changes anything."""
    world.kill_at = 1
    with pytest.raises(Killed):
        run(world)
    assert world.pulumi.outputs is not None
    return str(world.pulumi.outputs["slicewright:destroy"])


def kill_once_the_cluster_is_gone(world: World) -> None:
    steps = []
    for kind, name, there, delete in world.pulumi.steps:
        if kind.endswith("cluster:Cluster"):

            def then_die(delete: Callable[[], None] = delete) -> None:
                delete()
                raise Killed

            steps.append((kind, name, there, then_die))
        else:
            steps.append((kind, name, there, delete))
    world.pulumi.steps = steps


def disks_of(world: World) -> set[str]:
    kind = "ec2.volume" if world.subject.cloud == "eks" else "compute.disk"
    return {disk_id(world, key) for key in world.inventory().get(kind, ())}


def disk_id(world: World, key: str) -> str:
    return csi(world, key.rpartition("/")[2].removeprefix("vol-"))["volumeHandle"]


def put_disk(world: World, name: str, *, created: str) -> str:
    """A disk that has the cluster's mark, made by somebody else. created: empty: with no time."""
    store = world.store
    identity = csi(world, name)["volumeHandle"]
    if world.subject.cloud == "eks":
        tags = [{"Key": f"kubernetes.io/cluster/{world.subject.cluster}", "Value": "owned"}]
        one = {
            "VolumeId": identity,
            "State": "available",
            "Attachments": [],
            "AvailabilityZone": "eu-west-1a",
            "Size": 1,
            "VolumeType": "gp3",
            "Tags": tags,
            **({"CreateTime": created} if created else {}),
        }
        store.put(VOLUMES, f"eu-west-1/{identity}", one)
    else:
        labels = {
            "goog-k8s-cluster-location": world.subject.location,
            "goog-k8s-cluster-name": world.subject.cluster,
        }
        one = {
            "name": name,
            "id": "1",
            "selfLink": f"{API}/{identity}",
            "labels": labels,
            **({"creationTimestamp": created} if created else {}),
        }
        store.put(DISKS, f"acme/us-central1-a/{name}", one)
    return identity


def put_snapshot(world: World, name: str, *, of: str, created: str) -> str:
    store = world.store
    if world.subject.cloud == "eks":
        tags = [{"Key": f"kubernetes.io/cluster/{world.subject.cluster}", "Value": "owned"}]
        one: dict[str, Any] = {
            "SnapshotId": f"snap-{name}",
            "VolumeId": of,
            "State": "completed",
            "Progress": "100%",
            "Tags": tags,
            **({"StartTime": created} if created else {}),
        }
        store.put(SNAPSHOTS, f"eu-west-1/snap-{name}", one)
        return f"snap-{name}"
    identity = f"{PROJECT_SNAPSHOTS}/{name}"
    one = {
        "name": name,
        "id": "1",
        "selfLink": f"{API}/{identity}",
        "sourceDisk": f"{API}/{of}",
        **({"creationTimestamp": created} if created else {}),
    }
    store.put(GOOGLE_SNAPSHOTS, f"acme/{name}", one)
    return identity


@pytest.mark.parametrize("audit", [True, False])
def test_the_audit_log_stays_by_default(on_eks: World, aws_of_eks: Aws, *, audit: bool) -> None:
    log = {"clusterLogging": [{"types": ["api", "audit"], "enabled": True}]}
    if audit:
        aws_of_eks.call("eks", "UpdateClusterConfig", name="p4d", logging=log)
        aws_of_eks.settle("cluster")
    looked = on_eks.teardown().look()
    (shown,) = [one for one in looked.leftovers if one.kind == "log group"]
    assert shown.held.startswith("kept: it holds the cluster's audit log") is audit
    report = on_eks.teardown().run(looked)
    assert bool(ids(report, "log group")) is audit
    assert run(on_eks, logs="delete").clean
    assert on_eks.inventory() == {}


@pytest.mark.parametrize("world", ["on_eks"], indirect=True)
def test_logs_that_are_kept_stay_through_the_next_life(world: World, again: Made) -> None:
    assert ids(run(world, logs="keep"), "log group")
    second = again()
    looked = second.teardown().look()
    assert ids(looked, "log group")
    assert ids(second.teardown().run(looked), "log group")
    assert deleted(run(second, logs="delete")) == {"/aws/eks/p4d/cluster"}


def test_resources_of_a_namesake_cluster_in_another_network_stay(
    on_eks: World, aws_of_eks: Aws
) -> None:
    """A self-managed cluster's load balancer, its group and its machine are in use."""
    foreign = aws_of_eks.call("ec2", "CreateVpc", CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
    tags = {"kubernetes.io/cluster/p4d": "owned"}
    listed = [{"Key": key, "Value": value} for key, value in tags.items()]
    balancer = {
        "name": "theirs",
        "arn": None,
        "dns": "theirs.elb.amazonaws.com",
        "scheme": "internal",
        "vpc": foreign,
        "subnets": {},
        "interfaces": "ELB theirs",
        "tags": tags,
        "since": LATER,
    }
    group = {
        "GroupId": "sg-theirs",
        "GroupName": "k8s-elb-theirs",
        "Description": "theirs",
        "VpcId": foreign,
        "OwnerId": "123456789012",
        "IpPermissions": [],
        "IpPermissionsEgress": [],
        "Tags": listed,
        "_cluster": "",
        "_since": LATER,
    }
    on_eks.store.put(LOAD_BALANCERS, "eu-west-1/theirs", balancer)
    on_eks.store.put(SECURITY_GROUPS, "eu-west-1/sg-theirs", group)
    aws_of_eks.call("ec2", "AllocateAddress", Domain="vpc", TagSpecifications=[
        {"ResourceType": "elastic-ip", "Tags": listed}
    ])  # fmt: skip
    looked = on_eks.teardown().look()
    assert ids(looked, "load balancer") == {"theirs"}
    report = on_eks.teardown().run(looked)
    assert {one.kind for one in report.leftovers} == {"load balancer", "security group", "address"}
    assert all("--unproven delete" in one.held for one in report.leftovers)
    run(on_eks, unproven="delete")
    assert {*on_eks.inventory()} == {"ec2.vpc"}
