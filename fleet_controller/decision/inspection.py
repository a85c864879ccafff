"""The nodes that a pass has to know more about before it decides. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from slicewright.fleet_controller.membership.membership import Present, memberships
from slicewright.fleet_controller.membership.release import to_disable
from slicewright.fleet_controller.nodes.assess import REPORT_AGE_LIMIT_S
from slicewright.fleet_controller.nodes.watchdog import due
from slicewright.fleet_controller.objects.node import Node
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.fleet_controller.objects.report import Report
from slicewright.fleet_controller.pools.status import EXAMPLES
from slicewright.fleet_controller.rollout.rollout import needs_pods


def present_members(
    pools: Sequence[Pool], nodes: Sequence[Node], present: Present | None
) -> Present:
    return memberships(pools, nodes) if present is None else present


def to_inspect(
    pools: Sequence[Pool], nodes: Sequence[Node], now: float, *, present: Present | None = None
) -> tuple[str, ...]:
    """Returns the nodes whose next step depends on their pods, each once.

    present: as in `decide`.
    """
    changing = (
        node.name
        for pool, members in present_members(pools, nodes, present)
        for node in members
        if needs_pods(node, pool)
    )
    return tuple(dict.fromkeys((*changing, *to_disable(pools, nodes), *due(pools, nodes, now))))


def to_prove(present: Present) -> Iterator[str]:
    """Yields the held nodes that an agent, or a pod, is to prove."""
    for pool, members in present:
        if pool.computes or pool.proof_pod:
            yield from (node.name for node in members if node.held)


def silent_agents(
    pools: Sequence[Pool],
    nodes: Sequence[Node],
    reports: Mapping[str, Report],
    now: float,
    *,
    present: Present | None = None,
) -> dict[str, str]:
    """Returns node -> its agents' DaemonSet, for nodes whose agent has never reported, or not for
    too long.

    present: as in `decide`.
    """
    return {
        node.name: _daemon_set(pool, node)
        for pool, members in present_members(pools, nodes, present)
        for node in members
        if node.name not in reports or now >= reports[node.name].time + REPORT_AGE_LIMIT_S
    }


def _daemon_set(pool: Pool, node: Node) -> str:
    """Each boot layout of a pool has a DaemonSet of its own."""
    parts = ["node-agent", pool.name, *([node.boot_layout] if pool.boot_layout else [])]
    return "-".join(filter(None, parts))


class UnverifiedNodes(NamedTuple):
    """Nodes that were not verified when last assessed."""

    examples: tuple[Node, ...]
    """The first few nodes of each pool. Their messages stand for the others."""
    remaining: tuple[Node, ...]


def unverified_nodes(
    pools: Sequence[Pool], nodes: Sequence[Node], *, present: Present | None = None
) -> UnverifiedNodes:
    """Returns the nodes that were not verified when last assessed.

    present: as in `decide`.
    """
    examples: list[Node] = []
    remaining: list[Node] = []
    for _, members in present_members(pools, nodes, present):
        waiting = [m for m in members if m.condition is None or m.condition.status != "True"]
        examples += waiting[:EXAMPLES]
        remaining += waiting[EXAMPLES:]
    return UnverifiedNodes(examples=tuple(examples), remaining=tuple(remaining))
