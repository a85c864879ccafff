"""The planner's problem of a stack file with `demand`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any

from slicewright.infra import stack_file
from slicewright.infra.plan.demand.classes import demand_class
from slicewright.infra.plan.demand.node_types import node_types
from slicewright.infra.plan.demand.offers import CloudFleet
from slicewright.infra.plan.findings import Checked, collect, refuse, rule
from slicewright.infra.planner import Limits, Problem
from slicewright.infra.stack_file import SpecError


def read_demand(
    file: FilePath, *, name: str | None = None, classes: Sequence[Mapping[str, Any]] = ()
) -> tuple[CloudFleet, Problem]:
    """Returns the fleet of a stack file, and its problem. The fleet's pools may be missing.

    classes: demanded besides those of the file. Raises SpecError.
    """
    try:
        source = stack_file.read(file, name=name)
    except stack_file.NotReadable as e:
        raise stack_file.unreadable(str(e), name or str(file)) from None
    if classes:
        source = _with_classes(source, classes)
    fleet = _fleet(source)
    problem, findings = collect(_problem(fleet))
    if problem is None or findings:
        raise SpecError(source, [finding.problem for finding in findings])
    assert isinstance(fleet, CloudFleet)
    return fleet, problem


def _with_classes(
    source: stack_file.Source, classes: Sequence[Mapping[str, Any]]
) -> stack_file.Source:
    if not isinstance(source.raw, dict) or not isinstance(source.raw.get("demand", {}), dict):
        return source
    demand = source.raw.get("demand", {})
    stated = demand.get("classes", [])
    if not isinstance(stated, list):
        return source
    raw = source.raw | {"demand": demand | {"classes": [*stated, *classes]}}
    return replace(source, raw=raw)


def _fleet(source: stack_file.Source) -> stack_file.Fleet:
    """Returns the fleet. A missing list of pools is no problem here: the answer has pools."""
    try:
        return stack_file.parse(json.dumps(source.raw), source)
    except SpecError as e:
        recovered = e.recovered
        if recovered is None or recovered.fleet is None:
            raise
        problems = [problem for problem in e.problems if problem.path[:1] != ("node_pools",)]
        if problems:
            raise SpecError(e.source, problems, recovered) from None
        return recovered.fleet


@rule("demand-missing")
def _problem(fleet: stack_file.Fleet) -> Checked[Problem | None]:
    if not isinstance(fleet, CloudFleet):
        yield refuse(
            ("cloud",),
            "nothing can be ordered in an existing cluster, so there is nothing to optimise",
            "write gke or eks, with cluster.name and its region, and the key demand",
        )
        return None
    if fleet.demand is None:
        instead = "state the demand (docs/how-to/plan-the-least-fleet.md)"
        yield refuse((), "has no key demand", instead)
        return None
    return (yield from problem_of(fleet, fleet.demand))


def problem_of(fleet: CloudFleet, demand: stack_file.Demand) -> Checked[Problem]:
    """Returns the problem of a fleet's demand."""
    nodes = yield from node_types(fleet, demand)
    yield from _check_class_names(demand)
    classes = []
    for i, stated in enumerate(demand.classes):
        path = ("demand", "classes", i)
        classes.append((yield from demand_class(stated, nodes, demand.headroom_percent, path)))
    return Problem(
        classes=tuple(classes),
        node_types=nodes,
        objective=demand.objective,
        limits=Limits(
            pools=demand.max_pools,
            nodes=demand.max_nodes,
            gpus=demand.max_gpus,
            spare_nodes=demand.spare_nodes,
        ),
    )


@rule("demand-class-name")
def _check_class_names(demand: stack_file.Demand) -> Checked[None]:
    first: dict[str, int] = {}
    for i, stated in enumerate(demand.classes):
        if stated.name in first:
            yield refuse(
                ("demand", "classes", i, "name"),
                f"{stated.name!r} is also the name of demand.classes[{first[stated.name]}]",
                "choose another name",
            )
        first.setdefault(stated.name, i)
