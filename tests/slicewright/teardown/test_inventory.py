"""What depends on a cluster, as its API's objects say."""

from __future__ import annotations

import json
from typing import Any

from slicewright.teardown.inventory import (
    AffectedObjects,
    Inventory,
    Objects,
    foreign,
    inventory_of,
)
from slicewright.teardown.report import Report, as_json, lines_of
from slicewright.teardown.subject import state_of


def node(name: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}, "spec": {}}


def pod(name: str, on: str, *, namespace: str = "ml", gpu: str = "", **more: Any) -> dict[str, Any]:
    limits = {gpu: "1"} if gpu else {}
    return {
        "metadata": {"name": name, "namespace": namespace, **more},
        "spec": {"nodeName": on, "containers": [{"resources": {"limits": limits}}]},
        "status": {"phase": "Running"},
    }


OURS = {"slicewright.io/pool": "gpu"}
NODES = [node("mine", **OURS), node("theirs")]
PODS = [
    pod("train", "mine", gpu="nvidia.com/mig-1g.5gb"),
    pod("web", "theirs"),
    pod("big", "theirs", gpu="nvidia.com/gpu"),
    pod("agent", "mine", namespace="slicewright-system"),
    pod("dns", "mine", namespace="kube-system"),
    pod("exporter", "mine", ownerReferences=[{"kind": "DaemonSet"}]),
    {**pod("done", "mine", gpu="nvidia.com/gpu"), "status": {"phase": "Succeeded"}},
]
OBJECTS = Objects(
    nodes=NODES,
    pods=PODS,
    claims=[{"metadata": {"namespace": "ml", "name": "models"}}],
    volumes=[
        {
            "metadata": {"name": "pv"},
            "spec": {"csi": {"driver": "ebs.csi.aws.com"}, "capacity": {"storage": "5Gi"}},
        },
        {"metadata": {"name": "nfs"}, "spec": {"nfs": {"server": "s"}}},
    ],
    services=[
        {"metadata": {"namespace": "ml", "name": "a"}, "spec": {"type": "LoadBalancer"}},
        {"metadata": {"namespace": "ml", "name": "b"}, "spec": {}},
    ],
    ingresses=[{"metadata": {"namespace": "ml", "name": "c"}, "spec": {}}],
    budgets=[
        {"metadata": {"namespace": "ml", "name": "d"}, "status": {"disruptionsAllowed": 0}},
        {"metadata": {"namespace": "ml", "name": "e"}, "status": {"disruptionsAllowed": 1}},
    ],
)


def inventory(*, existing: bool) -> Inventory:
    return inventory_of(
        OBJECTS, existing=existing, stack_namespaces=frozenset({"slicewright-system"})
    )


def test_the_inventory_of_a_deleted_cluster_has_everything_in_it() -> None:
    found = inventory(existing=False)
    assert found.gpu_pods == ("ml/train", "ml/big")
    assert found.other_pods == {"ml": 3}
    assert found.claims == ("ml/models",)
    assert found.balancers == ("Service ml/a", "Ingress ml/c")
    assert found.budgets == ("ml/d",)
    # A volume that nobody has given a policy is kept: Kubernetes' default.
    assert [(v.name, v.size, v.retained) for v in found.volumes] == [("pv", "5Gi", True)]


def test_the_inventory_of_a_remaining_cluster_has_only_pods_on_the_stacks_nodes() -> None:
    assert inventory(existing=True) == Inventory(gpu_pods=("ml/train",), other_pods={"ml": 1})


def thing(name: str, namespace: str, **meta: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace, **meta}}


STATE = state_of(
    {
        "deployment": {
            "resources": [
                {
                    "urn": f"urn:{kind}:{name}",
                    "type": f"kubernetes:{kind}",
                    "id": name,
                    "custom": True,
                }
                for kind, name in (
                    ("core/v1:Namespace", "slicewright-system"),
                    ("core/v1:Namespace", "gpu-operator"),
                    ("apps/v1:Deployment", "slicewright-system/fleet-controller"),
                    ("helm.sh/v3:Release", "gpu-operator/gpu-operator"),
                    ("slicewright.io/v1alpha1:GPUPool", "a100"),
                    (
                        "apiextensions.k8s.io/v1:CustomResourceDefinition",
                        "gpupools.slicewright.io",
                    ),
                )
            ]
        }
    }
)
RELEASED = {
    "meta.helm.sh/release-name": "gpu-operator",
    "meta.helm.sh/release-namespace": "gpu-operator",
}


def test_the_inventory_has_objects_of_others_that_the_deletion_reaches() -> None:
    ours = [
        ("Deployment", thing("fleet-controller", "slicewright-system")),
        ("Pod", thing("fleet-controller-x", "slicewright-system", ownerReferences=[{}])),
        ("Deployment", thing("gpu-operator", "gpu-operator", annotations=RELEASED)),
        ("Job", thing("upgrade-crd", "gpu-operator", annotations={"helm.sh/hook": "pre-upgrade"})),
    ]
    theirs = [
        ("CronJob", thing("backup", "gpu-operator")),
        ("Service", thing("fleet-controller", "slicewright-system")),
        (
            "Deployment",
            thing(
                "exporter",
                "gpu-operator",
                annotations={**RELEASED, "meta.helm.sh/release-name": "exporter"},
            ),
        ),
    ]
    pools = [{"metadata": {"name": name}} for name in ("a100", "of-another-stack")]
    assert STATE.namespaces == ["gpu-operator", "slicewright-system"]
    assert foreign(AffectedObjects(inside=ours, gpu_pools=pools[:1]), STATE) == ()
    assert foreign(AffectedObjects(inside=[*ours, *theirs], gpu_pools=pools), STATE) == (
        "CronJob gpu-operator/backup",
        "Service slicewright-system/fleet-controller",
        "Deployment gpu-operator/exporter",
        "GPUPool of-another-stack",
    )


def test_an_inventory_is_printed_and_written_as_json() -> None:
    report = Report(
        stack="dev",
        cluster="c",
        dry_run=True,
        state={"a:b:C": 2},
        inventory=inventory(existing=False),
    )
    text = "\n".join(lines_of(report))
    for words in ("2 a:b:C", "ml/train", "3 in ml", "ml/models", "pv 5Gi", "Service ml/a"):
        assert words in text
    assert "nothing is left" not in text
    assert json.loads(json.dumps(as_json(report)))["inventory"]["others"] == {"ml": 3}


def test_the_state_is_read_without_secrets() -> None:
    """What was read only, the stack itself and providers are none of it."""
    vpc = {"urn": "urn:vpc", "type": "aws:ec2/vpc:Vpc", "id": "vpc-1", "custom": True}
    cluster = {
        "urn": "urn:cluster",
        "type": "aws:eks/cluster:Cluster",
        "custom": True,
        "protect": True,
        "outputs": {"deletionProtection": True},
    }
    kubernetes = {
        "urn": "urn:k",
        "type": "pulumi:providers:kubernetes",
        "custom": True,
        "inputs": {"kubeconfig": {"4dabf18193072939515e22adb298388d": "a secret"}},
    }
    resources = [
        {"urn": "urn:stack", "type": "pulumi:pulumi:Stack"},
        kubernetes,
        vpc,
        cluster,
        {**vpc, "id": "vpc-2", "external": True},
    ]
    pending = [{"type": "creating", "resource": {"urn": "urn:half"}}]
    deployment = {"resources": resources, "pending_operations": pending}
    found = state_of({"deployment": deployment})
    assert found.counts == {"aws:ec2/vpc:Vpc": 1, "aws:eks/cluster:Cluster": 1}
    assert found.networks == {"vpc-1"}
    assert (found.protected, found.guarded) == (("urn:cluster",), ("urn:cluster",))
    assert found.pending == ("urn:half",)
    assert found.kubeconfig is None
    assert found.hidden_kubeconfig
    assert not state_of({"deployment": {"resources": [vpc, cluster]}}).hidden_kubeconfig
