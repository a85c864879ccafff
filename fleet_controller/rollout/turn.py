"""One pass over a node in mid-change: its observation, and its turn. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from slicewright.fleet_controller.nodes.assess import OF_THE_LAYOUT
from slicewright.fleet_controller.objects.assessment import Assessment
from slicewright.fleet_controller.objects.layout_change import Change, Phase
from slicewright.fleet_controller.objects.node import Node
from slicewright.fleet_controller.objects.node_pods import NodePod
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.fleet_controller.rollout.change_actions import (
    ChangeAction,
    EvictPod,
    NoteChange,
    UpgradeDriver,
)
from slicewright.fleet_controller.rollout.drain import Refusal
from slicewright.fleet_controller.rollout.pool_target import changes, has_driver, has_layout

DRAIN_POLL_S = 3.0
"""Delay between two looks at the pods of a node that is drained."""
_LONGEST_FAILURE = 900
"""Longest message of a failed change, in characters: it is a part of the node's annotation."""


@dataclass(frozen=True, kw_only=True)
class Observation:
    """A node in mid-change, as one pass sees it."""

    node: Node
    pool: Pool
    change: Change
    base: Assessment
    """The node's assessment, rollouts aside."""
    pods: tuple[NodePod, ...] | None
    """All pods that have not ended, or None if not known."""
    refusals: Mapping[str, Refusal]
    """Refusals of evictions, by the pod's uid."""
    now: float

    @property
    def has_layout(self) -> bool:
        return has_layout(self.node, self.pool)

    @property
    def has_driver(self) -> bool:
        return has_driver(self.pool, self.base)


@dataclass(frozen=True, kw_only=True)
class Turn:
    """The result of one pass for one node."""

    actions: tuple[ChangeAction, ...] = ()
    hold: bool = False
    """True if the node must have the startup taint now."""
    assessment: Assessment | None = None
    """The assessment to use instead of the node's own."""
    deadlines: tuple[float, ...] = ()
    """Times to look again without a change."""


def note(node: Node, change: Change) -> NoteChange:
    return NoteChange(node=node.name, version=node.version, change=change)


def move(observed: Observation, phase: Phase) -> NoteChange:
    """Returns the action that begins another phase."""
    change = replace(observed.change, phase=phase, since=observed.now, reason="", message="")
    return note(observed.node, change)


def fail(observed: Observation, reason: str, message: str) -> NoteChange:
    """Returns the action that ends the change as failed."""
    change = replace(
        observed.change,
        phase="Failed",
        since=observed.now,
        reason=reason,
        message=message[:_LONGEST_FAILURE],
    )
    return note(observed.node, change)


def upgrade(node: Node, change: Change, base: Assessment) -> UpgradeDriver:
    """Returns the action that begins the phase Upgrading. Earlier reports do not count in it."""
    return UpgradeDriver(
        node=node.name,
        version=node.version,
        change=replace(change, phase="Upgrading"),
        reports_after=base.reported,
    )


def evict(observed: Observation, pods: Sequence[NodePod]) -> tuple[EvictPod, ...]:
    """Returns the evictions of pods, without those that were refused a moment ago."""
    refusals = observed.refusals
    return tuple(
        eviction(observed.node, pod)
        for pod in pods
        if not pod.leaving
        and (pod.uid not in refusals or refusals[pod.uid].retry_at <= observed.now)
    )


def eviction(node: Node, pod: NodePod) -> EvictPod:
    return EvictPod(node=node.name, namespace=pod.namespace, pod=pod.name, uid=pod.uid)


def planned(base: Assessment, reason: str, message: str) -> Assessment:
    """Returns the assessment of a node whose change goes as planned."""
    return Assessment(
        status="Unknown",
        reason=reason,
        message=message,
        settles=True,
        mismatch=base.mismatch and base.reason not in OF_THE_LAYOUT,
        expires=base.expires,
        planned=True,
    )


def leaving(observed: Observation) -> str:
    """Describes the changes on a node that is drained."""
    change = changes(observed.node, observed.pool, observed.base)
    return f"{change} when the node's pods have left"
