"""Which programs of a cluster's nodes are forks of a few processes, instead of started each by
itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from slicewright.kubeapi import JsonObject

Starts = Literal["own", "forked", "by size"]
VARIABLE: Final = "SLICEWRIGHT_REHEARSAL_NODE_PROGRAMS"
"""Chooses it for all clusters of an environment."""
MOST_STARTED: Final = 16
"""GPU nodes of a cluster up to which every program is started by itself, as on nodes that exist."""


def mode_of(environment: Mapping[str, str]) -> Starts:
    """Raises ValueError."""
    match environment.get(VARIABLE) or "":
        case "":
            return "by size"
        case "own":
            return "own"
        case "forked":
            return "forked"
        case other:
            raise ValueError(f"{VARIABLE}={other}: must be own or forked")


def is_forked(pod: JsonObject, nodes: int, mode: Starts) -> bool:
    """Whether the programs of this pod are forks. nodes: of its cluster with GPUs, at this moment.

    Only pods of DaemonSets: they are the part of a cluster that grows with its nodes.
    """
    if mode == "own" or not of_daemon_set(pod):
        return False
    return mode == "forked" or nodes > MOST_STARTED


def of_daemon_set(pod: JsonObject) -> bool:
    """Whether each node has such a pod, so that there may be hundreds."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return any(owner["kind"] == "DaemonSet" for owner in owners)
