"""What proves that this cluster made something, and what only has its mark."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from slicewright.teardown.evidence import life_of
from slicewright.teardown.inventory import AffectedObjects, Objects, waiting_pools
from slicewright.teardown.record import OUTPUT, record_text, recorded_life, with_record
from slicewright.teardown.report import Report, lines_of
from slicewright.teardown.subject import state_of
from slicewright.teardown.sweep.aws_proofs import (
    address_leftover,
    balancer_leftover,
    instance_leftover,
    log_group_leftover,
    profile_leftover,
    security_group_leftover,
    target_group_leftover,
    template_leftover,
    volume_leftover,
)
from slicewright.teardown.sweep.leftovers import CLUSTER_EXISTS, Leftover
from slicewright.teardown.sweep.life import Life, moment
from slicewright.teardown.sweep.permission import LATE, Permission
from tests.slicewright.teardown.stacks import service, snapshot, volume

TAGS = [{"Key": "kubernetes.io/cluster/ml", "Value": "owned"}]
KARPENTER = [*TAGS, {"Key": "karpenter.sh/nodepool", "Value": "gpus"}]
BEGUN = "2026-11-01T10:00:00+00:00"
LIFE = Life(
    begun=BEGUN,
    networks=frozenset({"vpc-own"}),
    groups=frozenset({"sg-cluster"}),
    balancers=frozenset({"a1", "web.elb.amazonaws.com"}),
)
AFTER = datetime(2026, 11, 1, 10, 0, 1, tzinfo=UTC)
BEFORE = datetime(2026, 11, 1, 9, 59, 59, tzinfo=UTC)
EBS = {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1"}


def balancer(vpc: str, **more: Any) -> Leftover:
    one = {"LoadBalancerArn": "arn:lb", "LoadBalancerName": "other", "VpcId": vpc, **more}
    return balancer_leftover(one, TAGS, "ml", LIFE).leftover


def test_a_load_balancer_in_anothers_vpc_needs_a_service_that_has_it() -> None:
    assert balancer("vpc-own").proof
    assert not balancer("vpc-else", CreatedTime=AFTER).proof
    assert balancer("vpc-else", LoadBalancerName="a1").proof
    assert balancer("vpc-else", DNSName="WEB.elb.amazonaws.com").proof


def test_the_proof_of_a_load_balancer_covers_its_groups() -> None:
    listed = {"LoadBalancerArn": "arn:lb", "LoadBalancerName": "a1", "SecurityGroups": ["sg-lb"]}
    mine = balancer_leftover(listed, TAGS, "ml", LIFE)
    theirs = balancer_leftover({**listed, "LoadBalancerName": "x"}, TAGS, "ml", LIFE)
    group = {"GroupId": "sg-lb", "GroupName": "k8s-web", "VpcId": "vpc-else", "Tags": TAGS}
    assert security_group_leftover(group, "ml", LIFE, [mine]).proof
    assert not security_group_leftover(group, "ml", LIFE, [theirs]).proof
    assert security_group_leftover({**group, "GroupName": "k8s-elb-a1"}, "ml", LIFE, []).proof
    assert security_group_leftover({**group, "GroupId": "sg-cluster"}, "ml", LIFE, []).proof
    target = {"TargetGroupArn": "arn:tg", "VpcId": "vpc-else", "LoadBalancerArns": ["arn:lb"]}
    assert target_group_leftover(target, TAGS, "ml", LIFE, frozenset({"arn:lb"})).proof
    assert not target_group_leftover(target, TAGS, "ml", LIFE, frozenset()).proof


def test_a_tag_on_another_machine_does_not_prove_that_karpenter_owns_it() -> None:
    """Whoever may tag could have an administrator end it."""
    machine = {"InstanceId": "i-1", "VpcId": "vpc-else", "Tags": KARPENTER, "LaunchTime": AFTER}
    marked = instance_leftover(machine, "ml", LIFE)
    assert marked.mark
    assert not marked.proof
    assert instance_leftover({**machine, "VpcId": "vpc-own"}, "ml", LIFE).proof
    inside = {**machine, "SecurityGroups": [{"GroupId": "sg-cluster"}]}
    assert instance_leftover(inside, "ml", LIFE).proof
    claimed = Objects(node_claims=[{"status": {"providerID": "aws:///eu-west-1a/i-1"}}])
    assert life_of(claimed).judged(marked).proof


def test_a_launch_template_is_known_by_its_security_group() -> None:
    one = {"LaunchTemplateId": "lt-1", "Tags": KARPENTER, "CreateTime": AFTER}
    groups = frozenset({"sg-cluster"})
    assert template_leftover(one, {"SecurityGroupIds": ["sg-cluster"]}, "ml", groups).proof
    inside = {"NetworkInterfaces": [{"Groups": ["sg-cluster"]}]}
    assert template_leftover(one, inside, "ml", groups).proof
    assert not template_leftover(one, {"SecurityGroupIds": ["sg-2"]}, "ml", groups).proof


@pytest.mark.parametrize(
    ("created", "roles", "proven"),
    [
        (AFTER, [], True),
        (BEFORE, [], False),
        (None, [], False),
        (AFTER, [{"RoleName": "r"}], False),
    ],
)
def test_a_profile_with_another_role_or_an_earlier_profile_is_not_proven(
    created: datetime | None, roles: list[Any], *, proven: bool
) -> None:
    one = {"InstanceProfileName": "ml_1", "CreateDate": created, "Roles": roles}
    assert bool(profile_leftover(one, "/karpenter/", LIFE).proof) is proven
    named = Objects(node_classes=[{"status": {"instanceProfile": "ml_1"}}])
    assert life_of(named).judged(profile_leftover(one, "/karpenter/", LIFE)).proof


def test_an_address_is_the_clusters_only_if_a_service_names_it() -> None:
    one = address_leftover({"AllocationId": "eipalloc-1", "Tags": TAGS}, "ml")
    assert not LIFE.judged(one).proof
    note = "service.beta.kubernetes.io/aws-load-balancer-eip-allocations"
    named = Objects(services=[service("web", **{note: "eipalloc-0, eipalloc-1"})])
    assert life_of(named).judged(one).proof


@pytest.mark.parametrize(
    ("made_ms", "proven"),
    [
        (round(AFTER.timestamp() * 1000), True),
        (round(BEFORE.timestamp() * 1000), False),
        (round(datetime.fromisoformat(BEGUN).timestamp() * 1000), False),
        (None, False),
        ("1793527201000", False),
    ],
)
def test_a_log_group_that_is_no_younger_has_an_earlier_clusters_lines(
    made_ms: object, *, proven: bool
) -> None:
    group = {"logGroupName": "/aws/eks/ml/cluster", "creationTime": made_ms}
    assert bool(log_group_leftover(group, LIFE).proof) is proven
    assert not log_group_leftover(group, Life()).proof


@pytest.mark.parametrize("text", ["", "soon", "2026-11-01T10:00:00", "2026-13-01T10:00:00Z"])
def test_a_time_that_cannot_be_compared_proves_nothing(text: str) -> None:
    assert moment(text) is None
    assert not LIFE.precedes(text)
    assert not Life(begun=text).precedes(AFTER.isoformat())


def test_times_of_two_places_are_compared_as_times() -> None:
    assert LIFE.precedes("2026-11-01T03:00:01.000-07:00")
    assert not LIFE.precedes("2026-11-01T11:59:59+02:00")


def disk(created: str = AFTER.isoformat()) -> Leftover:
    shown = {"VolumeId": "vol-1", "State": "available", "Tags": TAGS, "CreateTime": created}
    return volume_leftover(shown, "ml")


def test_the_policy_of_a_volume_decides_about_its_disk() -> None:
    def judged(
        policy: str | None, *, created: str = AFTER.isoformat(), claimed: bool = True
    ) -> Any:
        one = volume("v", EBS)
        one["spec"]["persistentVolumeReclaimPolicy"] = policy
        if not claimed:
            del one["spec"]["claimRef"]
        return LIFE.joined(life_of(Objects(volumes=[one]))).judged(disk(created))

    assert judged("Delete").proof
    assert not judged("Delete").retained
    assert all(judged(policy).retained for policy in ("Retain", "Recycle", None))
    assert judged("Delete", created=BEFORE.isoformat()).proof
    assert not judged("Delete", created=BEFORE.isoformat(), claimed=False).proof
    assert judged("Delete", claimed=False).proof


def test_an_imported_snapshot_does_not_belong_to_the_cluster() -> None:
    made = snapshot("s", EBS)
    brought = {**made, "spec": {**made["spec"], "source": {"snapshotHandle": "snap-s"}}}
    assert life_of(Objects(snapshots=[made])).named_if_later == {("snapshot", "snap-s")}
    assert life_of(Objects(snapshots=[brought])) == Life()
    undecided = {**made, "spec": {k: v for k, v in made["spec"].items() if k != "deletionPolicy"}}
    assert life_of(Objects(snapshots=[undecided])).retained == {("snapshot", "snap-s")}


def test_a_retained_resource_remains_retained() -> None:
    key = ("disk", "vol-1")
    life = Life(retained=frozenset({key})).joined(Life(named=frozenset({key})))
    assert (life.named, life.retained) == (frozenset(), {key})


@pytest.mark.parametrize(
    ("kind", "choice"), [("disk", "disks"), ("log group", "logs"), ("load balancer", "unproven")]
)
def test_a_confirmation_covers_only_listed_resources(kind: str, choice: str) -> None:
    marked = Leftover(kind=kind, id="x", mark="a tag", proof="")
    assert f"--{choice} delete to delete it" in Permission(listed=frozenset()).why_kept(marked)
    agreed = {choice: "delete"}
    assert Permission(listed=frozenset({(kind, "x")}), **agreed).why_kept(marked) == ""
    assert Permission(listed=frozenset(), **agreed).why_kept(marked) == LATE
    assert Permission(listed=frozenset(), **{choice: "keep"}).why_kept(marked)
    others = {"disks", "logs", "unproven"} - {choice}
    shown = frozenset({(kind, "x")})
    assert Permission(listed=shown, **dict.fromkeys(others, "delete")).why_kept(marked)


def test_a_resource_without_mark_and_proof_is_never_deleted() -> None:
    blocks = Leftover(kind="security group", id="sg", proof="")
    everything = Permission(
        disks="delete",
        logs="delete",
        unproven="delete",
        listed=frozenset({("security group", "sg")}),
    )
    assert everything.why_kept(blocks)


def test_a_record_is_read_unchanged_and_only_for_its_cluster() -> None:
    life = Life(
        begun=BEGUN,
        named=frozenset({("disk", "vol-1")}),
        named_if_later=frozenset({("snapshot", "s")}),
        retained=frozenset({("disk", "vol-2")}),
        audited=True,
    ).joined(LIFE)
    text = record_text(life, "ml", "eu-west-1")
    assert recorded_life(text, "ml", "eu-west-1") == life
    assert recorded_life(text, "ml", "eu-west-2") == Life()
    assert recorded_life(text, "ml-2", "eu-west-1") == Life()
    for broken in ("", "{", "[]", "null", '{"version": 2}', text.replace('"named"', '"names"')):
        assert recorded_life(broken, "ml", "eu-west-1") == Life()
    wrong = text.replace('[["disk", "vol-1"]]', '"vol-1"')
    assert wrong != text
    assert recorded_life(wrong, "ml", "eu-west-1") == Life()


def test_a_record_is_an_output_of_the_stack_beside_the_others() -> None:
    stack = {"type": "pulumi:pulumi:Stack", "urn": "urn:stack", "outputs": {"pools": 2}}
    role = {"type": "aws:iam/role:Role", "urn": "urn:role", "custom": True}
    full = {"version": 3, "deployment": {"manifest": {}, "resources": [stack, role]}}
    written = with_record(full, None, "x")
    assert written is not None
    assert written["deployment"]["resources"][0]["outputs"] == {"pools": 2, OUTPUT: "x"}
    assert state_of(written).record == "x"
    assert with_record(written, None, "x") is None
    assert with_record(written, None, "") == full
    assert with_record(full, None, "") is None
    empty = {"version": 3, "deployment": {"manifest": {}}}
    assert with_record(empty, None, "x") is None
    kept = with_record(empty, stack, "x")
    assert kept is not None
    assert [r["type"] for r in kept["deployment"]["resources"]] == [stack["type"]]
    taken = with_record(kept, None, "")
    assert taken is not None
    assert taken["deployment"]["resources"] == []


@pytest.mark.parametrize(("available", "waiting"), [(0, ("a100",)), (1, ())])
def test_pools_that_wait_for_a_controller_that_does_not_run_are_named(
    available: int, waiting: tuple[str, ...]
) -> None:
    kept = {"name": "a100", "finalizers": ["slicewright.io/release-nodes"]}
    controller = {
        "metadata": {"namespace": "slicewright-system", "name": "fleet-controller"},
        "status": {"availableReplicas": available},
    }
    shared = AffectedObjects(inside=[("Deployment", controller)], gpu_pools=[{"metadata": kept}])
    pool = {"type": "kubernetes:slicewright.io/v1alpha1:GPUPool", "urn": "u", "id": "a100"}
    state = state_of({"deployment": {"resources": [{**pool, "custom": True}]}})
    assert waiting_pools(shared, state) == waiting


def test_the_prompt_lists_all_disks_and_the_reason_for_each_that_stays() -> None:
    goes = [
        Leftover(kind="disk", id=f"vol-{number}", mark="a tag", proof="named", held=CLUSTER_EXISTS)
        for number in range(40)
    ]
    stays = Leftover(kind="disk", id="vol-old", mark="a tag", proof="", created=BEGUN)
    stays = replace(stays, held=Permission().why_kept(stays))
    report = Report(stack="dev", cluster="ml", dry_run=True, leftovers=[*goes, stays])
    lines = [*lines_of(report)]
    assert "  deleted once the cluster is gone (kind disk): 40" in lines
    assert {f"    {one.id}: named" for one in goes} <= {*lines}
    assert "  left: disk vol-old" in lines
    assert f"    created: {BEGUN}" in lines
    assert any("pass --disks delete to delete it" in line for line in lines)
