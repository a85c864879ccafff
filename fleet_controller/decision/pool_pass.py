"""The nodes of one pool as assessed in one pass, and the rollout to them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slicewright.fleet_controller.decision.facts import Facts
from slicewright.fleet_controller.decision.startup_taint import hold_reason
from slicewright.fleet_controller.nodes.assess import assess
from slicewright.fleet_controller.nodes.pod_proof import PodProof, prove_by_pod
from slicewright.fleet_controller.nodes.watchdog import NOTHING, Watch, watch
from slicewright.fleet_controller.objects.assessment import Assessment
from slicewright.fleet_controller.objects.node import Node
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.fleet_controller.rollout.rollout import Rollout, decide_rollout
from slicewright.fleet_controller.rollout.turn import Turn


@dataclass(frozen=True, kw_only=True)
class PoolPass:
    """The values that the steps of a pool's decision share."""

    pool: Pool
    nodes: Sequence[Node]
    facts: Facts
    assessments: Mapping[str, Assessment]
    """Node -> its own assessment, rollouts aside."""
    watches: Mapping[str, Watch]
    """Node -> the watchdog's result, for the nodes that need it."""
    pod_proofs: Mapping[str, PodProof]
    """Node -> the proof by a pod."""
    rollout: Rollout

    def turn(self, node: Node) -> Turn | None:
        return self.rollout.turns.get(node.name)

    def watch(self, node: Node) -> Watch:
        return self.watches.get(node.name, NOTHING)

    def assessment(self, node: Node) -> Assessment:
        """Returns the assessment that the node's condition shows."""
        turn = self.turn(node)
        return (turn.assessment if turn else None) or self.assessments[node.name]

    def gpu_pods(self, node: Node) -> int:
        """The number of pods that request the node's GPUs. 0 also if the agents compute on none."""
        return self.facts.gpu_pods.get(node.name, 0) if self.pool.computes else 0

    def hold_reason(self, node: Node, assessment: Assessment) -> str | None:
        return hold_reason(self.pool, self.facts.reports.get(node.name), node, assessment)


def start_pass(pool: Pool, nodes: Sequence[Node], facts: Facts) -> PoolPass:
    """Assesses the nodes, and decides the pool's rollout."""
    reported = {node.name: _assess(node, pool, facts) for node in nodes}
    pod_proofs = _prove_by_pods(pool, nodes, reported, facts)
    reported |= {name: proof.assessment for name, proof in pod_proofs.items() if proof.assessment}
    watches = _watch(pool, nodes, reported, facts)
    stuck = {name: watched.assessment for name, watched in watches.items() if watched.assessment}
    assessments = reported | stuck
    rollout = decide_rollout(
        pool,
        [(node, assessments[node.name]) for node in nodes],
        facts.pods,
        facts.refusals,
        facts.now,
        must_hold=lambda node, assessment: hold_reason(
            pool, facts.reports.get(node.name), node, assessment
        ),
    )
    return PoolPass(
        pool=pool,
        nodes=nodes,
        facts=facts,
        assessments=assessments,
        watches=watches,
        pod_proofs=pod_proofs,
        rollout=rollout,
    )


def _assess(node: Node, pool: Pool, facts: Facts) -> Assessment:
    return assess(
        node,
        pool,
        facts.reports.get(node.name),
        facts.now,
        no_agent=facts.no_agents.get(node.name),
        no_operands=facts.no_operands.get(node.name),
        other_plugin=facts.other_plugins.get(node.name),
    )


def _prove_by_pods(
    pool: Pool, nodes: Sequence[Node], assessments: Mapping[str, Assessment], facts: Facts
) -> dict[str, PodProof]:
    pods = facts.proof_pods
    return {
        node.name: prove_by_pod(node, pool, assessments[node.name], pods.get(node.name), facts.now)
        for node in nodes
        # Thousands are in service, and have no such pod any more.
        if node.name in pods or (node.held and pool.proof_pod is not None)
    }


def _watch(
    pool: Pool, nodes: Sequence[Node], assessments: Mapping[str, Assessment], facts: Facts
) -> dict[str, Watch]:
    return {
        node.name: watch(
            node,
            pool,
            assessments[node.name],
            facts.no_operands.get(node.name),
            facts.pods.get(node.name),
            facts.now,
        )
        for node in nodes
        # Thousands are in order, and the watchdog has no note on them.
        if node.stuck or assessments[node.name].status != "True"
    }
