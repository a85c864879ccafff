"""The number, labels and taints of a pool's nodes, by the rules of each cloud."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from slicewright.apis.label_keys import PLUGIN_CONFIG_LABEL, is_of_kubernetes
from slicewright.apis.names import (
    MIG_CONFIG_LABEL,
    MIG_STATE_LABEL,
    POOL_LABEL,
    STARTUP_TAINT,
    STARTUP_TAINT_KEY,
)
from slicewright.infra import stack_file
from slicewright.infra.plan.findings import Checked, Stated, refuse, rule
from slicewright.infra.plan.model.nodes import (
    CLOUD_TAINT_EFFECT,
    GKE_LABELS,
    NO_GKE_PLUGIN_LABEL,
    OPERANDS_LABEL,
    AnyCloud,
    AnyPool,
    NodeCount,
    Taint,
    TaintEffect,
)
from slicewright.infra.plan.pools.label_owners import ReservedLabel, label_of_others
from slicewright.infra.stack_file import Path

_OPERAND_LABEL = "nvidia.com/gpu.deploy."
"""Prefix of the labels that choose each operand's nodes for the operator. mig-manager pauses
operands with them (`paused-for-mig-change`).
"""
_OPERATORS_LABELS = frozenset(
    f"nvidia.com/{name}"
    for name in (
        "gpu.present",
        "mig.capable",
        "mig.strategy",
        "gpu-driver-upgrade-state",
        "vgpu.present",
    )
)
"""Labels that the operator and GPU feature discovery set from their findings."""
_SLICEWRIGHT_PREFIX = "slicewright.io/"
_MOST_EKS_TAINTS = 50
_EFFECTS: Mapping[str, TaintEffect] = {
    written: effect for effect, cloud in CLOUD_TAINT_EFFECT.items() for written in (effect, cloud)
}
"""A taint effect in Kubernetes' or the clouds' spelling -> the effect in Kubernetes' spelling."""
_STARTUP_TAINT = Taint(
    key=STARTUP_TAINT["key"],
    value=STARTUP_TAINT["value"],
    effect=_EFFECTS[STARTUP_TAINT["effect"]],
)
_GPU_TAINT = Taint(key="nvidia.com/gpu", value="present", effect="NoSchedule")
"""GKE adds it to every GPU node, to keep away pods that need no GPU. slicewright does so on EKS."""


@rule("node-count")
def count_of(nodes: stack_file.Fixed | stack_file.Autoscaled, path: Path) -> Checked[NodeCount]:
    match nodes:
        case stack_file.Fixed(count=count):
            return NodeCount(min=count, max=count, autoscaled=False)
        case stack_file.Autoscaled(min=fewest, max=largest):
            if fewest > largest:
                yield refuse(
                    path,
                    f"min {fewest} is above max {largest}",
                    f"write {{min: {largest}, max: {fewest}}}",
                )
            return NodeCount(min=fewest, max=largest, autoscaled=True)


_RESERVED_LABELS: Final[Mapping[str, ReservedLabel]] = {
    MIG_CONFIG_LABEL: ReservedLabel(
        reason="set on a pool, it races with the device plugin and changes all nodes at once; "
        "the fleet controller sets it",
        instead="use partition",
        source="NVIDIA/gpu-operator #2670",
    ),
    MIG_STATE_LABEL: ReservedLabel(
        reason="mig-manager reports its result in it, and the fleet controller relies on that",
        instead="leave it out",
        source="NVIDIA/mig-parted, nvidia-mig-manager",
    ),
    **dict.fromkeys(
        GKE_LABELS,
        ReservedLabel(
            reason="GKE sets it on nodes with that property; on other nodes it would mislead pods",
            instead="use machine_type, gpu, partition, sharing or driver",
            source="GKE docs, GPU node labels",
        ),
    ),
    PLUGIN_CONFIG_LABEL: ReservedLabel(
        reason="slicewright sets it if a pool shares its GPUs", instead="use sharing"
    ),
    OPERANDS_LABEL: ReservedLabel(
        reason="slicewright sets it on nodes that the GPU Operator must leave alone; on others it "
        "would keep the device plugin away",
        instead="use partition",
        source="NVIDIA GPU operator docs, install",
    ),
}
_GKE_PLUGIN_REMOVED: Final = ReservedLabel(
    reason="it removes GKE's device plugin, which also completes the driver's installation",
    instead="use partition: {mode: operator}, which sets it",
    source="NVIDIA/aicr docs/integrator/gke-gpu-setup.md",
)
_SET_BY_OPERATOR: Final = ReservedLabel(
    reason="the GPU Operator sets it; on this pool it could keep the nodes from being "
    "partitioned or their partitions from being advertised",
    instead="leave it out",
    source="NVIDIA/gpu-operator, controllers/state_manager.go",
)
_SLICEWRIGHT_LABEL: Final = ReservedLabel(
    reason=f"labels with the prefix {_SLICEWRIGHT_PREFIX} are reserved for slicewright",
    instead="choose another key",
)
_KUBERNETES_LABEL: Final = ReservedLabel(
    reason="labels with a kubernetes.io or k8s.io prefix belong to Kubernetes: the fleet "
    "controller, which labels the nodes, does not write them",
    instead="choose another key",
)


@rule("pool-label")
def pool_labels(pool: AnyPool, path: Path, cloud: AnyCloud) -> Checked[Mapping[str, str]]:
    """The pool's own label and the labels of the stack file."""
    for key, value in pool.labels.items():
        at = (*path, "labels", key)
        if (label := _reserved_label(key, pool, cloud)) is not None:
            yield refuse(at, label.reason, label.instead, label.source, in_key=True)
        elif cloud == "eks":
            yield from _check_eks_label(key, value, at)
        elif cloud == "gke":
            yield from _check_gke_label(key, at)
    return {**dict(sorted(pool.labels.items())), POOL_LABEL: pool.name}


def _reserved_label(key: str, pool: AnyPool, cloud: AnyCloud) -> ReservedLabel | None:
    """None if the stack file may set the label."""
    if key in _RESERVED_LABELS:
        return _RESERVED_LABELS[key]
    if key == NO_GKE_PLUGIN_LABEL and cloud == "gke":
        return _GKE_PLUGIN_REMOVED
    by_operator = key in _OPERATORS_LABELS or key.startswith(_OPERAND_LABEL)
    if by_operator and isinstance(pool.partition, stack_file.Operator | stack_file.Boot):
        return _SET_BY_OPERATOR
    if key.startswith(_SLICEWRIGHT_PREFIX):
        return _SLICEWRIGHT_LABEL
    if cloud == "byo" and is_of_kubernetes(key):
        return _KUBERNETES_LABEL
    return label_of_others(key, pool, cloud)


def _reserved(key: str, domains: tuple[str, ...]) -> bool:
    """Whether the key's prefix is one of the domains, each with a dot before it, or within one."""
    prefix = key.rpartition("/")[0]
    return f".{prefix}".endswith(domains)


@rule("gke-node-label")
def _check_gke_label(key: str, at: Path) -> Checked[None]:
    if _reserved(key, (".kubernetes.io", ".k8s.io", ".cloud.google.com")):
        yield refuse(
            at,
            "GKE refuses labels with a kubernetes.io, k8s.io or cloud.google.com prefix",
            "choose another key",
            "GKE API, NodeConfig.labels",
            in_key=True,
        )


@rule("eks-node-label")
def _check_eks_label(key: str, value: str, at: Path) -> Checked[None]:
    if _reserved(key, (".kubernetes.io", ".k8s.io", ".eks.amazonaws.com")):
        yield refuse(
            at,
            "EKS refuses labels with a kubernetes.io, k8s.io or eks.amazonaws.com prefix",
            "choose another key",
            "EKS API; eksctl-io/eksctl #4007",
            in_key=True,
        )
    if len(key) > 63:
        yield refuse(
            at,
            f"EKS allows 63 characters in a label's key with its prefix, this has {len(key)}",
            "shorten it",
            "EKS API",
            in_key=True,
        )
    if not value:
        yield refuse(at, "EKS refuses labels without a value", 'for example "true"', "EKS API")


@rule("pool-taint")
def pool_taints(
    pool: AnyPool, path: Path, cloud: AnyCloud, stated: Stated
) -> Checked[tuple[Taint, ...]]:
    """The stack file's taints, and the startup taint that an unverified node has."""
    first_index: dict[tuple[str, str], int] = {}
    taints = []
    for i, written in enumerate(pool.taints):
        at = (*path, "taints", i)
        effect = _EFFECTS[written.effect]
        if not stated.has(at):
            continue
        if (written.key, effect) in first_index:
            yield refuse(
                at,
                f"{written.key} with {effect} is listed twice, which the cloud refuses",
                f"leave one out; the other is taints[{first_index[written.key, effect]}]",
                "Kubernetes API, Node.spec.taints",
            )
        first_index.setdefault((written.key, effect), i)
        yield from _check_taint_key(written.key, (*at, "key"), cloud)
        taints.append(Taint(key=written.key, value=written.value, effect=effect))
    added = (_GPU_TAINT, _STARTUP_TAINT) if cloud == "eks" else (_STARTUP_TAINT,)
    if cloud == "eks" and len(pool.taints) + len(added) > _MOST_EKS_TAINTS:
        yield refuse(
            (*path, "taints"),
            f"{len(pool.taints)} taints and slicewright's {len(added)} are too many: EKS allows "
            f"{_MOST_EKS_TAINTS} on a node group",
            f"write {_MOST_EKS_TAINTS - len(added)} or less",
            "EKS API, CreateNodegroup",
        )
    return (*sorted(taints, key=lambda t: (t.key, t.effect)), *added)


_WHO_ADDS_GPU_TAINT: Final[Mapping[AnyCloud, str]] = {
    "gke": "GKE adds it, and refuses a second one",
    "eks": "slicewright adds it, as GKE does",
    "byo": "existing nodes keep their taints",
}


@rule("pool-taint-key")
def _check_taint_key(key: str, at: Path, cloud: AnyCloud) -> Checked[None]:
    if key == STARTUP_TAINT_KEY or key.startswith(_SLICEWRIGHT_PREFIX):
        yield refuse(
            at,
            "is reserved for slicewright, which taints every GPU node until it is verified",
            "leave it out",
        )
    elif key == _GPU_TAINT.key:
        yield refuse(
            at,
            f"{_GPU_TAINT.key}={_GPU_TAINT.value}:{_GPU_TAINT.effect} is on "
            f"every GPU node already: {_WHO_ADDS_GPU_TAINT[cloud]}",
            "leave it out",
            "hashicorp/terraform-provider-google #7928"
            if cloud == "gke"
            else "docs/reference/startup-taint.md",
        )
    elif cloud == "eks" and len(key) > 63:
        yield refuse(
            at,
            f"EKS allows 63 characters in a taint's key, this has {len(key)}",
            "shorten it",
            "EKS API",
        )
