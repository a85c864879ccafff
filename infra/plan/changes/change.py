"""The change of a field, of a pool and of a fleet, with effects and reasons."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from slicewright.infra.plan.changes.rules import ChangeEffect, Rule, SpecialCase
from slicewright.infra.plan.model.nodes import NodeCount

_NO_NODE_CHANGES = "the nodes that are there stay"
_NEW_NODES = "all nodes are replaced anyway; the new ones have it"


@dataclass(frozen=True, kw_only=True)
class Change:
    rule: Rule
    before: Any
    after: Any
    replaced: bool = False
    """True if its pool's nodes are all replaced, be it for another change."""
    zones_change: bool = False
    """True if its pool's zones change too, which ends more nodes than the change of their number.
    """
    nodes_end: bool = False
    """True if a change of zones ends nodes."""

    @property
    def why(self) -> str:
        case = self._special_case
        if case is not None and case.why is not None:
            return case.why
        if self.effect is ChangeEffect.REPLACE:
            return self.rule.why
        if self.replaced:
            return _NEW_NODES
        if self.rule.node_count is not None and not self.zones_change:
            spared = self.rule.node_count == "gke" and self.after.autoscaled
            return _describe_node_counts(self.before, self.after, spared=spared)
        return self.rule.why

    @property
    def effect(self) -> ChangeEffect:
        case = self._special_case
        return self.rule.effect if case is None else case.effect

    @property
    def _special_case(self) -> SpecialCase | None:
        rule = self.rule
        if self.before is None and rule.if_added is not None:
            return rule.if_added
        if rule.if_disjoint is not None and not set(self.before or ()) & set(self.after or ()):
            return rule.if_disjoint
        return rule.if_nodes_end if self.nodes_end else None


@dataclass(frozen=True, kw_only=True)
class PartChange:
    """A pool, or a host without Kubernetes."""

    name: str
    kind: Literal["same", "changed", "new", "gone"]
    effect: ChangeEffect
    """The worst that happens to existing nodes and the pods on them, or to a host's GPUs."""
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FleetChange:
    fleet: tuple[Change, ...]
    """Changes of the cluster and of settings that all pools share."""
    pools: tuple[PartChange, ...]
    hosts: tuple[PartChange, ...]

    @property
    def everything(self) -> bool:
        """True if the cluster is replaced or is another one, and every pool with it."""
        return replaces_cluster(self.fleet)


def replaces_cluster(changes: Iterable[Change]) -> bool:
    return any(
        change.effect is ChangeEffect.REPLACE
        and change.rule.field.split(".")[0] in ("cloud", "cluster")
        for change in changes
    )


def _describe_node_counts(before: NodeCount, after: NodeCount, *, spared: bool) -> str:
    """A text on the nodes of a pool that changes in nothing but their number.

    spared: True if surplus nodes stay until GKE's autoscaler can spare them.
    """
    if before.min == before.max and after.min == after.max and not spared:
        difference, remaining = after.min - before.min, min(before.min, after.min)
        if difference == 0:
            return _NO_NODE_CHANGES
        changed = f"{_nodes_are(abs(difference))} {'added' if difference > 0 else 'removed'}"
        return (
            f"{changed}; {'the other stays' if remaining == 1 else f'the other {remaining} stay'}"
        )
    limits = []
    if after.min > before.min:
        limits.append(f"where there are fewer than {after.min}, nodes are added")
    if after.max < before.max and spared:
        limits.append(
            f"GKE's autoscaler takes nodes beyond {after.max} away when it can spare them"
        )
    elif after.max < before.max:
        limits.append(f"where there are more than {after.max}, nodes are removed")
    return "; ".join(limits) or _NO_NODE_CHANGES


def _nodes_are(count: int) -> str:
    return "1 node is" if count == 1 else f"{count} nodes are"
