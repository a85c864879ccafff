"""Stacks in simulated clouds without an engine: what Pulumi does to them is a few calls each."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import Any

from slicewright.kubeapi import ApiError, JsonObject, Unreachable
from slicewright.rehearsal.clouds.aws.account import PROMPT, write_account
from slicewright.rehearsal.clouds.core.errors import CloudError, ConnectionLost
from slicewright.rehearsal.clouds.core.fake_control_planes import FakeNodes
from slicewright.rehearsal.clouds.core.store import Store
from slicewright.rehearsal.clouds.service import Cloud
from slicewright.teardown.cluster_contents import Clock
from slicewright.teardown.engine import DestroyOutcome, EngineFailed, judged
from slicewright.teardown.subject import Subject
from slicewright.teardown.sweep.account import Account
from slicewright.teardown.sweep.aws import AwsAccount
from slicewright.teardown.teardown import Choices, Teardown
from tests.rehearsal.clouds.conftest import Aws, Gcp

FAST = Choices(wait_s=60.0, drain_wait_s=5.0)
UID = "0a1b2c3d-0000-4000-8000-123456789abc"


class Killed(BaseException):
    """The process of a teardown is gone."""


class Clocks:
    """Time passes by sleeping only, fifty times as fast as it says: what a simulated cloud keeps
    for a moment is gone in time on any machine.
    """

    def __init__(self) -> None:
        self.now_s = 0.0

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        time.sleep(seconds / 50)

    @property
    def clock(self) -> Clock:
        return Clock(now=lambda: self.now_s, sleep=self.sleep)


PROJECT_SNAPSHOTS = "projects/acme/global/snapshots"


def service(name: str, **annotations: str) -> JsonObject:
    uid = f"{sha256(name.encode()).hexdigest()[:8]}-0000-4000-8000-123456789abc"
    meta = {"uid": uid, "namespace": "ml", "name": name, "annotations": annotations}
    spec = {"type": "LoadBalancer", "ports": [{"port": 8000}]}
    return {"metadata": meta, "spec": spec}


def ingress(name: str, *services: str) -> JsonObject:
    """With a certificate. services: those that it leads to, at port 8000."""
    paths = [
        {"path": f"/{s}", "backend": {"service": {"name": s, "port": {"number": 8000}}}}
        for s in services
    ]
    meta = {"uid": name, "namespace": "ml", "name": name, "annotations": {}}
    spec = {"rules": [{"http": {"paths": paths}}], "tls": [{"secretName": "web"}]}
    return {"metadata": meta, "spec": spec}


def volume(name: str, csi: Mapping[str, str], *, policy: str = "Delete") -> JsonObject:
    spec = {
        "csi": dict(csi),
        "capacity": {"storage": "10Gi"},
        "persistentVolumeReclaimPolicy": policy,
        "claimRef": {"namespace": "ml", "name": name},
    }
    return {"metadata": {"name": name}, "spec": spec}


def snapshot(name: str, csi: Mapping[str, str], *, policy: str = "Delete") -> JsonObject:
    """A VolumeSnapshotContent of that volume."""
    on_eks = csi["driver"] == "ebs.csi.aws.com"
    handle = f"snap-{name}" if on_eks else f"{PROJECT_SNAPSHOTS}/{name}"
    source = {"volumeHandle": csi["volumeHandle"]}
    return {
        "metadata": {"name": name},
        "spec": {"driver": csi["driver"], "source": source, "deletionPolicy": policy},
        "status": {"snapshotHandle": handle},
    }


def keep_address(world: World) -> None:
    """An Elastic IP that somebody made for a load balancer of the cluster, with its tag."""
    if isinstance(world.account, AwsAccount):
        tags = [{"Key": f"kubernetes.io/cluster/{world.subject.cluster}", "Value": "owned"}]
        made = world.account._session.client("ec2").allocate_address(
            Domain="vpc", TagSpecifications=[{"ResourceType": "elastic-ip", "Tags": tags}]
        )
        note = "service.beta.kubernetes.io/aws-load-balancer-eip-allocations"
        named = service("with-address", **{note: made["AllocationId"]})
        world.api.objects.add_object("/api/v1/services", named)


def claim(name: str) -> JsonObject:
    return {"metadata": {"namespace": "ml", "name": name}, "spec": {"volumeName": name}}


@dataclass
class FakeApi:
    """A cluster's API over the objects of a fake control plane, with its controllers: what is
    deleted goes at once, and a claim takes its volume along. As a kubeapi.Client.
    """

    objects: FakeNodes
    deaf: bool = False
    """No controller of load balancers and disks runs: what they would delete stays, by its
    finalizer.
    """
    unreachable: bool = False

    def get(self, path: str, **query: str) -> JsonObject:
        self._answer()
        listed = self.objects.listed(path)
        if listed or path.rpartition("/")[2] in _COLLECTIONS:
            return {"items": listed}
        if "/namespaces/" in path and path.rpartition("/")[2] in _IN_NAMESPACES:
            root, _, rest = path.partition("/namespaces/")
            namespace, _, plural = rest.partition("/")
            every = self.objects.listed(f"{root}/{plural}")
            return {"items": [o for o in every if o["metadata"].get("namespace") == namespace]}
        found = self._find(path)
        if found is None:
            raise ApiError(404, {"message": f"{path} not found"})
        return found

    def patch(self, path: str, body: JsonObject, **_: Any) -> JsonObject:
        self._answer()
        found = self._find(path)
        if found is None:
            raise ApiError(404, {"message": f"{path} not found"})
        self._replace(path, {**found, "spec": {**found["spec"], **body["spec"]}})
        return found

    def create(self, path: str, body: JsonObject, **_: Any) -> JsonObject:
        """An eviction."""
        self._answer()
        self._replace(path.removesuffix("/eviction"), None)
        return body

    def delete(self, path: str, *_: Any, **__: Any) -> JsonObject:
        self._answer()
        found = self._find(path)
        if found is None:
            raise ApiError(404, {"message": f"{path} not found"})
        if self.deaf:
            return found
        self._replace(path, None)
        if "/persistentvolumeclaims/" in path:
            of = f"/api/v1/persistentvolumes/{found['spec']['volumeName']}"
            bound = self._find(of)
            if bound and bound["spec"]["persistentVolumeReclaimPolicy"] == "Delete":
                self._replace(of, None)
        return found

    def _answer(self) -> None:
        if self.unreachable or not self.objects.directory.exists():
            raise Unreachable("https://127.0.0.1:6443: connection refused")

    def _find(self, path: str) -> JsonObject | None:
        collection, matches = self._of(path)
        return next((o for o in self.objects.listed(collection) if matches(o)), None)

    def _replace(self, path: str, new: JsonObject | None) -> None:
        collection, matches = self._of(path)
        if collection == "/api/v1/nodes":
            return
        file = self.objects.directory / "objects"
        known = json.loads(file.read_text())
        kept = [o for o in known.get(collection, []) if not matches(o)]
        known[collection] = kept if new is None else [*kept, new]
        file.write_text(json.dumps(known))

    @staticmethod
    def _of(path: str) -> tuple[str, Callable[[JsonObject], bool]]:
        """The collection of all namespaces, and which of its objects the path names."""
        head, _, name = path.rpartition("/")
        namespace = ""
        if "/namespaces/" in head:
            root, _, rest = head.partition("/namespaces/")
            namespace, _, plural = rest.partition("/")
            head = f"{root}/{plural}"
        return (
            head,
            lambda o: (
                o["metadata"]["name"] == name and o["metadata"].get("namespace", "") == namespace
            ),
        )


_COLLECTIONS = {
    "nodes",
    "pods",
    "persistentvolumeclaims",
    "persistentvolumes",
    "services",
    "ingresses",
    "gateways",
    "poddisruptionbudgets",
}
_IN_NAMESPACES = {
    *("deployments", "statefulsets", "daemonsets", "jobs", "cronjobs"),
    *("pods", "persistentvolumeclaims", "services", "ingresses"),
}


@dataclass
class PlainDestroy:
    """What `pulumi destroy` does with a stack: its own resources, in reverse order, until one is
    refused. steps: name of each, whether it is there, and its deletion.
    """

    steps: Sequence[tuple[str, str, Callable[[], bool], Callable[[], None]]]
    """URN's type, ID, …"""
    protected: bool = False
    expired: bool = False
    kubeconfig: object = "{}"
    """Of the Kubernetes provider in the state; None: there is no such provider."""
    runs: int = 0
    without_cluster: bool = False
    outputs: dict[str, Any] | None = None
    """Of the stack's own resource, in a state with nothing else; None: there is no such one."""
    read_only: bool = False
    """Nobody may change the state by hand."""

    def exported(self) -> Mapping[str, Any]:
        resources: list[JsonObject] = [
            {
                "urn": f"urn:pulumi:dev::slicewright::{kind}::{name}",
                "type": kind,
                "id": name,
                "custom": True,
                "protect": self.protected,
            }
            for kind, name, there, _ in self.steps
            if there()
        ]
        if resources and self.kubeconfig is not None:
            provider = {"type": "pulumi:providers:kubernetes", "urn": "urn:provider"}
            inputs = {"kubeconfig": self.kubeconfig}
            resources.append({**provider, "custom": True, "inputs": inputs})
        if resources or self.outputs is not None:
            stack = {"urn": "urn:stack", "type": "pulumi:pulumi:Stack", "custom": False}
            resources.insert(0, {**stack, "outputs": self.outputs or {}})
        return {"deployment": {"resources": resources}}

    def replace_state(self, state: Mapping[str, Any]) -> None:
        if self.read_only:
            raise EngineFailed("`pulumi stack import` failed: permission denied")
        resources = state["deployment"]["resources"]
        assert len(resources) in (0, len(self.exported()["deployment"]["resources"]) or 1)
        self.outputs = dict(resources[0]["outputs"]) if resources else None

    def up(self) -> None:
        """A new life has begun: its program has written the outputs of the stack."""
        self.outputs = {}

    def destroy(
        self, *, without_cluster: bool, show: Callable[[str], None], meanwhile: Callable[[], None]
    ) -> DestroyOutcome:
        self.runs += 1
        self.without_cluster = without_cluster
        if self.expired:
            return judged(255, "error: ExpiredToken: The security token has expired")
        for kind, name, there, delete in self.steps:
            if there():
                show(f"deleting {kind} {name}")
                try:
                    delete()
                except CloudError as e:
                    return judged(255, f"error: {e.reason}: {e.message}")
                except ConnectionLost:
                    return judged(255, "error: EOF")
                meanwhile()
        self.outputs = None
        return judged(0, "")


@dataclass
class World:
    """A stack with its cluster, seen by a teardown."""

    subject: Subject
    account: Account
    pulumi: PlainDestroy
    api: FakeApi
    inventory: Callable[[], Mapping[str, Sequence[str]]]
    store: Store
    """What the clouds have on record."""
    told: list[str] = field(default_factory=list)
    clocks: Clocks = field(default_factory=Clocks)
    kill_at: int | None = None
    """Lines until the process is killed."""

    def teardown(self, choices: Choices = FAST) -> Teardown:
        def tell(line: str) -> None:
            self.told.append(line)
            if self.kill_at is not None:
                self.kill_at -= 1
                if self.kill_at <= 0:
                    self.kill_at = None
                    raise Killed

        return Teardown(
            stack="dev",
            subject=self.subject,
            account=self.account,
            pulumi=self.pulumi,
            clock=self.clocks.clock,
            choices=choices,
            tell=tell,
            connect=lambda _: self.api,  # type: ignore[arg-type,return-value]
        )


def is_in(cloud: Cloud, kind: str, name: str) -> bool:
    """Pulumi knows it from its state, which no fault of a call changes."""
    return any(name == key.rpartition("/")[2] for key in cloud.inventory().get(kind, ()))


def launch(aws: Aws, cluster: str = "p4d", role: str = "node") -> str:
    """What Karpenter makes for a pod that waits: profile, template, instance; the instance's ID.
    Tags: aws/karpenter-provider-aws, pkg/utils/utils.go.
    """
    path, name = f"/karpenter/eu-west-1/{cluster}/0a1b2c3d/", f"{cluster}_1"
    aws.call("aws-iam", "CreateInstanceProfile", InstanceProfileName=name, Path=path)
    aws.call("aws-iam", "AddRoleToInstanceProfile", InstanceProfileName=name, RoleName=role)
    tags = {
        f"kubernetes.io/cluster/{cluster}": "owned",
        "eks:eks-cluster-name": cluster,
        "karpenter.sh/nodepool": "gpus",
        "karpenter.k8s.aws/ec2nodeclass": "gpus",
    }
    listed = [{"Key": key, "Value": value} for key, value in tags.items()]
    group = aws.call("ec2", "DescribeSecurityGroups")["SecurityGroups"][0]["GroupId"]
    ebs = {"VolumeSize": 100, "DeleteOnTermination": True}
    template = aws.call(
        "ec2",
        "CreateLaunchTemplate",
        LaunchTemplateName=f"karpenter.k8s.aws/{cluster}",
        LaunchTemplateData={
            "IamInstanceProfile": {"Name": name},
            "BlockDeviceMappings": [{"DeviceName": "/dev/xvda", "Ebs": ebs}],
            "SecurityGroupIds": [group],
            "TagSpecifications": [{"ResourceType": "network-interface", "Tags": listed}],
        },
        TagSpecifications=[{"ResourceType": "launch-template", "Tags": listed}],
    )["LaunchTemplate"]
    named = {"LaunchTemplateId": template["LaunchTemplateId"], "Version": "1"}
    override = {"InstanceType": "p4d.24xlarge", "SubnetId": aws.subnets[0]}
    made = aws.call(
        "ec2",
        "CreateFleet",
        Type="instant",
        LaunchTemplateConfigs=[{"LaunchTemplateSpecification": named, "Overrides": [override]}],
        TargetCapacitySpecification={
            "TotalTargetCapacity": 1,
            "DefaultTargetCapacityType": "on-demand",
        },
        TagSpecifications=[{"ResourceType": k, "Tags": listed} for k in ("instance", "volume")],
    )
    assert made["Errors"] == []
    return str(made["Instances"][0]["InstanceIds"][0])


def eks_steps(aws: Aws) -> PlainDestroy:
    """Of what Aws.make_cluster and make_group have made."""
    call = aws.call

    def wait(delete: Callable[[], Any]) -> Callable[[], None]:
        def done() -> None:
            delete()
            assert aws.cloud.tasks.wait(120)

        return done

    def there(kind: str, key: str) -> Callable[[], bool]:
        return partial(is_in, aws.cloud, kind, key)

    vpc = aws.vpc
    gateway = call("ec2", "DescribeInternetGateways")["InternetGateways"][0]["InternetGatewayId"]
    (table,) = (
        t["RouteTableId"]
        for t in call("ec2", "DescribeRouteTables")["RouteTables"]
        if t["VpcId"] == vpc
    )

    def delete_cluster() -> None:
        call("eks", "DeleteCluster", name="p4d")
        assert aws.cloud.tasks.wait(120)
        # Nobody can delete the interfaces of a load balancer: AWS does, after a while.
        write_account(aws.environment, **{**PROMPT, "leftovers_s": 0.1})

    def detach_and_delete() -> None:
        shown = call("ec2", "DescribeInternetGateways", InternetGatewayIds=[gateway])
        if shown["InternetGateways"][0]["Attachments"]:
            call("ec2", "DetachInternetGateway", InternetGatewayId=gateway, VpcId=vpc)
        call("ec2", "DeleteInternetGateway", InternetGatewayId=gateway)

    def delete_table() -> None:
        shown = call("ec2", "DescribeRouteTables", RouteTableIds=[table])["RouteTables"][0]
        for association in shown["Associations"]:
            identity = association["RouteTableAssociationId"]
            call("ec2", "DisassociateRouteTable", AssociationId=identity)
        call("ec2", "DeleteRouteTable", RouteTableId=table)

    def delete_role(name: str) -> Callable[[], None]:
        def delete() -> None:
            attached = call("aws-iam", "ListAttachedRolePolicies", RoleName=name)
            for policy in attached["AttachedPolicies"]:
                call("aws-iam", "DetachRolePolicy", RoleName=name, PolicyArn=policy["PolicyArn"])
            # So does the provider.
            profiles = call("aws-iam", "ListInstanceProfilesForRole", RoleName=name)
            for profile in profiles["InstanceProfiles"]:
                of = {"InstanceProfileName": profile["InstanceProfileName"]}
                call("aws-iam", "RemoveRoleFromInstanceProfile", **of, RoleName=name)
            call("aws-iam", "DeleteRole", RoleName=name)

        return delete

    return PlainDestroy(
        [
            (
                "aws:eks/nodeGroup:NodeGroup",
                "workers",
                there("eks.nodegroup", "workers"),
                wait(
                    lambda: call(
                        "eks", "DeleteNodegroup", clusterName="p4d", nodegroupName="workers"
                    )
                ),
            ),
            (
                "aws:eks/cluster:Cluster",
                "p4d",
                there("eks.cluster", "p4d"),
                delete_cluster,
            ),
            *(
                ("aws:iam/role:Role", name, there("iam.role", name), delete_role(name))
                for name in ("cluster", "node")
            ),
            *(
                (
                    "aws:ec2/subnet:Subnet",
                    subnet,
                    there("ec2.subnet", subnet),
                    lambda subnet=subnet: call("ec2", "DeleteSubnet", SubnetId=subnet),
                )
                for subnet in aws.subnets
            ),
            (
                "aws:ec2/routeTable:RouteTable",
                table,
                there("ec2.routeTable", table),
                delete_table,
            ),
            (
                "aws:ec2/internetGateway:InternetGateway",
                gateway,
                there("ec2.internetGateway", gateway),
                detach_and_delete,
            ),
            (
                "aws:ec2/vpc:Vpc",
                vpc,
                there("ec2.vpc", vpc),
                lambda: call("ec2", "DeleteVpc", VpcId=vpc),
            ),
        ]
    )


def gke_steps(gcp: Gcp) -> PlainDestroy:
    """Of what Gcp.make_cluster has made."""

    def there(kind: str, key: str) -> Callable[[], bool]:
        return partial(is_in, gcp.cloud, kind, key)

    def delete_cluster() -> None:
        where = {"name": gcp.cluster}
        gcp.call("container", "projects.locations.clusters.delete", where)
        assert gcp.cloud.tasks.wait(120)

    subnet = {"project": "acme", "region": gcp.region, "subnetwork": "sub"}
    network = {"project": "acme", "network": "net"}
    return PlainDestroy(
        [
            (
                "gcp:container/cluster:Cluster",
                "main",
                there("container.cluster", "main"),
                delete_cluster,
            ),
            (
                "gcp:compute/subnetwork:Subnetwork",
                "sub",
                there("compute.subnetwork", "sub"),
                lambda: gcp.call("compute", "subnetworks.delete", subnet),
            ),
            (
                "gcp:compute/network:Network",
                "projects/acme/global/networks/net",
                there("compute.network", "net"),
                lambda: gcp.call("compute", "networks.delete", network),
            ),
        ]
    )
