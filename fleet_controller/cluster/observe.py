"""The state of the cluster in memory, kept current by lists and watches."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any

from slicewright.apis.names import (
    API_VERSION,
    CLUSTER_POLICY_API,
    CLUSTER_POLICY_PLURAL,
    EVENTS_NAMESPACE,
    NAMESPACE,
    POOL_KIND,
    POOL_PLURAL,
    PROOF_POD_SELECTOR,
    REPORT_PLURAL,
)
from slicewright.fleet_controller.cluster import news
from slicewright.fleet_controller.cluster.bound_pods import BoundPods, Nodes, must_list
from slicewright.fleet_controller.cluster.collection import Collection, error_text
from slicewright.fleet_controller.cluster.operands import (
    may_be_operand,
    namespaces_of,
    without_forged_labels,
)
from slicewright.fleet_controller.nodes import waiting_pods
from slicewright.fleet_controller.nodes.absent_agents import AGENT_SELECTOR
from slicewright.fleet_controller.nodes.absent_operands import OPERAND_SELECTOR
from slicewright.fleet_controller.objects.bounds import UNREADABLE
from slicewright.fleet_controller.objects.layout_change import change_of
from slicewright.fleet_controller.objects.node import Node
from slicewright.fleet_controller.objects.node_pods import (
    NodePod,
    driver_tag,
    read_pod,
    unreadable_pod,
)
from slicewright.fleet_controller.objects.pool import Pool, read_pool, unreadable_pool
from slicewright.fleet_controller.objects.proof_pod import ProofPod, read_proof_pod
from slicewright.fleet_controller.objects.report import Report, read_report, unreadable_report
from slicewright.fleet_controller.objects.warning_event import WarningEvent, read_warning
from slicewright.kubeapi import ApiError, Client, JsonObject, Unreachable, list_all
from slicewright.kubeapi.client import path_of
from slicewright.telemetry import log

EVENT_SOURCE = "slicewright-fleet-controller"
FEW_NODES = 10
"""Most nodes whose pods are listed one by one. A list of all pods is cheaper for more."""
_OPERATOR_KNOWN_S = 300.0
"""Time before the controller asks again which namespace the GPU operator is in."""


def _readable_warning(raw: JsonObject) -> WarningEvent | None:
    try:
        return read_warning(raw)
    except UNREADABLE:
        return None


@dataclass
class Cluster:
    """Nodes, pools, reports and pods, and the objects that are read on demand."""

    client: Client
    changed: threading.Event
    """Set whenever one of the collections changed."""
    nodes: Nodes
    pools: Collection[Pool]
    reports: Collection[Report]
    bound: BoundPods
    _operator: tuple[float, frozenset[str] | None] | None = field(default=None, init=False)
    """Time of the last look for the operands' namespaces (`operands.namespaces_of`), and the
    answer.
    """

    @classmethod
    def for_client(cls, client: Client) -> Cluster:
        changed = threading.Event()
        return cls(
            client=client,
            changed=changed,
            nodes=Nodes(changed),
            pools=Collection(
                path_of(API_VERSION, POOL_PLURAL),
                read_pool,
                changed,
                stand_in=unreadable_pool,
                two_lists=True,
            ),
            reports=Collection(
                path_of(API_VERSION, REPORT_PLURAL),
                read_report,
                changed,
                news.report_is_news,
                stand_in=unreadable_report,
            ),
            bound=BoundPods(changed),
        )

    def followed(self) -> Iterator[Collection[Any]]:
        """Yields pods after nodes: all pods have reached a node that is listed with its taint."""
        yield from (self.pools, self.nodes, self.reports, self.bound)

    def follow(self, stop: threading.Event) -> None:
        """Starts one daemon thread per collection."""
        for collection in self.followed():
            collection.thread = threading.Thread(
                target=collection.follow,
                args=(self.client, stop),
                name=collection.path,
                daemon=True,
            )
            collection.thread.start()

    def list_again(self) -> None:
        """Lists all objects again, regardless of the watches. Raises ApiError or Unreachable."""
        for collection in self.followed():
            collection.list_again(self.client)

    def ended(self) -> str | None:
        """Returns a collection that is not followed any more, for good, or None."""
        for collection in self.followed():
            if collection.thread and not collection.thread.is_alive():
                return f"the thread that follows {collection.path} has ended"
        return None

    def incomplete(self) -> str | None:
        """Returns a collection that has not been listed yet, and why, or None."""
        for collection in self.followed():
            if not collection.listed.is_set():
                return f"{collection.path} not listed yet" + (
                    f": {collection.error}" if collection.error else ""
                )
        return None

    def outdated(self) -> str | None:
        """Returns a collection that may be out of date, and why, or None."""
        return next((why for each in self.followed() if (why := each.outdated())), None)

    def unreadable(self) -> dict[str, dict[str, str]]:
        """Returns the objects that cannot be read at present: kind -> name -> why."""
        return {
            "GPUPool": self.pools.unreadable(),
            "Node": self.nodes.unreadable(),
            "GPUNodeReport": self.reports.unreadable(),
            "Pod": self.bound.unreadable(),
        }

    def warnings(self) -> dict[str, WarningEvent]:
        """Returns the controller's Warning Events, by name. Other writers' Events are skipped.

        Raises ApiError or Unreachable.
        """
        path = path_of("v1", "events", namespace=EVENTS_NAMESPACE)
        selector = f"involvedObject.kind={POOL_KIND},source={EVENT_SOURCE},type=Warning"
        # In pages: there may be twenty for each pool.
        events = list_all(self.client, path, keep=_readable_warning, fieldSelector=selector).items
        return {event.name: event for event in events if event is not None}

    def agent_pods(self) -> list[JsonObject]:
        """Returns the agents' pods of all pools. Raises ApiError or Unreachable."""
        path = path_of("v1", "pods", namespace=NAMESPACE)
        # In pages, with only the needed parts: a large fleet has thousands.
        return list(
            list_all(self.client, path, keep=waiting_pods.trim, labelSelector=AGENT_SELECTOR).items
        )

    def proof_pods(self) -> dict[str, ProofPod]:
        """Returns node -> the pod that proves it. Raises ApiError or Unreachable."""
        path = path_of("v1", "pods", namespace=NAMESPACE)
        listed = list_all(
            self.client, path, keep=_readable_proof_pod, labelSelector=PROOF_POD_SELECTOR
        ).items
        return {pod.node: pod for pod in listed if pod is not None}

    def daemon_set_warnings(self) -> list[JsonObject]:
        """Returns Warning Events about the agents' DaemonSets. Raises ApiError or Unreachable."""
        path = path_of("v1", "events", namespace=NAMESPACE)
        selector = "involvedObject.kind=DaemonSet,type=Warning"
        return list(self.client.get(path, fieldSelector=selector).get("items") or ())

    def cluster_policies(self) -> list[JsonObject]:
        """Returns the ClusterPolicies of NVIDIA's GPU operator, or none if the cluster has no
        operator.

        Raises ApiError or Unreachable.
        """
        try:
            listed = self.client.get(path_of(CLUSTER_POLICY_API, CLUSTER_POLICY_PLURAL))
        except ApiError as e:
            if e.status != 404:
                raise
            listed = {}
        policies = list(listed.get("items") or ())
        self._operator = (time.monotonic(), namespaces_of(policies))
        return policies

    def waiting_operands(self, nodes: AbstractSet[str]) -> list[JsonObject]:
        """Returns NVIDIA's operands that wait for something, on these nodes or bound to none.

        For many nodes it returns those on all nodes. Called after `cluster_policies`, which tells
        the namespace of the operands. Raises ApiError or Unreachable.
        """
        namespaces = self._operator[1] if self._operator else None
        everywhere = [None] if namespaces is None else sorted(namespaces)
        return [pod for name in everywhere for pod in self._waiting_in(name, nodes)]

    def _waiting_in(self, namespace: str | None, nodes: AbstractSet[str]) -> list[JsonObject]:
        """namespace: None for all."""
        pods = path_of("v1", "pods", namespace=namespace)
        if len(nodes) > FEW_NODES:
            # In pages, and almost nothing of them is stored: a large fleet has tens of thousands.
            waiting = list_all(
                self.client, pods, keep=waiting_pods.trim_waiting, labelSelector=OPERAND_SELECTOR
            ).items
            return [pod for pod in waiting if pod is not None]
        operands: list[JsonObject] = []
        for node in ("", *nodes):
            # The API server answers this from its index by node, and its memory.
            listed = self.client.get(
                pods,
                labelSelector=OPERAND_SELECTOR,
                fieldSelector=f"spec.nodeName={node}",
                resourceVersion="0",
            )
            operands += [pod for pod in listed.get("items") or () if waiting_pods.waits_for(pod)]
        return operands

    def pods(self, node: Node) -> tuple[NodePod, ...]:
        """Returns a node's pods that have not ended, as the watch has shown them.

        If the watch may be behind and that matters, they come from a list. Raises ApiError or
        Unreachable.
        """
        pods = self.bound.pods_on(node.name)
        if must_list(node, pods, was_open=self.nodes.was_open(node)):
            pods = self._listed(node.name)
        if any(map(may_be_operand, pods)):
            namespaces = self._operator_namespaces()
            pods = tuple(without_forged_labels(pod, namespaces) for pod in pods)
        change = change_of(node)
        if change is None or change.phase != "Upgrading":
            return pods
        return tuple(
            replace(pod, next_driver=self._next_driver(pod)) if pod.driver else pod for pod in pods
        )

    def other_plugins(self, nodes: AbstractSet[str]) -> dict[str, str]:
        """Returns node -> namespace and name of a DaemonSet of others that registers its GPUs."""
        plugins = [pod for pod in self.bound.plugins() if pod.node in nodes]
        if not plugins:
            return {}
        try:
            operators = self._operator_namespaces()
        except (ApiError, Unreachable):
            return {}  # it only makes messages clearer, and `cluster_policies` is asked again soon
        if operators is None:
            operators = frozenset()
        elif not operators:
            return {}  # the operator's own plugin cannot be told from that of others
        return {
            pod.node: f"{pod.namespace}/{pod.plugin}"
            for pod in sorted(plugins, key=lambda pod: pod.path, reverse=True)
            if pod.namespace not in operators
        }

    def _operator_namespaces(self) -> frozenset[str] | None:
        """Returns the namespaces of the GPU operator. Raises ApiError or Unreachable."""
        read_at, namespaces = self._operator or (float("-inf"), None)
        if time.monotonic() - read_at > _OPERATOR_KNOWN_S or namespaces == frozenset():
            self.cluster_policies()
        return self._operator[1] if self._operator else None

    def _next_driver(self, pod: NodePod) -> str:
        """Returns the driver's image tag in the DaemonSet of a driver pod, or empty if not known.

        Raises Unreachable.
        """
        path = path_of("apps/v1", "daemonsets", pod.owner, pod.namespace)
        try:
            template = self.client.get(path)["spec"]["template"]
        except ApiError as e:
            log.warning("cannot read the driver's DaemonSet", path=path, error=error_text(e))
            return ""
        return driver_tag(template["spec"])

    def _listed(self, node: str) -> tuple[NodePod, ...]:
        selector = f"spec.nodeName={node},status.phase!=Succeeded,status.phase!=Failed"
        listed = self.client.get(path_of("v1", "pods"), fieldSelector=selector)
        return tuple(map(_readable_pod, listed.get("items") or ()))


def _readable_proof_pod(raw: JsonObject) -> ProofPod | None:
    try:
        return read_proof_pod(raw)
    except UNREADABLE:
        return None


def _readable_pod(raw: JsonObject) -> NodePod:
    try:
        return read_pod(raw)
    except UNREADABLE as e:
        return unreadable_pod(raw, type(e).__name__)
