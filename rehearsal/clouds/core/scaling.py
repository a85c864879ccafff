"""What an autoscaler decides: which groups of nodes to make larger for the pods that wait. Pure.

Source: kubernetes/autoscaler, cluster-autoscaler/FAQ.md; GKE's "About GKE cluster autoscaling".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.pod_fit import STARTUP_TAINTS, SchedulableNode, placed


@dataclass(frozen=True, kw_only=True)
class Group:
    """What an autoscaler makes larger: the nodes of one pool in one zone, or of a node group."""

    pool: str
    """GKE's full resource name, EKS's key of a node group."""
    zone: str
    """Empty where the cloud chooses it, as an Auto Scaling group does."""
    node: SchedulableNode
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


@dataclass(frozen=True, kw_only=True)
class ScaleUp:
    """The nodes to add to one group."""

    pool: str
    zone: str
    size: int
    """Nodes of the group before."""
    added: int
    limit: int | None
    """The most nodes that the group may have."""
    pods: tuple[JsonObject, ...]
    """The pods that are to run on the added nodes."""


def scale_up(
    pods: Sequence[JsonObject], groups: Sequence[Group], limits: Mapping[str, Limits]
) -> Sequence[ScaleUp]:
    """The nodes to add, so that each pod is scheduled that can be.

    Nodes that are still joining count as if they were there. Of several groups that would do, the
    one with the smallest nodes is taken, and in it the zone with the fewest.
    """
    nodes = [group.node for group in groups for _ in range(group.joining)]
    joining = len(nodes)
    new: list[Group] = []
    """The groups of the added nodes, which follow those that are joining."""
    added: Counter[tuple[str, str]] = Counter()
    placed_pods: dict[tuple[str, str], list[JsonObject]] = {}
    for pod in pods:
        at = next(
            ((i, remaining) for i, node in enumerate(nodes) if (remaining := placed(pod, node))),
            None,
        )
        if at is not None:
            nodes[at[0]] = at[1]
            if at[0] >= joining:
                group = new[at[0] - joining]
                placed_pods[group.pool, group.zone].append(pod)
            continue
        able = [
            (group, node)
            for group in groups
            if _may_grow(group, groups, limits[group.pool], added)
            and (node := placed(pod, group.node)) is not None
        ]
        if able:
            group, node = min(able, key=lambda a: _cost(a[0], added))
            added[group.pool, group.zone] += 1
            nodes.append(node)
            new.append(group)
            placed_pods.setdefault((group.pool, group.zone), []).append(pod)
    return [
        ScaleUp(
            pool=group.pool,
            zone=group.zone,
            size=group.size,
            added=added[group.pool, group.zone],
            limit=limits[group.pool].per_zone or limits[group.pool].total,
            pods=tuple(placed_pods[group.pool, group.zone]),
        )
        for group in groups
        if added[group.pool, group.zone]
    ]


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


def waiting(pods: Sequence[JsonObject]) -> list[JsonObject]:
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


def is_usable(node: JsonObject, *, accelerator: str) -> bool:
    """Whether it is as its group's nodes are to be: until then the autoscaler waits for it.

    accelerator: the label of the cloud's GPU nodes. Source: kubernetes/autoscaler, utils/gpu and
    autoscaler #8095: a node with it and without nvidia.com/gpu is not ready yet.
    """
    status = node["status"]
    ready = any(
        c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or ()
    )
    starting = any(t["key"].startswith(STARTUP_TAINTS) for t in node["spec"].get("taints") or ())
    gpu = accelerator in node["metadata"]["labels"]
    has_gpus = status["allocatable"].get("nvidia.com/gpu", "0") != "0"
    return ready and not starting and (has_gpus or not gpu)
