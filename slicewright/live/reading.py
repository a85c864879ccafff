"""What is read of a cluster for its status. Lists are paged: a Node is some 15 kB."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fleet_controller.api import API_VERSION, NAMESPACE, POOL_PLURAL, REPORT_PLURAL
from fleet_controller.membership import memberships
from fleet_controller.rollout import needs_pods
from fleet_controller.state import Node, Pool, Report, read_node, read_pool, read_report
from fleet_controller.waiting_pods import waits_for
from kubeapi import ApiError, Client
from kubeapi.client import path_of

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
    """What could not be read, and why: the rest is shown without it."""


PodsOf = Callable[[Sequence[Pool], Sequence[Node]], Sequence[str]]
"""Names of the nodes whose pods are needed."""


def read(client: Client, *, pods_of: PodsOf) -> Found:
    """pods_of: names of the nodes whose pods are read, `drained` for instance.

    Raises NotInstalled, ApiError or Unreachable.
    """
    raw_pools = _listed(client, path_of(API_VERSION, POOL_PLURAL))
    pools = tuple(map(read_pool, raw_pools))
    nodes = tuple(map(read_node, _all(client, path_of("v1", "nodes"))))
    raw_reports = list(_all(client, path_of(API_VERSION, REPORT_PLURAL)))
    unread: list[str] = []
    pods = _pods(client, pods_of(pools, nodes), unread)
    controller = _controller(client, unread)
    return Found(
        pools=pools,
        most={
            raw["metadata"]["name"]: int(raw["spec"]["expectedNodes"]["max"]) for raw in raw_pools
        },
        nodes=nodes,
        reports={report.name: report for report in map(read_report, raw_reports)},
        gpus={raw["metadata"]["name"]: raw.get("report") or {} for raw in raw_reports},
        pods=pods,
        budgets=_budgets(client, pods, unread),
        controller=controller,
        controller_waits=_controller_waits(client) if controller == 0 else "",
        unread=tuple(dict.fromkeys(unread)),
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


def _all(client: Client, path: str, **query: str) -> Iterator[Raw]:
    more = ""
    while True:
        asked = {**query, "limit": _PAGE, **({"continue": more} if more else {})}
        page = client.get(path, **asked)
        yield from page.get("items") or ()
        more = (page.get("metadata") or {}).get("continue", "")
        if not more:
            return


def _pods(client: Client, names: Sequence[str], unread: list[str]) -> dict[str, tuple[Raw, ...]]:
    """By node. One list for all of them where there are many."""
    living = "status.phase!=Succeeded,status.phase!=Failed"
    path = path_of("v1", "pods")
    try:
        if len(names) <= _FEW_NODES:
            return {
                name: tuple(_all(client, path, fieldSelector=f"spec.nodeName={name},{living}"))
                for name in names
            }
        found: dict[str, list[Raw]] = {name: [] for name in names}
        for pod in _all(client, path, fieldSelector=living):
            if (node := pod["spec"].get("nodeName")) in found:
                found[node].append(pod)
        return {name: tuple(there) for name, there in found.items()}
    except ApiError as e:
        if e.status != 403:
            raise
        unread.append("pods: you may not list them, so those that hold a node are not shown")
        return {}


def _budgets(
    client: Client, pods: Mapping[str, tuple[Raw, ...]], unread: list[str]
) -> tuple[Raw, ...]:
    namespaces = sorted({pod["metadata"]["namespace"] for there in pods.values() for pod in there})
    found: list[Raw] = []
    for namespace in namespaces:
        path = path_of("policy/v1", "poddisruptionbudgets", namespace=namespace)
        try:
            found += _all(client, path)
        except ApiError as e:
            if e.status != 403:
                raise
            unread.append(f"disruption budgets in namespace {namespace}: you may not list them")
    return tuple(found)


def _controller(client: Client, unread: list[str]) -> int | None:
    try:
        found = client.get(path_of("apps/v1", "deployments", _CONTROLLER, NAMESPACE))
    except ApiError as e:
        if e.status == 404:
            return 0
        if e.status != 403:
            raise
        unread.append(
            f"the fleet controller's Deployment in namespace {NAMESPACE}: you may not read it"
        )
        return None
    return int((found.get("status") or {}).get("availableReplicas") or 0)


def _controller_waits(client: Client) -> str:
    """What the controller's pods wait for. Empty: nothing, or they may not be listed."""
    path = path_of("v1", "pods", namespace=NAMESPACE)
    selector = f"app.kubernetes.io/name={_CONTROLLER}"
    try:
        pods = list(_all(client, path, labelSelector=selector))
    except ApiError as e:
        if e.status != 403:
            raise
        return ""
    return next((why for pod in pods if (why := waits_for(pod))), "")
