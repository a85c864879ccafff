"""`slicewright optimise`: plans the pools of the least fleet that serves a stack file's demand."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

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
)
from slicewright.infra.plan.demand.fragment import fragment
from slicewright.infra.plan.demand.manifests import BadManifests
from slicewright.infra.plan.demand.problem import read_demand
from slicewright.infra.planner import (
    Answer,
    Infeasible,
    NoSolver,
    NotSolved,
    Pool,
    Problem,
    SolverFailed,
    optimise,
)
from slicewright.infra.planner.certificate import certificate
from slicewright.infra.planner.explanation import comparison, margins, obstacles
from slicewright.options import stack_files


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
    parser.add_argument(
        "--from-manifests",
        type=Path,
        metavar="DIR",
        help="also serve the pods of the Kubernetes manifests in DIR that request GPUs or "
        "partitions",
    )
    parser.add_argument(
        "--current",
        action="store_true",
        help="re-plan the file's node_pools: of all least fleets the one that changes the fewest "
        "of their nodes",
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
    file = stack_files.path_of(names[0])
    try:
        fleet, problem = read_demand(
            file, name=stack_files.display_path(file), manifests=parsed.from_manifests
        )
        current = _current(file, problem) if parsed.current else ()
    except stack_file.SpecError as e:
        console.print(str(e), markup=False, highlight=False, soft_wrap=True)
        return BAD_INPUT
    except BadManifests as e:
        print(f"slicewright optimise: {e}", file=sys.stderr)
        return BAD_INPUT
    try:
        answer = _solve(problem, standing(current, problem))
        pool_changes = changes(current, answer)
        pools = changed_node_pools(fleet, pool_changes)
        text = fragment(problem, answer, pools)
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
        as_json = _as_json(problem, answer, pools, explain=parsed.explain)
        if parsed.current:
            as_json |= _changes_as_json(cost_today(fleet, current), pool_changes)
        print(json.dumps(as_json, indent=2))
    else:
        _show(problem, answer, console, explain=parsed.explain)
        if parsed.current:
            _show_changes(answer, cost_today(fleet, current), pool_changes, console)
        if not parsed.output:
            print(f"\n{text}", end="")
    return VERIFIED


class _NoFleet(Exception):
    """No fleet serves the demand. The message says why."""


def _current(file: Path, problem: Problem) -> tuple[CurrentPool, ...]:
    """Returns the pools of the stack file. Raises SpecError."""
    fleet_plan = stack_files.read_plan(file)
    return current_pools(fleet_plan, stack_files.read_source(file).raw["node_pools"], problem)


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
    from slicewright.show.answer_text import infeasible_text

    if sys.stderr.isatty():
        print("solving: a second for most demands, up to minutes for many rates", file=sys.stderr)
    try:
        return optimise(problem, current=current)
    except Infeasible:
        raise _NoFleet(infeasible_text(obstacles(problem))) from None


def _show(problem: Problem, answer: Answer, console: Console, *, explain: bool) -> None:
    from slicewright.show import answer_text

    answer_text.show_answer(problem, answer, console)
    if explain:
        answer_text.show_comparison(answer, comparison(problem), console)
        answer_text.show_margins(problem, margins(problem, answer), console)


def _show_changes(
    answer: Answer, today: int | None, pool_changes: Sequence[PoolChange], console: Console
) -> None:
    from slicewright.show import answer_text

    answer_text.show_changes(answer, today, pool_changes, console)


def _as_json(
    problem: Problem, answer: Answer, pools: list[dict[str, Any]], *, explain: bool
) -> dict[str, Any]:
    from slicewright.show.answer_text import class_costs

    costs = class_costs(answer)
    answered: dict[str, Any] = {
        "certificate": certificate(problem, answer),
        **_size(answer),
        "node_pools": pools,
        "classes": [
            {
                "name": demand.name,
                "usd_per_hour": costs.get(demand.name, 0) / 1000,
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
        "unused": [
            {"machine_type": node_type, "profile": profile, "count": count}
            for (node_type, profile), count in answer.spare().items()
        ],
    }
    if explain:
        scale = 1000 if problem.objective == "cost" else 1
        answered["one_more"] = {
            name: None if margin.added is None else margin.added / scale
            for name, margin in margins(problem, answer).items()
        }
        answered["other_rules"] = {
            rule: attempt.answer and _size(attempt.answer)
            for rule, attempt in comparison(problem).items()
        }
    return answered


def _size(answer: Answer) -> dict[str, Any]:
    return {"nodes": answer.nodes, "gpus": answer.gpus, "usd_per_hour": answer.cost / 1000}
