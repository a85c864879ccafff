"""The decision about one pool: its nodes, its status and its warnings. Pure.

assess the nodes → advance the rollout → decide each node → hold nodes with silent drivers →
quarantine → shares of GPUs → status and warnings
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slicewright.fleet_controller.decision.actions import AddStartupTaint, EndUndo, SetPoolStatus
from slicewright.fleet_controller.decision.events import pool_warnings
from slicewright.fleet_controller.decision.facts import Facts
from slicewright.fleet_controller.decision.node_decision import decide_node
from slicewright.fleet_controller.decision.outcome import Outcome, join_outcomes
from slicewright.fleet_controller.decision.pool_pass import PoolPass, start_pass
from slicewright.fleet_controller.decision.shares import decide_shares
from slicewright.fleet_controller.decision.startup_taint import add_taint
from slicewright.fleet_controller.objects.bounds import seconds
from slicewright.fleet_controller.objects.node import Node
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.fleet_controller.pools.members import member_of
from slicewright.fleet_controller.pools.quarantine import quarantine
from slicewright.fleet_controller.pools.status import TOO_FEW_LIMIT_S, pool_status
from slicewright.fleet_controller.rollout.change_actions import CordonNode


def decide_pool(pool: Pool, nodes: Sequence[Node], facts: Facts) -> Outcome:
    """Returns the actions on a pool and its nodes."""
    pool_pass = start_pass(pool, nodes, facts)
    members = [member_of(node, pool_pass.assessment(node), facts.now) for node in nodes]
    node_steps = join_outcomes(decide_node(pool_pass, member) for member in members)
    status = pool_status(pool, members, pool_pass.rollout, facts.now)
    outcome = join_outcomes(
        (
            node_steps,
            Outcome(holds=_hold_silent_drivers(pool_pass, node_steps)),
            Outcome(actions=quarantine(pool, members)),
            decide_shares(pool, nodes, facts),
            _write_status(pool, status),
            pool_warnings(pool, members, status, facts),
        )
    )
    return _holds_only(outcome) if pool.unreadable else outcome


def _holds_only(outcome: Outcome) -> Outcome:
    """Returns the part of a decision that is safe for an unreadable pool: keeping new pods away.

    Its nodes are not released, uncordoned, changed or relabelled, and its status is not written.
    """
    return Outcome(holds=outcome.holds, deadlines=outcome.deadlines)


def _hold_silent_drivers(pool_pass: PoolPass, node_steps: Outcome) -> tuple[AddStartupTaint, ...]:
    """Holds nodes whose driver does not answer, up to the pool's limit of nodes that are out.

    If all drivers of a pool fall silent at once, a common cause is as likely as each single one,
    and a pool without nodes would hurt more than GPUs that may be dead.
    """
    nodes, policy = pool_pass.nodes, pool_pass.pool.policy
    out = {n.name for n in nodes if n.held or n.unschedulable or n.change or not n.ready}
    out |= {action.node for action in node_steps.holds}
    out |= {action.node for action in node_steps.actions if isinstance(action, CordonNode)}
    silent = [n for n in nodes if n.name not in out and pool_pass.watch(n).hold_if_room]
    room = max(0, policy.limit(len(nodes)) - len(out))
    return tuple(add_taint(node, "its driver does not answer") for node in silent[:room])


def _write_status(pool: Pool, status: Mapping[str, Any]) -> Outcome:
    """Returns the write of a status that has changed, and the end of an undo."""
    too_few_since = status.get("tooFewSince")
    deadlines = (seconds(too_few_since) + TOO_FEW_LIMIT_S,) if too_few_since else ()
    # In a merge patch, omitted keys would stay.
    removed = {key: None for key in pool.status if key not in status}
    write = SetPoolStatus(pool=pool.name, status={**status, **removed})
    request = pool.request_after_undo
    undo = () if request is None else (_end_undo(pool, request),)
    return Outcome(
        actions=(*((write,) if status != pool.status else ()), *undo), deadlines=deadlines
    )


def _end_undo(pool: Pool, request: str) -> EndUndo:
    return EndUndo(pool=pool.name, old_request=pool.rollout_request, new_request=request)
