"""The demand classes of a stack file, as devices that can serve them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal
from typing import Final

from slicewright.infra import planner, stack_file
from slicewright.infra.catalog import Gpu
from slicewright.infra.catalog.gpus import Profile
from slicewright.infra.plan.findings import Checked, nearest, refuse, rule
from slicewright.infra.planner import Slot
from slicewright.infra.planner.candidates import WHOLE
from slicewright.infra.stack_file import Path

RATE_UNIT: Final = "thousandths of requests per second"


@rule("demand-class")
def demand_class(
    stated: stack_file.ReplicaDemand | stack_file.RateDemand,
    node_types: Iterable[planner.NodeType],
    headroom_percent: int,
    path: Path,
) -> Checked[planner.DemandClass]:
    """Returns the class with its headroom. Refuses a class that no node type can serve."""
    gpus = {node.gpu.name: node.gpu for node in node_types}
    yield from _check_models(stated, gpus, path)
    if isinstance(stated, stack_file.RateDemand):
        yield from _check_objective(stated, path)
    models = stated.gpu_models if stated.gpu_models is not None else tuple(gpus)
    usable = [gpus[name] for name in sorted(set(models) & set(gpus))]
    if isinstance(stated, stack_file.ReplicaDemand):
        yields = {slot: 1 for gpu in usable for slot in _slots(stated, gpu, node_types)}
        required, unit = stated.replicas, "replicas"
    else:
        yields = _rates(stated, usable)
        required, unit = _thousandths(stated.requests_per_second), RATE_UNIT
    if not yields:
        yield refuse(path, *_why_nothing_serves(stated, usable))
    return planner.DemandClass(
        name=stated.name,
        required=math.ceil(Decimal(required) * (100 + headroom_percent) / 100),
        yields=yields,
        unit=unit,
    )


@rule("demand-gpu-model")
def _check_models(
    stated: stack_file.ReplicaDemand | stack_file.RateDemand,
    gpus: dict[str, Gpu],
    path: Path,
) -> Checked[None]:
    for i, name in enumerate(stated.gpu_models or ()):
        if name not in gpus:
            yield refuse(
                (*path, "gpu_models", i),
                f"no allowed machine type has the GPU {name}",
                nearest(name, [*gpus]),
            )


@rule("demand-latency")
def _check_objective(stated: stack_file.RateDemand, path: Path) -> Checked[None]:
    measured = any(
        isinstance(throughput, tuple)
        for devices in stated.throughput.values()
        for throughput in devices.values()
    )
    if measured and stated.latency_ms is None:
        yield refuse(
            (*path, "throughput"),
            f"{stated.name} has measurements, and no latency objective to choose among them",
            "state latency_ms beside throughput, or one rate for each device",
        )
    if stated.latency_ms is not None and not measured:
        yield refuse(
            (*path, "latency_ms"),
            f"the throughput of {stated.name} has no latency to compare with the objective",
            "remove latency_ms, or list measurements: [{requests_per_second: 80, latency_ms: 40}]",
        )


def _slots(
    stated: stack_file.ReplicaDemand, gpu: Gpu, node_types: Iterable[planner.NodeType]
) -> list[Slot]:
    """Returns the devices of a GPU model that can serve a replica."""
    memory = stack_file.mebibytes(stated.memory) if stated.memory is not None else 0
    if stated.gpus is not None:
        sizes = {node.gpus for node in node_types if node.gpu is gpu}
        fits = memory <= (gpu.memory_mib or 0) * stated.gpus
        divides = any(size % stated.gpus == 0 for size in sizes)
        return [planner.whole(gpu, stated.gpus)] if fits and divides else []
    slots = [
        Slot(gpu=gpu.name, profile=profile.name)
        for profile in gpu.profiles.values()
        if memory <= (profile.memory_mib or 0)
        and (stated.compute_slices or 0) <= profile.kind.compute
        and _is_chosen(profile, stated.profiles)
    ]
    if stated.profiles is None and memory <= (gpu.memory_mib or 0):
        slots.append(planner.whole(gpu))
    return slots


def _is_chosen(profile: Profile, stated: tuple[str, ...] | None) -> bool:
    """True for a stated profile; by default for all but those that differ in media engines only:
    a GPU has few of those.
    """
    if stated is not None:
        return profile.name in stated
    return "+" not in profile.name and "-" not in profile.name


def _rates(stated: stack_file.RateDemand, gpus: Iterable[Gpu]) -> dict[Slot, int]:
    return {
        Slot(gpu=gpu.name, profile=WHOLE if profile == "whole" else profile): rate
        for gpu in gpus
        for profile, throughput in stated.throughput.get(gpu.name, {}).items()
        if (profile == "whole" or profile in gpu.profiles)
        and (rate := _thousandths(_within(stated.latency_ms, throughput)))
    }


def _within(
    objective_ms: float | None, throughput: float | tuple[stack_file.Measurement, ...]
) -> float:
    """Returns the highest rate within the latency objective. 0: no measurement is within it."""
    if not isinstance(throughput, tuple):
        return throughput
    return max(
        (
            point.requests_per_second
            for point in throughput
            if objective_ms is not None and point.latency_ms <= objective_ms
        ),
        default=0.0,
    )


def _thousandths(per_second: float) -> int:
    return int(Decimal(str(per_second)) * 1000)


def _why_nothing_serves(
    stated: stack_file.ReplicaDemand | stack_file.RateDemand, gpus: Iterable[Gpu]
) -> tuple[str, str]:
    """Returns the reason and the remedy."""
    names = ", ".join(gpu.name for gpu in gpus) or "none"
    if isinstance(stated, stack_file.RateDemand):
        if stated.latency_ms is not None:
            return (
                f"{stated.name}: no device under throughput is on an allowed GPU ({names}) and has "
                f"a measurement within {stated.latency_ms:g} ms",
                "allow a longer latency, measure smaller batches or larger profiles, or allow "
                "other machine types",
            )
        return (
            f"{stated.name}: no device under throughput is on an allowed GPU ({names})",
            "state the throughput on one of their profiles",
        )
    needs = [f"{stated.memory} of GPU memory"] if stated.memory else []
    if stated.compute_slices:
        needs.append(f"{stated.compute_slices} compute slices")
    if stated.profiles:
        needs.append(f"one of {', '.join(stated.profiles)}")
    if stated.gpus:
        needs.append(f"{stated.gpus} whole GPUs of a node that they divide")
    return (
        f"{stated.name}: no device of the allowed GPUs ({names}) has "
        f"{' and '.join(needs) or 'a replica'}",
        "ask for less, divide the replica over several GPUs (gpus), or allow other machine types",
    )
