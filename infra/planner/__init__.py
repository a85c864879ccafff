"""The least fleet that serves a demand, with a proof: its nodes and their MIG layouts.

demand and candidates → integer program → HiGHS → answer → exact check. Nothing here runs during
`pulumi up`: the answer is a file that people review.
"""

from slicewright.infra.planner.answer import Answer, Assignment, Bounds, Pool
from slicewright.infra.planner.candidates import NodeType, Slot, node_type, whole
from slicewright.infra.planner.checking import violations
from slicewright.infra.planner.demand import DemandClass, Limits, Objective, Problem
from slicewright.infra.planner.highs import NoSolver, SolverFailed
from slicewright.infra.planner.solving import Infeasible, NotSolved, optimise

__all__ = [
    "Answer",
    "Assignment",
    "Bounds",
    "DemandClass",
    "Infeasible",
    "Limits",
    "NoSolver",
    "NodeType",
    "NotSolved",
    "Objective",
    "Pool",
    "Problem",
    "Slot",
    "SolverFailed",
    "node_type",
    "optimise",
    "violations",
    "whole",
]
