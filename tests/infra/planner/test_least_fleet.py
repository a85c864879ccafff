"""The planner's answer costs as little as any fleet that an exhaustive search finds."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slicewright.infra import catalog, geometry, planner
from slicewright.infra.planner import DemandClass, Limits, NodeType, Problem, Slot
from slicewright.infra.planner.candidates import WHOLE
from slicewright.infra.planner.dominance import price
from tests.properties import examples

A30 = catalog.load().gpus["A30"]
A100 = catalog.load().gpus["A100-80"]
_MOST_NODES = 5


def _slots(gpu: catalog.Gpu) -> list[Slot]:
    partitions = [Slot(gpu=gpu.name, profile=name) for name in sorted(gpu.profiles)]
    return [*partitions, planner.whole(gpu), planner.whole(gpu, 2)]


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Two node types of one GPU model, and up to three classes of a few replicas."""
    gpu = draw(st.sampled_from([A30, A100]))
    node_types = tuple(
        planner.node_type(
            f"with-{gpus}",
            gpu,
            gpus=gpus,
            cost=draw(st.integers(1000, 9000)),
            partitioner=draw(st.sampled_from(["operator", "native"])),
            most=draw(st.sampled_from([None, None, 1])),
        )
        for gpus in (1, 2)
    )
    devices = st.sets(st.sampled_from(_slots(gpu)), min_size=1, max_size=4)
    classes = tuple(
        DemandClass(
            name=f"class-{number}",
            required=draw(st.integers(1, 5)),
            yields=dict.fromkeys(sorted(draw(devices)), 1),
        )
        for number in range(draw(st.integers(1, 3)))
    )
    return Problem(
        classes=classes,
        node_types=node_types,
        objective=draw(st.sampled_from(["cost", "gpus", "nodes"])),
        limits=Limits(
            pools=draw(st.sampled_from([1, 2, None])),
            nodes=draw(st.sampled_from([1, 2, None, None])),
            gpus=draw(st.sampled_from([{}, {}, {gpu.name: 1}, {gpu.name: 3}])),
            spare_nodes=draw(st.sampled_from([0, 0, 0, 1])),
        ),
    )


def serves(fleet: Sequence[tuple[NodeType, geometry.Layout]], problem: Problem) -> bool:
    """Returns True if every replica gets a device, by trying every way."""
    devices = tuple(
        sorted(
            (index if profile == WHOLE else -1, profile, count)
            for index, (node, layout) in enumerate(fleet)
            for profile, count in node.devices(layout).items()
        )
    )
    replicas = [demand for demand in problem.classes for _ in range(demand.required)]

    @cache
    def rest_fits(devices: tuple[tuple[int, str, int], ...], number: int) -> bool:
        if number == len(replicas):
            return True
        for index, (node, profile, count) in enumerate(devices):
            for slot in replicas[number].yields:
                if slot.profile == profile and slot.gpus <= count:
                    left = (node, profile, count - slot.gpus)
                    if rest_fits((*devices[:index], left, *devices[index + 1 :]), number + 1):
                        return True
        return False

    return rest_fits(devices, 0)


def least(problem: Problem, most: int) -> int | None:
    """Returns the objective of the best fleet of up to `most` nodes, with any layout that geometry
    allows rather than the planner's own list.
    """

    def total(fleet: Sequence[int]) -> int:
        return sum(price(kinds[kind][0], problem.objective) for kind in fleet)

    kinds = [(node, layout) for node in problem.node_types for layout in (*_layouts(node), {})]
    fleets = sorted(
        (
            fleet
            for size in range(most + 1)
            for fleet in itertools.combinations_with_replacement(range(len(kinds)), size)
        ),
        key=total,
    )
    return next(
        (
            total(fleet)
            for fleet in fleets
            if _allowed([kinds[kind][0] for kind in fleet], len(set(fleet)), problem)
            and serves([kinds[kind] for kind in _survivors(fleet, problem)], problem)
        ),
        None,
    )


def _allowed(nodes: Sequence[NodeType], pools: int, problem: Problem) -> bool:
    limits = problem.limits
    counts = Counter(node.name for node in nodes)
    return (
        (limits.pools is None or pools <= limits.pools)
        and (limits.nodes is None or len(nodes) <= limits.nodes)
        and sum(node.gpus for node in nodes) <= min(limits.gpus.values(), default=99)
        and all(node.most is None or counts[node.name] <= node.most for node in nodes)
    )


def _survivors(fleet: Sequence[int], problem: Problem) -> Sequence[int]:
    """Returns the nodes that are left after the spare nodes of each pool have failed."""
    counts = Counter(fleet)
    counts.subtract(dict.fromkeys(counts, problem.limits.spare_nodes))
    return sorted(counts.elements())


def _layouts(node: NodeType) -> Sequence[geometry.Layout]:
    uniform = planner.candidates.uniform(node.gpu)
    if set(map(str, node.layouts)) == set(map(str, (*uniform, {}))):
        return uniform
    return geometry.maximal(node.gpu)


@settings(max_examples=examples(60), deadline=None)
@given(problems())
def test_no_fleet_of_an_exhaustive_search_is_cheaper(problem: Problem) -> None:
    try:
        answer = planner.optimise(problem)
    except planner.Infeasible:
        assert least(problem, 2) is None
        return
    assert planner.violations(problem, answer) == ()
    assert answer.bounds.proven == answer.bounds.objective
    exhaustive = least(problem, 2)
    if exhaustive is not None:
        assert answer.bounds.objective <= exhaustive
    if answer.nodes <= 2:
        assert answer.bounds.objective == exhaustive


@settings(max_examples=examples(60), deadline=None)
@given(problems(), st.data())
def test_a_new_plan_keeps_as_many_nodes_as_any_fleet_of_the_same_objective(
    problem: Problem, data: st.DataObject
) -> None:
    kinds = [(node, layout) for node in problem.node_types for layout in (*_layouts(node), {})]
    today = data.draw(st.lists(st.sampled_from(range(len(kinds))), min_size=1, max_size=3))
    current = tuple(
        planner.Pool(node_type=kinds[kind][0], layout=_nonzero(kinds[kind][1]), nodes=nodes)
        for kind, nodes in sorted(Counter(today).items())
    )
    try:
        answer = planner.optimise(problem, current=current)
    except planner.Infeasible:
        return
    assert answer.bounds.objective == planner.optimise(problem).bounds.objective
    fleets = itertools.combinations_with_replacement(range(len(kinds)), 2)
    others = [(kind,) for kind in range(len(kinds))]
    kept = max(
        (
            (Counter(fleet) & Counter(today)).total()
            for fleet in (*others, *fleets)
            if (Counter(fleet) & Counter(today))
            and sum(price(kinds[kind][0], problem.objective) for kind in fleet)
            == answer.bounds.objective
            and _allowed([kinds[kind][0] for kind in fleet], len(set(fleet)), problem)
            and serves([kinds[kind] for kind in _survivors(fleet, problem)], problem)
        ),
        default=0,
    )
    assert _kept(answer, current) >= kept
    # The plan of a plan changes nothing.
    again = planner.optimise(problem, current=answer.pools)
    assert _kept(again, answer.pools) == answer.nodes


def _kept(answer: planner.Answer, current: Sequence[planner.Pool]) -> int:
    return (_nodes_by_kind(answer.pools) & _nodes_by_kind(current)).total()


def _nodes_by_kind(pools: Sequence[planner.Pool]) -> Counter[tuple[str, str]]:
    nodes = Counter[tuple[str, str]]()
    for pool in pools:
        nodes[pool.node_type.name, str(sorted(pool.layout.items()))] += pool.nodes
    return nodes


def _nonzero(layout: geometry.Layout) -> geometry.Layout:
    return {profile: count for profile, count in sorted(layout.items()) if count}


@settings(max_examples=examples(100), deadline=None)
@given(problems())
def test_the_order_of_the_input_does_not_change_the_answer(problem: Problem) -> None:
    shuffled = replace(
        problem,
        classes=tuple(reversed(problem.classes)),
        node_types=tuple(
            replace(node, layouts=tuple(reversed(node.layouts)))
            for node in reversed(problem.node_types)
        ),
    )
    try:
        answer = planner.optimise(problem)
    except planner.Infeasible:
        with pytest.raises(planner.Infeasible):
            planner.optimise(shuffled)
        return
    assert _content(planner.optimise(shuffled)) == _content(answer)


def _content(answer: planner.Answer) -> tuple[object, ...]:
    pools = [(pool.node_type.name, dict(pool.layout), pool.nodes) for pool in answer.pools]
    return pools, answer.assignments, answer.bounds


def test_a_wrong_answer_is_distinguished_from_a_right_one() -> None:
    """Each fault that is put in has its own sentence."""
    node = planner.node_type("one", A100, gpus=1, cost=1000, partitioner="operator")
    slot = Slot(gpu=A100.name, profile="3g.40gb")
    problem = Problem(
        classes=(DemandClass(name="chat", required=4, yields={slot: 1}),), node_types=(node,)
    )
    right = planner.optimise(problem)
    assert planner.violations(problem, right) == ()
    (pool,), (assignment,) = right.pools, right.assignments
    wrong = {
        "chat: 3 of 4 replicas": replace(right, assignments=(replace(assignment, replicas=3),)),
        "one: 4 devices of 3g.40gb are used, 2 exist": replace(
            right,
            pools=(replace(pool, nodes=1),),
            bounds=replace(right.bounds, objective=1000, proven=1000),
        ),
        "at most 2 fit on one GPU": replace(right, pools=(replace(pool, layout={"3g.40gb": 3}),)),
        "is above the objective": replace(right, bounds=replace(right.bounds, proven=2001)),
        "its proof 1": replace(right, bounds=replace(right.bounds, objective=1, proven=1)),
    }
    for sentence, answer in wrong.items():
        found = planner.violations(problem, answer)
        assert any(sentence in violation for violation in found), (sentence, found)


def test_the_relaxed_bound_is_never_above_the_answer() -> None:
    node = planner.node_type("one", A100, gpus=1, cost=1000, partitioner="operator")
    slots = {Slot(gpu=A100.name, profile="1g.10gb"): 1}
    classes = (DemandClass(name="small", required=8, yields=slots),)
    answer = planner.optimise(Problem(classes=classes, node_types=(node,), objective="gpus"))
    assert answer.bounds.relaxed == Fraction(8, 7)
    assert (answer.gpus, answer.bounds.proven) == (2, 2)
