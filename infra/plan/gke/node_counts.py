"""How many nodes a GKE pool has in each zone: GKE creates the same number in all of them."""

from __future__ import annotations

from slicewright.infra import stack_file
from slicewright.infra.plan.findings import Checked, refuse, rule
from slicewright.infra.plan.model.nodes import NodeCount

_MOST_PER_ZONE = 1000


def first_nodes(nodes: NodeCount, zones: int) -> int:
    """Nodes in each zone when the pool is created: together at least `nodes.min`."""
    return -(-nodes.min // zones)


@rule("gke-node-count")
def check_counts(nodes: stack_file.Nodes, zones: int, path: stack_file.Path) -> Checked[None]:
    """path: of `nodes`."""
    if isinstance(nodes, stack_file.Fixed):
        yield from _check_fixed(nodes.count, zones, path)
        key, count = "count", nodes.count
    else:
        yield from _check_autoscaled(nodes, zones, path)
        key, count = "max", nodes.max
    most = zones * _MOST_PER_ZONE
    if count > most:
        yield refuse(
            (*path, key),
            f"{count} nodes in {zones} zone{'s' if zones > 1 else ''}: a pool has at most "
            f"{_MOST_PER_ZONE} in each",
            f"write {most} or less, and make more pools",
            "GKE quotas and limits, nodes per node pool zone",
        )


@rule("gke-node-count-per-zone")
def _check_fixed(count: int, zones: int, path: stack_file.Path) -> Checked[None]:
    if count % zones:
        yield refuse(
            (*path, "count"),
            f"{count} node{'s' if count > 1 else ''} cannot be divided evenly among {zones} "
            "zones, and GKE counts nodes per zone",
            f"write a multiple of {zones}, for example {-(-count // zones) * zones}, or name "
            "fewer zones",
            "GKE API, NodePool.initialNodeCount",
        )


@rule("gke-autoscaled-count")
def _check_autoscaled(
    nodes: stack_file.Autoscaled, zones: int, path: stack_file.Path
) -> Checked[None]:
    """A new pool has `min` nodes or a few more, so that every zone has as many."""
    first = -(-nodes.min // zones) * zones
    if nodes.min <= nodes.max < first:
        yield refuse(
            (*path, "max"),
            f"GKE creates the same number of nodes in each zone: a pool with min: {nodes.min} "
            f"in {zones} zones begins with {first}, above max: {nodes.max}",
            f"write {first} or more, or name fewer zones",
            "GKE API, NodePool.initialNodeCount",
        )
