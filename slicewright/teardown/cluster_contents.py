"""Empties a cluster before its nodes go: looks, and removes everything the cloud created for it.

While the cluster lives, its own controllers delete load balancers and disks. Afterwards nothing
deletes them. Each step can be repeated, and each wait has a limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from slicewright.apis.names import API_VERSION, POOL_LABEL, POOL_PLURAL
from slicewright.kubeapi import ApiError, Client, JsonObject
from slicewright.kubeapi.client import path_of
from slicewright.teardown.inventory import (
    AffectedObjects,
    Object,
    Objects,
    balancers,
    handle_of,
    on_cloud_disk,
    uses,
    wants_gpu,
)

_GATEWAYS: Final = "/apis/gateway.networking.k8s.io/v1/gateways"
_KARPENTER: Final = "/apis/karpenter.sh/v1"
_PATHS: Final = {
    "nodes": "/api/v1/nodes",
    "pods": "/api/v1/pods",
    "claims": "/api/v1/persistentvolumeclaims",
    "volumes": "/api/v1/persistentvolumes",
    "services": "/api/v1/services",
    "ingresses": "/apis/networking.k8s.io/v1/ingresses",
    "gateways": _GATEWAYS,
    "budgets": "/apis/policy/v1/poddisruptionbudgets",
    "node_pools": f"{_KARPENTER}/nodepools",
    "node_claims": f"{_KARPENTER}/nodeclaims",
    "node_classes": "/apis/karpenter.k8s.aws/v1/ec2nodeclasses",
    "snapshots": "/apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents",
}
_NOT_EVERYWHERE: Final = frozenset(
    {
        *(_PATHS[kind] for kind in ("node_pools", "node_claims", "node_classes", "snapshots")),
        _GATEWAYS,
        f"/apis/{API_VERSION}/{POOL_PLURAL}",
    }
)
"""Kinds that most clusters do not have."""
_PLURALS: Final = {
    "Service": ("v1", "services"),
    "Ingress": ("networking.k8s.io/v1", "ingresses"),
    "Gateway": ("gateway.networking.k8s.io/v1", "gateways"),
}
_OF_PEOPLE: Final = {
    "Deployment": ("apps/v1", "deployments"),
    "StatefulSet": ("apps/v1", "statefulsets"),
    "DaemonSet": ("apps/v1", "daemonsets"),
    "Job": ("batch/v1", "jobs"),
    "CronJob": ("batch/v1", "cronjobs"),
    "Pod": ("v1", "pods"),
    "PersistentVolumeClaim": ("v1", "persistentvolumeclaims"),
    "Service": ("v1", "services"),
    "Ingress": ("networking.k8s.io/v1", "ingresses"),
}
"""Kinds whose objects somebody would miss. They are looked for in a namespace."""
_GPU_POOLS: Final = f"/apis/{API_VERSION}/{POOL_PLURAL}"
_PAUSE_S: Final = 2.0


def read(client: Client) -> Objects:
    """Raises ApiError, Unreachable."""
    return Objects(**{name: _list(client, path) for name, path in _PATHS.items()})


def read_shared(client: Client, namespaces: Iterable[str]) -> AffectedObjects:
    """namespaces: the namespaces that the stack deletes. Raises ApiError, Unreachable."""
    return AffectedObjects(
        inside=[
            (kind, resource)
            for namespace in namespaces
            for kind, (version, plural) in _OF_PEOPLE.items()
            for resource in _list(client, path_of(version, plural, namespace=namespace))
        ],
        gpu_pools=_list(client, _GPU_POOLS),
    )


@dataclass(frozen=True, kw_only=True)
class Clock:
    now: Callable[[], float]
    """The current time in seconds, monotonic."""
    sleep: Callable[[float], None]


@dataclass(frozen=True)
class Clearing:
    """Clears one cluster. `clear` raises ApiError and Unreachable."""

    client: Client
    clock: Clock
    wait_s: float
    """The wait for each kind of object that must be gone before the next."""
    tell: Callable[[str], None]

    def clear(self, *, existing: bool, policies: Mapping[str, str]) -> Sequence[str]:
        """Returns the objects that did not go in time, with reasons.

        The sweep finds their cloud resources. existing: the cluster stays, so only the stack's own
        nodes are emptied. policies: ID of a disk -> the new reclaim policy of its volume. All other
        volumes stay as they are.
        """
        objects = read(self.client)
        self._cordon(objects, existing=existing)
        if existing:
            return self._drain(objects, existing=existing)
        self._set_policies(objects, policies)
        machines = self._end_machines(objects)
        stuck = list(self._delete_balancers(objects))
        stuck += self._drain(objects, existing=existing)
        stuck += self._delete_claims(objects)
        stuck += self._wait_for(machines)
        return stuck

    def _end_machines(self, objects: Objects) -> Sequence[tuple[str, str]]:
        """Lets Karpenter end its machines, and returns their names and paths.

        Nothing else ends them once Karpenter is gone. A pool that is being deleted gets no machines
        for the evicted pods.
        """
        deletions = []
        for kind, listed, plural in (
            ("NodePool", objects.node_pools, "node_pools"),
            ("NodeClaim", objects.node_claims, "node_claims"),
        ):
            for resource in listed:
                name = resource["metadata"]["name"]
                path = f"{_PATHS[plural]}/{name}"
                self.tell(f"delete {kind} {name}")
                self._delete(path, {"propagationPolicy": "Foreground"})
                deletions.append((f"{kind} {name}", path))
        return deletions

    def _cordon(self, objects: Objects, *, existing: bool) -> None:
        """Cordons the nodes, so that pods that leave one are not recreated on the next."""
        for node in _going(objects, existing=existing):
            name = node["metadata"]["name"]
            if not node["spec"].get("unschedulable"):
                self.tell(f"cordon node {name}")
                patch = {"spec": {"unschedulable": True}}
                self._patch(f"{_PATHS['nodes']}/{name}", patch)

    def _set_policies(self, objects: Objects, policies: Mapping[str, str]) -> None:
        for volume in objects.volumes:
            if on_cloud_disk(volume) and (policy := policies.get(handle_of(volume))):
                path = f"{_PATHS['volumes']}/{volume['metadata']['name']}"
                self._patch(path, {"spec": {"persistentVolumeReclaimPolicy": policy}})

    def _delete_balancers(self, objects: Objects) -> Sequence[str]:
        deletions = []
        for kind, resource in balancers(objects):
            version, plural = _PLURALS[kind]
            meta = resource["metadata"]
            path = path_of(version, plural, meta["name"], meta["namespace"])
            self.tell(f"delete {kind} {meta['namespace']}/{meta['name']}")
            self._delete(path)
            deletions.append((f"{kind} {meta['namespace']}/{meta['name']}", path))
        return self._wait_for(deletions)

    def _drain(self, objects: Objects, *, existing: bool) -> Sequence[str]:
        """Evicts the pods with GPUs until the deadline, so that disruption budgets are respected.

        Pods that still run then end with their node, as with `pulumi destroy` alone.
        """
        nodes = {n["metadata"]["name"] for n in _going(objects, existing=existing)}
        deadline = self.clock.now() + self.wait_s
        refused: dict[str, str] = {}
        while True:
            remaining = [
                p
                for p in _list(self.client, _PATHS["pods"])
                if p["spec"].get("nodeName") in nodes and wants_gpu(p) and _leaves(p)
            ]
            if not remaining:
                return []
            for pod in remaining:
                if "deletionTimestamp" not in pod["metadata"]:
                    self._evict(pod, refused)
            if self.clock.now() >= deadline:
                names = [f"{p['metadata']['namespace']}/{p['metadata']['name']}" for p in remaining]
                return [
                    f"pod {n} is still running: {refused.get(n, 'it is terminating')}"
                    for n in names
                ]
            self.clock.sleep(_PAUSE_S)

    def _evict(self, pod: Object, refused: dict[str, str]) -> None:
        meta = pod["metadata"]
        path = f"{path_of('v1', 'pods', meta['name'], meta['namespace'])}/eviction"
        name = f"{meta['namespace']}/{meta['name']}"
        body: JsonObject = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": meta["name"], "namespace": meta["namespace"]},
        }
        if name not in refused:
            self.tell(f"evict pod {name}")
        try:
            self.client.create(path, body)
        except ApiError as e:
            if e.status not in (404, 409, 429):
                raise
            refused[name] = e.message

    def _delete_claims(self, objects: Objects) -> Sequence[str]:
        """Deletes the claims and the pods that use them: a claim in use stays."""
        deletions = []
        for claim in objects.claims:
            meta = claim["metadata"]
            path = path_of("v1", "persistentvolumeclaims", meta["name"], meta["namespace"])
            name = f"{meta['namespace']}/{meta['name']}"
            self.tell(f"delete claim {name}")
            self._delete(path)
            deletions.append((f"claim {name}", path))
        names = frozenset(name.removeprefix("claim ") for name, _ in deletions)
        for pod in objects.pods if deletions else ():
            if uses(pod, names):
                meta = pod["metadata"]
                path = path_of("v1", "pods", meta["name"], meta["namespace"])
                self._delete(path)
        stuck = list(self._wait_for(deletions))
        # The CSI driver deletes a volume, with its disk, once its claim is gone.
        volumes = [
            (f"volume {v['metadata']['name']}", f"{_PATHS['volumes']}/{v['metadata']['name']}")
            for v in objects.volumes
            if on_cloud_disk(v)
        ]
        return [*stuck, *self._wait_for(volumes)]

    def _wait_for(self, objects: Sequence[tuple[str, str]]) -> Sequence[str]:
        """Returns the objects that still exist after the wait, with reasons.

        objects: names and paths.
        """
        deadline = self.clock.now() + self.wait_s
        remaining = dict(objects)
        while True:
            existing = {
                name: resource for name, path in remaining.items() if (resource := self._get(path))
            }
            remaining = {name: path for name, path in remaining.items() if name in existing}
            if not remaining or self.clock.now() >= deadline:
                return [
                    f"{name} still exists{_finalizer_text(existing[name])}" for name in remaining
                ]
            self.clock.sleep(_PAUSE_S)

    def _get(self, path: str) -> JsonObject | None:
        try:
            return self.client.get(path)
        except ApiError as e:
            if e.status == 404:
                return None
            raise

    def _patch(self, path: str, patch: JsonObject) -> None:
        with _unless_gone():
            self.client.patch(path, patch)

    def _delete(self, path: str, options: JsonObject | None = None) -> None:
        with _unless_gone():
            self.client.delete(path, options)


@contextmanager
def _unless_gone() -> Iterator[None]:
    try:
        yield
    except ApiError as e:
        if e.status != 404:
            raise


def _list(client: Client, path: str) -> list[JsonObject]:
    try:
        items: list[JsonObject] = client.get(path)["items"]
    except ApiError as e:
        if path in _NOT_EVERYWHERE and e.status == 404:
            return []
        raise
    return items


def _going(objects: Objects, *, existing: bool) -> list[Object]:
    """The nodes that end: all nodes, or those of the stack's pools."""
    return [
        n
        for n in objects.nodes
        if not existing or POOL_LABEL in (n["metadata"].get("labels") or {})
    ]


def _leaves(pod: Object) -> bool:
    """True if an eviction moves the pod, unlike one of a DaemonSet or a static pod."""
    owners = pod["metadata"].get("ownerReferences") or ()
    ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return not ended and not any(o["kind"] in ("DaemonSet", "Node") for o in owners)


def _finalizer_text(resource: Object) -> str:
    """Names the finalizers: they wait for their owner, which may be gone."""
    finalizers = resource["metadata"].get("finalizers") or ()
    return f": finalizer {', '.join(finalizers)}" if finalizers else ""
