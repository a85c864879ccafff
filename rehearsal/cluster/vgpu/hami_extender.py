"""HAMi's scheduler extender: it answers the kube-scheduler in its pod, and admits pods."""

from __future__ import annotations

import base64
import json
import threading
import time
from datetime import UTC, datetime
from typing import Final

from slicewright.kubeapi import JsonObject
from slicewright.kubeapi.client import ApiError, Client, Unreachable, path_of
from slicewright.rehearsal.cluster.vgpu import allocation, hami_cluster
from slicewright.rehearsal.cluster.vgpu.hami import ALLOCATED, BOUND, HAMI, LOCK
from slicewright.rehearsal.cluster.vgpu.hami_placement import Choice, Policy, choose

_LOCK_EXPIRES_S: Final = 300.0
_IGNORED: Final = ("hami.io/webhook", "ignore")


class Extender:
    """For several threads; pods are placed one after the other."""

    def __init__(
        self, client: Client, scheduler: str, node_policy: Policy, card_policy: Policy
    ) -> None:
        self._client = client
        self._scheduler = scheduler
        self._node_policy = node_policy
        self._card_policy = card_policy
        self._one_at_a_time = threading.Lock()

    def filter(self, arguments: JsonObject) -> JsonObject:
        """The one node that the pod gets. Its shares are written on the pod at once."""
        pod = arguments["Pod"]
        names = list(arguments.get("NodeNames") or ())
        containers = hami_cluster.requests(pod)
        if not containers:
            return {"NodeNames": names, "FailedNodes": {}, "Error": ""}
        with self._one_at_a_time:
            nodes = self._client.get("/api/v1/nodes")["items"]
            pods = self._client.get("/api/v1/pods")["items"]
            known = hami_cluster.usage(nodes, pods, besides=pod["metadata"]["uid"])
            choice = choose(
                {name: known.get(name, []) for name in names},
                containers,
                hami_cluster.policy_of(pod, hami_cluster.NODE_POLICY, self._node_policy),
                hami_cluster.policy_of(pod, hami_cluster.CARD_POLICY, self._card_policy),
            )
            if not isinstance(choice, Choice):
                return {"NodeNames": [], "FailedNodes": choice, "Error": ""}
            self._assign(pod, choice)
        return {"NodeNames": [choice.node], "FailedNodes": {}, "Error": ""}

    def _assign(self, pod: JsonObject, choice: Choice) -> None:
        keys = HAMI.keys
        shares = iter(choice.shares)
        asking = {c["name"] for c in pod["spec"]["containers"] if _asks(c)}
        placed = [
            next(shares) if container["name"] in asking else ()
            for container in pod["spec"]["containers"]
        ]
        devices = HAMI.encode(placed)
        self._annotate(
            pod["metadata"]["namespace"],
            pod["metadata"]["name"],
            {
                keys.node: choice.node,
                keys.time: str(int(time.time())),
                keys.to_allocate: devices,
                ALLOCATED: devices,
            },
        )

    def bind(self, arguments: JsonObject) -> JsonObject:
        """Locks the node until its device plugin has allocated the pod's cards."""
        namespace, name, node = (arguments[k] for k in ("PodNamespace", "PodName", "Node"))
        try:
            pod = self._client.get(path_of("v1", "pods", name, namespace=namespace))
            if hami_cluster.requests(pod):
                if held := self._held_lock(node):
                    return {"Error": f"node {node} has been locked by {held} within 5 minutes"}
                self._set_lock(node, f"{_stamp()},{namespace},{name}")
                phase = {HAMI.keys.phase: allocation.ALLOCATING, BOUND: str(int(time.time()))}
                self._annotate(namespace, name, phase)
            self._bind(namespace, name, node, str(arguments.get("PodUID", "")))
        except (ApiError, Unreachable) as e:
            self._set_lock(node, None)
            return {"Error": str(e)}
        return {"Error": ""}

    def _bind(self, namespace: str, name: str, node: str, uid: str) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        metadata = {"name": name, "namespace": namespace, **({"uid": uid} if uid else {})}
        path = path_of("v1", "pods", name, namespace=namespace)
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        self._client.create(f"{path}/binding", binding)

    def _held_lock(self, node: str) -> str:
        """Empty if there is none, or it has expired."""
        annotations = self._client.get(path_of("v1", "nodes", node))["metadata"].get("annotations")
        text = str((annotations or {}).get(LOCK) or "")
        since = text.partition(",")[0]
        if not since or _age_s(since) > _LOCK_EXPIRES_S:
            return ""
        return text

    def _set_lock(self, node: str, value: str | None) -> None:
        patch = {"metadata": {"annotations": {LOCK: value}}}
        self._client.patch(path_of("v1", "nodes", node), patch)

    def _annotate(self, namespace: str, name: str, annotations: dict[str, str]) -> None:
        path = path_of("v1", "pods", name, namespace=namespace)
        self._client.patch(path, {"metadata": {"annotations": annotations}})

    def admit(self, review: JsonObject) -> JsonObject:
        """Gives pods that ask for cards to HAMi's scheduler."""
        request = review["request"]
        pod = request["object"]
        response: JsonObject = {"uid": request["uid"], "allowed": True}
        labels = pod["metadata"].get("labels") or {}
        if hami_cluster.asks_for_cards(pod) and labels.get(_IGNORED[0]) != _IGNORED[1]:
            value = {"op": "add", "path": "/spec/schedulerName", "value": self._scheduler}
            response |= {
                "patchType": "JSONPatch",
                "patch": base64.b64encode(json.dumps([value]).encode()).decode(),
            }
        return {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}


def _asks(container: JsonObject) -> bool:
    return bool(hami_cluster.requests({"spec": {"containers": [container]}}))


def _stamp() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _age_s(stamp: str) -> float:
    try:
        since = datetime.fromisoformat(stamp)
    except ValueError:
        return 0.0
    return (datetime.now(UTC) - since).total_seconds()
