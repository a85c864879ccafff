"""The state of a fleet, its pools and its nodes, as commands show it. Pure data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from slicewright.live.blockers import Blocker
from slicewright.live.objects import UnreadObject
from slicewright.live.shared_cards import CardsView


class State(Enum):
    """The state of a pool, the best first."""

    VERIFIED = "verified"
    SETTING_UP = "being set up"
    CHANGING = "changing"
    STOPPED = "stopped"
    """Paused or aborted by a user."""
    UNDONE = "undone"
    """Verified with an earlier layout than the stack file declares, after a user's undo."""
    DEGRADED = "degraded"
    """The pool needs intervention."""
    MISSING = "missing"
    """The stack file has the pool, but the cluster does not."""

    @property
    def waits(self) -> bool:
        """True if the state may improve without intervention."""
        return self in (State.SETTING_UP, State.CHANGING)


@dataclass(frozen=True, kw_only=True)
class GpuGroup:
    """GPUs of a pool with equal model, MIG mode and instances."""

    model: str
    mig: bool | None
    """The MIG mode; None if unknown."""
    instances: Mapping[str, int]
    """Profile -> number of instances on each GPU."""
    gpus: int
    nodes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class NodeView:
    name: str
    zone: str
    verified: bool
    held: bool
    """True if the startup taint keeps new pods away."""
    quarantined: bool
    """True if the taint also ends running pods."""
    cordoned: bool
    ready: bool
    layout: str
    """Value of nvidia.com/mig.config; empty: none."""
    phase: str
    """Phase of its layout change; empty: none."""
    since: float | None
    """When the phase began, or its condition changed; seconds since the epoch."""
    reason: str
    message: str
    blockers: tuple[Blocker, ...]
    next: str
    """The next step for the user; empty if there is none, or the message has it."""


@dataclass(frozen=True, kw_only=True)
class RolloutView:
    layout: str
    """The desired layout."""
    suspended: str
    """`paused` or `aborted`, else empty."""
    done: int
    changing: tuple[str, ...]
    irreversible: tuple[str, ...]
    """Changing nodes whose label is set or whose driver is replaced; a stop lets them finish."""
    failed: tuple[str, ...]
    waves: tuple[tuple[str, ...], ...]
    """The next few groups of nodes that are out of service together, in order."""
    later: tuple[str, ...]
    """Nodes after these waves."""
    blocked: tuple[str, ...]
    """Nodes that cannot begin at the moment."""


@dataclass(frozen=True, kw_only=True)
class PoolView:
    name: str
    state: State
    reason: str
    message: str
    node_bounds: tuple[int, int]
    """The minimum and the maximum number of nodes."""
    total: int
    verified: int
    held: int
    layout: str
    """The desired layout of its nodes now."""
    declared: str
    """The layout in the stack file, which differs from `layout` after an undo."""
    earlier: str
    """The layout that an undo restores or has restored. Empty if an undo is impossible."""
    no_undo: str
    """The reason why an undo is impossible, else empty."""
    undo_helps: bool = False
    """True if a layout change has begun, and an undo would revert it."""
    gpus: tuple[GpuGroup, ...]
    rollout: RolloutView | None
    nodes: tuple[NodeView, ...]
    """Its nodes, nodes that need attention first."""
    next: tuple[str, ...]
    """Next steps for the user, except those of its nodes."""
    cards: CardsView | None = None
    """None if no engine shares its GPUs by fractions."""


@dataclass(frozen=True, kw_only=True)
class Fleet:
    pools: tuple[PoolView, ...]
    notes: tuple[str, ...]
    """Facts that make the rest less reliable."""
    unread: tuple[UnreadObject, ...] = ()
    """Objects of the cluster that are left out because they cannot be read."""

    @property
    def worst(self) -> State:
        """The worst state of a pool; VERIFIED if there is no pool."""
        order = list(State)
        return max((pool.state for pool in self.pools), key=order.index, default=State.VERIFIED)
