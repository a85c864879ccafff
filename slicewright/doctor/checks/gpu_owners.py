"""Checks who else hands out, partitions or labels the GPUs of a plan's nodes. Pure.

Software is known by its effect: it registers devices with the kubelet, publishes them by DRA, or
writes MIG layouts. Names of images alone would miss mirrors and forks.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from slicewright.apis.device_plugins import (
    GKE_PLUGIN,
    image_name,
    is_for_gpus,
    mounts_plugin_directory,
)
from slicewright.doctor.findings import Answer, Finding, NotAnswered, checks, fails, not_asked, ok
from slicewright.infra.plan import PoolPlan

DRA_DRIVER: Final = "gpu.nvidia.com"
"""The name in the DeviceClass and the ResourceSlices of NVIDIA's DRA driver for GPUs."""
_DEVICE_PLUGINS: Final = ("k8s-device-plugin", GKE_PLUGIN, "volcano-vgpu-device-plugin")
_DRA_IMAGES: Final = ("dra-driver-nvidia-gpu", "k8s-dra-driver-gpu", "k8s-dra-driver")
_MIG_MANAGERS: Final = ("k8s-mig-manager", "mig-manager", "nvidia-mig-manager")
_DISCOVERIES: Final = ("gpu-feature-discovery",)
_DYNAMIC_MIG: Final = re.compile(r"DynamicMIG=true")
_MIG_LABEL: Final = "nvidia.com/mig.config"
_STARTUP_TAINT: Final = "startup-taint.cluster-autoscaler.kubernetes.io/"
_ENGINES: Final = {
    "hami.io/node-nvidia-register": "HAMi",
    "volcano.sh/node-vgpu-register": "Volcano's vGPU plugin",
}
"""Annotation of nodes -> the engine of fractional GPUs that writes it."""


@dataclass(frozen=True, kw_only=True)
class DaemonSet:
    namespace: str
    name: str
    images: tuple[str, ...]
    pods: int
    """The number of nodes that should run its pod."""
    of_operator: bool
    """True if a GPU operator created it."""
    host_paths: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    """Commands, arguments, and environment as NAME=VALUE of its containers."""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    required_affinity: tuple[tuple[Mapping[str, Any], ...], ...] = ()
    """The terms of the required node affinity, each with its expressions on labels. A node must
    match one of them. Empty: any node.
    """
    runtime_class: str = ""
    tolerations: tuple[Mapping[str, Any], ...] | None = None
    """None: unknown, so it may run anywhere."""


@dataclass(frozen=True, kw_only=True)
class GpuOperator:
    """A ClusterPolicy."""

    name: str
    release_namespace: str | None
    """The namespace of its Helm release. None: Helm did not create it."""


@dataclass(frozen=True, kw_only=True)
class DeviceOwners:
    """The other objects of a cluster that hand out GPUs."""

    gpu_clusters: tuple[str, ...] = ()
    """Names of GPUClusters: the operator's settings for DRA, in place of a ClusterPolicy."""
    operator_namespaces: tuple[str, ...] = ()
    """Namespaces that have a Deployment of NVIDIA's operator."""
    device_classes: tuple[str, ...] = ()
    """Names of the DeviceClasses that select devices of NVIDIA's DRA driver."""
    slice_nodes: tuple[str, ...] = ()
    """Nodes whose GPUs NVIDIA's DRA driver publishes in ResourceSlices."""
    annotated_nodes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Annotation of an engine of fractional GPUs -> nodes that have it."""


@dataclass(frozen=True, kw_only=True)
class OwnerAnswers:
    """The answers of a cluster."""

    policies: Answer[tuple[GpuOperator, ...]]
    owners: Answer[DeviceOwners]
    daemonsets: Answer[tuple[DaemonSet, ...]]


@dataclass(frozen=True, kw_only=True)
class Pool:
    """The nodes of a pool, where software of others would be in the way."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[tuple[str, str | None, str], ...]
    """Key, value and effect."""


def gpu_pool(pool: PoolPlan, labels: Mapping[str, str] | None = None) -> Pool:
    """labels: more labels of the nodes than those of the plan."""
    taints = tuple((taint.key, taint.value, taint.effect) for taint in pool.taints)
    return Pool(name=pool.name, labels={**pool.labels, **(labels or {})}, taints=taints)


@checks("gpu-owner")
def owner_findings(
    answer: Answer[tuple[DaemonSet, ...]],
    owners: Answer[DeviceOwners],
    pools: Iterable[Pool],
    *,
    own_namespaces: Container[str] = (),
) -> Iterator[Finding]:
    """Finds the software besides the operator's that would fight over the GPUs of the pools.

    own_namespaces: those that this stack created.
    """
    subject = "other device plugins of NVIDIA"
    if isinstance(answer, NotAnswered):
        yield not_asked(subject, answer)
        return
    places = tuple(pools)
    foreign = [
        daemonset
        for daemonset in answer
        if not daemonset.of_operator
        and daemonset.namespace not in own_namespaces
        and _may_reach(daemonset, places)
    ]
    findings = [finding for daemonset in foreign for finding in _of_daemonset(daemonset)]
    if not any(finding.subject == subject for finding in findings):
        yield ok(subject, "none")
    yield from findings
    if isinstance(owners, NotAnswered):
        yield not_asked("owners of GPUs by DRA", owners)
        return
    if not any(map(_is_dra_driver, foreign)):
        yield from _of_dra(owners)
    if not any(d.namespace in own_namespaces and _is_device_plugin(d) for d in answer):
        yield from _of_engines(owners)


@checks("gpu-owner-daemonset")
def _of_daemonset(daemonset: DaemonSet) -> Iterator[Finding]:
    if _is_dra_driver(daemonset):
        yield _dra_finding(daemonset)
        return
    place = _place(daemonset)
    delete = f"kubectl delete daemonset {daemonset.name} -n {daemonset.namespace}"
    elsewhere = f"{delete}, or keep it off the pools' nodes with a nodeAffinity"
    if _is_mig_manager(daemonset):
        yield fails(
            "other MIG managers",
            f"{place}, and partitions GPUs by the label {_MIG_LABEL} like the operator's: each "
            "would undo the other's layouts",
            elsewhere,
        )
    elif _runs(daemonset, _DISCOVERIES, "gpu-feature-discovery"):
        yield fails(
            "other GPU feature discoveries",
            f"{place}, and writes the labels nvidia.com/gpu.* and nvidia.com/mig-* like the "
            "operator's",
            elsewhere,
        )
    if _is_device_plugin(daemonset):
        yield fails(
            "other device plugins of NVIDIA",
            f"{place}, and registers the same GPUs as the operator's device plugin: the kubelet "
            "keeps the one that registered last",
            delete if daemonset.pods else elsewhere,
        )


def _place(daemonset: DaemonSet) -> str:
    subject = f"DaemonSet {daemonset.name} in namespace {daemonset.namespace}"
    if daemonset.pods:
        return f"{subject} runs on {daemonset.pods} nodes"
    return f"{subject} would run on the pools' nodes"


def _dra_finding(daemonset: DaemonSet) -> Finding:
    dynamic = any(_DYNAMIC_MIG.search(word) for word in daemonset.words)
    partitions = ", and partitions them for claims" if dynamic else ""
    return fails(
        "DRA driver of NVIDIA",
        f"{_place(daemonset)}, and hands out the same GPUs as the device plugin{partitions}: pods "
        "of both would share GPUs without knowing",
        "uninstall the driver's chart, or keep its kubelet plugin off the pools' nodes with a "
        "nodeAffinity",
    )


@checks("gpu-owner-dra")
def _of_dra(owners: DeviceOwners) -> Iterator[Finding]:
    if not owners.device_classes and not owners.slice_nodes:
        return
    nodes = ", ".join(owners.slice_nodes[:3])
    published = f"ResourceSlices of {DRA_DRIVER} publish the GPUs of {nodes}"
    classes = f"DeviceClass {', '.join(owners.device_classes)} exists"
    yield fails(
        "DRA driver of NVIDIA",
        f"{published if nodes else classes}: the driver hands out the same GPUs as the device "
        "plugin",
        "uninstall the driver's chart (its DeviceClasses go with it), or keep its kubelet plugin "
        "off the pools' nodes with a nodeAffinity",
    )


@checks("gpu-owner-fractions")
def _of_engines(owners: DeviceOwners) -> Iterator[Finding]:
    for annotation, nodes in owners.annotated_nodes.items():
        yield fails(
            f"fractional GPUs of {_ENGINES[annotation]}",
            f"nodes have its registration ({annotation}): {', '.join(nodes[:3])}",
            "uninstall it, or exclude the pools' nodes in its settings",
        )


ENGINE_ANNOTATIONS: Final = tuple(_ENGINES)


def _runs(daemonset: DaemonSet, images: tuple[str, ...], program: str) -> bool:
    by_image = any(image_name(image) in images for image in daemonset.images)
    return by_image or any(program in word for word in daemonset.words)


def _is_dra_driver(daemonset: DaemonSet) -> bool:
    """ComputeDomains alone share no GPU: their plugin may run beside the device plugin."""
    if not any(image_name(image) in _DRA_IMAGES for image in daemonset.images):
        return any("gpu-kubelet-plugin" in word for word in daemonset.words)
    programs = [word for word in daemonset.words if word.endswith("-kubelet-plugin")]
    return not programs or any("gpu-kubelet-plugin" in word for word in programs)


def _is_mig_manager(daemonset: DaemonSet) -> bool:
    by_image = any(image_name(image) in _MIG_MANAGERS for image in daemonset.images)
    return by_image or any(_MIG_LABEL in w or "mig-parted" in w for w in daemonset.words)


def _is_device_plugin(daemonset: DaemonSet) -> bool:
    if any(image_name(image) in _DEVICE_PLUGINS for image in daemonset.images):
        return not _runs(daemonset, (), "gpu-feature-discovery") or _mounts_plugins(daemonset)
    return _mounts_plugins(daemonset) and is_for_gpus(
        daemonset.name,
        daemonset.images,
        runtime_class=daemonset.runtime_class,
        selected_labels=daemonset.node_selector,
        words=daemonset.words,
    )


def _mounts_plugins(daemonset: DaemonSet) -> bool:
    return mounts_plugin_directory(daemonset.host_paths)


def is_managed_by_gke(daemonset: DaemonSet) -> bool:
    return daemonset.namespace == "kube-system" and any(
        image_name(image) == GKE_PLUGIN for image in daemonset.images
    )


def _may_reach(daemonset: DaemonSet, pools: Iterable[Pool]) -> bool:
    """True if its pods would come to nodes of a pool, at the latest when the startup taint goes."""
    return any(
        _may_select(daemonset, pool) and (daemonset.pods or _tolerates_taints(daemonset, pool))
        for pool in pools
    )


def _may_select(daemonset: DaemonSet, pool: Pool) -> bool:
    """False if the pool's own labels keep it away. Other labels of the nodes are unknown."""
    terms = daemonset.required_affinity
    return all(pool.labels.get(k, v) == v for k, v in daemonset.node_selector.items()) and (
        not terms or any(all(_may_match(e, pool.labels) for e in term) for term in terms)
    )


def _may_match(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Source: Kubernetes API, NodeSelectorRequirement."""
    value, values = labels.get(expression["key"]), expression.get("values") or ()
    if value is None:
        return True
    match expression["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case operator:
            return bool(operator != "DoesNotExist")


def _tolerates_taints(daemonset: DaemonSet, pool: Pool) -> bool:
    if daemonset.tolerations is None:
        return False
    return all(
        any(_tolerates(toleration, *taint) for toleration in daemonset.tolerations)
        for taint in pool.taints
        if taint[2] != "PreferNoSchedule" and not taint[0].startswith(_STARTUP_TAINT)
    )


def _tolerates(toleration: Mapping[str, Any], key: str, value: str | None, effect: str) -> bool:
    if toleration.get("effect") not in (None, "", effect):
        return False
    if not toleration.get("key"):
        return toleration.get("operator") == "Exists"
    if toleration["key"] != key:
        return False
    return toleration.get("operator") == "Exists" or (toleration.get("value") or "") == (
        value or ""
    )
