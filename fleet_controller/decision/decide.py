"""Level-triggered reconciliation, as a pure function: observed state -> actions.

No state is kept between passes: it is all in Kubernetes objects, so the controller may be killed at
any time. It decides each node's condition, the startup taint of verified nodes, the label
`nvidia.com/mig.config`, the status of the pools, and Warning Events on the pools (which `pulumi up`
prints as they come).

A node without the startup taint gets it back (`AddStartupTaint`) as soon as it may have lost its
verified state: it is not Ready, it has booted again, mig-manager changes its partitions, its agent
found a mismatch, or its layout is about to change. So does a node whose driver has not answered the
agent for minutes, up to the number of the pool's nodes that may be unavailable. A node is released
when its agent has reported a match of this boot. A report that is merely late holds no node. The
taint keeps new pods away and leaves running ones alone.

Nodes that exist without their pool are labelled when a pool selects them (`membership`), and get
their earlier labels back when they leave it (`release`).

A layout is never changed under running pods. A node that has never been verified gets its label
while it is held. `rollout` decides which of the others change, and when.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from slicewright.fleet_controller.decision.actions import Action
from slicewright.fleet_controller.decision.departures import decide_departures
from slicewright.fleet_controller.decision.events import decide_events, progress_interval_s
from slicewright.fleet_controller.decision.facts import Facts, ShareFacts
from slicewright.fleet_controller.decision.inspection import present_members
from slicewright.fleet_controller.decision.outcome import Outcome, join_outcomes
from slicewright.fleet_controller.decision.pool_decision import decide_pool
from slicewright.fleet_controller.membership.membership import Present, brought_keys
from slicewright.fleet_controller.membership.release import finalizers_to_remove
from slicewright.fleet_controller.objects.node import Node
from slicewright.fleet_controller.objects.node_pods import NodePod
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.fleet_controller.objects.proof_pod import ProofPod
from slicewright.fleet_controller.objects.report import Report
from slicewright.fleet_controller.objects.warning_event import WarningEvent
from slicewright.fleet_controller.rollout.drain import Refusal
from slicewright.fleet_controller.rollout.rollout import left_over


@dataclass(frozen=True, kw_only=True)
class Decision:
    actions: tuple[Action, ...]
    """The order of execution matters: the actions on one node depend on each other, and holding
    nodes comes first, because their device plugins may register whole GPUs any moment.
    """
    look_again: float | None
    """Time when the decision may change without any event, in seconds since the epoch."""
    faults: tuple[Fault, ...] = ()
    """The pools that were left alone because deciding about them failed unexpectedly."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """An unexpected exception, and the part of the pass that it left undone."""

    pool: str
    error: Exception

    @property
    def subject(self) -> str:
        """The part that failed, such as `pool a100`."""
        return f"pool {self.pool}"


def decide(
    pools: Sequence[Pool],
    nodes: Sequence[Node],
    reports: Mapping[str, Report],
    pods: Mapping[str, tuple[NodePod, ...]],
    warnings: Mapping[str, WarningEvent],
    now: float,
    *,
    refusals: Mapping[str, Refusal] = MappingProxyType({}),
    no_agents: Mapping[str, str] = MappingProxyType({}),
    no_operands: Mapping[str, str] = MappingProxyType({}),
    other_plugins: Mapping[str, str] = MappingProxyType({}),
    gpu_pods: Mapping[str, int] = MappingProxyType({}),
    proof_pods: Mapping[str, ProofPod] = MappingProxyType({}),
    present: Present | None = None,
    shares: ShareFacts | None = None,
) -> Decision:
    """Returns the actions that bring the cluster to its desired state.

    reports: by node.
    pods: node -> its pods that have not ended, for the nodes that `to_inspect` returns. Without an
    entry, the node's layout is not changed.
    warnings: the controller's own Events in the cluster, by name.
    refusals: refusals of evictions, by the pod's uid.
    no_agents: node -> why its agent has not reported.
    no_operands: node -> why NVIDIA's operands do not serve it.
    other_plugins: node -> the DaemonSet of others that registers its GPUs, too.
    gpu_pods: node -> number of pods that request its GPUs, without an entry for 0.
    proof_pods: node -> the pod that proves it.
    present: the memberships of these nodes, if they are known already.
    shares: the pods and schedulers of pools whose GPUs an engine shares by fractions.
    """
    facts = Facts(
        reports=reports,
        pods=pods,
        refusals=refusals,
        no_agents=no_agents,
        no_operands=no_operands,
        other_plugins=other_plugins,
        brought_keys=brought_keys(pools),
        gpu_pods=gpu_pods,
        proof_pods=proof_pods,
        progress_interval_s=progress_interval_s(pools, now),
        now=now,
        shares=shares or ShareFacts(),
    )
    pool_steps, faults = _decide_pools(present_members(pools, nodes, present), facts)
    unattended = {pool.name for pool in pools if pool.unreadable} | {f.pool for f in faults}
    outcome = _decide_cluster(pools, nodes, pool_steps, facts)
    events = decide_events(warnings, outcome.warnings, unattended, now)
    deadlines = (*outcome.deadlines, *events.deadlines)
    return Decision(
        actions=(*outcome.holds, *outcome.actions, *events.actions),
        look_again=min((at for at in deadlines if at > now), default=None),
        faults=faults,
    )


def _decide_pools(present: Present, facts: Facts) -> tuple[Outcome, tuple[Fault, ...]]:
    """Returns the decisions about all pools, and the pools that could not be decided."""
    outcomes, faults = [], []
    for pool, members in present:
        try:
            outcomes.append(decide_pool(pool, members, facts))
        except Exception as e:  # noqa: BLE001 - one pool must not stop the others
            faults.append(Fault(pool=pool.name, error=e))
    return join_outcomes(outcomes), tuple(faults)


def _decide_cluster(
    pools: Sequence[Pool], nodes: Sequence[Node], pool_steps: Outcome, facts: Facts
) -> Outcome:
    """Adds the nodes that have left their pool to the decisions about the pools."""
    stranded = left_over(pools, nodes)
    return join_outcomes(
        (
            Outcome(actions=tuple(stranded.values())),
            pool_steps,
            decide_departures(pools, nodes, stranded, facts),
            Outcome(actions=tuple(finalizers_to_remove(pools, nodes))),
        )
    )
