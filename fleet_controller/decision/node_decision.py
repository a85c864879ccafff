"""The actions on one node of a pool in one pass. Pure."""

from __future__ import annotations

from slicewright.fleet_controller.decision.actions import (
    Action,
    ClearReportsAfter,
    RecordBoot,
    SetDesiredState,
    SetMigConfig,
    SetNodeCondition,
)
from slicewright.fleet_controller.decision.outcome import Outcome
from slicewright.fleet_controller.decision.pool_pass import PoolPass
from slicewright.fleet_controller.decision.startup_taint import (
    add_taint,
    loses_verified_layout,
    note_gpu_pods,
    remove_taints,
    returns_before_its_turn,
)
from slicewright.fleet_controller.membership.membership import joining
from slicewright.fleet_controller.nodes.pod_proof import NO_POD
from slicewright.fleet_controller.nodes.watchdog import Watch
from slicewright.fleet_controller.objects.node import Node
from slicewright.fleet_controller.objects.node_pods import NodePod, gpu_pod_paths
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.fleet_controller.pools.members import Member, says
from slicewright.fleet_controller.rollout.rollout import fresh, must_change
from slicewright.fleet_controller.rollout.turn import Turn


def decide_node(pool_pass: PoolPass, member: Member) -> Outcome:
    """Returns the actions on a node.

    Its turn in a rollout comes before its condition, because that write changes the node's version.
    """
    node, pool, facts = member.node, pool_pass.pool, pool_pass.facts
    turn, watched = pool_pass.turn(node), pool_pass.watch(node)
    pod_proof = pool_pass.pod_proofs.get(node.name, NO_POD)
    deadlines = (
        *watched.deadlines,
        *(turn.deadlines if turn else ()),
        *member.deadlines,
        *filter(None, (pod_proof.deadline,)),
    )
    join = joining(node, pool, facts.brought_keys)
    if join and node.joined is None:
        # An existing node must carry the note before anything else is done to it, so that all can
        # be undone.
        return Outcome(actions=(join,), deadlines=deadlines)
    why = _hold_reason(pool_pass, member, turn, watched)
    gpu_pods = pool_pass.gpu_pods(node)
    holds = (add_taint(node, why, gpu_pods=gpu_pods),) if why and not node.held else ()
    steps = () if holds else (turn.actions if turn else ()) or watched.actions
    after = _after_hold(node, pool) if why else _early_return(pool_pass, node, watched)
    actions = (
        *steps,
        *((join,) if join else ()),
        *_writes(member, pool, facts.pods.get(node.name), facts.now),
        *_desired_state(node, pool),
        *note_gpu_pods(node, pool, gpu_pods),
        *filter(None, (pod_proof.action,)),
        *after,
    )
    return Outcome(holds=holds, actions=actions, deadlines=deadlines)


def _hold_reason(
    pool_pass: PoolPass, member: Member, turn: Turn | None, watched: Watch
) -> str | None:
    """Returns why the node must have the startup taint, or None."""
    why = pool_pass.hold_reason(member.node, member.assessment)
    if why:
        return why
    if turn and turn.hold:
        return "its layout changes"
    return "an operand is to be restarted" if watched.hold else None


def _writes(
    member: Member, pool: Pool, pods: tuple[NodePod, ...] | None, now: float
) -> list[Action]:
    """Returns the node's condition, its first layout, the record of a verified boot, and its
    release.
    """
    node, verified = member.node, member.assessment.status == "True"
    layout, boot = _first_layout(member, pool, pods), _verified_boot(member, pool)
    actions: list[Action] = []
    if node.condition is None or not says(node.condition, member.assessment):
        actions.append(_condition(member, boot, layout, now))
    else:
        actions += filter(None, (layout, boot))
    if verified and node.held:
        actions += remove_taints(node, pool)
    # Alone, as it needs the node's version. A change that has begun ends with the note's removal.
    if not actions and verified and node.reports_after and not node.change:
        actions.append(ClearReportsAfter(node=node.name, version=node.version))
    return actions


def _first_layout(
    member: Member, pool: Pool, pods: tuple[NodePod, ...] | None
) -> SetMigConfig | None:
    """Returns the action that sets the layout of a node that has never been in service."""
    node = member.node
    if not (fresh(node) and must_change(node, pool) and gpu_pod_paths(pods) == ()):
        return None
    assert pool.mig_config is not None
    return SetMigConfig(
        node=node.name,
        version=node.version,
        value=pool.mig_config,
        desired_state_annotation=pool.desired_state_annotation,
        reports_after=member.assessment.matched,
    )


def _verified_boot(member: Member, pool: Pool) -> RecordBoot | None:
    node = member.node
    if member.assessment.status != "True":
        return None
    if (node.verified_boot, node.verified_layout) == (node.boot_id, pool.mig_config or ""):
        return None
    return RecordBoot(node=node.name, boot_id=node.boot_id, layout=pool.mig_config)


def _condition(
    member: Member, boot: RecordBoot | None, layout: SetMigConfig | None, now: float
) -> SetNodeCondition:
    assessment = member.assessment
    return SetNodeCondition(
        node=member.node.name,
        status=assessment.status,
        reason=assessment.reason,
        message=assessment.message,
        changed=member.changed,
        now=now,
        boot=boot,
        layout=layout,
    )


def _desired_state(node: Node, pool: Pool) -> tuple[SetDesiredState, ...]:
    """Returns the action that makes the agent of a node with the pool's layout verify that one."""
    desired = pool.desired_state_annotation
    if pool.mig_config is None or node.mig_config != pool.mig_config:
        return ()
    if node.desired_state_annotation == desired:
        return ()
    return (SetDesiredState(node=node.name, desired_state_annotation=desired),)


def _after_hold(node: Node, pool: Pool) -> tuple[Action, ...]:
    """Returns the action that forgets the layout of a node that has to be held."""
    if not loses_verified_layout(node, pool):
        return ()
    return (RecordBoot(node=node.name, boot_id=node.verified_boot, layout=None),)


def _early_return(pool_pass: PoolPass, node: Node, watched: Watch) -> tuple[Action, ...]:
    """Returns the actions that release a node that waits in the rollout queue."""
    if watched.hold_if_room or node.name not in pool_pass.rollout.waiting:
        return ()
    pool, report = pool_pass.pool, pool_pass.facts.reports.get(node.name)
    if not returns_before_its_turn(node, pool, report, pool_pass.assessments[node.name]):
        return ()
    return remove_taints(node, pool)
