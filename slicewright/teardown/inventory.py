"""Lists everything that depends on a stack's cluster, from its API, before anything is deleted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from slicewright.apis.names import (
    CONTROLLER_SERVICE_ACCOUNT,
    GROUP,
    NAMESPACE,
    POOL_LABEL,
    POOL_PLURAL,
    RELEASE_FINALIZER,
)
from slicewright.teardown.subject import State

_DISK_DRIVERS: Final = frozenset({"ebs.csi.aws.com", "pd.csi.storage.gke.io"})
_SYSTEM: Final = ("kube-", "gke-", "gmp-", "amazon-")
"""Prefixes of the clouds' own namespaces."""
_GPU: Final = "nvidia.com/"
_RELEASE_NAME: Final = "meta.helm.sh/release-name"
_RELEASE_NAMESPACE: Final = "meta.helm.sh/release-namespace"
_HOOK: Final = "helm.sh/hook"
"""Annotations of Helm: the first two on everything that it installs, the third on its hooks.
Source: Helm docs, "Labels and Annotations" and "Chart Hooks".
"""
_GPU_POOLS: Final = f"{POOL_PLURAL}.{GROUP}"
"""The name of the GPUPools' definition."""

Object = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Objects:
    """Lists of a cluster's API."""

    nodes: Sequence[Object] = ()
    pods: Sequence[Object] = ()
    claims: Sequence[Object] = ()
    volumes: Sequence[Object] = ()
    services: Sequence[Object] = ()
    ingresses: Sequence[Object] = ()
    gateways: Sequence[Object] = ()
    budgets: Sequence[Object] = ()
    node_pools: Sequence[Object] = ()
    """Karpenter's NodePools."""
    node_claims: Sequence[Object] = ()
    node_classes: Sequence[Object] = ()
    """Karpenter's EC2NodeClasses on AWS."""
    snapshots: Sequence[Object] = ()
    """VolumeSnapshotContents."""


@dataclass(frozen=True, kw_only=True)
class AffectedObjects:
    """The objects of a remaining cluster that a stack's deletion affects."""

    inside: Sequence[tuple[str, Object]] = ()
    """Kind and object, in the namespaces that the stack deletes."""
    gpu_pools: Sequence[Object] = ()
    """GPUPools of every stack. This stack's deletion removes their definition."""


@dataclass(frozen=True, kw_only=True)
class Volume:
    name: str
    claim: str
    """NAMESPACE/NAME of its claim. Empty: no claim."""
    size: str
    retained: bool
    """True if its disk must outlive it."""
    handle: str = ""
    """The cloud's ID of its disk."""


@dataclass(frozen=True, kw_only=True)
class Inventory:
    """Names are NAMESPACE/NAME."""

    gpu_pods: Sequence[str] = ()
    """Pods with partitions or GPUs on nodes of the stack's pools that have not ended."""
    other_pods: Mapping[str, int] | None = None
    """Namespace -> pods on the nodes that end. Pods of the cloud and of the stack do not count."""
    claims: Sequence[str] = ()
    volumes: Sequence[Volume] = ()
    """Volumes on disks of the cloud."""
    retained_snapshots: Mapping[str, str] = field(default_factory=dict)
    """VolumeSnapshotContents whose snapshots must outlive them, with the snapshots' IDs."""
    balancers: Sequence[str] = ()
    """Services of type LoadBalancer, Ingresses and Gateways, with their kind."""
    machines: Sequence[str] = ()
    """Names of NodeClaims, without a namespace. Karpenter ends them."""
    budgets: Sequence[str] = ()
    """Disruption budgets that allow no pod to leave."""
    foreign: Sequence[str] = ()
    """Objects of a remaining cluster, with their kind, that belong to others and would be deleted.

    They are in one of the stack's namespaces, or are GPUPools, deleted with their definition.
    """

    @property
    def retained(self) -> Sequence[Volume]:
        return [v for v in self.volumes if v.retained]


def inventory_of(
    objects: Objects, *, existing: bool, stack_namespaces: frozenset[str]
) -> Inventory:
    """existing: the cluster stays, and so does everything that does not run on the stack's nodes.

    stack_namespaces: namespaces of the stack.
    """
    of_pools = {
        _name(n)
        for n in objects.nodes
        if not existing or POOL_LABEL in (n["metadata"].get("labels") or {})
    }
    going = [p for p in objects.pods if _runs(p) and p["spec"].get("nodeName") in of_pools]
    counts = Counter(
        p["metadata"]["namespace"]
        for p in going
        if p["metadata"]["namespace"] not in stack_namespaces
        and not p["metadata"]["namespace"].startswith(_SYSTEM)
        and not _is_daemon_pod(p)
    )
    of_others = dict(sorted(counts.items()))
    gpu_pods = tuple(_full(p) for p in going if wants_gpu(p))
    if existing:
        return Inventory(gpu_pods=gpu_pods, other_pods=of_others)
    return Inventory(
        gpu_pods=gpu_pods,
        other_pods=of_others,
        claims=tuple(_full(c) for c in objects.claims),
        volumes=tuple(_volume(v) for v in objects.volumes if on_cloud_disk(v)),
        retained_snapshots={
            _name(s): snapshot_handle(s)
            for s in objects.snapshots
            if is_own_snapshot(s) and is_kept(s)
        },
        machines=tuple(_name(c) for c in objects.node_claims),
        balancers=tuple(f"{kind} {_full(o)}" for kind, o in balancers(objects)),
        budgets=tuple(
            _full(b)
            for b in objects.budgets
            if (b.get("status") or {}).get("disruptionsAllowed") == 0
        ),
    )


def foreign(shared: AffectedObjects, state: State) -> Sequence[str]:
    """Objects of others in namespaces that the stack deletes, and GPUPools of other stacks.

    An owned object follows its owner, and a chart's object belongs to its release.
    """
    stack_objects = state.inside
    charts = {name for kind, name in state.inside if kind == "Release"}

    def is_of_stack(kind: str, resource: Object) -> bool:
        meta = resource["metadata"]
        notes = meta.get("annotations") or {}
        release = f"{notes.get(_RELEASE_NAMESPACE)}/{notes.get(_RELEASE_NAME)}"
        name = _full(resource) if "namespace" in meta else _name(resource)
        return (
            (kind, name) in stack_objects
            or bool(meta.get("ownerReferences"))
            or release in charts
            or _HOOK in notes
        )

    names = [f"{kind} {_full(o)}" for kind, o in shared.inside if not is_of_stack(kind, o)]
    if ("CustomResourceDefinition", _GPU_POOLS) in stack_objects:
        names += [f"GPUPool {_name(o)}" for o in shared.gpu_pools if not is_of_stack("GPUPool", o)]
    return tuple(names)


def waiting_pools(shared: AffectedObjects, state: State) -> Sequence[str]:
    """The stack's GPUPools that wait for a controller to release them while none is running."""
    if any(kind == "Deployment" and _is_running_controller(o) for kind, o in shared.inside):
        return ()
    return tuple(
        _name(pool)
        for pool in shared.gpu_pools
        if ("GPUPool", _name(pool)) in state.inside
        and RELEASE_FINALIZER in (pool["metadata"].get("finalizers") or ())
    )


def _is_running_controller(deployment: Object) -> bool:
    available = (deployment.get("status") or {}).get("availableReplicas") or 0
    return _full(deployment) == f"{NAMESPACE}/{CONTROLLER_SERVICE_ACCOUNT}" and available > 0


def balancers(objects: Objects) -> Iterable[tuple[str, Object]]:
    """Kind and object of everything that gets a load balancer from the cloud."""
    for service in objects.services:
        if service["spec"].get("type") == "LoadBalancer":
            yield "Service", service
    for ingress in objects.ingresses:
        yield "Ingress", ingress
    for gateway in objects.gateways:
        yield "Gateway", gateway


def wants_gpu(pod: Object) -> bool:
    return any(
        name.startswith(_GPU)
        for container in pod["spec"].get("containers") or ()
        for name in (container.get("resources") or {}).get("limits") or ()
    )


def uses(pod: Object, claims: frozenset[str]) -> bool:
    """claims: names as NAMESPACE/NAME."""
    namespace = pod["metadata"]["namespace"]
    return any(
        f"{namespace}/{source['claimName']}" in claims
        for volume in pod["spec"].get("volumes") or ()
        if (source := volume.get("persistentVolumeClaim"))
    )


def on_cloud_disk(volume: Object) -> bool:
    return (volume["spec"].get("csi") or {}).get("driver") in _DISK_DRIVERS


def is_own_snapshot(content: Object) -> bool:
    """True if the cluster created the snapshot. Others were imported by their handle.

    content: a VolumeSnapshotContent.
    """
    spec = content.get("spec") or {}
    created = bool((spec.get("source") or {}).get("volumeHandle"))
    return created and spec.get("driver") in _DISK_DRIVERS and bool(snapshot_handle(content))


def is_kept(content: Object) -> bool:
    """True if the snapshot must outlive its VolumeSnapshotContent."""
    return (content.get("spec") or {}).get("deletionPolicy") != "Delete"


def snapshot_handle(content: Object) -> str:
    return str((content.get("status") or {}).get("snapshotHandle") or "")


def handle_of(volume: Object) -> str:
    """The cloud's ID of its disk. Empty if there is none."""
    return str((volume["spec"].get("csi") or {}).get("volumeHandle") or "")


def with_retained(inventory: Inventory, handles: frozenset[str]) -> Inventory:
    """handles: disks that an earlier look found to be retained."""
    volumes = tuple(
        replace(v, retained=v.retained or v.handle in handles) for v in inventory.volumes
    )
    return replace(inventory, volumes=volumes)


def _volume(volume: Object) -> Volume:
    spec = volume["spec"]
    claim = spec.get("claimRef") or {}
    return Volume(
        name=_name(volume),
        claim=f"{claim['namespace']}/{claim['name']}" if claim else "",
        size=str((spec.get("capacity") or {}).get("storage", "")),
        # A volume that a person created has Retain by Kubernetes' default.
        retained=spec.get("persistentVolumeReclaimPolicy") != "Delete",
        handle=handle_of(volume),
    )


def _runs(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")


def _is_daemon_pod(pod: Object) -> bool:
    owners = pod["metadata"].get("ownerReferences") or ()
    return any(o["kind"] in ("DaemonSet", "Node") for o in owners)


def _name(resource: Object) -> str:
    return str(resource["metadata"]["name"])


def _full(resource: Object) -> str:
    return f"{resource['metadata'].get('namespace', 'default')}/{_name(resource)}"
