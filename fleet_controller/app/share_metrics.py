"""Metrics of cards that an engine shares by fractions: the same for every engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from slicewright.fleet_controller.membership.membership import memberships
from slicewright.fleet_controller.objects.node import Node
from slicewright.fleet_controller.objects.node_pods import NodePod
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.telemetry.prometheus import Family, Sample, labels

_MIB: Final = 2**20
PodsOn = Callable[[str], Sequence[NodePod]]
"""Returns the pods of a node."""


def share_families(
    pools: Sequence[Pool], nodes: Sequence[Node], pods_on: PodsOn
) -> tuple[Family, ...]:
    """Nothing if no engine shares GPUs."""
    shared = [pool for pool in pools if pool.shares is not None]
    if not shared:
        return ()
    memory: list[Sample] = []
    compute: list[Sample] = []
    pods: list[Sample] = []
    by_pod: list[Sample] = []
    for pool, members in memberships(shared, nodes):
        without = 0
        for node in members:
            on_node = pods_on(node.name)
            without += sum(_lacks_share(pod, pool) for pod in on_node)
            for sums in _card_sums(pool, node, on_node):
                memory += sums[0]
                compute += sums[1]
            by_pod += _pod_samples(pool, node, on_node)
        pods.append(Sample(labels(pool=pool.name), without))
    return (
        Family(
            "slicewright_card_memory_bytes",
            "gauge",
            "Memory of a shared card by state: registered by the engine, allocated to pods.",
            tuple(memory),
        ),
        Family(
            "slicewright_card_compute_ratio",
            "gauge",
            "Compute of a shared card by state: registered by the engine, allocated to pods.",
            tuple(compute),
        ),
        Family(
            "slicewright_pod_card_memory_bytes",
            "gauge",
            "Memory of a shared card that the engine has allocated to a pod.",
            tuple(by_pod),
        ),
        Family(
            "slicewright_pods_without_share",
            "gauge",
            "Pods that request shares and are bound to a node of the pool without any.",
            tuple(pods),
        ),
    )


def _card_sums(
    pool: Pool, node: Node, pods: Sequence[NodePod]
) -> Iterator[tuple[tuple[Sample, ...], tuple[Sample, ...]]]:
    """The samples of memory and of compute of each card."""
    assert pool.shares is not None
    unit = pool.shares.memory_unit_mib * _MIB
    shares = [share for pod in pods if pod.shares for share in pod.shares.allocated]
    for card in node.registered:
        of_card = [share for share in shares if share.uuid == card.uuid]
        amounts = {
            "registered": (card.memory_units, card.compute_percent),
            "allocated": (
                sum(share.memory_units for share in of_card),
                sum(share.compute_percent for share in of_card),
            ),
        }
        marks = {
            state: labels(pool=pool.name, node=node.name, uuid=card.uuid, state=state)
            for state in amounts
        }
        yield (
            tuple(Sample(marks[state], units * unit) for state, (units, _) in amounts.items()),
            tuple(Sample(marks[state], percent / 100) for state, (_, percent) in amounts.items()),
        )


def _pod_samples(pool: Pool, node: Node, pods: Sequence[NodePod]) -> Iterator[Sample]:
    assert pool.shares is not None
    for pod in pods:
        by_card: dict[str, int] = {}
        for share in pod.shares.allocated if pod.shares else ():
            by_card[share.uuid] = by_card.get(share.uuid, 0) + share.memory_units
        for uuid, units in by_card.items():
            marks = labels(
                pool=pool.name, node=node.name, uuid=uuid, namespace=pod.namespace, pod=pod.name
            )
            yield Sample(marks, units * pool.shares.memory_unit_mib * _MIB)


def _lacks_share(pod: NodePod, pool: Pool) -> bool:
    assert pool.shares is not None
    return (
        pod.shares is not None
        and pod.shares.engine == pool.shares.engine
        and not pod.shares.allocated
        and not pod.leaving
    )
