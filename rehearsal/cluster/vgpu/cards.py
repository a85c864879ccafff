"""The cards of a node as an engine shares them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from slicewright.node_agent.nvml.observed import Observation, ObservedGpu


@dataclass(frozen=True, kw_only=True)
class Card:
    index: int
    uuid: str
    model: str
    memory_mib: int
    healthy: bool = True


@dataclass(frozen=True, kw_only=True)
class Sharing:
    """How a plugin divides its cards."""

    shares_per_card: int = 10
    memory_factor: int = 1
    """MiB in one unit of memory."""
    memory_scaling: float = 1.0
    """Above 1, more memory is promised than the cards have."""
    compute_scaling: float = 1.0

    def memory_units(self, card: Card) -> int:
        return int(card.memory_mib * self.memory_scaling) // self.memory_factor

    @property
    def compute_percent(self) -> int:
        return int(100 * self.compute_scaling)


@dataclass(frozen=True, kw_only=True)
class Share:
    """A container's share of one card."""

    uuid: str
    memory_units: int
    compute_percent: int


def cards_of(seen: Observation) -> tuple[Card, ...]:
    """The cards that can be read."""
    return tuple(_card(gpu) for gpu in seen.gpus if _readable(gpu))


def with_health(cards: Sequence[Card], seen: Observation) -> tuple[Card, ...]:
    """The same cards. One that is not readable any more is unhealthy, and stays so: the plugins
    have no way back. Source: Project-HAMi/volcano-vgpu-device-plugin, pkg/plugin/server.go.
    """
    readable = {gpu.uuid for gpu in seen.gpus if _readable(gpu)}
    return tuple(replace(card, healthy=card.healthy and card.uuid in readable) for card in cards)


def _readable(gpu: ObservedGpu) -> bool:
    return gpu.failure is None and None not in (gpu.uuid, gpu.model, gpu.memory_mib)


def _card(gpu: ObservedGpu) -> Card:
    return Card(
        index=gpu.index,
        uuid=gpu.uuid or "",
        model=gpu.model or "",
        memory_mib=gpu.memory_mib or 0,
    )
