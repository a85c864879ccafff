"""Places pods' shares on the cards of nodes, one pod after the other, as each engine does.

HAMi scores a node by the parts of containers, compute and memory that are allocated, and a card by
the same with the request added; of equal cards it takes the last. Volcano scores nodes and cards
by memory; of equal cards it takes the first. Of equal nodes this model takes the first, the engines
any. Sources: Project-HAMi/HAMi v2.10.0, pkg/scheduler/policy; volcano-sh/volcano v1.15.1,
plugins deviceshare and resource-strategy-fit; runs of both on 4 nodes with 4 cards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from slicewright.infra.plan.fractional.misfits import why_it_fits_nowhere
from slicewright.infra.plan.model.fractional import (
    CardShare,
    FractionalPlacement,
    Misfit,
    PlacedCard,
    PlacedNode,
    SharedNode,
    SharingPod,
)

ContainerCards = tuple[tuple[int, ...], ...]
"""The indexes of the cards of each container of a pod."""
_EPSILON: Final = 9
"""Decimals of a score. Cards with equal loads must have equal scores in any order of their pods."""


@dataclass(frozen=True)
class _Fit:
    """A pod's best cards on one node, with the node's score."""

    score: float
    cards: ContainerCards


def place_pods(
    provider: str, nodes: Sequence[SharedNode], pods: Sequence[SharingPod]
) -> FractionalPlacement:
    """Places the pods in their order. Nothing ever leaves a card."""
    placed = [_empty(node) for node in nodes]
    changes: list[int] = []
    fits: dict[SharingPod, _ShapeFits] = {}
    misfits: dict[str, Misfit] = {}
    for pod in pods:
        shape = replace(pod, name="", workload="")
        of_shape = fits.setdefault(shape, _ShapeFits(nodes=[None] * len(placed)))
        of_shape.refresh(provider, placed, changes, shape)
        chosen = _best_node(of_shape.nodes, pod)
        if chosen is None:
            of_shape.misfit = of_shape.misfit or why_it_fits_nowhere(placed, pod)
            misfits[pod.name] = Misfit(pod=pod.name, workload=pod.workload, reason=of_shape.misfit)
            continue
        fit = of_shape.nodes[chosen]
        assert fit is not None
        placed[chosen] = _with_pod(placed[chosen], pod, fit.cards)
        changes.append(chosen)
    return FractionalPlacement(nodes=tuple(placed), misfits=tuple(misfits.values()))


@dataclass
class _ShapeFits:
    """How pods of one shape fit on each node. Only nodes that changed are looked at again."""

    nodes: list[_Fit | None]
    handled: int | None = None
    """Number of changes that are taken into account. None: no node was looked at."""
    misfit: str = ""
    """The reason why the first of them found no place."""

    def refresh(
        self, provider: str, nodes: Sequence[PlacedNode], changes: Sequence[int], shape: SharingPod
    ) -> None:
        """changes: the nodes that got a pod, in order."""
        stale = range(len(nodes)) if self.handled is None else set(changes[self.handled :])
        for i in stale:
            self.nodes[i] = _fit(provider, nodes[i], shape)
        self.handled = len(changes)


def _empty(node: SharedNode) -> PlacedNode:
    cards = tuple(PlacedCard(card=card, shares=()) for card in node.cards)
    return PlacedNode(name=node.name, pool=node.pool, cards=cards)


def _best_node(fits: Sequence[_Fit | None], pod: SharingPod) -> int | None:
    """The node that the policy prefers. None if the pod fits on no node."""
    sign = -1 if pod.node_policy == "binpack" else 1
    scores = [(sign * fit.score, i) for i, fit in enumerate(fits) if fit is not None]
    return min(scores)[1] if scores else None


def _fit(provider: str, node: PlacedNode, pod: SharingPod) -> _Fit | None:
    """None if the pod does not fit on the node."""
    if pod.pool is not None and pod.pool != node.pool:
        return None
    after = node
    containers: list[tuple[int, ...]] = []
    for _ in range(pod.containers):
        cards = _container_cards(provider, after, pod)
        if len(cards) < pod.cards:
            return None
        containers.append(cards)
        after = _with_pod(after, pod, (cards,))
    # HAMi looks at the node before the pod is on it, Volcano after.
    scored = node if provider == "hami" else after
    return _Fit(score=_node_score(provider, scored), cards=tuple(containers))


def _container_cards(provider: str, node: PlacedNode, pod: SharingPod) -> tuple[int, ...]:
    """The cards for one more container. Fewer than it asks for if it does not fit."""
    sign = -1 if pod.gpu_policy == "binpack" else 1
    of_equals = -1 if provider == "hami" else 1
    free = [i for i, card in enumerate(node.cards) if fits_on_card(card, pod)]
    ranked = sorted(
        free, key=lambda i: (sign * _card_score(provider, node.cards[i], pod), of_equals * i)
    )
    return tuple(ranked[: pod.cards])


def fits_on_card(card: PlacedCard, pod: SharingPod) -> bool:
    """Whether one more container of the pod fits. One with 100 % is alone on its card."""
    whole = card.card
    alone = pod.compute_percent == 100 and whole.compute_percent == 100
    return (
        not whole.lost
        and len(card.shares) < whole.slots
        and memory_of(card, pod) <= card.free_mib
        and pod.compute_percent <= card.free_percent
        and not (alone and card.shares)
    )


def memory_of(card: PlacedCard, pod: SharingPod) -> int:
    """Memory of the card that the pod asks for."""
    return card.card.memory_mib if pod.memory_mib is None else pod.memory_mib


def _card_score(provider: str, card: PlacedCard, pod: SharingPod) -> float:
    whole = card.card
    mib = whole.memory_mib - card.free_mib + memory_of(card, pod)
    if provider != "hami":
        return round(mib / whole.memory_mib, _EPSILON)
    percent = whole.compute_percent - card.free_percent + pod.compute_percent
    return _hami_score(
        (len(card.shares) + 1, whole.slots),
        (percent, whole.compute_percent),
        (mib, whole.memory_mib),
    )


def _node_score(provider: str, node: PlacedNode) -> float:
    # HAMi counts lost cards too. Volcano scores by the kubelet's resources, which lack them.
    cards = [card for card in node.cards if provider == "hami" or not card.card.lost]
    total_mib = sum(card.card.memory_mib for card in cards)
    used_mib = total_mib - sum(card.free_mib for card in cards)
    if provider != "hami":
        return round(used_mib / total_mib, _EPSILON)
    total_percent = sum(card.card.compute_percent for card in cards)
    used_percent = total_percent - sum(card.free_percent for card in cards)
    shares, slots = sum(len(c.shares) for c in cards), sum(c.card.slots for c in cards)
    return _hami_score((shares, slots), (used_percent, total_percent), (used_mib, total_mib))


def _hami_score(*parts: tuple[int, int]) -> float:
    """The sum of the parts that are allocated, each with its total."""
    return round(sum(used / total for used, total in parts), _EPSILON)


def _with_pod(node: PlacedNode, pod: SharingPod, containers: ContainerCards) -> PlacedNode:
    cards = list(node.cards)
    for indexes in containers:
        for i in indexes:
            share = CardShare(
                pod=pod.name,
                workload=pod.workload,
                memory_mib=memory_of(cards[i], pod),
                compute_percent=pod.compute_percent,
            )
            cards[i] = replace(cards[i], shares=(*cards[i].shares, share))
    return replace(node, cards=tuple(cards))
