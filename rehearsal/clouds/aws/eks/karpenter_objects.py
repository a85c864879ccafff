"""Karpenter's objects: what its NodePools ask for, and the NodeClaims and Nodes made of them. Pure.

Sources: kubernetes-sigs/karpenter, pkg/apis/v1 (nodepool.go, nodeclaim.go, labels.go) and
v1alpha1/nodeoverlay.go; aws/karpenter-provider-aws, pkg/apis/v1/ec2nodeclass.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.eks.autoscaler import seconds
from slicewright.rehearsal.clouds.aws.eks.installed_controllers import (
    PodIdentity,
    running_containers,
)
from slicewright.rehearsal.clouds.aws.machines import machines
from slicewright.rehearsal.clouds.core.context import now
from slicewright.rehearsal.clouds.core.pod_fit import SchedulableNode, amount, matches

POOLS = "/apis/karpenter.sh/v1/nodepools"
CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
OVERLAYS = "/apis/karpenter.sh/v1alpha1/nodeoverlays"
CLASSES = "/apis/karpenter.k8s.aws/v1/ec2nodeclasses"
POOL_LABEL = "karpenter.sh/nodepool"
CLASS_LABEL = "karpenter.k8s.aws/ec2nodeclass"
CAPACITY_LABEL = "karpenter.sh/capacity-type"
TYPE_LABEL = "node.kubernetes.io/instance-type"
TERMINATION = "karpenter.sh/termination"
"""Finalizer of NodeClaims."""
CLASS_TERMINATION = "karpenter.k8s.aws/termination"
_GPU = "nvidia.com/gpu"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of Karpenter's container."""

    identity: PodIdentity
    cluster: str
    overlays: bool
    """Whether the feature gate NodeOverlay is on."""


def settings_of(deployments: Sequence[JsonObject]) -> Settings | None:
    """Of the first Karpenter that runs. None without one."""
    for identity, container in running_containers(deployments):
        env = {e["name"]: e.get("value", "") for e in container.get("env", ())}
        if "KARPENTER_SERVICE" in env:
            return Settings(
                identity=identity,
                cluster=env.get("CLUSTER_NAME", ""),
                overlays="NodeOverlay=true" in env.get("FEATURE_GATES", ""),
            )
    return None


def allowed(pool: JsonObject, key: str) -> list[str]:
    """The values that the pool's requirements list for a label."""
    return [
        value
        for requirement in pool["spec"]["template"]["spec"].get("requirements", ())
        if requirement["key"] == key and requirement["operator"] == "In"
        for value in requirement["values"]
    ]


def instance_types(pool: JsonObject) -> list[str]:
    """Those that the simulated EC2 knows, the smallest first: the cheapest is taken."""
    named = [name for name in allowed(pool, TYPE_LABEL) if name in machines()]
    return sorted(named, key=lambda name: (machines()[name].gpu_count, machines()[name].vcpu))


def capacity_type(pool: JsonObject) -> str:
    """Spot before on-demand where both are allowed."""
    stated = allowed(pool, CAPACITY_LABEL) or ["spot", "on-demand"]
    return next(kind for kind in ("reserved", "spot", "on-demand") if kind in stated)


def most_nodes(pool: JsonObject) -> int | None:
    limit = (pool["spec"].get("limits") or {}).get("nodes")
    return None if limit is None else int(limit)


def new_node(
    pool: JsonObject, overlays: Iterable[JsonObject], labels: Mapping[str, str]
) -> SchedulableNode:
    """What Karpenter expects of a new node of the pool: the machine type's resources, and those of
    the NodeOverlays for it. It does not know what a device plugin will advertise.
    """
    machine = machines()[instance_types(pool)[0]]
    free = {
        "cpu": Decimal(machine.vcpu) - Decimal("0.2"),
        "memory": Decimal(machine.memory_ki) * 1024 * Decimal("0.9"),
        "pods": Decimal(machine.pods or 110),
        **({_GPU: Decimal(machine.gpu_count)} if machine.gpu_count else {}),
    }
    for overlay in overlays:
        if all(
            matches(requirement, labels) for requirement in overlay["spec"].get("requirements", ())
        ):
            capacity = overlay["spec"].get("capacity") or {}
            free |= {name: amount(value) for name, value in capacity.items()}
    taints = pool["spec"]["template"]["spec"].get("taints") or []
    return SchedulableNode(labels=labels, taints=taints, free=free)


def labels_of(pool: JsonObject, instance_type: str) -> dict[str, str]:
    """That every node of the pool has, wherever it is."""
    template = pool["spec"]["template"]
    return {
        **(template.get("metadata", {}).get("labels") or {}),
        POOL_LABEL: pool["metadata"]["name"],
        CLASS_LABEL: template["spec"]["nodeClassRef"]["name"],
        CAPACITY_LABEL: capacity_type(pool),
        TYPE_LABEL: instance_type,
    }


def node_claim(pool: JsonObject, name: str, instance_type: str) -> JsonObject:
    spec = pool["spec"]["template"]["spec"]
    copied_fields = (
        "nodeClassRef",
        "requirements",
        "taints",
        "startupTaints",
        "terminationGracePeriod",
    )
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {
            "name": name,
            "labels": labels_of(pool, instance_type),
            "finalizers": [TERMINATION],
            "ownerReferences": [
                {
                    "apiVersion": "karpenter.sh/v1",
                    "kind": "NodePool",
                    "name": pool["metadata"]["name"],
                    "uid": pool["metadata"]["uid"],
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            **{key: spec[key] for key in copied_fields if key in spec},
            "expireAfter": spec.get("expireAfter", "720h"),
        },
    }


def condition(kind: str, *, met: bool, message: str = "") -> JsonObject:
    return {
        "type": kind,
        "status": "True" if met else "False",
        "reason": kind if met else "NotReady",
        "message": message,
        "lastTransitionTime": now(),
    }


def has(resource: JsonObject, kind: str, *, met: bool = True) -> bool:
    """Whether it has this condition."""
    status = "True" if met else "False"
    listed = (resource.get("status") or {}).get("conditions") or ()
    return any(c["type"] == kind and c["status"] == status for c in listed)


def is_going(resource: JsonObject) -> bool:
    return "deletionTimestamp" in resource["metadata"]


def empty_after_s(pool: JsonObject) -> float | None:
    """How long a node must have been empty. None: never."""
    text = pool["spec"].get("disruption", {}).get("consolidateAfter", "0s")
    return None if text == "Never" else seconds(text)
