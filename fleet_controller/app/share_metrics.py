"""Metrics of cards that an engine shares by fractions: the same for every engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from slicewright.apis.shares.allocation import CardShare
from slicewright.apis.shares.registration import RegisteredCard
from slicewright.fleet_controller.membership.membership import memberships
from slicewright.fleet_controller.objects.node import Node
from slicewright.fleet_controller.objects.node_pods import NodePod
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.telemetry.prometheus import Family, Sample, labels

_MIB: Final = 2**20
PodsOn = Callable[[str], Sequence[NodePod]]
"""Returns the pods of a node."""


@dataclass(frozen=True)
class _SharedNode:
    """A node whose GPUs an engine shares, with the pods on it."""

    pool: Pool
    node: Node
    pods: Sequence[NodePod]

    @property
    def unit_bytes(self) -> int:
        assert self.pool.shares is not None
        return self.pool.shares.memory_unit_mib * _MIB

    def shares(self, uuid: str) -> list[CardShare]:
        """The shares of a card."""
        return [
            share
            for pod in self.pods
            if pod.shares
            for share in pod.shares.allocated
            if share.uuid == uuid
        ]


def share_families(
    pools: Sequence[Pool], nodes: Sequence[Node], pods_on: PodsOn
) -> tuple[Family, ...]:
    """Nothing if no engine shares GPUs."""
    sharing = [pool for pool in pools if pool.shares]
    if not sharing:
        return ()
    shared = [
        _SharedNode(pool, node, pods_on(node.name))
        for pool, members in memberships(sharing, nodes)
        for node in members
    ]
    return (
        _gauge(
            "slicewright_card_memory_bytes",
            "Memory of a shared card by state: registered by the engine, allocated to pods.",
            (sample for node in shared for sample in _memory(node)),
        ),
        _gauge(
            "slicewright_card_compute_ratio",
            "Compute of a shared card by state: registered by the engine, allocated to pods.",
            (sample for node in shared for sample in _compute(node)),
        ),
        _gauge(
            "slicewright_pod_card_memory_bytes",
            "Memory of a shared card that the engine has allocated to a pod.",
            (sample for node in shared for sample in _by_pod(node)),
        ),
        _gauge(
            "slicewright_pods_without_share",
            "Pods that request shares and are bound to a node of the pool without any.",
            _without_share(pools, shared),
        ),
    )


def _gauge(name: str, meaning: str, samples: Iterable[Sample]) -> Family:
    return Family(name, "gauge", meaning, tuple(samples))


def _memory(shared: _SharedNode) -> Iterator[Sample]:
    for card in shared.node.registered:
        allocated = sum(share.memory_units for share in shared.shares(card.uuid))
        yield from _states(
            shared, card, card.memory_units * shared.unit_bytes, allocated * shared.unit_bytes
        )


def _compute(shared: _SharedNode) -> Iterator[Sample]:
    for card in shared.node.registered:
        allocated = sum(share.compute_percent for share in shared.shares(card.uuid))
        yield from _states(shared, card, card.compute_percent / 100, allocated / 100)


def _states(
    shared: _SharedNode, card: RegisteredCard, registered: float, allocated: float
) -> Iterator[Sample]:
    for state, amount in (("registered", registered), ("allocated", allocated)):
        marks = labels(pool=shared.pool.name, node=shared.node.name, uuid=card.uuid, state=state)
        yield Sample(marks, amount)


def _by_pod(shared: _SharedNode) -> Iterator[Sample]:
    for pod in shared.pods:
        by_card: dict[str, int] = {}
        for share in pod.shares.allocated if pod.shares else ():
            by_card[share.uuid] = by_card.get(share.uuid, 0) + share.memory_units
        for uuid, units in by_card.items():
            marks = labels(
                pool=shared.pool.name,
                node=shared.node.name,
                uuid=uuid,
                namespace=pod.namespace,
                pod=pod.name,
            )
            yield Sample(marks, units * shared.unit_bytes)


def _without_share(pools: Sequence[Pool], shared: Sequence[_SharedNode]) -> Iterator[Sample]:
    for pool in pools:
        if pool.shares is not None:
            count = sum(
                _lacks_share(pod, pool) for node in shared if node.pool is pool for pod in node.pods
            )
            yield Sample(labels(pool=pool.name), count)


def _lacks_share(pod: NodePod, pool: Pool) -> bool:
    assert pool.shares is not None
    return (
        pod.shares is not None
        and pod.shares.engine == pool.shares.engine
        and not pod.shares.allocated
        and not pod.leaving
    )
