"""Classes that the same devices serve are one class for the solver: a cluster or a trace may have
hundreds of classes, and few kinds of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from slicewright.infra.planner.answer import Assignment
from slicewright.infra.planner.demand import DemandClass, Problem

Members = Mapping[str, Sequence[DemandClass]]
"""The name of a merged class -> its classes, sorted by name."""


def merged(problem: Problem) -> tuple[Problem, Members]:
    """Returns the problem with one class for those that are alike, and the classes of each.

    Classes with a rate stay apart: no replica serves two of them.
    """
    members: dict[object, list[DemandClass]] = {}
    for demand in sorted(problem.classes, key=lambda demand: demand.name):
        counts_replicas = set(demand.yields.values()) == {1}
        key = frozenset(demand.yields) if counts_replicas else demand.name
        members.setdefault(key, []).append(demand)
    classes = tuple(
        replace(alike[0], required=sum(demand.required for demand in alike))
        for alike in members.values()
    )
    named = {alike[0].name: alike for alike in members.values()}
    return replace(problem, classes=classes), named


def divided(assignments: Iterable[Assignment], members: Members) -> tuple[Assignment, ...]:
    """Returns the assignments of the members, sorted by class, node type and slot."""
    by_class: dict[str, list[Assignment]] = {}
    for assignment in assignments:
        by_class.setdefault(assignment.demand_class, []).append(assignment)
    parts = (
        part for name, alike in members.items() for part in _divided(by_class.get(name, ()), alike)
    )
    return tuple(
        sorted(parts, key=lambda part: (part.demand_class, part.node_type, str(part.slot)))
    )


def _divided(parts: Iterable[Assignment], alike: Sequence[DemandClass]) -> Iterator[Assignment]:
    """Gives each class its replicas in turn. Replicas beyond the demand go to the last one."""
    classes = iter(alike)
    demand = next(classes)
    needed = demand.required
    for part in parts:
        remaining = part.replicas
        while remaining:
            following = None if remaining <= needed else next(classes, None)
            share = min(remaining, needed) if following is not None else remaining
            if share:
                yield replace(part, demand_class=demand.name, replicas=share)
            remaining -= share
            needed -= share
            if following is not None:
                demand, needed = following, following.required
