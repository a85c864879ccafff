"""Next steps for the user, by the reason of the controller or an agent. Pure.

Messages of agents include their next step (docs/reference/reasons.md). This module adds steps for
reasons without one, and for steps that a change of the layout makes wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from slicewright.apis.gpu_pool.rollout_policy import LIMIT_FIELD

NODE: Final[Mapping[str, str]] = {
    "ChangeHeldByPods": "end or move the pods that block the node, or raise their disruption "
    "budget; or run `slicewright rollout abort {pool}`",
    "DriverUpgradeFailed": "read the log of the nvidia-driver-daemonset pod on the node; repair "
    "the node, delete its instance in the cloud, or set another gpu_operator.driver.version",
    "DrainTimedOut": "end the pods that block the node, then the change continues; or run "
    "`slicewright rollout abort {pool}`",
    "ChangeFailed": "repair the node, or delete it in the cloud",
    "NoReport": "`kubectl -n slicewright-system get pods -o wide -l "
    "app.kubernetes.io/name=node-agent` shows the node's agent; read its log",
    "ReportTooOld": "read the log of the node's agent: `kubectl -n slicewright-system logs -l "
    "app.kubernetes.io/name=node-agent --prefix`",
    "NodeNotReady": "`kubectl describe node {node}`: the condition Ready has the reason",
    "ReportFromEarlierBoot": "nothing: the node is verified again after its agent's next report",
    "WaitsForItsTurn": "nothing: the node is in the queue",
    "Draining": "nothing: its pods are leaving",
    "InChange": "nothing: the next step follows automatically",
}
"""Reason of a node's condition -> next step. `{pool}` and `{node}` are names."""

POOL: Final[Mapping[str, str]] = {
    "TooFewNodes": "check why no node joins: the node pool in the cloud (quota, stock, events), "
    "or in an existing cluster the labels of `select`; then `kubectl wait gpupool {pool} "
    "--for=condition=Verified`, and `pulumi up`",
    "WaitingForNodes": "check why no node joins: the node pool in the cloud (quota, stock, "
    "events), or in an existing cluster the labels of `select`",
    "RolloutPaused": "`slicewright rollout resume {pool}`",
    "RolloutAborted": "`slicewright rollout resume {pool}` to continue",
    "RolloutUndone": "declare the nodes' layout in the stack file and run `pulumi up`; or apply "
    "the new layout again: `slicewright rollout resume {pool}`",
    "RolloutBlocked": f"uncordon the nodes in the message, or raise `{LIMIT_FIELD}`",
    "RolloutStopped": "fix the nodes in the message, or bring them back into service",
}
"""Reason of a pool's condition -> next step."""

UNDO: Final[Mapping[str, str]] = {
    "ChangeFailed": "; or return to the previous layout: `slicewright rollout undo {pool}`",
    "RolloutAborted": "; `slicewright rollout undo {pool}` to revert the changed nodes",
    "RolloutStopped": "; or return to the previous layout: `slicewright rollout undo {pool}`",
}
"""Reason -> additional step for a change that can be undone."""


def node_step(reason: str, *, node: str, pool: str, undo: bool = False) -> str:
    """Returns the next step, or empty if the message has it.

    `undo` tells if the pool's change can be undone.
    """
    step = NODE.get(reason, "") + (UNDO.get(reason, "") if undo else "")
    return step.format(node=node, pool=pool)


def pool_step(reason: str, *, pool: str, undo: bool = False) -> str:
    """Returns the next step, or empty if only nodes need one; `undo` as in `node_step`."""
    return (POOL.get(reason, "") + (UNDO.get(reason, "") if undo else "")).format(pool=pool)
