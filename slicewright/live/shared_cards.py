"""The cards of a pool that an engine shares by fractions, and the pods that wait for shares. Pure.

Volcano refuses a pod with `hami-vgpuDeviceSharing error.` and no more. So the reason is worked out
from the engine's own accounts, by the rules of the plan's placement.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from slicewright.apis.names import POOL_LABEL
from slicewright.apis.shares.engines import ENGINES
from slicewright.fleet_controller.objects.node import Node
from slicewright.fleet_controller.objects.node_pods import NodePod
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.fleet_controller.objects.shares import PoolShares
from slicewright.infra.plan.fractional.misfits import lacks, why_it_fits_nowhere
from slicewright.infra.plan.model.fractional import (
    CardShare,
    PlacedCard,
    PlacedNode,
    SharedCard,
    SharingPod,
)
from slicewright.node_agent.cluster.node import quantity

_MOST_CARDS: Final = 16
"""Most cards that a waiting pod lists."""


@dataclass(frozen=True, kw_only=True)
class WaitingPod:
    """A pod that waits for shares."""

    pod: str
    why: str
    cards: tuple[str, ...]
    """Each card of the nodes where it may run, and what keeps the pod off it."""


@dataclass(frozen=True, kw_only=True)
class CardsView:
    """The cards of a pool whose GPUs are shared by fractions."""

    nodes: tuple[PlacedNode, ...]
    """Nodes whose cards an engine has registered, with the shares on each card."""
    closed: tuple[str, ...]
    """Nodes that take no pods: held, cordoned or not Ready."""
    waiting: tuple[WaitingPod, ...]


def cards_view(
    pool: Pool,
    nodes: Sequence[Node],
    pods: Mapping[str, Sequence[NodePod]],
    pending: Sequence[Mapping[str, Any]],
) -> CardsView | None:
    """None if no engine shares the pool's GPUs.

    pods: node -> its pods. pending: raw pods that are bound to no node.
    """
    if pool.shares is None:
        return None
    placed = {node.name: _placed(pool, node, pods.get(node.name, ())) for node in nodes}
    closed = tuple(node.name for node in nodes if node.held or node.unschedulable or not node.ready)
    open_nodes = [placed[node.name] for node in nodes if node.name not in closed]
    waiting = [
        _waiting(pod, open_nodes)
        for raw in pending
        if (pod := _sharing_pod(raw, pool, pool.shares)) is not None
    ]
    return CardsView(nodes=tuple(placed.values()), closed=closed, waiting=tuple(waiting))


def _placed(pool: Pool, node: Node, pods: Sequence[NodePod]) -> PlacedNode:
    assert pool.shares is not None
    unit = pool.shares.memory_unit_mib
    shares: dict[str, list[CardShare]] = {card.uuid: [] for card in node.registered}
    for pod in pods:
        for share in pod.shares.allocated if pod.shares else ():
            shares.setdefault(share.uuid, []).append(
                CardShare(
                    pod=pod.path,
                    workload="",
                    memory_mib=share.memory_units * unit,
                    compute_percent=share.compute_percent,
                )
            )
    cards = tuple(
        PlacedCard(
            card=SharedCard(
                memory_mib=card.memory_units * unit,
                compute_percent=card.compute_percent,
                slots=card.slots,
                lost=not card.healthy,
            ),
            shares=tuple(shares[card.uuid]),
        )
        for card in node.registered
    )
    return PlacedNode(name=node.name, pool=pool.name, cards=cards)


def _sharing_pod(raw: Mapping[str, Any], pool: Pool, shares: PoolShares) -> SharingPod | None:
    """The pod's request. None if it requests no shares of this engine, or selects another pool."""
    selected = (raw["spec"].get("nodeSelector") or {}).get(POOL_LABEL)
    requests = list(_requests(raw, ENGINES[shares.engine].cards))
    if not requests or selected not in (None, pool.name):
        return None
    first, meta = requests[0], raw["metadata"]
    cards, memory, percent = _amounts(first, shares)
    return SharingPod(
        name=f"{meta['namespace']}/{meta['name']}",
        workload="",
        cards=cards,
        memory_mib=memory,
        compute_percent=percent,
        node_policy="binpack",
        gpu_policy="binpack",
        containers=len(requests),
        pool=None,
    )


def _requests(raw: Mapping[str, Any], cards: str) -> Iterator[Mapping[str, Any]]:
    """The requests of each container that shares."""
    for container in raw["spec"].get("containers") or ():
        requests = (container.get("resources") or {}).get("requests") or {}
        if str(requests.get(cards, "0")) != "0":
            yield requests


def _amounts(requests: Mapping[str, Any], shares: PoolShares) -> tuple[int, int | None, int]:
    """Cards, MiB of each (None: all), and percent of each."""
    if shares.engine == "hami":
        memory, compute = requests.get("nvidia.com/gpumem"), requests.get("nvidia.com/gpucores")
    else:
        memory = requests.get("volcano.sh/vgpu-memory")
        compute = requests.get("volcano.sh/vgpu-cores")
    cards = _whole(requests[ENGINES[shares.engine].cards])
    mib = None if memory is None else _whole(memory) * shares.memory_unit_mib
    return cards, mib, 0 if compute is None else _whole(compute)


def _whole(written: Any) -> int:
    try:
        return quantity(str(written))
    except ValueError:
        return 0


def _waiting(pod: SharingPod, nodes: Sequence[PlacedNode]) -> WaitingPod:
    fitting = [n.name for n in nodes if sum(not lacks(c, pod) for c in n.cards) >= pod.cards]
    if fitting:
        why = (
            f"it fits on {', '.join(fitting[:3])}, and the scheduler has not placed it: read the "
            "pod's events, and the scheduler's log"
        )
        return WaitingPod(pod=pod.name, why=why, cards=())
    lines = [
        f"{node.name} card {index}: {lacks(card, pod) or 'room'} ({card.free_mib} of "
        f"{card.card.memory_mib} MiB and {card.free_percent} of {card.card.compute_percent} % free)"
        for node in nodes
        for index, card in enumerate(node.cards)
    ]
    more = len(lines) - _MOST_CARDS
    listed = (*lines[:_MOST_CARDS], *((f"and {more} more cards",) if more > 0 else ()))
    return WaitingPod(pod=pod.name, why=why_it_fits_nowhere(nodes, pod), cards=listed)
