"""Draws cards that pods share by fractions, each share to scale, and names pods without a place."""

from __future__ import annotations

import string
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from rich.text import Text

from slicewright.infra import plan
from slicewright.infra.plan import CardShare, FractionalPlacement, PlacedCard, PlacedNode
from slicewright.show.picture import COLOURS

ENGINE_NAMES: Final[Mapping[str, str]] = {"hami": "HAMi", "volcano": "Volcano", "vke": "VKE"}
_CELLS: Final = 40
"""Columns of a card, as the engine counts it."""
_MOST_NODES: Final = 8
_MOST_PODS: Final = 10


def shared_card_lines(fleet: plan.FleetPlan) -> Iterator[Text]:
    """The engine, its policies, the cards in use, and the pods that do not fit. Nothing if no GPU
    is shared by fractions.
    """
    engine, placement = fleet.engine, fleet.placement
    if engine is None:
        return
    settings = engine.settings
    yield Text(
        f"shared GPUs: {ENGINE_NAMES[engine.provider]}, nodes {settings.node_policy}, cards "
        f"{settings.gpu_policy}; at most {engine.shares_per_gpu} containers on a card",
        style="bold",
    )
    yield Text(f"  {policy_scope(engine)}")
    for line in _oversubscription(engine):
        yield Text(f"  {line}")
    if placement is None:
        yield Text("  the cards are not drawn: VKE's scheduler is not published")
        return
    colours = _colours(placement)
    used = [node for node in placement.nodes if any(card.shares for card in node.cards)]
    for node in used[:_MOST_NODES]:
        yield from _node_lines(node, colours)
    if len(used) > _MOST_NODES:
        yield Text(f"  and {len(used) - _MOST_NODES} more nodes in use (see --json)")
    empty = len(placement.nodes) - len(used)
    if empty:
        yield Text(f"  {empty} node{'s' if empty != 1 else ''} with nothing on the cards")
    yield from _misfit_lines(placement)
    yield Text(f"  {density_text(placement)}")


def policy_scope(engine: plan.Engine) -> str:
    """Says whether a pod may choose its own policies."""
    match engine.provider:
        case "hami":
            return "policies: each workload may have its own (gpu_share.node_policy, .gpu_policy)"
        case "volcano":
            return "policies: one pair for the whole scheduler; no pod chooses its own"
        case _:
            return "policies: VKE's console sets them, not the stack"


def request_lines(request: plan.WorkloadPlan) -> Iterator[Text]:
    """The request of a workload whose pods the stack does not create."""
    yield Text(f"workload {request.name}: {share_text(request)}", style="bold")
    requests = ", ".join(f"{name} {count}" for name, count in request.requests.items())
    each = "" if request.containers == 1 else f" in each of {request.containers} containers"
    yield Text(f"  a pod requests  {requests}{each}")
    written = ", ".join(f"{name}: {value}" for name, value in request.annotations.items())
    if written:
        yield Text(f"  its annotations {written}")


def share_text(request: plan.WorkloadPlan) -> str:
    """A container's request in words."""
    cards = f"{request.cards} GPU{'s' if request.cards != 1 else ''}"
    memory = request.memory_mib_per_card
    if memory is None:
        return f"{cards}, whole"
    each = " with" if request.cards == 1 else ", each with"
    return f"{cards}{each} {memory} MiB and {request.compute_percent_per_card} % of the compute"


def density(placement: FractionalPlacement) -> float | None:
    """Containers on a card in use, on average. None if there are none."""
    return placement.containers / placement.used_cards if placement.used_cards else None


def density_text(placement: FractionalPlacement) -> str:
    average = density(placement)
    if average is None:
        return "density: no card is in use"
    cards = sum(len(node.cards) for node in placement.nodes)
    return (
        f"density: {placement.containers} shares on {placement.used_cards} of {cards} cards, "
        f"{average:.1f} a card, {average * 100:.0f} % of one container a card (arithmetic on this "
        "plan, not a measurement)"
    )


def _oversubscription(engine: plan.Engine) -> Iterator[str]:
    promised = engine.settings.oversubscription
    if promised.memory_percent > 100 or promised.compute_percent > 100:
        yield (
            f"oversubscribed: {promised.memory_percent} % of each card's memory and "
            f"{promised.compute_percent} % of its compute may be promised"
        )
    if engine.memory_factor > 1:
        yield (
            f"memory is requested in units of {engine.memory_factor} MiB: with a device for each "
            "MiB, the kubelet would drop the node's list"
        )


def _colours(placement: FractionalPlacement) -> Mapping[str, tuple[str, str]]:
    """Workload -> its letter and its colour."""
    names = dict.fromkeys(
        share.workload for node in placement.nodes for card in node.cards for share in card.shares
    )
    letters = string.ascii_lowercase
    return {
        name: (letters[i % len(letters)], COLOURS[i % len(COLOURS)]) for i, name in enumerate(names)
    }


def _node_lines(node: PlacedNode, colours: Mapping[str, tuple[str, str]]) -> Iterator[Text]:
    yield Text(f"  {node.name}")
    for i, card in enumerate(node.cards):
        if not card.shares:
            free = f"{card.free_mib} MiB and {card.free_percent} % left"
            yield Text(f"    GPU {i:<2} empty: {free}")
            continue
        mib = [(share, share.memory_mib) for share in card.shares]
        percent = [(share, share.compute_percent) for share in card.shares]
        whole = card.card
        yield _bar(f"    GPU {i:<2} memory  ", mib, whole.memory_mib, colours).append(
            f" {card.free_mib} of {whole.memory_mib} MiB left"
        )
        yield _bar("           compute ", percent, whole.compute_percent, colours).append(
            f" {card.free_percent} of {whole.compute_percent} % left"
        )
        yield Text(f"           pods    {_pods(card, colours)}")


def _bar(
    label: str,
    parts: Iterable[tuple[CardShare, int]],
    total: int,
    colours: Mapping[str, tuple[str, str]],
) -> Text:
    """parts: shares with their amounts, of `total`. The columns are rounded, the sum is not off."""
    line, amount = Text(label), 0
    for share, part in parts:
        start, end = amount * _CELLS // total, (amount + part) * _CELLS // total
        letter, colour = colours[share.workload]
        line.append(_cells(letter, end - start), style=colour)
        amount += part
    return line.append("·" * (_CELLS - amount * _CELLS // total), style="dim")


def _cells(letter: str, width: int) -> str:
    if width < 3:
        return "[]"[:width] if width != 1 else "|"
    return "[" + letter.center(width - 2) + "]"


def _pods(card: PlacedCard, colours: Mapping[str, tuple[str, str]]) -> str:
    return ", ".join(
        f"{colours[share.workload][0]} = {share.pod} ({share.memory_mib} MiB, "
        f"{share.compute_percent} %)"
        for share in card.shares
    )


def _misfit_lines(placement: FractionalPlacement) -> Iterator[Text]:
    for misfit in placement.misfits[:_MOST_PODS]:
        yield Text(f"  {misfit.pod} does not fit: {misfit.reason}", style="yellow")
    more = len(placement.misfits) - _MOST_PODS
    if more > 0:
        yield Text(f"  and {more} more pods do not fit (see --json)", style="yellow")
