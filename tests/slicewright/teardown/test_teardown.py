"""`slicewright destroy` against simulated clouds that keep what real ones keep."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from slicewright.doctor.findings import CannotAsk
from slicewright.rehearsal.clouds.core.fake_control_planes import fake_nodes
from slicewright.rehearsal.clouds.core.node_api import VOLUME_SNAPSHOTS
from slicewright.teardown.report import Report
from slicewright.teardown.sweep.life import Life
from slicewright.teardown.sweep.passes import Sweep
from slicewright.teardown.sweep.permission import Permission
from slicewright.teardown.teardown import Choices, Refused, Stopped
from tests.rehearsal.clouds.conftest import Aws
from tests.slicewright.teardown.stacks import (
    FAST,
    Killed,
    World,
    claim,
    ingress,
    keep_address,
    launch,
    service,
    snapshot,
    volume,
)

EBS = {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-0123456789abcdef0"}
PD = {
    "driver": "pd.csi.storage.gke.io",
    "volumeHandle": "projects/acme/zones/us-central1-a/disks/pvc-1",
}
NLB = {"service.beta.kubernetes.io/aws-load-balancer-type": "nlb"}
NEG = {"cloud.google.com/neg": '{"ingress": true}'}
SERVICES = "/api/v1/services"
INGRESSES = "/apis/networking.k8s.io/v1/ingresses"
CLAIMS = "/api/v1/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"


def use(world: World, *, policy: str = "Delete") -> None:
    """Two load balancers and a volume."""
    on_eks = world.subject.cloud == "eks"
    world.api.objects.add_object(SERVICES, service("triton"))
    world.api.objects.add_object(SERVICES, service("vllm", **(NLB if on_eks else NEG)))
    world.api.objects.add_object(CLAIMS, claim("models"))
    world.api.objects.add_object(VOLUMES, volume("models", EBS if on_eks else PD, policy=policy))


def use_more(world: World) -> None:
    """A snapshot of the volume, and on AWS an address for the load balancers."""
    disk = EBS if world.subject.cloud == "eks" else PD
    world.api.objects.add_object(VOLUME_SNAPSHOTS, snapshot("before", disk))
    keep_address(world)


def run(world: World, choices: Choices = FAST) -> Report:
    teardown = world.teardown(choices)
    return teardown.run(teardown.look())


@pytest.fixture(params=["on_eks", "on_gke"])
def world(clouds_over_http: None, request: pytest.FixtureRequest) -> World:
    found: World = request.getfixturevalue(request.param)
    use(found)
    return found


@pytest.mark.parametrize("cloud", ["on_eks", "on_gke"])
def test_snapshots_and_addresses_go_with_the_disks(
    clouds_over_http: None, cloud: str, request: pytest.FixtureRequest
) -> None:
    world: World = request.getfixturevalue(cloud)
    use(world, policy="Retain")
    use_more(world)
    kept = run(world, replace(FAST, disks="keep"))
    assert {one.kind for one in kept.leftovers} == {"disk", "snapshot"}
    assert all(one.held.startswith("kept") for one in kept.leftovers)
    gone = run(world, replace(FAST, disks="delete"))
    assert {one.kind for one in gone.deleted} == {"disk", "snapshot"}
    assert gone.clean
    assert world.inventory() == {}


def test_plain_destroy_is_refused_for_leftovers_of_the_cluster(world: World) -> None:
    def meanwhile() -> None:
        pass

    for _ in range(2):
        ended = world.pulumi.destroy(without_cluster=False, show=print, meanwhile=meanwhile)
        assert (ended.code, ended.held) == (255, True)
    kinds = {
        "eks": {"elb.loadBalancer", "ec2.volume", "ec2.securityGroup", "logs.logGroup", "ec2.vpc"},
        "gke": {"compute.forwardingRule", "compute.firewall", "compute.disk", "compute.network"},
    }
    assert kinds[world.subject.cloud] <= set(world.inventory())


def test_working_controllers_of_the_cluster_leave_no_leftovers(world: World) -> None:
    looked = world.teardown().look()
    assert looked.inventory is not None
    assert [len(looked.inventory.balancers), looked.inventory.claims] == [2, ("ml/models",)]
    report = run(world)
    assert report.clean, report
    assert report.stuck == []
    assert report.inventory == looked.inventory, "also of what has gone"
    assert world.inventory() == {}
    # The cluster's own controllers took load balancers and disk away.
    assert {one.kind for one in report.deleted} <= {
        "network interface", "security group", "log group", "network endpoint group"
    }  # fmt: skip


def test_a_stuck_finalizer_costs_time_and_leaves_nothing(world: World) -> None:
    world.api.deaf = True
    report = run(world)
    assert any("still exists" in line for line in report.stuck)
    assert world.clocks.now_s >= FAST.drain_wait_s
    assert report.clean, report
    assert world.inventory() == {}
    kinds = {one.kind for one in report.deleted}
    assert "disk" in kinds
    assert {"load balancer", "forwarding rule"} & kinds
    assert ("target group" in kinds) is (world.subject.cloud == "eks")


def test_leftovers_of_a_gke_ingress_are_swept(on_gke: World) -> None:
    use(on_gke)
    on_gke.api.objects.add_object(INGRESSES, ingress("web", "vllm", "gone"))
    on_gke.api.deaf = True
    report = run(on_gke)
    assert any("Ingress ml/web still exists" in line for line in report.stuck)
    assert report.clean, report
    assert on_gke.inventory() == {}
    kinds = Counter(one.kind for one in report.deleted)
    assert kinds == {
        # Of two Services, and of HTTP and HTTPS of the Ingress.
        "forwarding rule": 4,
        "address": 3,
        "target pool": 2,
        "target proxy": 2,
        "certificate": 1,
        "URL map": 1,
        # Of vllm, and of the default backend.
        "backend service": 2,
        "health check": 2,
        "network endpoint group": 3,
        "firewall rule": 4,
        "disk": 1,
    }


def test_an_unreachable_cluster_is_no_reason_to_go_on_unasked(world: World) -> None:
    world.api.unreachable = True
    before = world.inventory()
    with pytest.raises(Refused, match="--unreachable"):
        run(world)
    assert (world.inventory(), world.pulumi.runs) == (before, 0)
    report = run(world, replace(FAST, unreachable=True))
    assert world.pulumi.without_cluster
    # Nobody knows whether that disk is to be kept.
    assert [one.kind for one in report.leftovers] == ["disk"]
    assert "--disks delete" in report.leftovers[0].held
    assert run(world, replace(FAST, unreachable=True, disks="delete")).clean
    assert world.inventory() == {}


def test_an_encrypted_kubeconfig_is_an_obstacle(world: World) -> None:
    world.pulumi.kubeconfig = {"4dabf18193072939515e22adb298388d": "a secret", "ciphertext": "v1:x"}
    before = world.inventory()
    looked = world.teardown().look()
    assert looked.inventory_unknown == "the kubeconfig in Pulumi's state is encrypted"
    with pytest.raises(Refused, match=r"encrypted.*--unreachable"):
        run(world)
    assert (world.inventory(), world.pulumi.runs) == (before, 0)
    assert run(world, replace(FAST, unreachable=True, disks="delete")).clean


def test_a_teardown_without_a_kubernetes_provider_continues_and_names_unseen_objects(
    world: World,
) -> None:
    """As after a `pulumi destroy` that was killed between the provider and the cluster."""
    world.pulumi.kubeconfig = None
    report = run(world, replace(FAST, disks="delete"))
    assert "no Kubernetes provider" in report.inventory_unknown
    assert report.clean, report
    assert world.inventory() == {}


def test_a_stack_that_is_half_deleted_is_finished(world: World) -> None:
    """Plain `pulumi destroy` has deleted the cluster, and failed."""
    world.pulumi.destroy(without_cluster=False, show=print, meanwhile=lambda: None)
    looked = world.teardown().look()
    assert looked.leftovers
    assert looked.obstacles == ()
    # When the cluster was made, nobody knows any more.
    report = run(world, replace(FAST, disks="delete", logs="delete"))
    assert report.clean, report
    assert world.inventory() == {}


def test_expired_credentials_of_pulumi_stop_it_and_a_later_run_goes_on(world: World) -> None:
    world.pulumi.expired = True
    with pytest.raises(Stopped, match="renew them"):
        run(world)
    world.pulumi.expired = False
    assert run(world).clean
    assert world.inventory() == {}


def test_expired_credentials_of_the_sweep_are_no_empty_account(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXPIRED")
    monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", "expired")
    account = type(world.account)
    expired = (
        account("p4d", "eu-west-1", None)
        if world.subject.cloud == "eks"
        else account("main", "us-central1", "acme")
    )
    with pytest.raises(CannotAsk, match=r"refuses the credentials.*(aws sso login|gcloud auth)"):
        replace(world, account=expired).teardown().look()


def test_protected_resources_are_named_before_anything_changes(world: World) -> None:
    world.pulumi.protected = True
    before = world.inventory()
    with pytest.raises(Refused, match=r"is protected.*pulumi state unprotect --stack dev"):
        run(world)
    assert (world.inventory(), world.pulumi.runs) == (before, 0)


def test_disks_of_a_retain_policy_need_an_option_and_are_kept(on_eks: World) -> None:
    use(on_eks, policy="Retain")
    with pytest.raises(Refused, match=r"models.*--disks"):
        run(on_eks)
    report = run(on_eks, replace(FAST, disks="keep"))
    assert not report.clean
    assert [one.id for one in report.leftovers] == [EBS["volumeHandle"]]
    assert [*on_eks.inventory()] == ["ec2.volume"]


def test_leftovers_of_another_cluster_stay(on_eks: World, aws_of_eks: Aws) -> None:
    """One whose name begins alike, in the same network."""
    use(on_eks)
    role = "arn:aws:iam::123456789012:role/cluster"
    network = {"subnetIds": aws_of_eks.subnets}
    aws_of_eks.call(
        "eks", "CreateCluster", name="p4", roleArn=role, resourcesVpcConfig=network, version="1.36"
    )
    assert aws_of_eks.cloud.tasks.wait(120)
    theirs = {**EBS, "volumeHandle": "vol-00000000000000002"}
    fake_nodes(aws_of_eks.environment, "p4").add_object(VOLUMES, volume("theirs", theirs))
    aws_of_eks.call("eks", "DeleteCluster", name="p4")
    assert aws_of_eks.cloud.tasks.wait(120)
    assert run(on_eks).clean
    assert on_eks.inventory() == {"ec2.volume": ["eu-west-1/vol-00000000000000002"]}


def test_only_the_stacks_resources_leave_an_existing_cluster(on_eks: World) -> None:
    use(on_eks, policy="Retain")
    on_eks.api.deaf = True
    on_eks.pulumi.steps = on_eks.pulumi.steps[:1]
    subject = replace(on_eks.subject, existing=True)
    report = run(replace(on_eks, subject=subject))
    assert report.clean
    assert not report.deleted
    assert not [line for line in on_eks.told if line.startswith("delete ")]
    # The interface is the cluster's, whose own nodes may have the same security group.
    kinds = {"eks.cluster", "ec2.vpc", "ec2.networkInterface", "logs.logGroup"}
    assert kinds <= set(on_eks.inventory())


@pytest.mark.parametrize("cloud", ["eks", "byo"])
def test_objects_of_others_in_a_namespace_of_the_stack_block_the_teardown(
    on_eks: World, cloud: str
) -> None:
    on_eks.pulumi.steps = [
        *on_eks.pulumi.steps[:1],
        ("kubernetes:core/v1:Namespace", "gpu-operator", lambda: True, lambda: None),
    ]
    subject = replace(on_eks.subject, existing=True, cloud=cloud)
    account = None if cloud == "byo" else on_eks.account
    world = replace(on_eks, subject=subject, account=account)
    theirs = {"metadata": {"namespace": "gpu-operator", "name": "dashboard"}}
    world.api.objects.add_object("/apis/apps/v1/deployments", theirs)
    world.api.objects.add_object("/apis/apps/v1/deployments", {
        "metadata": {"namespace": "elsewhere", "name": "theirs"}
    })  # fmt: skip
    looked = world.teardown().look()
    assert looked.inventory is not None
    assert looked.inventory.foreign == ("Deployment gpu-operator/dashboard",)
    with pytest.raises(
        Refused, match="dashboard does not belong to this stack, but would be deleted"
    ):
        world.teardown().run(looked)
    assert world.pulumi.runs == 0


def test_in_a_cluster_of_kind_byo_no_pod_is_evicted_as_the_nodes_stay(on_eks: World) -> None:
    subject = replace(on_eks.subject, existing=True, cloud="byo")
    world = replace(on_eks, subject=subject, account=None)
    world.pulumi.steps = world.pulumi.steps[:1]
    assert run(world).clean
    assert not [line for line in world.told if line.startswith(("cordon", "evict"))]


def test_a_cluster_of_that_name_that_is_not_the_stacks_is_not_touched(on_eks: World) -> None:
    on_eks.pulumi.steps = []
    before = on_eks.inventory()
    report = run(on_eks)
    assert not report.clean
    assert "belongs to somebody else" in report.notes[0]
    assert on_eks.inventory() == before


def test_a_run_that_is_killed_anywhere_is_gone_on_with(on_eks: World) -> None:
    use(on_eks)
    on_eks.api.deaf = True
    killed = 0
    for at in range(1, 40):
        on_eks.kill_at = at
        try:
            report = run(on_eks, replace(FAST, disks="delete"))
        except Killed:
            killed += 1
            continue
        break
    assert killed
    assert report.clean, report
    assert on_eks.inventory() == {}


def test_machines_that_karpenter_left_are_swept(on_eks: World, aws_of_eks: Aws) -> None:
    """It does not run: what it launched outlives its NodeClaims and the cluster."""
    instance = launch(aws_of_eks)
    report = run(on_eks)
    assert report.clean, report
    assert on_eks.inventory() == {}
    kinds = [one.kind for one in report.deleted]
    assert kinds[:3] == ["instance", "launch template", "instance profile"]
    assert report.deleted[0].id == instance
    assert report.deleted[0].mark.endswith("karpenter.sh/nodepool=gpus")


def test_machines_of_another_clusters_karpenter_stay(on_eks: World, aws_of_eks: Aws) -> None:
    launch(aws_of_eks, "p4d-2")
    launch(aws_of_eks)
    vpc = aws_of_eks.vpc
    sweep = Sweep(on_eks.account, Permission(unproven="delete"))
    aws_of_eks.call("eks", "DeleteNodegroup", clusterName="p4d", nodegroupName="workers")
    assert aws_of_eks.cloud.tasks.wait(120)
    aws_of_eks.call("eks", "DeleteCluster", name="p4d")
    assert aws_of_eks.cloud.tasks.wait(120)
    for _ in range(2):
        sweep.once(Life(networks=frozenset({vpc})))
    left = on_eks.inventory()
    assert [len(left[k]) for k in ("ec2.instance", "ec2.launchTemplate", "ec2.volume")] == [1, 1, 1]
    assert left["iam.instanceProfile"] == ["p4d-2_1"]


def test_karpenter_ends_its_machines_before_its_pods_and_the_cluster_go(on_eks: World) -> None:
    objects = on_eks.api.objects
    objects.add_object("/apis/karpenter.sh/v1/nodepools", {"metadata": {"name": "gpus"}})
    objects.add_object("/apis/karpenter.sh/v1/nodeclaims", {"metadata": {"name": "gpus-x"}})
    looked = on_eks.teardown().look()
    assert looked.inventory is not None
    assert looked.inventory.machines == ("gpus-x",)
    report = on_eks.teardown().run(looked)
    assert report.clean, report
    told = on_eks.told
    cluster = told.index("deleting aws:eks/cluster:Cluster p4d")
    assert told.index("delete NodePool gpus") < told.index("delete NodeClaim gpus-x")
    assert told.index("delete NodeClaim gpus-x") < cluster
