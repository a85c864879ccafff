"""Shows the planner's answer to people: pools as pictures, classes, costs, and the proof."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from rich.console import Console
from rich.table import Table

from slicewright.infra.catalog import Gpu
from slicewright.infra.plan.demand.changes import PoolChange
from slicewright.infra.plan.machines.prices import HOURS_PER_MONTH
from slicewright.infra.planner import Answer, Assignment, DemandClass, Pool, Problem
from slicewright.infra.planner.candidates import WHOLE
from slicewright.infra.planner.certificate import certificate
from slicewright.infra.planner.explanation import Attempt, Margin, Obstacle
from slicewright.show.lines import print_line
from slicewright.show.picture import draw, placements_of

_SECONDS_PER_HOUR: Final = 3600


def show_answer(problem: Problem, answer: Answer, console: Console) -> None:
    """Writes the pools with a picture of one GPU each, the classes, and the proof."""
    for pool in answer.pools:
        _pool(pool, answer, console)
        console.print()
    console.print(_classes(problem, answer))
    console.print()
    for line in (*_totals(answer), *_proof(problem, answer)):
        print_line(console, line)


def show_prices(sources: Mapping[str, str], console: Console) -> None:
    """Writes the source of the price of each machine type."""
    for name, source in sources.items():
        print_line(console, f"Price of {name}: {source}")


def show_comparison(answer: Answer, fleets: Mapping[str, Attempt], console: Console) -> None:
    """Writes the cost of the fleets that simpler rules need."""
    console.print()
    table = Table(title="Least fleets by other rules", title_justify="left", box=None)
    for heading in ("rule", "nodes", "GPUs", "USD per hour", "difference"):
        table.add_column(heading, justify="left" if heading == "rule" else "right")
    for rule, attempt in fleets.items():
        if (other := attempt.answer) is None:
            impossible = attempt.verdict == "exceeds the limits"
            table.add_row(rule, "impossible" if impossible else "not solved", "", "", "")
            continue
        percent = f"{(other.cost / answer.cost - 1) * 100:+.1f} %" if answer.cost else ""
        at_most = "at most " if attempt.verdict == "at most" else ""
        table.add_row(rule, str(other.nodes), str(other.gpus), at_most + _usd(other.cost), percent)
    console.print(table)


def show_margins(problem: Problem, margins: Mapping[str, Margin], console: Console) -> None:
    """Writes what one more unit of each class would add."""
    console.print()
    print_line(console, f"One more unit would add, in {_unit(problem)}:")
    for demand in sorted(problem.classes, key=lambda demand: demand.name):
        unit = "replica" if demand.unit == "replicas" else "request per second"
        added = _margin(problem, margins[demand.name])
        print_line(console, f"  {demand.name}, one more {unit}: {added}")


def _margin(problem: Problem, margin: Margin) -> str:
    if margin.verdict == "exceeds the limits":
        return "the limits do not allow it"
    if margin.added is None:
        return "not solved within the search's steps"
    about = {"at most": "at most ", "unknown": "about "}.get(margin.verdict, "")
    return about + _amount(problem, margin.added)


def show_changes(
    answer: Answer, today: int | None, pool_changes: Sequence[PoolChange], console: Console
) -> None:
    """Writes what becomes of each pool of the stack file, and the cost beside today's."""
    console.print()
    print_line(console, "Changes of the stack file's pools:")
    for change in pool_changes:
        print_line(console, f"  {_change(change)}")
    if today is None:
        print_line(console, "Today's cost is not known: a machine type has no list price here.")
        return
    difference = f"{answer.cost / today - 1:+.1%}" if today else "new"
    print_line(
        console,
        f"Today: USD {_usd(today)} per hour; then: USD {_usd(answer.cost)} ({difference})",
    )


def _change(change: PoolChange) -> str:
    nodes = f"{change.before} -> {change.after} nodes"
    if change.planned is None:
        return f"{_name_of(change)} goes: {_nodes(change.before)} drained and deleted"
    if change.current is None:
        node, layout = change.planned.node_type.name, _layout_text(change.planned)
        return f"a pool of {node} with {layout} comes: {_nodes(change.after)}"
    if change.verb == "changes its layout":
        return (
            f"{_name_of(change)} changes its layout to {_layout_text(change.planned)}, {nodes}: "
            "the rollout drains its nodes and partitions them again"
        )
    return f"{_name_of(change)} stays" + ("" if change.before == change.after else f", {nodes}")


def _nodes(number: int) -> str:
    return f"{number} node{'s' if number != 1 else ''}"


def _name_of(change: PoolChange) -> str:
    return change.current.name if change.current else ""


def _layout_text(pool: Pool) -> str:
    return ", ".join(f"{count} x {name}" for name, count in sorted(pool.layout.items())) or WHOLE


def infeasible_text(obstacles: tuple[Obstacle, ...]) -> str:
    """Returns why no fleet serves the demand, and what to change."""
    if not obstacles:
        return (
            "no fleet serves the demand: several limits together prevent it, or the allowed "
            "machine types do; raise the limits under demand, or allow more machine types"
        )
    limits = " or ".join(obstacle.limit for obstacle in obstacles)
    classes = sorted({name for obstacle in obstacles for name in obstacle.classes})
    alone = f"; {', '.join(classes)} cannot be served within it even alone" if classes else ""
    return (
        f"no fleet serves the demand within demand.{limits}{alone}; raise it, or lower the demand"
    )


def _pool(pool: Pool, answer: Answer, console: Console) -> None:
    node = pool.node_type
    nodes = _nodes(pool.nodes)
    print_line(
        console,
        f"{nodes} of {node.name} ({node.gpus} x {node.gpu.name}), each GPU "
        f"{_layout_text(pool)}: USD {_usd(pool.cost)} per hour",
    )
    names = _names_by_profile(answer, node.name)
    if pool.layout:
        placements = placements_of(node.gpu, pool.layout)
        for row in draw(node.gpu, placements, width=console.width, pods=names):
            console.print(row)
    elif WHOLE in names:
        print_line(console, f"  for {names[WHOLE]}")


def _names_by_profile(answer: Answer, node_type: str) -> Mapping[str, str]:
    names: dict[str, list[str]] = {}
    for assignment in answer.assignments:
        if assignment.node_type == node_type:
            names.setdefault(assignment.slot.profile, []).append(assignment.demand_class)
    return {profile: ", ".join(dict.fromkeys(classes)) for profile, classes in names.items()}


def _classes(problem: Problem, answer: Answer) -> Table:
    table = Table(box=None)
    for heading in ("class", "demand", "served by", "USD per hour", "USD per unit"):
        table.add_column(heading, justify="right" if heading == "USD per hour" else "left")
    costs = class_costs(answer)
    for demand in problem.classes:
        mine = [part for part in answer.assignments if part.demand_class == demand.name]
        amount = demand.required if demand.unit == "replicas" else demand.required / 1000
        unit = "replicas" if demand.unit == "replicas" else "requests per second"
        table.add_row(
            demand.name,
            f"{amount:,g} {unit}",
            "; ".join(_assignment(part) for part in mine),
            _usd(costs.get(demand.name, 0)),
            _unit_text(demand, costs.get(demand.name, 0)),
        )
    return table


def _unit_text(demand: DemandClass, cost: int) -> str:
    unit = "hour of a replica" if demand.unit == "replicas" else "million requests"
    return f"{unit_cost(demand, cost):,.3f} per {unit}"


def unit_cost(demand: DemandClass, cost: int) -> float:
    """Returns the part of a class's cost in US dollars: for an hour of one replica, or for a
    million requests if they come at the planned rate.
    """
    if not demand.required:
        return 0
    if demand.unit == "replicas":
        return cost / 1000 / demand.required
    # The rate is in thousandths per second.
    return cost * 10**6 / (demand.required * _SECONDS_PER_HOUR)


def _assignment(part: Assignment) -> str:
    return f"{part.replicas} on {part.slot} ({part.node_type})"


def class_costs(answer: Answer) -> Mapping[str, int]:
    """Returns the share of each class in the cost, in thousandths of a US dollar per hour.

    A pool's cost is divided over its devices by their part of the GPU's memory slots. Devices
    without a replica are nobody's.
    """
    costs: dict[str, float] = {}
    for part in answer.assignments:
        node = next(p.node_type for p in answer.pools if p.node_type.name == part.node_type)
        per_gpu = node.cost / node.gpus
        share = part.slot.gpus * _share_of_gpu(node.gpu, part.slot.profile)
        costs[part.demand_class] = costs.get(part.demand_class, 0) + part.replicas * per_gpu * share
    return {name: round(cost) for name, cost in costs.items()}


def _share_of_gpu(gpu: Gpu, profile: str) -> float:
    if profile == WHOLE or gpu.family is None:
        return 1
    return gpu.profiles[profile].kind.size / gpu.family.slots


def _totals(answer: Answer) -> Iterator[str]:
    yield (
        f"Total: {answer.nodes} nodes, {answer.gpus} GPUs, USD {_usd(answer.cost)} per hour, "
        f"USD {answer.cost * HOURS_PER_MONTH / 1000:,.0f} per month. Not included: control plane, "
        "disks, system pool, traffic, discounts; the processors and the memory of the nodes are "
        "not part of the plan"
    )
    for (node_type, profile), count in answer.spare().items():
        yield f"Without a replica: {count} x {profile} on {node_type}"
    for pool in answer.pools:
        compute, memory = pool.outside_partitions
        if compute or memory:
            yield (
                f"In no partition: {compute} compute slices and {memory} memory slots of "
                f"{pool.gpus} x {pool.node_type.gpu.name} with {_layout_text(pool)}"
            )


def _proof(problem: Problem, answer: Answer) -> Iterator[str]:
    proof = certificate(problem, answer)
    state = (
        "no fleet within the limits is better"
        if answer.bounds.gap == 0
        else f"not proven: a better fleet may exist, by at most {proof['gap_percent']} %"
    )
    yield (
        f"Proof: {proof['value']} {proof['unit']}, lower bound {proof['lower_bound']}, LP bound "
        f"{proof['lp_bound']}: {state} ({proof['solver']}, input {proof['input_sha256'][:12]})"
    )


def _amount(problem: Problem, margin: int) -> str:
    return _usd(margin) if problem.objective == "cost" else str(margin)


def _unit(problem: Problem) -> str:
    return "USD per hour" if problem.objective == "cost" else problem.objective


def _usd(thousandths: float) -> str:
    return f"{thousandths / 1000:,.3f}"
