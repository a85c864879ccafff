"""The cards that an engine shares by fractions, as lines of text. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.text import Text

from slicewright.infra.plan.model.fractional import PlacedCard, PlacedNode
from slicewright.live.shared_cards import CardsView, WaitingPod

_MOST_WAITING: Final = 5


def card_lines(view: CardsView, *, every_card: bool) -> Iterator[Text]:
    """The sums over all cards, each card if `every_card`, and the pods that wait for shares."""
    cards = [card for node in view.nodes for card in node.cards]
    memory = sum(card.card.memory_mib for card in cards)
    compute = sum(card.card.compute_percent for card in cards)
    pods = {share.pod for card in cards for share in card.shares}
    yield Text(
        f"  {_many(len(cards), 'shared card')}, shares of {_many(len(pods), 'pod')}: "
        f"{memory - sum(card.free_mib for card in cards)} of {memory} MiB and "
        f"{compute - sum(card.free_percent for card in cards)} of {compute} % allocated"
    )
    if view.closed:
        yield Text(f"  take no pods: {', '.join(view.closed)}", style="yellow")
    if every_card:
        for node in view.nodes:
            yield from _node_lines(node)
    for pod in view.waiting[:_MOST_WAITING]:
        yield from _waiting_lines(pod)
    if len(view.waiting) > _MOST_WAITING:
        yield Text(f"  and {len(view.waiting) - _MOST_WAITING} more pods wait", style="yellow")


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _node_lines(node: PlacedNode) -> Iterator[Text]:
    for index, card in enumerate(node.cards):
        yield Text(f"    {node.name} card {index}: {_card(card)}", style="dim")


def _card(card: PlacedCard) -> str:
    shares = ", ".join(
        f"{share.pod} ({share.memory_mib} MiB, {share.compute_percent} %)" for share in card.shares
    )
    state = "unhealthy, " if card.card.lost else ""
    free = f"{card.free_mib} MiB and {card.free_percent} % free"
    return f"{state}{free}" + (f"; {shares}" if shares else "")


def _waiting_lines(pod: WaitingPod) -> Iterator[Text]:
    yield Text(f"  pod {pod.pod} waits: {pod.why}", style="yellow")
    for line in pod.cards:
        yield Text(f"    {line}", style="dim")
