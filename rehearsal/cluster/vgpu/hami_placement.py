"""The choice of HAMi's scheduler: a node and its cards for one pod. Pure.

A node is scored as it was before the pod, a card with the request added; each by the sum of the
parts that are allocated of containers, compute and memory. Of equal cards the last is taken.
Sources: Project-HAMi/HAMi v2.10.0, pkg/scheduler/score.go and pkg/scheduler/policy; a run of it on
4 nodes with 4 cards (tests/infra/inputs/fractional-placements.toml).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from slicewright.rehearsal.cluster.vgpu.cards import Share

Policy = Literal["binpack", "spread"]
TOO_FEW_CARDS: Final = "NodeInsufficientDevice"
CARDS_BUSY: Final = "CardInsufficientMemory or CardInsufficientCore"


@dataclass(frozen=True, kw_only=True)
class CardUsage:
    uuid: str
    slots: int
    memory_mib: int
    compute_percent: int
    healthy: bool = True
    containers: int = 0
    used_mib: int = 0
    used_percent: int = 0

    def with_share(self, share: Share) -> CardUsage:
        return replace(
            self,
            containers=self.containers + 1,
            used_mib=self.used_mib + share.memory_units,
            used_percent=self.used_percent + share.compute_percent,
        )


@dataclass(frozen=True, kw_only=True)
class Request:
    """A container's request of each of its cards."""

    cards: int
    memory_mib: int = 0
    memory_percent: int = 0
    """Of the card's memory, if no amount is requested."""
    compute_percent: int = 0

    def share_of(self, card: CardUsage) -> Share:
        """More than 100 % of a card's compute becomes 100 %, without a word."""
        return Share(
            uuid=card.uuid,
            memory_units=self.memory_mib or card.memory_mib * self.memory_percent // 100,
            compute_percent=min(self.compute_percent, 100),
        )


@dataclass(frozen=True, kw_only=True)
class Choice:
    node: str
    shares: tuple[tuple[Share, ...], ...]
    """Of each container."""


def choose(
    nodes: Mapping[str, Sequence[CardUsage]],
    containers: Sequence[Request],
    node_policy: Policy,
    card_policy: Policy,
) -> Choice | dict[str, str]:
    """The choice, or why each node is refused."""
    refused: dict[str, str] = {}
    fits: list[tuple[float, str, tuple[tuple[Share, ...], ...]]] = []
    for name, cards in sorted(nodes.items()):
        shares = _place(cards, containers, card_policy)
        if isinstance(shares, str):
            refused[name] = shares
        else:
            fits.append((_score(cards), name, shares))
    if not fits:
        return refused
    best = (max if node_policy == "binpack" else min)(score for score, _, _ in fits)
    _, name, chosen = next(fit for fit in fits if fit[0] == best)
    return Choice(node=name, shares=chosen)


def _place(
    cards: Sequence[CardUsage], containers: Sequence[Request], policy: Policy
) -> tuple[tuple[Share, ...], ...] | str:
    """The shares of each container, or why they do not fit on the node."""
    now = list(cards)
    placed = []
    for request in containers:
        if request.cards > len(now):
            return TOO_FEW_CARDS
        indexes = _best_cards(now, request, policy)
        if len(indexes) < request.cards:
            return CARDS_BUSY
        shares = tuple(request.share_of(now[i]) for i in indexes)
        for i, share in zip(indexes, shares, strict=True):
            now[i] = now[i].with_share(share)
        placed.append(shares)
    return tuple(placed)


def _best_cards(cards: Sequence[CardUsage], request: Request, policy: Policy) -> list[int]:
    sign = 1 if policy == "binpack" else -1
    free = [i for i, card in enumerate(cards) if _fits(card, request.share_of(card))]
    free.sort(key=lambda i: (sign * _score([cards[i].with_share(request.share_of(cards[i]))]), i))
    return free[::-1][: request.cards]


def _fits(card: CardUsage, share: Share) -> bool:
    alone = share.compute_percent == 100 and card.compute_percent == 100
    return (
        card.healthy
        and card.containers < card.slots
        and card.used_mib + share.memory_units <= card.memory_mib
        and card.used_percent + share.compute_percent <= card.compute_percent
        and not (alone and card.containers)
        # A container without a limit of compute does not join one that has all of it.
        and not (share.compute_percent == 0 and card.used_percent >= card.compute_percent)
    )


def _score(cards: Sequence[CardUsage]) -> float:
    parts = (
        (sum(c.containers for c in cards), sum(c.slots for c in cards)),
        (sum(c.used_percent for c in cards), sum(c.compute_percent for c in cards)),
        (sum(c.used_mib for c in cards), sum(c.memory_mib for c in cards)),
    )
    return round(sum(used / total for used, total in parts if total), 9)
