"""Explains why a node's agent does not report: its pod waits, or does not exist. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slicewright.fleet_controller.nodes.waiting_pods import Object, node_of, waits_for
from slicewright.telemetry.plain import plain

AGENT_SELECTOR = "app.kubernetes.io/name=node-agent"
_LONGEST = 600
"""Longest answer in characters. It becomes part of a condition."""


def reasons(
    daemon_set_of: Mapping[str, str], pods: Sequence[Object], events: Sequence[Object]
) -> dict[str, str]:
    """Returns node -> why its agent does not report, for nodes with a known cause.

    daemon_set_of: the agents' DaemonSet of each node that has no report.
    pods: all agents' pods.
    events: Warning Events about DaemonSets in the agents' namespace.
    """
    by_node = {node_of(pod): pod for pod in pods}
    refused = _newest(events)
    causes = {}
    for node, daemon_set in daemon_set_of.items():
        pod = by_node.get(node)
        why = refused.get(daemon_set) if pod is None else waits_for(pod)
        if why:
            # Repeated in conditions and events, which people read in terminals.
            causes[node] = plain(why)[:_LONGEST]
    return causes


def _newest(events: Sequence[Object]) -> dict[str, str]:
    """Returns DaemonSet -> its newest Warning."""
    ordered = sorted(events, key=lambda e: str(e.get("lastTimestamp") or e.get("eventTime") or ""))
    return {
        e["involvedObject"]["name"]: f"{e.get('reason', '')}: {e.get('message', '')}"
        for e in ordered
        if e["involvedObject"].get("kind") == "DaemonSet"
    }
