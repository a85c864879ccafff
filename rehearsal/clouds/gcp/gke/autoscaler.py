"""GKE's cluster autoscaler, as far as it adds nodes: for pods that fit on no node that there is.

It removes none: idle nodes stay. Source: GKE's "About GKE cluster autoscaling".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from kubeapi import JsonObject
from rehearsal.clouds.core.context import Context
from rehearsal.clouds.core.node_api import NodeApi
from rehearsal.clouds.core.pod_fit import STARTUP_TAINTS, Room, placed, room_of
from rehearsal.clouds.gcp.gke.node_pools import NodePools
from rehearsal.clouds.gcp.gke.nodes import advertised_gpus, counts_of, sample_node
from rehearsal.clouds.gcp.gke.provisioning import is_queued
from rehearsal.clouds.gcp.gke.records import pools_of
from rehearsal.clouds.gcp.state import CLUSTERS, NodePoolRecord


@dataclass(frozen=True, kw_only=True)
class Group:
    """The nodes of one pool in one zone, which is what the autoscaler makes larger."""

    pool: str
    """Its full resource name."""
    zone: str
    node: Room
    """One of its nodes, empty."""
    size: int
    """Nodes that it has, or is to have already."""
    joining: int
    """Of these, the ones that no pod can use yet."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How large a pool may become."""

    total: int | None
    """Nodes of all zones together."""
    per_zone: int | None


class Autoscaler:
    def __init__(self, context: Context, pools: NodePools) -> None:
        self._context = context
        self._pools = pools

    def look_around(self) -> None:
        for key, item in self._context.store.items(CLUSTERS):
            if item["cluster"]["status"] != "RUNNING":
                continue
            # A queued pool grows for ProvisioningRequests, which nobody makes here.
            pools = pools_of(self._context.store, key)
            scaled = [p for p in pools if limits_of(p) and not is_queued(p["pool"])]
            if scaled:
                api = self._context.planes.nodes(item["cluster"]["name"])
                self._look(scaled, api, project=key.split("/")[1])

    def _look(self, pools: Sequence[NodePoolRecord], api: NodeApi, *, project: str) -> None:
        pods = _waiting(api.listed("/api/v1/pods", fieldSelector="status.phase=Pending"))
        if not pods:
            return
        usable = {n["metadata"]["name"] for n in api.listed("/api/v1/nodes") if _is_usable(n)}
        groups = [g for pool in pools for g in groups_of(pool, usable, project=project)]
        limits = {p["key"]: limit for p in pools if (limit := limits_of(p))}
        added = scale_up(pods, groups, limits)
        for pool in pools:
            zones = {zone: n for (key, zone), n in added.items() if key == pool["key"]}
            if zones:
                self._pools.scale_up(pool["key"], zones)


def limits_of(item: NodePoolRecord) -> Limits | None:
    """None of a pool that is not autoscaled."""
    scaling = item["pool"].get("autoscaling") or {}
    if not scaling.get("enabled"):
        return None
    if "totalMaxNodeCount" in scaling:
        return Limits(total=int(scaling["totalMaxNodeCount"]), per_zone=None)
    return Limits(total=None, per_zone=int(scaling.get("maxNodeCount", 0)))


def groups_of(item: NodePoolRecord, usable: set[str], *, project: str) -> list[Group]:
    """usable: names of the nodes on which pods can run that want what the pool offers."""
    gpus = {"nvidia.com/gpu": Decimal(advertised_gpus(item["pool"]))}
    groups = []
    for zone, wanted in counts_of(item).items():
        names = [n["name"] for n in item["nodes"] if n["location"] == zone]
        size = max(wanted, len(names))
        groups.append(
            Group(
                pool=item["key"],
                zone=zone,
                node=room_of(sample_node(item, zone, project=project), gpus=gpus),
                size=size,
                joining=size - len(usable.intersection(names)),
            )
        )
    return groups


def scale_up(
    pods: Sequence[JsonObject], groups: Sequence[Group], limits: Mapping[str, Limits]
) -> Mapping[tuple[str, str], int]:
    """Pool and zone -> nodes to add, so that each pod has a place that can have one.

    Nodes that are still joining count as if they were there. Of several groups that would do, the
    one with the smallest nodes is taken, and in it the zone with the fewest.
    """
    rooms = [group.node for group in groups for _ in range(group.joining)]
    added: Counter[tuple[str, str]] = Counter()
    for pod in pods:
        at = next(((i, r) for i, room in enumerate(rooms) if (r := placed(pod, room))), None)
        if at is not None:
            rooms[at[0]] = at[1]
            continue
        able = [
            (group, room)
            for group in groups
            if _may_grow(group, groups, limits[group.pool], added)
            and (room := placed(pod, group.node)) is not None
        ]
        if able:
            group, room = min(able, key=lambda a: _cost(a[0], added))
            added[group.pool, group.zone] += 1
            rooms.append(room)
    return added


def _cost(group: Group, added: Mapping[tuple[str, str], int]) -> tuple[Decimal, Decimal, int]:
    free = group.node.free
    now = group.size + added.get((group.pool, group.zone), 0)
    return free.get("nvidia.com/gpu", Decimal(0)), free.get("cpu", Decimal(0)), now


def _may_grow(
    group: Group, groups: Sequence[Group], limits: Limits, added: Mapping[tuple[str, str], int]
) -> bool:
    together = [g for g in groups if g.pool == group.pool]
    size = {g.zone: g.size + added.get((g.pool, g.zone), 0) for g in together}
    return (limits.total is None or sum(size.values()) < limits.total) and (
        limits.per_zone is None or size[group.zone] < limits.per_zone
    )


def _waiting(pods: Sequence[JsonObject]) -> list[JsonObject]:
    """Those that the scheduler has given up for now; pods of DaemonSets are no reason to grow."""
    return sorted(
        (
            pod
            for pod in pods
            if not pod["spec"].get("nodeName")
            and any(
                c["type"] == "PodScheduled" and c.get("reason") == "Unschedulable"
                for c in (pod.get("status") or {}).get("conditions") or ()
            )
            and not any(
                o["kind"] == "DaemonSet" for o in pod["metadata"].get("ownerReferences") or ()
            )
        ),
        key=lambda pod: (pod["metadata"].get("namespace", ""), pod["metadata"]["name"]),
    )


def _is_usable(node: JsonObject) -> bool:
    """Whether it is as its group's nodes are to be: until then the autoscaler waits for it.

    Source: kubernetes/autoscaler, utils/gpu: a node with an accelerator's label and without GPUs is
    not ready yet.
    """
    status = node["status"]
    ready = any(
        c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or ()
    )
    starting = any(t["key"].startswith(STARTUP_TAINTS) for t in node["spec"].get("taints") or ())
    gpu = "cloud.google.com/gke-accelerator" in node["metadata"]["labels"]
    has_gpus = status["allocatable"].get("nvidia.com/gpu", "0") != "0"
    return ready and not starting and (has_gpus or not gpu)
