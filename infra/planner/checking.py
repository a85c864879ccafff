"""Checks an answer against its problem with integers only, by code that the solver does not use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from slicewright.infra import geometry
from slicewright.infra.planner.answer import Answer, Assignment
from slicewright.infra.planner.demand import Problem


def violations(problem: Problem, answer: Answer) -> tuple[str, ...]:
    """Returns the faults of an answer, in sentences. Empty: the answer is right."""
    return (
        *_layouts(answer),
        *_demand(problem, answer),
        *_devices(problem, answer),
        *_limits(problem, answer),
        *_objective(problem, answer),
    )


def _layouts(answer: Answer) -> Iterator[str]:
    """Each layout must have a placement on an empty GPU."""
    for pool in answer.pools:
        if pool.layout:
            fit = geometry.check(pool.node_type.gpu, pool.layout)
            if isinstance(fit, geometry.Misfit):
                yield f"{pool.node_type.name}: {fit.reason}"


def _demand(problem: Problem, answer: Answer) -> Iterator[str]:
    by_name = {demand.name: demand for demand in problem.classes}
    served = Counter[str]()
    for assignment in answer.assignments:
        each = by_name[assignment.demand_class].yields.get(assignment.slot, 0)
        if not each:
            yield f"{assignment.demand_class} cannot be served by {assignment.slot}"
        served[assignment.demand_class] += assignment.replicas * each
    for demand in problem.classes:
        if served[demand.name] < demand.required:
            yield f"{demand.name}: {served[demand.name]} of {demand.required} {demand.unit}"


def _devices(problem: Problem, answer: Answer) -> Iterator[str]:
    """There must be as many devices as replicas use, even if the spare nodes of each pool fail."""
    devices = Counter[tuple[str, str]]()
    for pool in answer.pools:
        usable = pool.nodes - problem.limits.spare_nodes
        if usable < 0:
            yield f"{pool.node_type.name}: {pool.nodes} nodes are fewer than its spare nodes"
        for profile, count in pool.node_type.devices(pool.layout).items():
            devices[pool.node_type.name, profile] += count * usable
    gpus = {node.name: node.gpus for node in problem.node_types}
    used = Counter[tuple[str, str]]()
    for assignment in answer.assignments:
        used[assignment.node_type, assignment.slot.profile] += _gpus_used(assignment)
        if gpus[assignment.node_type] % assignment.slot.gpus:
            yield f"{assignment.slot} would leave GPUs of {assignment.node_type} apart"
    for key, count in sorted(used.items()):
        if count > devices[key]:
            yield f"{key[0]}: {count} devices of {key[1]} are used, {devices[key]} exist"


def _gpus_used(assignment: Assignment) -> int:
    return assignment.replicas * assignment.slot.gpus


def _limits(problem: Problem, answer: Answer) -> Iterator[str]:
    limits = problem.limits
    if limits.pools is not None and len(answer.pools) > limits.pools:
        yield f"{len(answer.pools)} pools, at most {limits.pools} are allowed"
    if limits.nodes is not None and answer.nodes > limits.nodes:
        yield f"{answer.nodes} nodes, at most {limits.nodes} are allowed"
    nodes, gpus = Counter[str](), Counter[str]()
    for pool in answer.pools:
        nodes[pool.node_type.name] += pool.nodes
        gpus[pool.node_type.gpu.name] += pool.gpus
    for gpu, most in limits.gpus.items():
        if gpus[gpu] > most:
            yield f"{gpus[gpu]} GPUs {gpu}, at most {most} are allowed"
    for node in problem.node_types:
        if node.most is not None and nodes[node.name] > node.most:
            yield f"{nodes[node.name]} nodes of {node.name}, at most {node.most} are allowed"


def _objective(problem: Problem, answer: Answer) -> Iterator[str]:
    total = {"cost": answer.cost, "gpus": answer.gpus, "nodes": answer.nodes}[problem.objective]
    if total != answer.bounds.objective:
        yield f"the answer's {problem.objective} is {total}, its proof {answer.bounds.objective}"
    if answer.bounds.proven > total:
        yield f"the proven bound {answer.bounds.proven} is above the objective {total}"
