"""Says in plain words why a pod's share fits on no node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from slicewright.infra.plan.model.fractional import PlacedCard, PlacedNode, SharingPod


def why_it_fits_nowhere(nodes: Sequence[PlacedNode], pod: SharingPod) -> str:
    """The reason of the node that comes nearest: the most cards with room for a container."""
    candidates = [node for node in nodes if pod.pool is None or node.pool == pod.pool]
    if not candidates:
        return "there is no node with shared cards for it"
    most = max(_working(node) for node in candidates)
    if pod.cards > most:
        return f"it needs {_cards(pod.cards)} of one node, and no node has more than {most}"
    nearest = max(candidates, key=lambda node: sum(lacks(c, pod) == "" for c in node.cards))
    free = sum(lacks(card, pod) == "" for card in nearest.cards)
    reasons = Counter(
        reason for node in candidates for card in node.cards if (reason := lacks(card, pod))
    )
    listed = ", ".join(f"{_cards(count)} {reason}" for reason, count in reasons.items())
    request = f"{_cards(pod.cards)} with {_share(pod)} on one node"
    if pod.containers > 1:
        request += f" for each of {pod.containers} containers"
    if not free:
        return f"it needs {request}, and no card has that left: {listed}"
    best = f"{nearest.name} has {free}, and no other node has more"
    return f"it needs {request}; {best}" + (f": {listed}" if listed else "")


def lacks(card: PlacedCard, pod: SharingPod) -> str:
    """What keeps a container of the pod off the card. Empty if it fits."""
    whole = card.card
    mib = whole.memory_mib if pod.memory_mib is None else pod.memory_mib
    if whole.lost:
        return "lost"
    if mib > whole.memory_mib:
        return "too small"
    if card.shares and pod.compute_percent == 100 == whole.compute_percent:
        return "shared already"
    if len(card.shares) >= whole.slots:
        return f"with {whole.slots} containers, the most allowed"
    short_mib, short_percent = mib > card.free_mib, pod.compute_percent > card.free_percent
    if short_mib and short_percent:
        return "without enough memory and compute"
    if short_mib:
        return "without enough memory"
    return "without enough compute" if short_percent else ""


def _working(node: PlacedNode) -> int:
    return sum(not card.card.lost for card in node.cards)


def _cards(count: int) -> str:
    return f"{count} card{'s' if count != 1 else ''}"


def _share(pod: SharingPod) -> str:
    if pod.memory_mib is None:
        return "all of its memory and compute" if pod.cards == 1 else "all memory and compute"
    return f"{pod.memory_mib} MiB and {pod.compute_percent} % free"
