"""Karpenter on the simulated EKS: with which rights it makes and ends which machines."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from slicewright.infra import manifests, plan, stack_file
from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.account import PROMPT, write_account
from slicewright.rehearsal.clouds.aws.eks import karpenter_objects as objects
from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.clouds.core.fake_control_planes import FakeNodes, fake_nodes
from tests.rehearsal.clouds.aws.test_autoscaler import SLICE, TRUST_OF_PODS, waiting

STARTUP = "startup-taint.cluster-autoscaler.kubernetes.io/slicewright"
NO_WHOLE = {"key": "slicewright.io/no-whole-gpu", "operator": "Exists"}
TOLERATIONS = [{"key": "nvidia.com/gpu", "operator": "Exists"}, NO_WHOLE]
POOL: dict[str, Any] = {
    "name": "pool",
    "machine_type": "p4d.24xlarge",
    "nodes": {"min": 0, "max": 2},
    "release_version": "1.36.2-20260714",
    "partition": {"mode": "operator", "layout": {"1g.5gb": 7}},
    "instance_tags": {"cost-center": "7"},
}


def planned(**pool: Any) -> plan.EksFleetPlan:
    asked = {"mode": "karpenter", "empty_minutes": 1, "interruption_queue": "q"}
    cluster = {"name": "p4d", "region": "eu-west-1", "version": "1.36", "autoscaler": asked}
    raw = {"cloud": "eks", "cluster": cluster, "node_pools": [{**POOL, **pool}]}
    fleet = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    assert isinstance(fleet, plan.EksFleetPlan)
    return fleet


def pod(name: str, count: int = 1, **more: Any) -> JsonObject:
    return waiting(name, count=count, **{"tolerations": TOLERATIONS, **more})


class Scaled:
    """A cluster with Karpenter and a pool, as the program declares them."""

    def __init__(self, aws: Any, **pool: Any) -> None:
        self.aws = aws
        aws.make_cluster()
        fleet = planned(**pool)
        trust = json.dumps(TRUST_OF_PODS)
        made = aws.call("aws-iam", "CreateRole", RoleName="k", AssumeRolePolicyDocument=trust)
        node_role = aws.call("aws-iam", "GetRole", RoleName="node")["Role"]["Arn"]
        self.policy(manifests.karpenter_policy(fleet, node_role_arn=node_role))
        aws.call("eks", "CreateAddon", clusterName="p4d", addonName="eks-pod-identity-agent")
        assert aws.cloud.tasks.wait(120)
        aws.call(
            "eks",
            "CreatePodIdentityAssociation",
            clusterName="p4d",
            namespace="kube-system",
            serviceAccount="karpenter",
            roleArn=made["Role"]["Arn"],
        )
        cluster = aws.call("eks", "DescribeCluster", name="p4d")["cluster"]
        group = cluster["resourcesVpcConfig"]["clusterSecurityGroupId"]
        (own,) = fleet.karpenter_pools
        karpenter = fleet.cluster.autoscaler
        assert isinstance(karpenter, plan.KarpenterPlan)
        self.api: FakeNodes = fake_nodes(aws.environment, "p4d")
        declared = {
            objects.CLASSES: manifests.node_class(
                own, role="node", subnet_ids=aws.subnets[:1], security_group=group
            ),
            objects.POOLS: manifests.node_pool(own, karpenter),
            objects.OVERLAYS: manifests.node_overlay(own),
        }
        for path, body in declared.items():
            self.api.create(path, {"metadata": {"name": own.name}, "spec": body})
        gates = "NodeOverlay=true"
        env = {"KARPENTER_SERVICE": "karpenter", "CLUSTER_NAME": "p4d", "FEATURE_GATES": gates}
        container = {"name": "controller", "env": [{"name": k, "value": v} for k, v in env.items()]}
        running = {"serviceAccountName": "karpenter", "containers": [container]}
        self.api.create(
            "/apis/apps/v1/deployments",
            {
                "metadata": {"namespace": "kube-system", "name": "karpenter"},
                "spec": {"template": {"spec": running}},
                "status": {"availableReplicas": 1},
            },
        )
        self.look()

    def policy(self, document: JsonObject) -> None:
        text = json.dumps(document)
        self.aws.call("aws-iam", "PutRolePolicy", RoleName="k", PolicyName="p", PolicyDocument=text)

    def look(self, *pods: JsonObject, times: int = 3) -> list[JsonObject]:
        """The nodes after it has looked at these pods: claim, instance and node are steps."""
        for one in self.api.listed("/api/v1/pods"):
            self.api.delete(f"/api/v1/pods/{one['metadata']['name']}")
        for one in pods:
            self.api.create("/api/v1/pods", one)
        for _ in range(times):
            self.aws.cloud.look_around()
        return list(self.aws.nodes())

    def verify(self) -> None:
        """Nodes are Ready, verified and advertise their partitions."""
        for node in self.aws.nodes():
            node["spec"]["taints"] = [t for t in node["spec"]["taints"] if t["key"] != STARTUP]
            node["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
            node["status"]["allocatable"] |= {SLICE: "56"}
            (self.api.directory / f"{node['metadata']['name']}.json").write_text(json.dumps(node))

    def condition(self, path: str, kind: str) -> str:
        """Its message where it is not met; empty where it is."""
        (one,) = self.api.listed(path)
        (found,) = (c for c in one["status"]["conditions"] if c["type"] == kind)
        assert (found["status"] == "True") is (found["message"] == "")
        return str(found["message"])

    @property
    def inventory(self) -> Any:
        return self.aws.cloud.inventory()


@pytest.fixture
def scaled(aws) -> Scaled:
    return Scaled(aws)


def test_a_pool_of_no_nodes_gets_one_for_a_pod_that_asks_for_a_partition(scaled: Scaled) -> None:
    assert scaled.condition(objects.CLASSES, "Ready") == ""
    assert scaled.condition(objects.POOLS, "Ready") == ""
    (node,) = scaled.look(pod("a"))
    taints = {t["key"] for t in node["spec"]["taints"]}
    assert taints == {"nvidia.com/gpu", "slicewright.io/no-whole-gpu", STARTUP}
    assert node["metadata"]["labels"]["slicewright.io/pool"] == "pool"
    # It is on its way, and the pod waits for it.
    assert len(scaled.look(pod("a"))) == 1
    (found,) = scaled.aws.call("ec2", "DescribeInstances")["Reservations"]
    (instance,) = found["Instances"]
    assert node["spec"]["providerID"].endswith(instance["InstanceId"])
    tags = {tag["Key"]: tag["Value"] for tag in instance["Tags"]}
    assert tags["cost-center"] == "7"
    assert tags["karpenter.sh/nodepool"] == "pool"


def test_it_counts_partitions_up_to_the_pools_limit(scaled: Scaled) -> None:
    assert len(scaled.look(*(pod(f"p{n}", 8) for n in range(7)))) == 1
    assert len(scaled.look(*(pod(f"p{n}", 8) for n in range(30)))) == 2


def test_a_pod_for_a_whole_gpu_gets_no_node_of_partitions(scaled: Scaled) -> None:
    whole = waiting("a", resource="nvidia.com/gpu", tolerations=TOLERATIONS[:1])
    assert scaled.look(whole) == []


def test_an_empty_node_goes_with_its_machine_after_its_time(scaled: Scaled) -> None:
    scaled.look(pod("a"))
    scaled.verify()
    (node,) = scaled.look()
    assert node["metadata"]["labels"]["karpenter.sh/initialized"] == "true"
    (pool,) = scaled.api.listed(objects.POOLS)
    changed = {"disruption": {"consolidateAfter": "0s"}}
    scaled.api.merge(f"{objects.POOLS}/{pool['metadata']['name']}", {"spec": changed})
    assert scaled.look() == []
    assert "ec2.instance" not in scaled.inventory


def test_a_node_that_holds_its_startup_taint_is_not_empty(scaled: Scaled) -> None:
    scaled.look(pod("a"))
    scaled.api.merge(f"{objects.POOLS}/pool", {"spec": {"disruption": {"consolidateAfter": "0s"}}})
    assert len(scaled.look()) == 1


def test_no_leftover_remains_after_pool_and_class_are_deleted(scaled: Scaled) -> None:
    before = {*scaled.inventory}
    scaled.look(pod("a"))
    assert {"ec2.instance", "ec2.launchTemplate", "iam.instanceProfile"} <= {*scaled.inventory}
    scaled.api.delete(f"{objects.CLASSES}/pool")
    scaled.look(pod("a"))
    # Its machines are still there: the class waits for them.
    assert "iam.instanceProfile" in scaled.inventory
    (claim,) = scaled.api.listed(objects.CLAIMS)
    scaled.api.delete(f"{objects.POOLS}/pool")
    scaled.api.delete(f"{objects.CLAIMS}/{claim['metadata']['name']}")
    assert scaled.look(pod("a")) == []
    assert scaled.api.listed(objects.CLAIMS) == []
    assert scaled.api.listed(objects.CLASSES) == []
    assert {*scaled.inventory} == before - {"iam.instanceProfile"}


def without(action: str) -> Callable[[Scaled], None]:
    def take(scaled: Scaled) -> None:
        role = scaled.aws.call("aws-iam", "GetRole", RoleName="node")["Role"]["Arn"]
        document = manifests.karpenter_policy(planned(), node_role_arn=role)
        for statement in document["Statement"]:
            statement["Action"] = [a for a in statement["Action"] if a != action]
        scaled.policy(document)

    return take


@pytest.mark.parametrize(
    "action",
    [
        *("ec2:CreateFleet", "ec2:CreateLaunchTemplate", "ec2:CreateTags", "ec2:RunInstances"),
        "iam:PassRole",
    ],
)
def test_without_a_right_of_its_policy_no_machine_comes(scaled: Scaled, action: str) -> None:
    without(action)(scaled)
    assert scaled.look(pod("a")) == []
    assert action in scaled.condition(objects.CLAIMS, "Launched")
    assert "ec2.instance" not in scaled.inventory


def test_without_a_profile_the_class_is_not_ready_and_says_why(aws: Any) -> None:
    write_account(aws.environment, **PROMPT)
    scaled = Scaled(aws)
    scaled.api.delete(f"{objects.CLASSES}/pool")
    scaled.look()
    without("iam:CreateInstanceProfile")(scaled)
    body = manifests.node_class(
        planned().karpenter_pools[0], role="node", subnet_ids=aws.subnets, security_group="sg-1"
    )
    scaled.api.create(objects.CLASSES, {"metadata": {"name": "pool"}, "spec": body})
    assert scaled.look(pod("a")) == []
    assert "iam:CreateInstanceProfile" in scaled.condition(objects.CLASSES, "Ready")
    assert scaled.condition(objects.POOLS, "Ready") == "NodeClassReady=False"


@pytest.mark.parametrize(
    ("pool", "account", "why"),
    [
        ({}, {"vcpus": {"L-417A185B": 95}}, "VcpuLimitExceeded"),
        ({}, {"stock": {"p4d.24xlarge": {"euw1-az2": 0}}}, "InsufficientInstanceCapacity"),
        ({"capacity": "spot"}, {"spot_role": False}, "ServiceLinkedRoleCreationNotPermitted"),
    ],
)
def test_launches_that_ec2_refuses_are_reported_and_retried(
    aws: Any, pool: dict[str, Any], account: dict[str, Any], why: str
) -> None:
    scaled = Scaled(aws, **pool)
    write_account(aws.environment, **{**PROMPT, **account})
    assert scaled.look(pod("a")) == []
    assert why in scaled.condition(objects.CLAIMS, "Launched")
    write_account(aws.environment, **PROMPT)
    assert len(scaled.look(pod("a"))) == 1


def test_its_machines_hold_the_network_when_the_cluster_goes_before_them(scaled: Scaled) -> None:
    scaled.look(pod("a"))
    scaled.aws.call("eks", "DeleteCluster", name="p4d")
    assert scaled.aws.cloud.tasks.wait(120)
    assert len(scaled.inventory["ec2.instance"]) == 1
    with pytest.raises(CloudError, match="dependencies"):
        scaled.aws.call("ec2", "DeleteSubnet", SubnetId=scaled.aws.subnets[0])


def test_machines_count_against_the_quota_of_node_groups(scaled: Scaled) -> None:
    write_account(scaled.aws.environment, **{**PROMPT, "vcpus": {"L-417A185B": 96}})
    assert len(scaled.look(pod("a"))) == 1
    group = scaled.aws.make_group(instanceTypes=["p4d.24xlarge"], amiType="AL2023_x86_64_NVIDIA")
    (issue,) = group["health"]["issues"]
    assert "VcpuLimitExceeded" in issue["message"]
