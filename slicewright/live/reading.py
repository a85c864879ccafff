"""What is read of a cluster for its status. Lists are paged: a Node is some 15 kB."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fleet_controller.api import API_VERSION, NAMESPACE, POOL_PLURAL, REPORT_PLURAL
from fleet_controller.membership import memberships
from fleet_controller.rollout import needs_pods
from fleet_controller.state import Node, Pool, Report
from fleet_controller.waiting_pods import waits_for
from kubeapi import ApiError, Client, Unreachable
from kubeapi.client import path_of
from slicewright.live import objects
from slicewright.live.objects import UnreadObject

_PAGE = "500"
_FEW_NODES = 20
_CONTROLLER = "fleet-controller"

Raw = Mapping[str, Any]


class NotInstalled(Exception):
    """The cluster has no GPUPools."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """Objects of a cluster at one time."""

    pools: tuple[Pool, ...]
    most: Mapping[str, int]
    """Pool -> the most nodes that it may have."""
    nodes: tuple[Node, ...]
    reports: Mapping[str, Report]
    gpus: Mapping[str, Raw]
    """Node -> its report as it is, for what was found on its GPUs."""
    pods: Mapping[str, tuple[Raw, ...]]
    """Pods that have not ended, of the nodes that were asked for."""
    budgets: tuple[Raw, ...]
    """PodDisruptionBudgets of these pods' namespaces."""
    controller: int | None
    """Replicas of the fleet controller that are available; None where that is not known."""
    controller_waits: str = ""
    """What its pods wait for, where none is available; empty: nothing, or not known."""
    unread: tuple[str, ...]
    """What may not be read, and why: the rest is shown without it."""
    unread_objects: tuple[UnreadObject, ...] = ()
    """Objects that are left out, because they are not as they must be."""

    @property
    def unread_pools(self) -> frozenset[str]:
        """Names of GPUPools that are there, and cannot be read."""
        return frozenset(one.name for one in self.unread_objects if one.kind == objects.POOL.name)


PodsOf = Callable[[Sequence[Pool], Sequence[Node]], Sequence[str]]
"""Names of the nodes whose pods are needed."""


def read(client: Client, *, pods_of: PodsOf) -> Found:
    """pods_of: names of the nodes whose pods are read, `drained` for instance.

    Raises NotInstalled, ApiError or Unreachable.
    """
    raw_pools = _listed(client, path_of(API_VERSION, POOL_PLURAL))
    odd: list[UnreadObject] = []
    unread: list[str] = []
    pools = objects.pools(raw_pools, odd)
    nodes = tuple(objects.nodes(_all(client, path_of("v1", "nodes")), odd))
    reports = objects.reports(_all(client, path_of(API_VERSION, REPORT_PLURAL)), odd)
    known = tuple(pool for _, pool in pools)
    pods = _pods(client, pods_of(known, nodes), unread, odd)
    controller = _controller(client, unread, odd)
    return Found(
        pools=known,
        most={pool.name: raw["spec"]["expectedNodes"]["max"] for raw, pool in pools},
        nodes=nodes,
        reports={report.name: report for _, report in reports},
        gpus={report.name: raw["report"] for raw, report in reports},
        pods=pods,
        budgets=_budgets(client, pods, unread, odd),
        controller=controller,
        controller_waits=_controller_waits(client, odd) if controller == 0 else "",
        unread=tuple(dict.fromkeys(unread)),
        unread_objects=tuple(dict.fromkeys(odd)),
    )


def drained(pools: Sequence[Pool], nodes: Sequence[Node]) -> tuple[str, ...]:
    """Nodes whose next step depends on their pods."""
    return tuple(
        node.name
        for pool, members in memberships(pools, nodes)
        for node in members
        if needs_pods(node, pool)
    )


def _listed(client: Client, path: str) -> list[Raw]:
    try:
        return list(_all(client, path))
    except ApiError as e:
        if e.status == 404:
            raise NotInstalled from None
        raise


def _all(client: Client, path: str, **query: str) -> Iterator[Any]:
    """The items of all pages, whatever they are. Raises Unreachable for what is no list."""
    more = ""
    while True:
        asked = {**query, "limit": _PAGE, **({"continue": more} if more else {})}
        page = client.get(path, **asked)
        items, metadata = page.get("items", []), page.get("metadata", {})
        if not isinstance(items, list) or not isinstance(metadata, dict):
            raise Unreachable(f"what it answers to {path} is not a list of objects")
        yield from items
        before, more = more, metadata.get("continue") or ""
        if not isinstance(more, str) or more == before != "":
            raise Unreachable(f"the list that it answers to {path} does not end")
        if not more:
            return


def _pods(
    client: Client, names: Sequence[str], unread: list[str], odd: list[UnreadObject]
) -> dict[str, tuple[Raw, ...]]:
    """By node. One list for all of them where there are many."""
    living = "status.phase!=Succeeded,status.phase!=Failed"
    path = path_of("v1", "pods")
    try:
        if len(names) <= _FEW_NODES:
            return {
                name: tuple(objects.pods(_of_node(client, path, name, living), odd))
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
        unread.append("pods: you may not list them, so those that hold a node are not shown")
        return {}


def _of_node(client: Client, path: str, node: str, living: str) -> Iterator[Any]:
    return _all(client, path, fieldSelector=f"spec.nodeName={node},{living}")


def _budgets(
    client: Client,
    pods: Mapping[str, tuple[Raw, ...]],
    unread: list[str],
    odd: list[UnreadObject],
) -> tuple[Raw, ...]:
    namespaces = sorted({pod["metadata"]["namespace"] for there in pods.values() for pod in there})
    read: list[Raw] = []
    for namespace in namespaces:
        path = path_of("policy/v1", "poddisruptionbudgets", namespace=namespace)
        try:
            read += objects.budgets(_all(client, path), odd)
        except ApiError as e:
            if e.status != 403:
                raise
            unread.append(f"disruption budgets in namespace {namespace}: you may not list them")
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
            f"the fleet controller's Deployment in namespace {NAMESPACE}: you may not read it"
        )
        return None
    kind = objects.DEPLOYMENT
    named = {**deployment, "metadata": {"namespace": NAMESPACE, "name": _CONTROLLER}}
    for raw, _ in objects.readable(kind, [named], lambda raw: raw, odd):
        return int((raw.get("status") or {}).get("availableReplicas") or 0)
    return None


def _controller_waits(client: Client, odd: list[UnreadObject]) -> str:
    """What the controller's pods wait for. Empty: nothing, or they may not be listed."""
    path = path_of("v1", "pods", namespace=NAMESPACE)
    selector = f"app.kubernetes.io/name={_CONTROLLER}"
    try:
        pods = list(objects.pods(_all(client, path, labelSelector=selector), odd))
    except ApiError as e:
        if e.status != 403:
            raise
        return ""
    return next((why for pod in pods if (why := waits_for(pod))), "")
