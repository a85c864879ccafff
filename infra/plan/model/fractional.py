"""Fractional GPUs: the engine, the cards of the nodes, and the pods whose shares lie on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from slicewright.infra.stack_file import Fractional, Policy


@dataclass(frozen=True, kw_only=True)
class Engine:
    """The engine that allocates fractions, with the settings of the whole cluster."""

    settings: Fractional
    shares_per_gpu: int
    """Most containers on a card."""
    memory_factor: int
    """MiB in one unit of requested memory. Above 1 only with Volcano, whose plugin lists a device
    for each unit.
    """

    @property
    def provider(self) -> str:
        return self.settings.provider


@dataclass(frozen=True, kw_only=True)
class SharedCard:
    """A card of a node, as the engine counts it: with oversubscription, more than it has."""

    memory_mib: int
    compute_percent: int
    slots: int
    """Most containers on it."""
    lost: bool = False
    """True if the card is broken: nothing is placed on it."""


@dataclass(frozen=True, kw_only=True)
class SharedNode:
    name: str
    pool: str
    cards: tuple[SharedCard, ...]


@dataclass(frozen=True, kw_only=True)
class SharingPod:
    """A pod to place. Each of its containers gets the same share of each of its cards."""

    name: str
    workload: str
    cards: int
    """Cards of each container, all of one node."""
    memory_mib: int | None
    """Memory of each card. None: all of it."""
    compute_percent: int
    """Compute of each card. 100: the container is alone on its cards."""
    node_policy: Policy
    gpu_policy: Policy
    containers: int = 1
    pool: str | None = None
    """The pool that it must run on. None: any."""


@dataclass(frozen=True, kw_only=True)
class CardShare:
    """One container's part of one card."""

    pod: str
    workload: str
    memory_mib: int
    compute_percent: int


@dataclass(frozen=True, kw_only=True)
class PlacedCard:
    card: SharedCard
    shares: tuple[CardShare, ...]

    @cached_property
    def free_mib(self) -> int:
        return self.card.memory_mib - sum(share.memory_mib for share in self.shares)

    @cached_property
    def free_percent(self) -> int:
        return self.card.compute_percent - sum(share.compute_percent for share in self.shares)


@dataclass(frozen=True, kw_only=True)
class PlacedNode:
    name: str
    pool: str
    cards: tuple[PlacedCard, ...]


@dataclass(frozen=True, kw_only=True)
class Misfit:
    """A pod that finds no place."""

    pod: str
    workload: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class FractionalPlacement:
    """The pods of a fleet on its cards, placed in the order of the stack file."""

    nodes: tuple[PlacedNode, ...]
    misfits: tuple[Misfit, ...]

    @cached_property
    def pods(self) -> Mapping[str, int]:
        """Workload -> its pods that have a place."""
        placed: dict[str, set[str]] = {}
        for node in self.nodes:
            for card in node.cards:
                for share in card.shares:
                    placed.setdefault(share.workload, set()).add(share.pod)
        return {workload: len(pods) for workload, pods in placed.items()}

    @property
    def used_cards(self) -> int:
        return sum(bool(card.shares) for node in self.nodes for card in node.cards)

    @property
    def containers(self) -> int:
        """Containers that have a share, each counted once for each of its cards."""
        return sum(len(card.shares) for node in self.nodes for card in node.cards)
