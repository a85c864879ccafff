"""The next step of existing nodes that leave their pool, or have lost it. Pure."""

from __future__ import annotations

from collections.abc import Container, Sequence

from slicewright.apis.names import DEFAULT_MIG_CONFIG
from slicewright.fleet_controller.decision.actions import SetMigConfig
from slicewright.fleet_controller.decision.events import node_warning
from slicewright.fleet_controller.decision.facts import Facts
from slicewright.fleet_controller.decision.outcome import Outcome, join_outcomes
from slicewright.fleet_controller.decision.startup_taint import add_taint
from slicewright.fleet_controller.membership.release import (
    ClearNodeCondition,
    DisableMig,
    ReleaseNode,
    Waiting,
    departing,
    next_step,
)
from slicewright.fleet_controller.objects.node import Node
from slicewright.fleet_controller.objects.node_pods import gpu_pod_paths
from slicewright.fleet_controller.objects.pool import Pool


def decide_departures(
    pools: Sequence[Pool], nodes: Sequence[Node], stranded: Container[str], facts: Facts
) -> Outcome:
    """Returns the next step of each departing node.

    stranded: names of nodes that leave in mid-change: they go back into service first.
    """
    return join_outcomes(
        _step(node, pool, facts)
        for node, pool in departing(pools, nodes)
        if node.name not in stranded
    )


def _step(node: Node, pool: Pool | None, facts: Facts) -> Outcome:
    match next_step(node, pool, gpu_pod_paths(facts.pods.get(node.name)), facts.brought_keys):
        case DisableMig() if node.held:
            layout = SetMigConfig(node=node.name, version=node.version, value=DEFAULT_MIG_CONFIG)
            return Outcome(actions=(layout,))
        case DisableMig():
            return Outcome(holds=(add_taint(node, "it leaves its pool, and MIG is disabled"),))
        case Waiting(pool=leaving, reason=reason, message=message):
            return Outcome(warnings=(node_warning(leaving, node, reason, message, facts.now),))
        case ClearNodeCondition() | ReleaseNode() as action:
            return Outcome(actions=(action,))
