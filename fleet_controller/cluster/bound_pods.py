"""Nodes, and the pods bound to them, from one watch with extra lists when it is not enough.

A LIST of a node's pods is the API server's knowledge at that moment. A watch may be behind by any
amount, which matters in one place only: a layout is about to change, the watch shows no pod, and
one was bound just before the node got its startup taint. So a node that was ever seen without the
taint is listed once more when it has it. A node that came with the taint never needs it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any, Final

from slicewright.apis.names import NAMESPACE
from slicewright.fleet_controller.cluster import news
from slicewright.fleet_controller.cluster.collection import Collection
from slicewright.fleet_controller.objects.layout_change import change_of
from slicewright.fleet_controller.objects.node import Node, read_node
from slicewright.fleet_controller.objects.node_pods import NodePod, read_pod, unreadable_pod
from slicewright.kubeapi.client import path_of

BOUND: Final = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
"""Field selector. Such a watch says DELETED when a pod ends."""


class BoundPods(Collection[NodePod]):
    """The pods that are bound to nodes. Thread-safe, as its base.

    Static pods and pods of DaemonSets are kept only if they use GPUs or bring NVIDIA's driver, and
    device plugins apart from them. The controller needs no others.
    """

    def __init__(self, changed: threading.Event) -> None:
        pods = path_of("v1", "pods")
        super().__init__(
            pods, _read, changed, self._is_news, field_selector=BOUND, stand_in=unreadable_pod
        )
        self._on: dict[str, dict[str, NodePod]] = {}
        self._gpu_pods: dict[str, set[str]] = {}
        """Node -> paths of the pods that request its GPUs. Each decision needs their number, and
        most pods of a cluster request none.
        """
        self._watched_nodes: frozenset[str] = frozenset()
        self._schedulers: dict[str, NodePod] = {}
        """The schedulers of engines for fractions."""
        self._plugins: dict[str, NodePod] = {}
        """The device plugins for NVIDIA's GPUs, by path."""

    def pods_on(self, node: str) -> tuple[NodePod, ...]:
        with self._lock:
            return tuple(self._on.get(node, {}).values())

    def schedulers(self) -> tuple[NodePod, ...]:
        """The running schedulers of engines that share GPUs by fractions."""
        with self._lock:
            return tuple(self._schedulers.values())

    def plugins(self) -> tuple[NodePod, ...]:
        """The pods of DaemonSets that register NVIDIA's GPUs with the kubelet."""
        with self._lock:
            return tuple(self._plugins.values())

    def with_gpus(self) -> dict[str, int]:
        """Node -> number of pods that request its GPUs, without those of the project itself."""
        with self._lock:
            return {node: len(paths) for node, paths in self._gpu_pods.items()}

    def ask_about(self, nodes: Iterable[str]) -> None:
        """Limits news to these nodes: from now on, only changes on them wake the controller."""
        self._watched_nodes = frozenset(nodes)

    def _is_news(self, old: NodePod | None, new: NodePod | None) -> bool:
        return old != new and any(
            pod is not None and (pod.node in self._watched_nodes or pod.scheduler_started)
            for pod in (old, new)
        )

    def _stored(self, old: NodePod | None, new: NodePod | None) -> None:
        if old is not None:
            self._forget(old)
        if new is not None:
            self._remember(new)

    def _replaced(self) -> None:
        self._on, self._gpu_pods, self._schedulers, self._plugins = {}, {}, {}, {}
        for _, pod in self._items.values():
            self._remember(pod)

    def _remember(self, pod: NodePod) -> None:
        if pod.plugin:
            self._plugins[pod.path] = pod
        if not is_relevant(pod):
            return
        self._on.setdefault(pod.node, {})[pod.path] = pod
        if pod.gpus and pod.namespace != NAMESPACE:
            self._gpu_pods.setdefault(pod.node, set()).add(pod.path)
        if pod.scheduler_started:
            self._schedulers[pod.path] = pod

    def _forget(self, pod: NodePod) -> None:
        self._plugins.pop(pod.path, None)
        if not is_relevant(pod):
            return
        pods = self._on[pod.node]
        del pods[pod.path]
        if not pods:
            del self._on[pod.node]
        if paths := self._gpu_pods.get(pod.node):
            paths.discard(pod.path)
            if not paths:
                del self._gpu_pods[pod.node]
        self._schedulers.pop(pod.path, None)


class Nodes(Collection[Node]):
    """All nodes, with a record of nodes that were ever seen without the startup taint."""

    def __init__(self, changed: threading.Event) -> None:
        super().__init__(path_of("v1", "nodes"), read_node, changed, news.node_is_news)
        self._open: set[str] = set()
        """UIDs of nodes that have been without it, as far as this process knows."""

    def was_open(self, node: Node) -> bool:
        """True if the node was ever seen without its taint, as far as this process knows.

        This process lists pods after nodes, so its first lists have all pods on nodes that an
        earlier process tainted.
        """
        with self._lock:
            return node.uid in self._open

    def _stored(self, old: Node | None, new: Node | None) -> None:
        if new is not None:
            if not new.held:
                self._open.add(new.uid)
        elif old is not None:
            self._open.discard(old.uid)

    def _replaced(self) -> None:
        nodes = [node for _, node in self._items.values()]
        self._open &= {node.uid for node in nodes}
        self._open |= {node.uid for node in nodes if not node.held}


def must_list(node: Node, watched: Iterable[NodePod], *, was_open: bool) -> bool:
    """True if the watch is not enough to know the node's pods. Pure.

    That is so if operands may be restarted, because no watch has those. It is also so if the node
    is held and seems empty, but was open to pods, as was every node that has been verified.
    """
    change = change_of(node)
    if node.stuck or (change is not None and change.phase == "Upgrading"):
        return True
    open_once = was_open or bool(node.verified_boot)
    return node.held and open_once and not any(pod.gpus for pod in watched)


def is_relevant(pod: NodePod) -> bool:
    """True if the pod can be in the way of anything (see `drain`), or brings the driver. Pure."""
    return pod.gpus or bool(pod.driver) or not (pod.daemon_set or pod.static)


def _read(raw: Mapping[str, Any]) -> NodePod | None:
    pod = read_pod(raw)
    return pod if is_relevant(pod) or pod.plugin else None
