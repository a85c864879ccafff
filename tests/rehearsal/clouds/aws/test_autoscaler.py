"""cluster-autoscaler on the simulated EKS: with which rights it adds and removes which nodes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slicewright.infra import manifests
from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.eks.autoscaler import empty_nodes, seconds, settings_of
from slicewright.rehearsal.clouds.core.fake_control_planes import fake_nodes

STARTUP = "startup-taint.cluster-autoscaler.kubernetes.io/slicewright"
PREFIX = "k8s.io/cluster-autoscaler/node-template/resources/"
TAGS = {f"{PREFIX}nvidia.com/gpu": "0", f"{PREFIX}nvidia.com/mig-1g.5gb": "56"}
TAINTS = [
    {"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"},
    {"key": STARTUP, "value": "unverified", "effect": "NO_SCHEDULE"},
]
POOL: dict[str, Any] = {
    "nodegroupName": "pool",
    "instanceTypes": ["p4d.24xlarge"],
    "amiType": "AL2023_x86_64_NVIDIA",
    "scalingConfig": {"minSize": 0, "desiredSize": 0, "maxSize": 2},
    "labels": {"slicewright.io/pool": "pool"},
    "taints": TAINTS,
    "tags": TAGS,
}
TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists"}
SLICE = "nvidia.com/mig-1g.5gb"


def waiting(name: str, *, count: int = 1, resource: str = SLICE, **spec: Any) -> JsonObject:
    container = {"resources": {"requests": {resource: str(count)}}}
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return {
        "metadata": {"namespace": "default", "name": name},
        "spec": {"containers": [container], "tolerations": [TOLERATION], **spec},
        "status": {"phase": "Pending", "conditions": [condition]},
    }


def deployment(*arguments: str, cluster: str = "p4d", available: int = 1) -> JsonObject:
    tags = f"k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/{cluster}"
    command = [
        "./cluster-autoscaler",
        f"--node-group-auto-discovery=asg:tag={tags}",
        "--scale-down-unneeded-time=0s",
        "--scale-down-delay-after-add=0s",
        *arguments,
    ]
    pod = {"serviceAccountName": "cluster-autoscaler", "containers": [{"command": command}]}
    return {
        "metadata": {"namespace": "kube-system", "name": "cluster-autoscaler"},
        "spec": {"template": {"spec": pod}},
        "status": {"availableReplicas": available},
    }


TRUST_OF_PODS = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"Service": "pods.eks.amazonaws.com"},
            "Action": ["sts:AssumeRole", "sts:TagSession"],
        }
    ],
}


class Scaled:
    """A cluster with cluster-autoscaler, as the program installs it, and a pool without nodes."""

    def __init__(self, aws: Any) -> None:
        self.aws = aws
        self.running = [deployment()]
        aws.make_cluster()
        trust = json.dumps(TRUST_OF_PODS)
        made = aws.call("aws-iam", "CreateRole", RoleName="ca", AssumeRolePolicyDocument=trust)
        self.policy(manifests.autoscaler_policy(cluster="p4d", region="eu-west-1"))
        agent = {"clusterName": "p4d", "addonName": "eks-pod-identity-agent"}
        aws.call("eks", "CreateAddon", **agent)
        assert aws.cloud.tasks.wait(120)
        self.association = aws.call(
            "eks",
            "CreatePodIdentityAssociation",
            clusterName="p4d",
            namespace="kube-system",
            serviceAccount="cluster-autoscaler",
            roleArn=made["Role"]["Arn"],
        )["association"]

    def policy(self, document: JsonObject) -> None:
        text = json.dumps(document)
        self.aws.call(
            "aws-iam", "PutRolePolicy", RoleName="ca", PolicyName="p", PolicyDocument=text
        )

    def pool(self, **fields: Any) -> None:
        self.aws.make_group(**(POOL | fields))

    def look(self, *pods: JsonObject) -> list[JsonObject]:
        """The pool's nodes after the autoscaler has looked at these pods."""
        nodes = fake_nodes(self.aws.environment, "p4d")
        objects = {"/api/v1/pods": pods, "/apis/apps/v1/deployments": self.running}
        (nodes.directory / "objects").write_text(json.dumps(objects))
        self.aws.cloud.look_around()
        assert self.aws.cloud.tasks.wait(120)
        return [
            n
            for n in self.aws.nodes()
            if n["metadata"]["labels"]["eks.amazonaws.com/nodegroup"] == "pool"
        ]

    def events(self) -> list[JsonObject]:
        """The Events since the last look."""
        nodes = fake_nodes(self.aws.environment, "p4d")
        return nodes.listed("/api/v1/namespaces/default/events")

    def bring_up(self) -> None:
        """Nodes are Ready, verified and advertise their partitions."""
        directory = fake_nodes(self.aws.environment, "p4d").directory
        for node in self.aws.nodes():
            node["spec"]["taints"] = [t for t in node["spec"]["taints"] if t["key"] != STARTUP]
            node["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
            node["status"]["allocatable"] |= {"nvidia.com/gpu": "0", SLICE: "56"}
            (directory / f"{node['metadata']['name']}.json").write_text(json.dumps(node))

    def desired(self) -> int:
        found = self.aws.call("eks", "DescribeNodegroup", clusterName="p4d", nodegroupName="pool")[
            "nodegroup"
        ]
        count: int = found["scalingConfig"]["desiredSize"]
        return count


@pytest.fixture
def scaled(aws) -> Scaled:
    return Scaled(aws)


def test_a_pool_of_no_nodes_grows_for_a_pod_that_asks_for_a_partition(scaled: Scaled) -> None:
    scaled.pool()
    assert len(scaled.look(waiting("a"))) == 1
    assert scaled.desired() == 1
    # The node is on its way, and the pod waits for it.
    assert len(scaled.look(waiting("a"))) == 1


def test_pods_for_which_a_node_is_added_have_the_autoscalers_event(scaled: Scaled) -> None:
    scaled.pool()
    pods = (waiting("a", count=50), waiting("b", count=6), waiting("c", count=57))
    scaled.look(*pods)
    group = scaled.aws.call("eks", "DescribeNodegroup", clusterName="p4d", nodegroupName="pool")
    (asg,) = group["nodegroup"]["resources"]["autoScalingGroups"]
    events = scaled.events()
    assert [e["involvedObject"]["name"] for e in events] == ["a", "b"], "c fits on no node"
    assert {e["message"] for e in events} == {
        f"pod triggered scale-up: [{{{asg['name']} 0->1 (max: 2)}}]"
    }
    assert {(e["type"], e["reason"], e["source"]["component"]) for e in events} == {
        ("Normal", "TriggeredScaleUp", "cluster-autoscaler")
    }
    # The node is on its way: the pods wait for it, and trigger nothing.
    scaled.look(*pods)
    assert scaled.events() == []


def test_without_the_tags_it_does_not_know_the_partitions(scaled: Scaled) -> None:
    scaled.pool(tags={"team": "ml"})
    assert scaled.look(waiting("a")) == []
    # It takes the machine type's GPUs for whole ones, which a node of partitions never offers.
    assert len(scaled.look(waiting("a", resource="nvidia.com/gpu"))) == 1


def test_with_the_tags_it_adds_no_node_for_a_whole_gpu(scaled: Scaled) -> None:
    scaled.pool()
    assert scaled.look(waiting("a", resource="nvidia.com/gpu")) == []


def test_nodes_are_counted_by_their_partitions_up_to_the_limit(scaled: Scaled) -> None:
    scaled.pool()
    assert len(scaled.look(*(waiting(f"p{n}", count=8) for n in range(7)))) == 1
    assert len(scaled.look(*(waiting(f"p{n}", count=8) for n in range(8)))) == 2
    assert len(scaled.look(*(waiting(f"p{n}", count=8) for n in range(30)))) == 2


@pytest.mark.parametrize(
    "pod",
    [
        waiting("too-large", count=57),
        waiting("elsewhere", nodeSelector={"slicewright.io/pool": "other"}),
        waiting("intolerant", tolerations=[]),
        waiting("by-discovery", nodeSelector={"nvidia.com/gpu.product": "A100"}),
    ],
    ids=lambda pod: pod["metadata"]["name"],
)
def test_a_pod_that_a_node_would_not_help_is_no_reason(scaled: Scaled, pod: JsonObject) -> None:
    scaled.pool()
    assert scaled.look(pod) == []


def test_without_the_right_to_describe_node_groups_an_empty_one_is_of_no_use(
    scaled: Scaled,
) -> None:
    policy = manifests.autoscaler_policy(cluster="p4d", region="eu-west-1")
    policy["Statement"] = [s for s in policy["Statement"] if "eks:" not in s["Action"][0]]
    scaled.policy(policy)
    scaled.pool()
    assert scaled.look(waiting("a", nodeSelector={"slicewright.io/pool": "pool"})) == []
    assert scaled.look(waiting("a")) == []


def nobody_runs(scaled: Scaled) -> None:
    scaled.running = []


def not_available(scaled: Scaled) -> None:
    scaled.running = [deployment(available=0)]


def another_cluster(scaled: Scaled) -> None:
    scaled.running = [deployment(cluster="other")]


def no_association(scaled: Scaled) -> None:
    where = {"clusterName": "p4d", "associationId": scaled.association["associationId"]}
    scaled.aws.call("eks", "DeletePodIdentityAssociation", **where)


def no_agent(scaled: Scaled) -> None:
    scaled.aws.call("eks", "DeleteAddon", clusterName="p4d", addonName="eks-pod-identity-agent")
    assert scaled.aws.cloud.tasks.wait(120)


def of_another_cluster(scaled: Scaled) -> None:
    scaled.policy(manifests.autoscaler_policy(cluster="other", region="eu-west-1"))


def no_policy(scaled: Scaled) -> None:
    scaled.aws.call("aws-iam", "DeleteRolePolicy", RoleName="ca", PolicyName="p")


@pytest.mark.parametrize(
    "lacks",
    [
        nobody_runs,
        not_available,
        another_cluster,
        no_association,
        no_agent,
        of_another_cluster,
        no_policy,
    ],
)
def test_it_acts_only_where_it_runs_and_may(scaled: Scaled, lacks) -> None:
    scaled.pool()
    lacks(scaled)
    assert scaled.look(waiting("a")) == []
    assert scaled.desired() == 0


def test_a_verified_node_is_full_when_its_partitions_are_and_empty_when_it_has_no_pods(
    scaled: Scaled,
) -> None:
    scaled.pool()
    (node,) = scaled.look(waiting("a"))
    # It holds its startup taint: it is starting, not unneeded.
    assert len(scaled.look()) == 1
    scaled.bring_up()
    assert len(scaled.look(waiting("b"))) == 2
    scaled.bring_up()
    name = node["metadata"]["name"]
    bound = {"metadata": {"name": "a", "namespace": "default"}, "spec": {"nodeName": name}}
    of_agent = {
        "metadata": {
            "name": "agent",
            "namespace": "slicewright",
            "ownerReferences": [{"kind": "DaemonSet", "name": "agent"}],
        },
        "spec": {"nodeName": name},
    }
    left = scaled.look(bound, of_agent)
    assert [one["metadata"]["name"] for one in left] == [name]
    assert scaled.desired() == 1
    assert scaled.look({**bound, "status": {"phase": "Succeeded"}}, of_agent) == []
    assert scaled.desired() == 0


def test_unused_node_is_removed_whichever_subnet_it_is_in(scaled: Scaled) -> None:
    scaled.pool(subnets=scaled.aws.subnets, instanceTypes=["g4dn.xlarge"])
    both = [waiting("a", count=56), waiting("b", count=56)]
    nodes = scaled.look(*both)
    scaled.bring_up()
    assert len({n["metadata"]["labels"]["topology.kubernetes.io/zone"] for n in nodes}) == 2
    for used in nodes[::-1]:
        bound = {"metadata": {"name": "a"}, "spec": {"nodeName": used["metadata"]["name"]}}
        (left,) = scaled.look(bound)
        assert left["spec"]["providerID"] == used["spec"]["providerID"]
        scaled.look(bound, *both)
        scaled.bring_up()


def test_a_pool_keeps_its_fewest_nodes(scaled: Scaled) -> None:
    scaled.pool(scalingConfig={"minSize": 1, "desiredSize": 1, "maxSize": 2})
    scaled.bring_up()
    assert len(scaled.look()) == 1


@pytest.mark.parametrize(
    "argument",
    [
        "--scale-down-enabled=false",
        "--scale-down-unneeded-time=10m",
        "--scale-down-delay-after-add=10m",
    ],
)
def test_empty_nodes_stay_as_long_as_configured(scaled: Scaled, argument: str) -> None:
    scaled.running = [deployment(argument)]
    scaled.pool()
    scaled.look(waiting("a"))
    scaled.bring_up()
    assert len(scaled.look()) == 1
    assert len(scaled.look()) == 1


def test_a_node_with_the_label_of_whole_gpus_and_none_of_them_never_counts_as_there(
    scaled: Scaled,
) -> None:
    """kubernetes/autoscaler #8095: a second pod finds the first one's node still on its way."""
    scaled.pool(labels={"k8s.amazonaws.com/accelerator": "nvidia-tesla-a100"})
    scaled.look(waiting("a", count=56))
    scaled.bring_up()
    assert len(scaled.look(waiting("b", count=56))) == 1


def test_a_group_without_machines_is_degraded_and_grows_when_there_are_some(
    scaled: Scaled,
) -> None:
    scaled.pool()
    faults = scaled.aws.environment / "faults.json"
    faults.write_text('[{"fault": "stock-out", "pool": "pool"}]')
    assert scaled.look(waiting("a")) == []
    assert scaled.aws.settle("nodegroup", "pool")["status"] == "DEGRADED"
    faults.unlink()
    assert len(scaled.look(waiting("a"))) == 1


@pytest.mark.parametrize(
    ("text", "expected"), [("10m", 600), ("1h30m0s", 5400), ("15m0s", 900), ("0s", 0)]
)
def test_durations_are_read_as_go_writes_them(text: str, expected: int) -> None:
    assert seconds(text) == expected
    with pytest.raises(ValueError, match="not a duration"):
        seconds(f"{text}x")


def test_another_deployment_is_not_taken_for_it() -> None:
    other = deployment()
    other["spec"]["template"]["spec"]["containers"][0]["command"][0] = "./other"
    assert settings_of([other]) is None
    found = settings_of([other, deployment("--scale-down-enabled=false")])
    assert found is not None
    assert not found.scale_down


def test_a_node_that_is_not_ready_is_not_empty() -> None:
    node = {
        "metadata": {"name": "n", "labels": {}},
        "spec": {},
        "status": {"allocatable": {}, "conditions": [{"type": "Ready", "status": "False"}]},
    }
    assert empty_nodes([node], []) == set()
