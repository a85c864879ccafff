"""What a stack file would do to nodes in service: which roll, in which order, with what pods. Pure.

Pulumi's preview knows the pool's object and not its nodes: so the cluster is asked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from fleet_controller.assess import assess
from fleet_controller.drain import read_pod
from fleet_controller.forecast import Forecast, forecast
from fleet_controller.membership import memberships
from fleet_controller.node_change import APPLY_LIMIT_S, UPGRADE_LIMIT_S
from fleet_controller.rollout_policy import DrainPolicy, RolloutPolicy, read_policy
from fleet_controller.state import Node, Pool
from infra import plan, values
from slicewright.live.blockers import Blocker, blockers
from slicewright.live.budgets import refusals
from slicewright.live.reading import Found

_WAVES = 12
"""That are worked out and shown."""


@dataclass(frozen=True, kw_only=True)
class Rolling:
    """A change of the layout or driver of nodes in service."""

    pool: str
    before: str
    """Value of nvidia.com/mig.config that the pool has in the cluster; empty: none."""
    after: str
    waves: tuple[tuple[str, ...], ...]
    later: tuple[str, ...]
    """Nodes after these."""
    left: tuple[str, ...]
    """Nodes that cannot begin as things are."""
    evicted: int
    """Pods that are evicted and recreated elsewhere, as things are now."""
    kept: tuple[tuple[str, Blocker], ...]
    """(node, pod): those that must not be evicted now."""
    pods_known: bool
    at_most_s: float
    """If every drain and every cut takes the whole time that it may."""
    driver: str = ""
    """The driver that its nodes are to have, where that is another one than the pool wants now."""


@dataclass(frozen=True, kw_only=True)
class Shrinking:
    """A pool that has more nodes than it may have, in a cloud that ends those beyond."""

    pool: str
    nodes: int
    """That it has now."""
    most: int
    """That it may have."""
    pods: tuple[tuple[str, int], ...]
    """(node, pods that use GPUs), of every node; the cloud chooses which of them go."""
    pods_known: bool

    @property
    def going(self) -> int:
        return self.nodes - self.most

    @property
    def pods_that_end(self) -> tuple[int, int]:
        """The fewest and the most that the cloud's choice can end."""
        counts = sorted(count for _, count in self.pods)
        return sum(counts[: self.going]), sum(counts[len(counts) - self.going :])


End = Literal["replaced", "deleted"]


@dataclass(frozen=True, kw_only=True)
class Ending:
    """A pool whose nodes all go, because the cloud's node pool is replaced or deleted."""

    pool: str
    end: End
    nodes: int
    pods: tuple[tuple[str, str], ...]
    """(node, pod): those that use GPUs."""
    pods_known: bool


@dataclass(frozen=True, kw_only=True)
class Coming:
    rolling: tuple[Rolling, ...] = ()
    shrinking: tuple[Shrinking, ...] = ()
    ending: tuple[Ending, ...] = ()


def affected(
    pools: Sequence[plan.PoolPlan],
    found: Sequence[Pool],
    nodes: Sequence[Node],
    ending: Collection[str] = (),
) -> list[str]:
    """Nodes whose pods matter: of pools whose layout or number of nodes would change, or that
    end.
    """
    wanted = {pool.name: pool for pool in pools}
    return [
        node.name
        for pool, members in memberships(found, nodes)
        if pool.name in ending
        or (
            pool.name in wanted
            and (_rolls(wanted[pool.name], pool) or _shrinks(wanted[pool.name], members))
        )
        for node in members
    ]


def coming(
    pools: Sequence[plan.PoolPlan],
    found: Found,
    now: float,
    ends: Mapping[str, End] | None = None,
) -> Coming:
    """What the stack file's `pools` would do to the cluster as it was found.

    found: with the pods of `affected`. ends: pools whose nodes the cloud replaces or deletes, as a
    preview says it.
    """
    wanted = {pool.name: pool for pool in pools}
    rolling, shrinking, ending = [], [], []
    for pool, members in memberships(found.pools, found.nodes):
        if end := (ends or {}).get(pool.name):
            if members:
                ending.append(_ending(pool.name, end, members, found))
            continue
        planned = wanted.get(pool.name)
        if planned is None:
            continue
        if _rolls(planned, pool) and members:
            rolling.append(_rolling(planned, pool, members, found, now))
        if _shrinks(planned, members):
            shrinking.append(_shrinking(planned, members, found))
    return Coming(rolling=tuple(rolling), shrinking=tuple(shrinking), ending=tuple(ending))


def _rolls(planned: plan.PoolPlan, pool: Pool) -> bool:
    if planned.driver_version not in (None, pool.driver):
        return True
    if planned.mig_config is None or planned.mig_config == pool.mig_config:
        return False
    # Of a pool whose change is undone, the same stack file as before changes nothing.
    return pool.declared is None or planned.mig_config != pool.declared.mig_config


def _shrinks(planned: plan.PoolPlan, members: Sequence[Node]) -> bool:
    return planned.ends_surplus and len(members) > planned.nodes.max


def _rolling(
    planned: plan.PoolPlan, pool: Pool, members: Sequence[Node], found: Found, now: float
) -> Rolling:
    policy = read_policy(values.rollout_policy(planned))
    other = planned.driver_version not in (None, pool.driver)
    driver = (planned.driver_version or "") if other else ""
    after = replace(
        pool,
        mig_config=planned.mig_config,
        driver=planned.driver_version,
        layout_hash=planned.layout_hash,
        declared=None,
        told="",
        policy=policy,
    )
    assessed = [(node, assess(node, after, found.reports.get(node.name), now)) for node in members]
    pods = {
        node.name: tuple(map(read_pod, found.pods[node.name]))
        for node in members
        if node.name in found.pods
    }
    ahead = forecast(after, assessed, pods, most=_WAVES)
    each = [
        (name, one)
        for together in _drained_together(ahead, policy.limit(len(members)))
        for name, one in _leaving(together, found, policy.drain)
    ]
    return Rolling(
        pool=pool.name,
        before=pool.mig_config or "",
        after=planned.mig_config or "",
        waves=ahead.waves,
        later=ahead.later,
        left=ahead.left,
        evicted=sum(one.leaves for _, one in each),
        kept=tuple(sorted((one for one in each if not one[1].leaves), key=_by_node)),
        pods_known=all(node.name in found.pods for node in members),
        at_most_s=ahead.steps * (longest_turn_s(policy) + (UPGRADE_LIMIT_S if driver else 0.0)),
        driver=driver,
    )


def _drained_together(ahead: Forecast, limit: int) -> Iterator[Sequence[str]]:
    """Nodes whose pods are evicted at the same time. limit: as many as may be out of service: of
    nodes after the waves that are worked out, any may be drained with any other.
    """
    yield from (sorted(wave) for wave in ahead.waves)
    yield from (ahead.later[at : at + limit] for at in range(0, len(ahead.later), limit))


def _leaving(
    nodes: Sequence[str], found: Found, policy: DrainPolicy
) -> Iterator[tuple[str, Blocker]]:
    """(node, pod) of pods that must leave nodes that are drained at the same time."""
    pods = [found.pods.get(name, ()) for name in nodes]
    refused = refusals([(there, policy) for there in pods], found.budgets)
    for name, there in zip(nodes, pods, strict=True):
        for one in blockers(there, found.budgets, policy, refused=refused):
            yield name, one


def _by_node(pair: tuple[str, Blocker]) -> tuple[str, str]:
    return pair[0], pair[1].pod


def longest_turn_s(policy: RolloutPolicy) -> float:
    """The most that the change of one node's layout may take before it has failed, in seconds."""
    drains = 2 if policy.drain.on_timeout == "Force" else 1
    return drains * policy.drain.timeout_s + APPLY_LIMIT_S


def _ending(pool: str, end: End, members: Sequence[Node], found: Found) -> Ending:
    pods = [
        (node.name, f"{pod['metadata']['namespace']}/{pod['metadata']['name']}")
        for node in members
        for pod in found.pods.get(node.name, ())
        if read_pod(pod).gpus
    ]
    return Ending(
        pool=pool,
        end=end,
        nodes=len(members),
        pods=tuple(sorted(pods)),
        pods_known=all(node.name in found.pods for node in members),
    )


def _shrinking(planned: plan.PoolPlan, members: Sequence[Node], found: Found) -> Shrinking:
    counts = tuple(
        (node.name, sum(read_pod(pod).gpus for pod in found.pods.get(node.name, ())))
        for node in members
    )
    return Shrinking(
        pool=planned.name,
        nodes=len(members),
        most=planned.nodes.max,
        pods=counts,
        pods_known=all(node.name in found.pods for node in members),
    )
