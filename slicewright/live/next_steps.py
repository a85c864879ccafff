"""What to do next, by the reason that the controller or an agent gives. Pure.

The agents' reasons have their next step in the message itself (docs/reference/reasons.md); here are
those that have none there, or one that a change of the layout makes wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NODE: Final[Mapping[str, str]] = {
    "ChangeHeldByPods": "end or move the pods that hold the node, or raise their disruption "
    "budget; or `slicewright rollout abort {pool}`",
    "DriverUpgradeFailed": "read the log of the nvidia-driver-daemonset pod on the node; repair "
    "the node, delete its instance in the cloud, or write another gpu_operator.driver.version",
    "DrainTimedOut": "end the pods that hold the node, and the change goes on by itself; or "
    "`slicewright rollout abort {pool}`",
    "ChangeFailed": "repair the node, or delete it in the cloud",
    "NoReport": "`kubectl -n slicewright-system get pods -o wide -l "
    "app.kubernetes.io/name=node-agent` shows the node's agent; read its log",
    "ReportTooOld": "read the log of the node's agent: `kubectl -n slicewright-system logs -l "
    "app.kubernetes.io/name=node-agent --prefix`",
    "NodeNotReady": "`kubectl describe node {node}`: its condition Ready says why",
    "ReportFromEarlierBoot": "nothing: it is verified again when its agent has looked",
    "WaitsForItsTurn": "nothing: its turn comes",
    "Draining": "nothing: its pods are leaving",
    "InChange": "nothing: the next step comes by itself",
}
"""Reason of a node's condition -> what to do; `{pool}` and `{node}` are names."""

POOL: Final[Mapping[str, str]] = {
    "TooFewNodes": "see why no node joins: the node pool in the cloud (quota, stock, its events), "
    "or in an existing cluster the labels of `select`; then `kubectl wait gpupool {pool} "
    "--for=condition=Verified`, and `pulumi up`",
    "WaitingForNodes": "see why no node joins: the node pool in the cloud (quota, stock, its "
    "events), or in an existing cluster the labels of `select`",
    "RolloutPaused": "`slicewright rollout resume {pool}`",
    "RolloutAborted": "`slicewright rollout resume {pool}` to go on",
    "RolloutUndone": "write the layout that the nodes have into the stack file and run `pulumi "
    "up`; or change forward again: `slicewright rollout resume {pool}`",
    "RolloutBlocked": "uncordon the nodes that it names, or raise `max_unavailable`",
    "RolloutStopped": "mend the nodes that it names, or bring them back into service",
}
"""Reason of a pool's condition -> what to do."""

UNDO: Final[Mapping[str, str]] = {
    "ChangeFailed": "; or go back to the layout before: `slicewright rollout undo {pool}`",
    "RolloutAborted": "; `slicewright rollout undo {pool}` to take back what has changed",
    "RolloutStopped": "; or go back to the layout before: `slicewright rollout undo {pool}`",
}
"""Reason -> what can be done besides, where somebody has begun a change that can be undone."""


def of_node(reason: str, *, node: str, pool: str, undo: bool = False) -> str:
    """Empty where the message says it. undo: whether the pool's change can be undone."""
    step = NODE.get(reason, "") + (UNDO.get(reason, "") if undo else "")
    return step.format(node=node, pool=pool)


def of_pool(reason: str, *, pool: str, undo: bool = False) -> str:
    """Empty where there is nothing but what its nodes need. undo: as in `of_node`."""
    return (POOL.get(reason, "") + (UNDO.get(reason, "") if undo else "")).format(pool=pool)
