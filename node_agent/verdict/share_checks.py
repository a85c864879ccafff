"""Compares the cards that an engine for fractions has registered with NVML. Pure functions.

The engine's scheduler allocates by the registration alone: it never sees a GPU. The device plugins
rewrite it only when it changes, so it has no age. What proves that it is of this node and current
is that its UUIDs, amounts and health are NVML's, and that the kubelet offers the plugin's devices:
it offers none once the plugin has gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from slicewright.apis.desired_state import Desired, DesiredShares
from slicewright.apis.reasons.agent import MATCH
from slicewright.apis.shares.engines import ENGINES, cards_of_others
from slicewright.apis.shares.registration import (
    BY_LIBRARY,
    RegisteredCard,
    UnreadableRegistration,
    read_registration,
)
from slicewright.node_agent.cluster.node import NodeState
from slicewright.node_agent.nvml.observed import ObservedGpu
from slicewright.node_agent.verdict.findings import Check

_MISSING = "CardsNotRegistered"
_WRONG = "CardsRegisteredWrong"
_MEMORY = "volcano.sh/vgpu-memory"
"""Volcano's plugin offers the kubelet a device for each unit of memory. HAMi's offers cards only.
"""


def check_shares(
    desired: Desired, gpus: Sequence[ObservedGpu], node: NodeState | None
) -> Iterator[Check]:
    """gpus: all GPUs of the node."""
    shares = desired.shares
    if shares is None or node is None:
        return  # an unreadable Node is reported elsewhere
    yield from _check_other_plugins(shares, node)
    engine = ENGINES[shares.engine]
    text = node.registrations.get(engine.registration)
    if text is None:
        yield Check(
            reason=_MISSING,
            where="node",
            expected=f"{desired.gpu_count} cards in {engine.registration}",
            observed="no such annotation",
        )
        return
    try:
        registered = read_registration(shares.engine, text)
    except UnreadableRegistration as e:
        yield Check(
            reason=_WRONG,
            where="node",
            expected=f"{desired.gpu_count} cards in {engine.registration}",
            observed=f"an annotation that cannot be read: {e}",
        )
        return
    yield from _check_cards(shares, gpus, {card.uuid: card for card in registered})
    yield from _check_memory(shares, gpus, node)


def _check_other_plugins(shares: DesiredShares, node: NodeState) -> Iterator[Check]:
    for resource, quantity in sorted(node.allocatable.items()):
        foreign = resource in cards_of_others(shares.engine) or resource.startswith(
            "nvidia.com/mig-"
        )
        if foreign and quantity:
            yield Check(
                reason="AnotherDevicePlugin",
                where=resource,
                expected="0",
                observed=str(quantity),
            )


def _check_cards(
    shares: DesiredShares, gpus: Sequence[ObservedGpu], registered: Mapping[str, RegisteredCard]
) -> Iterator[Check]:
    uuids = {gpu.uuid for gpu in gpus}
    for uuid in sorted(registered.keys() - uuids):
        yield Check(
            reason=_WRONG,
            where="node",
            expected="only cards that NVML shows",
            observed=f"card {uuid}",
        )
    for gpu in gpus:
        if gpu.uuid is None or gpu.failure:
            continue  # the GPU itself is reported
        card = registered.get(gpu.uuid)
        if card is None:
            yield Check(
                reason=_MISSING,
                where=f"GPU {gpu.index}",
                expected=f"card {gpu.uuid}",
                observed="not registered",
            )
        else:
            yield from _check_card(shares, gpu, card)


def _check_card(shares: DesiredShares, gpu: ObservedGpu, card: RegisteredCard) -> Iterator[Check]:
    where = f"GPU {gpu.index}"
    yield Check(
        reason=MATCH if card.healthy else "CardUnhealthy",
        where=where,
        expected="a healthy card",
        observed="a healthy card" if card.healthy else "a card registered as unhealthy",
    )
    least, most = _units(shares, gpu)
    unit = shares.memory_unit_mib
    amounts = (
        (
            f"{most * unit} MiB",
            f"{card.memory_units * unit} MiB",
            gpu.memory_mib is not None and least - 1 <= card.memory_units <= most + 1,
        ),
        (f"{shares.slots} containers", f"{card.slots} containers", card.slots == shares.slots),
        (
            f"{shares.compute_percent} % of compute",
            f"{card.compute_percent} % of compute",
            card.compute_percent == shares.compute_percent,
        ),
        (f"mode {BY_LIBRARY}", f"mode {card.mode}", card.mode == BY_LIBRARY),
    )
    for expected, observed, right in amounts:
        yield Check(
            reason=MATCH if right else _WRONG, where=where, expected=expected, observed=observed
        )


def _check_memory(
    shares: DesiredShares, gpus: Sequence[ObservedGpu], node: NodeState
) -> Iterator[Check]:
    """Checks the memory that the kubelet offers. It drops a list of too many devices."""
    if shares.engine != "volcano":
        return
    least = sum(_units(shares, gpu)[0] for gpu in gpus)
    most = sum(_units(shares, gpu)[1] for gpu in gpus)
    offered = node.allocatable.get(_MEMORY, 0)
    right = least - len(gpus) <= offered <= most + len(gpus)
    yield Check(
        reason=MATCH if right else _WRONG, where=_MEMORY, expected=str(most), observed=str(offered)
    )


def _units(shares: DesiredShares, gpu: ObservedGpu) -> tuple[int, int]:
    """The fewest and the most units that the card's memory may count.

    Volcano's plugin scales the devices of the kubelet, but not the annotation. Source:
    volcano-vgpu-device-plugin, pkg/plugin/register.go and pkg/plugin/vgpu.
    """
    plain = (gpu.memory_mib or 0) // shares.memory_unit_mib
    return plain, plain * shares.memory_percent // 100
