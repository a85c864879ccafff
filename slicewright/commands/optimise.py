"""`slicewright optimise`: plans the pools of the least fleet that serves a stack file's demand."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from slicewright.exit_codes import BAD_INPUT, CANNOT_RUN, NOT_VERIFIED, VERIFIED
from slicewright.infra import stack_file
from slicewright.infra.plan.demand.changes import (
    CurrentPool,
    PoolChange,
    changed_node_pools,
    changes,
    cost_today,
    current_pools,
    standing,
    with_living_nodes,
)
from slicewright.infra.plan.demand.fragment import fragment
from slicewright.infra.plan.demand.node_types import price_sources
from slicewright.infra.plan.demand.offers import CloudFleet
from slicewright.infra.plan.demand.problem import read_demand
from slicewright.infra.plan.demand.time_slicing import time_sliced
from slicewright.infra.plan.machines.prices import HOURS_PER_MONTH
from slicewright.infra.planner import (
    Answer,
    DemandClass,
    Infeasible,
    NoSolver,
    NotSolved,
    Pool,
    Problem,
    SolverFailed,
    optimise,
)
from slicewright.infra.planner.certificate import certificate
from slicewright.infra.planner.explanation import Attempt, comparison, margins, obstacles
from slicewright.live import objects
from slicewright.live.access import NoCluster
from slicewright.live.looking import CannotLook, look
from slicewright.options import cluster_options, demand_sources, stack_files
from slicewright.show import answer_text

_MOST_UNREAD: Final = 3


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "optimise",
        description="Reads `demand` in a stack file, and writes the pools of the cheapest fleet "
        "that serves it as `node_pools` of a stack file. Nothing is created. The demand's keys: "
        "docs/how-to/plan-the-least-fleet.md.",
    )
    stack_files.add_arguments(parser)
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="write node_pools to FILE instead of the end of the output",
    )
    demand_sources.add_arguments(parser)
    parser.add_argument(
        "--current",
        action="store_true",
        help="re-plan the file's node_pools: of all least fleets the one that changes the fewest "
        "of their nodes",
    )
    parser.add_argument(
        "--live",
        action="store_true",
        help="with --current: count the nodes that the pools have in the cluster now; only reads",
    )
    parser.add_argument("--json", action="store_true", help="the answer and its proof as JSON")
    parser.add_argument(
        "--explain",
        action="store_true",
        help="also: the cost of one more unit of each class, and the fleets by simpler rules",
    )
    parser.set_defaults(run=_run)


def _run(parsed: argparse.Namespace, console: Console) -> int:
    names = stack_files.named(parsed)
    if len(names) != 1:
        print("slicewright optimise: name one stack (-s gke-h100) or FILE", file=sys.stderr)
        return BAD_INPUT
    if misuse := demand_sources.misuse(parsed):
        print(f"slicewright optimise: {misuse}", file=sys.stderr)
        return BAD_INPUT
    file = stack_files.path_of(names[0])
    try:
        classes = demand_sources.classes(parsed)
        fleet, problem = read_demand(file, name=stack_files.display_path(file), classes=classes)
        current = _current(file, problem, parsed) if parsed.current else ()
    except stack_file.SpecError as e:
        console.print(str(e), markup=False, highlight=False, soft_wrap=True)
        return BAD_INPUT
    except demand_sources.BadDemand as e:
        print(f"slicewright optimise: {stack_file.plain(str(e))}", file=sys.stderr)
        return BAD_INPUT
    except (NoCluster, CannotLook) as e:
        print(f"slicewright optimise: {stack_file.plain(str(e))}", file=sys.stderr)
        return cluster_options.code_of(e)
    try:
        answer = _solve(problem, standing(current, problem))
        pool_changes = changes(current, answer)
        pools = changed_node_pools(fleet, pool_changes)
        text = fragment(fleet, problem, answer, pools)
        if parsed.output:
            parsed.output.write_text(text, encoding="utf-8")
    except (NoSolver, SolverFailed) as e:
        print(f"slicewright optimise: {e}", file=sys.stderr)
        return CANNOT_RUN
    except (_NoFleet, NotSolved) as e:
        print(f"slicewright optimise: {e}", file=sys.stderr)
        return NOT_VERIFIED
    except OSError as e:
        print(f"slicewright optimise: {parsed.output}: {e.strerror}", file=sys.stderr)
        return CANNOT_RUN
    if parsed.json:
        as_json = _as_json(problem, answer, pools)
        as_json |= {"price_sources": price_sources(fleet, answer)}
        if parsed.explain:
            as_json |= _explanation(fleet, problem, answer)
        if parsed.current:
            as_json |= _changes_as_json(cost_today(fleet, current), pool_changes)
        print(json.dumps(as_json, indent=2))
    else:
        answer_text.show_answer(problem, answer, console)
        answer_text.show_prices(price_sources(fleet, answer), console)
        if parsed.explain:
            answer_text.show_comparison(answer, _comparison(fleet, problem), console)
            answer_text.show_margins(problem, margins(problem, answer), console)
        if parsed.current:
            answer_text.show_changes(answer, cost_today(fleet, current), pool_changes, console)
        if not parsed.output:
            print(f"\n{text}", end="")
    return VERIFIED


class _NoFleet(Exception):
    """No fleet serves the demand. The message says why."""


def _current(file: Path, problem: Problem, parsed: argparse.Namespace) -> tuple[CurrentPool, ...]:
    """Returns the pools of the stack file. Raises SpecError, NoCluster and CannotLook."""
    fleet_plan = stack_files.read_plan(file)
    pools = current_pools(fleet_plan, stack_files.read_source(file).raw["node_pools"], problem)
    if not parsed.live:
        return pools
    fleet = look(cluster_options.access_of(parsed), {pool.name for pool in pools})
    counted = (objects.POOL.name, objects.NODE.name)
    if unread := [entry for entry in fleet.unread if entry.kind in counted]:
        raise CannotLook("; ".join(objects.lines_of(unread, _MOST_UNREAD)))
    return with_living_nodes(pools, {view.name: view.total for view in fleet.pools})


def _changes_as_json(today: int | None, pool_changes: Sequence[PoolChange]) -> dict[str, Any]:
    return {
        "usd_per_hour_today": None if today is None else today / 1000,
        "changes": [
            {
                "pool": change.current.name if change.current else None,
                "change": change.verb,
                "nodes_before": change.before,
                "nodes_after": change.after,
            }
            for change in pool_changes
        ],
    }


def _solve(problem: Problem, current: tuple[Pool, ...]) -> Answer:
    if sys.stderr.isatty():
        print("solving: a second for most demands, up to minutes for many rates", file=sys.stderr)
    try:
        return optimise(problem, current=current)
    except Infeasible:
        raise _NoFleet(answer_text.infeasible_text(obstacles(problem))) from None


def _comparison(fleet: CloudFleet, problem: Problem) -> Mapping[str, Attempt]:
    assert fleet.demand is not None  # it has been planned for
    return comparison(problem, time_sliced(fleet.demand, problem))


def _explanation(fleet: CloudFleet, problem: Problem, answer: Answer) -> dict[str, Any]:
    scale = 1000 if problem.objective == "cost" else 1
    return {
        "one_more": {
            name: None if margin.added is None else margin.added / scale
            for name, margin in margins(problem, answer).items()
        },
        "other_rules": {
            rule: attempt.answer and _size(attempt.answer)
            for rule, attempt in _comparison(fleet, problem).items()
        },
    }


def _as_json(problem: Problem, answer: Answer, pools: list[dict[str, Any]]) -> dict[str, Any]:
    costs = answer_text.class_costs(answer)
    return {
        "certificate": certificate(problem, answer),
        **_size(answer),
        "node_pools": pools,
        "classes": [
            {
                "name": demand.name,
                "usd_per_hour": costs.get(demand.name, 0) / 1000,
                **_unit_cost(demand, costs.get(demand.name, 0)),
                "devices": [
                    {
                        "machine_type": part.node_type,
                        "gpu": part.slot.gpu,
                        "profile": part.slot.profile,
                        "gpus": part.slot.gpus,
                        "replicas": part.replicas,
                    }
                    for part in answer.assignments
                    if part.demand_class == demand.name
                ],
            }
            for demand in problem.classes
        ],
        "outside_partitions": [
            {
                "machine_type": pool.node_type.name,
                "layout": dict(pool.layout),
                "compute_slices": pool.outside_partitions[0],
                "memory_slots": pool.outside_partitions[1],
            }
            for pool in answer.pools
        ],
        "unused": [
            {"machine_type": node_type, "profile": profile, "count": count}
            for (node_type, profile), count in answer.spare().items()
        ],
    }


def _unit_cost(demand: DemandClass, cost: int) -> dict[str, float]:
    key = "replica_hour" if demand.unit == "replicas" else "million_requests"
    return {f"usd_per_{key}": round(answer_text.unit_cost(demand, cost), 4)}


def _size(answer: Answer) -> dict[str, Any]:
    return {
        "nodes": answer.nodes,
        "gpus": answer.gpus,
        "usd_per_hour": answer.cost / 1000,
        "usd_per_month": answer.cost * HOURS_PER_MONTH / 1000,
    }
