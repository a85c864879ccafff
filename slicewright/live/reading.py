"""Reads the objects of a cluster for its status. Lists are paged: a Node has about 15 kB."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slicewright.apis.names import API_VERSION, NAMESPACE, POOL_PLURAL, REPORT_PLURAL
from slicewright.fleet_controller.membership.membership import memberships
from slicewright.fleet_controller.nodes.waiting_pods import waits_for
from slicewright.fleet_controller.objects.node import Node
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.fleet_controller.objects.report import Report
from slicewright.fleet_controller.rollout.rollout import needs_pods
from slicewright.kubeapi import ApiError, Client, Unreachable
from slicewright.kubeapi.client import path_of
from slicewright.live import objects
from slicewright.live.objects import UnreadObject

_PAGE = "500"
_FEW_NODES = 20
_CONTROLLER = "fleet-controller"

Raw = Mapping[str, Any]


class NotInstalled(Exception):
    """The cluster has no GPUPools."""


@dataclass(frozen=True, kw_only=True)
class ClusterObjects:
    """Objects of a cluster at one time."""

    pools: tuple[Pool, ...]
    most: Mapping[str, int]
    """Pool -> the most nodes that it may have."""
    nodes: tuple[Node, ...]
    reports: Mapping[str, Report]
    gpus: Mapping[str, Raw]
    """Node -> its raw report, which lists its GPUs."""
    pods: Mapping[str, tuple[Raw, ...]]
    """Node -> its pods that have not ended, for the nodes from `pods_of`."""
    budgets: tuple[Raw, ...]
    """PodDisruptionBudgets of these pods' namespaces."""
    controller: int | None
    """Available replicas of the fleet controller; None if unknown."""
    controller_waits: str = ""
    """The reason why its pods wait, if none is available; empty if there is none, or unknown."""
    sharing: Mapping[str, tuple[Raw, ...]] = field(default_factory=dict)
    """Node -> its pods, for nodes whose GPUs an engine shares by fractions."""
    pending: tuple[Raw, ...] = ()
    """Pods that are bound to no node, if an engine shares GPUs."""
    unread: tuple[str, ...]
    """Messages about objects that may not be read; the rest is shown without them."""
    unread_objects: tuple[UnreadObject, ...] = ()
    """Malformed objects that are left out."""

    @property
    def unread_pools(self) -> frozenset[str]:
        """Names of GPUPools that exist and cannot be read."""
        return frozenset(
            item.name for item in self.unread_objects if item.kind == objects.POOL.name
        )


PodsOf = Callable[[Sequence[Pool], Sequence[Node]], Sequence[str]]
"""Returns the names of the nodes whose pods are needed."""


def read(client: Client, *, pods_of: PodsOf) -> ClusterObjects:
    """Reads the cluster; `pods_of` (for example `drained`) returns the nodes whose pods are read.

    Raises NotInstalled, ApiError or Unreachable.
    """
    raw_pools = _listed(client, path_of(API_VERSION, POOL_PLURAL))
    odd: list[UnreadObject] = []
    unread: list[str] = []
    pools = objects.pools(raw_pools, odd)
    nodes = tuple(objects.nodes(_all(client, path_of("v1", "nodes")), odd))
    reports = objects.reports(_all(client, path_of(API_VERSION, REPORT_PLURAL)), odd)
    read_pools = tuple(pool for _, pool in pools)
    pods = _pods(client, pods_of(read_pools, nodes), unread, odd)
    shared = _sharing_nodes(read_pools, nodes)
    controller = _controller(client, unread, odd)
    return ClusterObjects(
        pools=read_pools,
        most={pool.name: raw["spec"]["expectedNodes"]["max"] for raw, pool in pools},
        nodes=nodes,
        reports={report.name: report for _, report in reports},
        gpus={report.name: raw["report"] for raw, report in reports},
        pods=pods,
        budgets=_budgets(client, pods, unread, odd),
        controller=controller,
        controller_waits=_controller_waits(client, odd) if controller == 0 else "",
        sharing=_pods(client, shared, unread, odd) if shared else {},
        pending=_pending(client, odd) if shared else (),
        unread=tuple(dict.fromkeys(unread)),
        unread_objects=tuple(dict.fromkeys(odd)),
    )


def drained(pools: Sequence[Pool], nodes: Sequence[Node]) -> tuple[str, ...]:
    """Returns the nodes whose next step depends on their pods."""
    return tuple(
        node.name
        for pool, members in memberships(pools, nodes)
        for node in members
        if needs_pods(node, pool)
    )


def _sharing_nodes(pools: Sequence[Pool], nodes: Sequence[Node]) -> tuple[str, ...]:
    """Returns the nodes whose GPUs an engine shares by fractions."""
    return tuple(
        node.name
        for pool, members in memberships(pools, nodes)
        if pool.shares is not None
        for node in members
    )


def _pending(client: Client, odd: list[UnreadObject]) -> tuple[Raw, ...]:
    """Returns pods that wait for a node. Without the permission, bound pods are reported unread."""
    unbound = "spec.nodeName=,status.phase=Pending"
    try:
        return tuple(objects.pods(_all(client, path_of("v1", "pods"), fieldSelector=unbound), odd))
    except ApiError as e:
        if e.status != 403:
            raise
        return ()


def _listed(client: Client, path: str) -> list[Raw]:
    try:
        return list(_all(client, path))
    except ApiError as e:
        if e.status == 404:
            raise NotInstalled from None
        raise


def _all(client: Client, path: str, **query: str) -> Iterator[Any]:
    """Yields the unchecked items of all pages. Raises Unreachable if the answer is no list."""
    more = ""
    while True:
        parameters = {**query, "limit": _PAGE, **({"continue": more} if more else {})}
        page = client.get(path, **parameters)
        items, metadata = page.get("items", []), page.get("metadata", {})
        if not isinstance(items, list) or not isinstance(metadata, dict):
            raise Unreachable(f"the answer to {path} is not a list of objects")
        yield from items
        before, more = more, metadata.get("continue") or ""
        if not isinstance(more, str) or more == before != "":
            raise Unreachable(f"the answer to {path} is a list without end")
        if not more:
            return


def _pods(
    client: Client, names: Sequence[str], unread: list[str], odd: list[UnreadObject]
) -> dict[str, tuple[Raw, ...]]:
    """Returns pods by node, read with a single list if there are many nodes."""
    living = "status.phase!=Succeeded,status.phase!=Failed"
    path = path_of("v1", "pods")
    try:
        if len(names) <= _FEW_NODES:
            return {
                name: tuple(objects.pods(_pods_of_node(client, path, name, living), odd))
                for name in names
            }
        listed: dict[str, list[Raw]] = {name: [] for name in names}
        for pod in objects.pods(_all(client, path, fieldSelector=living), odd):
            if (node := pod["spec"].get("nodeName")) in listed:
                listed[node].append(pod)
        return {name: tuple(pods) for name, pods in listed.items()}
    except ApiError as e:
        if e.status != 403:
            raise
        unread.append("pods: no permission to list them, so blocking pods are not shown")
        return {}


def _pods_of_node(client: Client, path: str, node: str, living: str) -> Iterator[Any]:
    return _all(client, path, fieldSelector=f"spec.nodeName={node},{living}")


def _budgets(
    client: Client,
    pods: Mapping[str, tuple[Raw, ...]],
    unread: list[str],
    odd: list[UnreadObject],
) -> tuple[Raw, ...]:
    namespaces = sorted(
        {pod["metadata"]["namespace"] for node_pods in pods.values() for pod in node_pods}
    )
    read: list[Raw] = []
    for namespace in namespaces:
        path = path_of("policy/v1", "poddisruptionbudgets", namespace=namespace)
        try:
            read += objects.budgets(_all(client, path), odd)
        except ApiError as e:
            if e.status != 403:
                raise
            unread.append(
                f"disruption budgets in namespace {namespace}: no permission to list them"
            )
    return tuple(read)


def _controller(client: Client, unread: list[str], odd: list[UnreadObject]) -> int | None:
    try:
        deployment = client.get(path_of("apps/v1", "deployments", _CONTROLLER, NAMESPACE))
    except ApiError as e:
        if e.status == 404:
            return 0
        if e.status != 403:
            raise
        unread.append(
            f"the fleet controller's Deployment in namespace {NAMESPACE}: no permission to read it"
        )
        return None
    kind = objects.DEPLOYMENT
    named = {**deployment, "metadata": {"namespace": NAMESPACE, "name": _CONTROLLER}}
    for raw, _ in objects.readable(kind, [named], lambda raw: raw, odd):
        return int((raw.get("status") or {}).get("availableReplicas") or 0)
    return None


def _controller_waits(client: Client, odd: list[UnreadObject]) -> str:
    """Returns why the controller's pods wait; empty if they do not, or may not be listed."""
    path = path_of("v1", "pods", namespace=NAMESPACE)
    selector = f"app.kubernetes.io/name={_CONTROLLER}"
    try:
        pods = list(objects.pods(_all(client, path, labelSelector=selector), odd))
    except ApiError as e:
        if e.status != 403:
            raise
        return ""
    return next((why for pod in pods if (why := waits_for(pod))), "")
