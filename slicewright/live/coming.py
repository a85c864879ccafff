"""Predicts the effects of a stack file on nodes in service: the order, and the pods. Pure.

Pulumi's preview knows the pool's object but not its nodes, so the cluster is read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from slicewright.apis.gpu_pool.rollout_policy import DrainPolicy, RolloutPolicy
from slicewright.fleet_controller.membership.membership import memberships
from slicewright.fleet_controller.nodes.assess import assess
from slicewright.fleet_controller.objects.node import Node
from slicewright.fleet_controller.objects.node_pods import read_pod
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.fleet_controller.rollout.applying import APPLY_LIMIT_S
from slicewright.fleet_controller.rollout.forecast import Forecast, forecast
from slicewright.fleet_controller.rollout.upgrading import UPGRADE_LIMIT_S
from slicewright.infra import plan
from slicewright.live.blockers import Blocker, blockers
from slicewright.live.budgets import refusals
from slicewright.live.reading import ClusterObjects

_WAVES = 12
"""Number of waves to predict and show."""


@dataclass(frozen=True, kw_only=True)
class Rolling:
    """A change of the layout or driver of nodes in service."""

    pool: str
    before: str
    """The pool's current value of nvidia.com/mig.config; empty: none."""
    after: str
    waves: tuple[tuple[str, ...], ...]
    later: tuple[str, ...]
    """Nodes after these waves."""
    blocked: tuple[str, ...]
    """Nodes that cannot begin at the moment."""
    evicted: int
    """Number of pods that would be evicted now, and recreated elsewhere."""
    unevictable: tuple[tuple[str, Blocker], ...]
    """(node, pod) for pods that must not be evicted now."""
    pods_known: bool
    at_most_s: float
    """Duration if every drain and every partitioning takes its whole time limit."""
    driver: str = ""
    """The new driver of the nodes, if it differs from the pool's current driver."""


@dataclass(frozen=True, kw_only=True)
class Shrinking:
    """A pool with more nodes than its maximum, in a cloud that ends surplus nodes."""

    pool: str
    nodes: int
    """Current number of nodes."""
    most: int
    """Maximum number of nodes."""
    pods: tuple[tuple[str, int], ...]
    """(node, number of pods that use GPUs) of every node; the cloud chooses the nodes to end."""
    pods_known: bool

    @property
    def going(self) -> int:
        return self.nodes - self.most

    @property
    def pods_that_end(self) -> tuple[int, int]:
        """The fewest and the most pods that the cloud's choice can end."""
        counts = sorted(count for _, count in self.pods)
        return sum(counts[: self.going]), sum(counts[len(counts) - self.going :])


End = Literal["replaced", "deleted"]


@dataclass(frozen=True, kw_only=True)
class Ending:
    """A pool that loses all nodes, because the cloud's node pool is replaced or deleted."""

    pool: str
    end: End
    nodes: int
    pods: tuple[tuple[str, str], ...]
    """(node, pod) for pods that use GPUs."""
    pods_known: bool


@dataclass(frozen=True, kw_only=True)
class Coming:
    rolling: tuple[Rolling, ...] = ()
    shrinking: tuple[Shrinking, ...] = ()
    ending: tuple[Ending, ...] = ()


def affected(
    pools: Sequence[plan.PoolPlan],
    existing: Sequence[Pool],
    nodes: Sequence[Node],
    ending: Collection[str] = (),
) -> list[str]:
    """Returns the nodes of pools that end, or whose layout or number of nodes would change."""
    planned = {pool.name: pool for pool in pools}
    return [
        node.name
        for pool, members in memberships(existing, nodes)
        if pool.name in ending
        or (
            pool.name in planned
            and (_rolls(planned[pool.name], pool) or _shrinks(planned[pool.name], members))
        )
        for node in members
    ]


def coming(
    pools: Sequence[plan.PoolPlan],
    cluster: ClusterObjects,
    now: float,
    ends: Mapping[str, End] | None = None,
) -> Coming:
    """Predicts the effects of the stack file's `pools` on the cluster.

    `cluster` includes the pods of the nodes from `affected`. `ends` has the pools that the cloud
    replaces or deletes according to a preview.
    """
    by_name = {pool.name: pool for pool in pools}
    rolling, shrinking, ending = [], [], []
    for pool, members in memberships(cluster.pools, cluster.nodes):
        if end := (ends or {}).get(pool.name):
            if members:
                ending.append(_ending(pool.name, end, members, cluster))
            continue
        planned = by_name.get(pool.name)
        if planned is None:
            continue
        if _rolls(planned, pool) and members:
            rolling.append(_rolling(planned, pool, members, cluster, now))
        if _shrinks(planned, members):
            shrinking.append(_shrinking(planned, members, cluster))
    return Coming(rolling=tuple(rolling), shrinking=tuple(shrinking), ending=tuple(ending))


def _rolls(planned: plan.PoolPlan, pool: Pool) -> bool:
    if planned.driver_version not in (None, pool.driver):
        return True
    if planned.offer.mig_config is None or planned.offer.mig_config == pool.mig_config:
        return False
    # If the pool's change is undone, the same stack file as before changes nothing.
    return pool.declared is None or planned.offer.mig_config != pool.declared.mig_config


def _shrinks(planned: plan.PoolPlan, members: Sequence[Node]) -> bool:
    return planned.ends_surplus and len(members) > planned.nodes.max


def _rolling(
    planned: plan.PoolPlan, pool: Pool, members: Sequence[Node], cluster: ClusterObjects, now: float
) -> Rolling:
    policy = planned.rollout.policy
    other = planned.driver_version not in (None, pool.driver)
    driver = (planned.driver_version or "") if other else ""
    after = replace(
        pool,
        mig_config=planned.offer.mig_config,
        driver=planned.driver_version,
        layout_hash=planned.offer.layout_hash,
        declared=None,
        desired_state_annotation="",
        policy=policy,
    )
    assessed = [
        (node, assess(node, after, cluster.reports.get(node.name), now)) for node in members
    ]
    pods = {
        node.name: tuple(map(read_pod, cluster.pods[node.name]))
        for node in members
        if node.name in cluster.pods
    }
    ahead = forecast(after, assessed, pods, most=_WAVES)
    each = [
        (name, pod)
        for together in _drained_together(ahead, policy.limit(len(members)))
        for name, pod in _leaving_pods(together, cluster, policy.drain)
    ]
    return Rolling(
        pool=pool.name,
        before=pool.mig_config or "",
        after=planned.offer.mig_config or "",
        waves=ahead.waves,
        later=ahead.later,
        blocked=ahead.blocked,
        evicted=sum(pod.leaves for _, pod in each),
        unevictable=tuple(
            sorted(((node, pod) for node, pod in each if not pod.leaves), key=_node_and_pod)
        ),
        pods_known=all(node.name in cluster.pods for node in members),
        at_most_s=ahead.steps * (longest_turn_s(policy) + (UPGRADE_LIMIT_S if driver else 0.0)),
        driver=driver,
    )


def _drained_together(ahead: Forecast, limit: int) -> Iterator[Sequence[str]]:
    """Yields nodes that may be drained at the same time.

    `limit` is how many may be out of service. After the predicted waves, any nodes may be drained
    together.
    """
    yield from (sorted(wave) for wave in ahead.waves)
    yield from (ahead.later[at : at + limit] for at in range(0, len(ahead.later), limit))


def _leaving_pods(
    nodes: Sequence[str], cluster: ClusterObjects, policy: DrainPolicy
) -> Iterator[tuple[str, Blocker]]:
    """Yields (node, pod) for pods that must leave nodes that are drained at the same time."""
    pods = [cluster.pods.get(name, ()) for name in nodes]
    refused = refusals([(node_pods, policy) for node_pods in pods], cluster.budgets)
    for name, node_pods in zip(nodes, pods, strict=True):
        for pod in blockers(node_pods, cluster.budgets, policy, refused=refused):
            yield name, pod


def _node_and_pod(pair: tuple[str, Blocker]) -> tuple[str, str]:
    return pair[0], pair[1].pod


def longest_turn_s(policy: RolloutPolicy) -> float:
    """Returns the time limit for changing the layout of a node, in seconds."""
    return policy.drain.longest_s + APPLY_LIMIT_S


def _ending(pool: str, end: End, members: Sequence[Node], cluster: ClusterObjects) -> Ending:
    pods = [
        (node.name, f"{pod['metadata']['namespace']}/{pod['metadata']['name']}")
        for node in members
        for pod in cluster.pods.get(node.name, ())
        if read_pod(pod).gpus
    ]
    return Ending(
        pool=pool,
        end=end,
        nodes=len(members),
        pods=tuple(sorted(pods)),
        pods_known=all(node.name in cluster.pods for node in members),
    )


def _shrinking(
    planned: plan.PoolPlan, members: Sequence[Node], cluster: ClusterObjects
) -> Shrinking:
    counts = tuple(
        (node.name, sum(read_pod(pod).gpus for pod in cluster.pods.get(node.name, ())))
        for node in members
    )
    return Shrinking(
        pool=planned.name,
        nodes=len(members),
        most=planned.nodes.max,
        pods=counts,
        pods_known=all(node.name in cluster.pods for node in members),
    )
