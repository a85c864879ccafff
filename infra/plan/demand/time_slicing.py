"""The demand on whole GPUs that replicas of one class share by time: a comparison, not a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from slicewright.infra import planner, stack_file
from slicewright.infra.catalog import Gpu
from slicewright.infra.planner import DemandClass, Problem, Slot
from slicewright.infra.planner.candidates import WHOLE

_SLICES: Final = 7


def time_sliced(demand: stack_file.Demand, problem: Problem) -> Problem:
    """Returns the problem of a demand without partitions.

    A GPU serves replicas of one class: as many as its memory holds, and at most seven compute
    slices need. A class with a rate has the stated throughput of a whole GPU.
    """
    gpus = {node.gpu.name: node.gpu for node in problem.node_types}
    stated = {entry.name: entry for entry in demand.classes}
    classes = (
        replace(required, yields=_yields(stated[required.name], required, gpus))
        for required in problem.classes
    )
    node_types = (replace(node, layouts=({},)) for node in problem.node_types)
    return replace(problem, classes=tuple(classes), node_types=tuple(node_types))


def _yields(
    stated: stack_file.ReplicaDemand | stack_file.RateDemand,
    required: DemandClass,
    gpus: Mapping[str, Gpu],
) -> Mapping[Slot, int]:
    if isinstance(stated, stack_file.RateDemand) or stated.gpus is not None:
        return {slot: each for slot, each in required.yields.items() if slot.profile == WHOLE}
    models = sorted({slot.gpu for slot in required.yields})
    return {planner.whole(gpus[name]): _replicas(stated, gpus[name]) for name in models}


def _replicas(stated: stack_file.ReplicaDemand, gpu: Gpu) -> int:
    """Returns the number of replicas that share one GPU: at least 1, because one can serve it."""
    profiles = [gpu.profiles[name] for name in stated.profiles or () if name in gpu.profiles]
    memory = stack_file.mebibytes(stated.memory) if stated.memory is not None else 0
    memory = max([memory, *(profile.memory_mib or 0 for profile in profiles)])
    slices = max([stated.compute_slices or 1, *(profile.kind.compute for profile in profiles)])
    by_memory = (gpu.memory_mib or 0) // memory if memory else _SLICES
    return max(1, min(by_memory, _SLICES // slices))
