"""The certificate of an answer: its input's hash, and the bounds that anyone can compute again."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from slicewright.infra.planner.answer import Answer
from slicewright.infra.planner.demand import Problem

JsonObject = dict[str, Any]


def input_hash(problem: Problem) -> str:
    """Returns the SHA-256 of the problem in a canonical form: equal problems have equal hashes."""
    text = json.dumps(_canonical(problem), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def certificate(problem: Problem, answer: Answer) -> JsonObject:
    """Returns plain data. The objective is in its unit: USD per hour with three decimals, or a
    count of GPUs or nodes.
    """
    bounds = answer.bounds
    scale = 1000 if problem.objective == "cost" else 1
    return {
        "objective": problem.objective,
        "unit": "USD per hour" if problem.objective == "cost" else problem.objective,
        "value": bounds.objective / scale,
        "lower_bound": bounds.proven / scale,
        "lp_bound": round(float(bounds.relaxed) / scale, 3),
        "gap_percent": round(float(bounds.gap) * 100, 3),
        "status": "optimal" if not bounds.gap else "not proven",
        "solver": bounds.solver,
        "input_sha256": input_hash(problem),
    }


def _canonical(problem: Problem) -> JsonObject:
    limits = problem.limits
    return {
        "objective": problem.objective,
        "limits": [limits.pools, limits.nodes, sorted(limits.gpus.items()), limits.spare_nodes],
        "classes": sorted(
            [
                demand.name,
                demand.required,
                demand.unit,
                sorted([str(slot), each] for slot, each in demand.yields.items()),
            ]
            for demand in problem.classes
        ),
        "node_types": sorted(
            [
                *(node.name, node.gpu.name, node.gpus, node.cost, node.most),
                sorted(sorted(layout.items()) for layout in node.layouts),
            ]
            for node in problem.node_types
        ),
    }
