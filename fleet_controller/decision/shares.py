"""Guards against the traps of engines that share GPUs by fractions. Pure.

Volcano's scheduler knows no cards of its nodes when it starts, until each node changes once, and
binds pods that request shares without any. So the controller changes the nodes after each start,
and has pods without a share leave, so that the scheduler places them again. Only running both
engines showed this (volcano-sh/volcano v1.15.1, plugins/deviceshare).

An engine's scheduler keeps its accounts by annotations, which everybody may read: so the controller
adds up the shares on each card, and warns if they are more than the card has.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from slicewright.apis.shares.engines import ENGINES
from slicewright.fleet_controller.decision.actions import Action, TouchNode
from slicewright.fleet_controller.decision.events import node_warning
from slicewright.fleet_controller.decision.facts import Facts
from slicewright.fleet_controller.decision.outcome import Outcome, join_outcomes
from slicewright.fleet_controller.objects.node import Node
from slicewright.fleet_controller.objects.node_pods import NodePod
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.fleet_controller.objects.shares import PoolShares, forgets_cards
from slicewright.fleet_controller.rollout.change_actions import EvictPod
from slicewright.fleet_controller.rollout.drain import drain, list_pods

SESSION_S: Final = 10.0
"""Time after its start until a scheduler has opened its first session. Volcano opens one each
second, and forgets nodes that it read before.
"""
LOCKED_S: Final = 60.0
"""Time that HAMi's device plugin needs at most to give a pod its cards."""


def decide_shares(pool: Pool, nodes: Sequence[Node], facts: Facts) -> Outcome:
    """Returns the actions and warnings about the shares on a pool's nodes."""
    if pool.shares is None:
        return Outcome()
    return join_outcomes(
        step
        for node in nodes
        for step in (
            _touch(pool.shares, node, facts),
            _without_shares(pool, pool.shares, node, facts),
            _check_sums(pool, node, facts),
            _check_lock(pool, pool.shares, node, facts),
        )
    )


def _touch(shares: PoolShares, node: Node, facts: Facts) -> Outcome:
    """Changes the node once the scheduler that has started last can learn from it."""
    started = facts.shares.schedulers.get(shares.namespace, 0.0)
    if not forgets_cards(shares.engine) or not started or node.scheduler_start >= started:
        return Outcome()
    if facts.now < started + SESSION_S:
        return Outcome(deadlines=(started + SESSION_S,))
    return Outcome(actions=(TouchNode(node=node.name, scheduler_start=started),))


def _without_shares(pool: Pool, shares: PoolShares, node: Node, facts: Facts) -> Outcome:
    """Evicts pods that are bound to the node without a share, and names them."""
    pods = [
        pod
        for pod in facts.shares.pods.get(node.name, ())
        if pod.shares is not None and pod.shares.engine == shares.engine
        if not pod.shares.allocated and not pod.leaving
    ]
    if not pods:
        return Outcome()
    drained = drain(pods, pool.policy.drain, facts.refusals, facts.now)
    title = ENGINES[shares.engine].title
    stays = {**drained.protected, **drained.refused}
    message = (
        f"{list_pods(pods)}: bound without a share of a card, so nothing limits what they use. "
        f"{title}'s scheduler did not know the node's cards, or was passed by. "
        + (f"Not evicted: {list_pods(stays)}; delete them yourself" if stays else "Evicted")
    )
    actions: tuple[Action, ...] = tuple(
        EvictPod(node=node.name, namespace=pod.namespace, pod=pod.name, uid=pod.uid)
        for pod in drained.evict
    )
    return Outcome(
        actions=actions,
        warnings=(node_warning(pool, node, "PodWithoutShare", message, facts.now),),
        deadlines=(drained.retry_at,) if drained.retry_at else (),
    )


def _check_sums(pool: Pool, node: Node, facts: Facts) -> Outcome:
    """Warns of cards whose shares are more than the engine has registered."""
    over = list(_overcommitted(node, facts.shares.pods.get(node.name, ())))
    if not over:
        return Outcome()
    message = f"{'; '.join(over)}. Delete a pod of the card, and write the engine's maintainers"
    return Outcome(warnings=(node_warning(pool, node, "CardOvercommitted", message, facts.now),))


def _overcommitted(node: Node, pods: Sequence[NodePod]) -> Iterator[str]:
    memory: dict[str, int] = defaultdict(int)
    compute: dict[str, int] = defaultdict(int)
    for pod in pods:
        for share in pod.shares.allocated if pod.shares else ():
            memory[share.uuid] += share.memory_units
            compute[share.uuid] += share.compute_percent
    cards = {card.uuid: card for card in node.registered}
    for uuid in sorted(memory):
        card = cards.get(uuid)
        if card is None:
            if cards:
                yield f"pods have shares of card {uuid}, which the node does not have"
        elif memory[uuid] > card.memory_units or compute[uuid] > card.compute_percent:
            yield (
                f"card {uuid} has {memory[uuid]} of {card.memory_units} units of memory and "
                f"{compute[uuid]} of {card.compute_percent} % of compute allocated"
            )


def _check_lock(pool: Pool, shares: PoolShares, node: Node, facts: Facts) -> Outcome:
    """Warns of a lock that HAMi's device plugin has not released."""
    lock = node.share_lock
    if lock is None or shares.engine != "hami":
        return Outcome()
    if facts.now < lock.since + LOCKED_S:
        return Outcome(deadlines=(lock.since + LOCKED_S,))
    message = (
        f"HAMi's lock for pod {lock.pod or 'of unknown name'} is older than {LOCKED_S:.0f} s, and "
        "until it is five minutes old no other pod gets a card there. Read the log of the node's "
        "hami-device-plugin pod, which releases the lock"
    )
    return Outcome(warnings=(node_warning(pool, node, "NodeLockStuck", message, facts.now),))


def sharing_nodes(present: Sequence[tuple[Pool, Sequence[Node]]]) -> tuple[str, ...]:
    """The nodes of pools whose GPUs an engine shares."""
    return tuple(
        node.name for pool, members in present if pool.shares is not None for node in members
    )


def starts_by_namespace(schedulers: Sequence[NodePod]) -> Mapping[str, float]:
    """Namespace -> the last start of an engine's scheduler there."""
    starts: dict[str, float] = {}
    for pod in schedulers:
        starts[pod.namespace] = max(starts.get(pod.namespace, 0.0), pod.scheduler_started)
    return starts
