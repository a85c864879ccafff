"""Decides or refuses a workload's number of replicas and the metric that it follows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from slicewright.infra import stack_file
from slicewright.infra.plan.findings import Checked, Stated, listed, nearest, refuse, rule
from slicewright.infra.plan.model.scaling import METRICS, AutoscalingPlan, Metric
from slicewright.infra.plan.workloads.placement import PlacedWorkload

_HPA: Final = "Kubernetes docs, horizontal pod autoscaling"
_KEDA: Final = "keda.sh docs, ScaledObject specification"
KEDA_POLL_S: Final = 15
"""How often KEDA asks for each metric: as often as Kubernetes' own controller."""
_STABILIZATION_S: Final = 3600
_PERIOD_S: Final = 1800
"""The longest that HorizontalPodAutoscalerBehavior allows (Kubernetes API, autoscaling/v2)."""


@rule("autoscaling")
def check_autoscaling(
    workload: stack_file.ServedWorkload, path: stack_file.Path, stated: Stated
) -> Checked[None]:
    """Refuses settings that are wrong for every pool."""
    scaled = workload.autoscaling
    if scaled is None:
        return
    if "replicas" in workload.model_fields_set and stated.has((*path, "replicas")):
        yield refuse(
            (*path, "replicas"),
            "autoscaling changes the number of replicas: two owners would undo each other",
            "remove it; the workload starts with autoscaling.min replicas",
            _HPA,
            in_key=True,
        )
    at = (*path, "autoscaling")
    yield from _check_metric(workload, scaled, at, stated)
    yield from _check_wake(scaled, at, stated)
    if stated.has((*at, "min"), (*at, "cooldown"), (*at, "fallback")) and scaled.min == 0:
        yield from _check_cooldown(scaled, at)
    if stated.has((*at, "min"), (*at, "max")) and scaled.max != "partitions":
        if scaled.max < scaled.min:
            yield refuse(
                (*at, "max"),
                f"{scaled.max} is less than min, {scaled.min}",
                f"write {scaled.min} or more",
                _HPA,
            )
        least = scaled.fallback.replicas
        if least is not None and least > scaled.max:
            yield refuse(
                (*at, "fallback", "replicas"),
                f"{least} is more than max, {scaled.max}",
                f"write {scaled.max} or less",
                _KEDA,
            )
    for name, pace in (("scale_up", scaled.scale_up), ("scale_down", scaled.scale_down)):
        yield from _check_pace(pace, (*at, name))


@rule("autoscaling-metric")
def _check_metric(
    workload: stack_file.ServedWorkload,
    scaled: stack_file.Autoscaling,
    at: stack_file.Path,
    stated: Stated,
) -> Checked[None]:
    if not stated.has((*at, "metric")):
        return
    metric = METRICS[scaled.metric]
    if workload.kind not in metric.kinds:
        metrics = [name for name, other in METRICS.items() if workload.kind in other.kinds]
        yield refuse(
            (*at, "metric"),
            f"a workload of kind {workload.kind} has no {scaled.metric}",
            f"write {' or '.join(metrics)}",
        )
    elif stated.has((*at, "target")):
        yield from _check_target(scaled, metric, (*at, "target"))
    if (scaled.query is None) == (scaled.metric == "query") and stated.has((*at, "query")):
        missing = scaled.query is None
        yield refuse(
            (*at, "query"),
            "is required by metric: query"
            if missing
            else f"{scaled.metric} has a query of its own",
            "add query: PromQL with one value"
            if missing
            else "write metric: query, or leave it out",
            in_key=not missing,
        )
    if scaled.model is not None and scaled.metric != "queue-time":
        yield refuse(
            (*at, "model"),
            f"{scaled.metric} covers the whole server, not a single model",
            "leave it out",
            in_key=True,
        )
    models = workload.load_models if isinstance(workload, stack_file.TritonWorkload) else ()
    if scaled.model is not None and models and scaled.model not in models:
        yield refuse(
            (*at, "model"), f"{scaled.model} is not in load_models", nearest(scaled.model, models)
        )


@rule("autoscaling-target")
def _check_target(
    scaled: stack_file.Autoscaling, metric: Metric, at: stack_file.Path
) -> Checked[None]:
    target = scaled.target
    if isinstance(target, str) != (metric.unit == "duration"):
        yield refuse(
            at,
            f"{scaled.metric} is {'a time' if metric.unit == 'duration' else 'a number'}, and "
            f"{target} is not",
            "write it like 50ms" if metric.unit == "duration" else "write an integer",
        )
    elif metric.unit == "percent" and isinstance(target, int) and target > 100:
        yield refuse(at, f"{target} percent is never reached", "write 1 to 100")


@rule("autoscaling-wake")
def _check_wake(
    scaled: stack_file.Autoscaling, at: stack_file.Path, stated: Stated
) -> Checked[None]:
    if not stated.has((*at, "min")):
        return
    if scaled.min == 0 and scaled.wake is None and stated.has((*at, "wake")):
        yield refuse(
            (*at, "min"),
            "this metric comes from the replicas: with none running, none would ever be started",
            "add wake: PromQL of something outside the pods, such as a gateway's requests; or "
            "write 1 or more",
            _KEDA,
        )
    for name in ("wake", "cooldown"):
        if scaled.min > 0 and name in scaled.model_fields_set:
            yield refuse(
                (*at, name),
                f"there are always {scaled.min} replicas or more",
                "leave it out, or write min: 0",
                _KEDA,
                in_key=True,
            )


@rule("autoscaling-cooldown")
def _check_cooldown(scaled: stack_file.Autoscaling, at: stack_file.Path) -> Checked[None]:
    """Between the last answer and the fallback, KEDA may take an unknown value for zero:
    a trigger whose connection another one's failure has just closed is `not active, no error`
    (kedacore/keda v2.21.0, pkg/scaling/scale_handler.go, getScalerState). The cooldown begins at
    the last answer, so it keeps the last replica if it is longer.
    """
    failures = scaled.fallback.failures
    least = (failures + 2) * KEDA_POLL_S
    if stack_file.seconds(scaled.cooldown) < least:
        yield refuse(
            (*at, "cooldown"),
            f"{scaled.cooldown} is over before KEDA falls back, after {failures} failed answers: "
            "the last replica could be removed while the metric is unknown",
            f"write {least}s or more" + (", or fewer fallback.failures" if failures > 1 else ""),
            _KEDA,
        )


@rule("autoscaling-pace")
def _check_pace(pace: stack_file.Pace, at: stack_file.Path) -> Checked[None]:
    limits = (
        ("stabilization", pace.stabilization, _STABILIZATION_S),
        ("per", pace.per, _PERIOD_S),
    )
    for name, value, most in limits:
        if value is not None and stack_file.seconds(value) > most:
            yield refuse(
                (*at, name),
                f"{value} is more than Kubernetes allows",
                f"write {most}s or less",
                "Kubernetes API, HorizontalPodAutoscalerBehavior",
            )
    if "per" in pace.model_fields_set and pace.replicas is None:
        yield refuse(
            (*at, "per"),
            "has no effect without replicas: it is the period in which so many may be added or "
            "removed",
            "add replicas, or leave it out",
            in_key=True,
        )


@rule("autoscaling-devices")
def plan_autoscaling(
    placed: PlacedWorkload, neighbors: Sequence[PlacedWorkload], stated: Stated
) -> Checked[AutoscalingPlan | None]:
    """None if it has no autoscaling, or if its greatest number of replicas is unknown.

    neighbors: all other workloads that request the same resource.
    """
    scaled = placed.workload.autoscaling
    at = (*placed.path, "autoscaling")
    if scaled is None or not stated.has(at):
        return None
    places, why = _places(placed)
    if scaled.max == "partitions":
        most = yield from _all_free_devices(placed, at, neighbors, places)
        if most is not None and max(scaled.min, 1) > most:
            yield refuse(
                (*at, "min"),
                f"{max(scaled.min, 1)} replicas are more than the {most} that "
                + ("are left for it" if neighbors else f"fit: {why}"),
                f"write {most} or less" if most else "give the pool more nodes, or partitions",
                _HPA,
            )
            return None
    else:
        most = scaled.max
        if most > places:
            yield refuse(
                (*at, "max"),
                f"{most} replicas never fit: {why}",
                f"write {places} or less, or partitions"
                if places
                else "give the pool more nodes, or partitions",
                _HPA,
            )
    return None if most is None else _autoscaling_plan(scaled, most, places)


def _places(placed: PlacedWorkload) -> tuple[int, str]:
    """The replicas that fit on as many nodes as the pool may have, and a text on that limit."""
    pool, resource, devices = placed.pool.name, placed.devices.resource, placed.devices_per_replica
    places = placed.offered // devices
    if placed.room is not None and placed.room < places:
        return (
            placed.room,
            f"nodes of pool {pool} have processor and memory for {placed.room} at most",
        )
    why = f"pool {pool} has {placed.offered} {resource} at most"
    return places, why if devices == 1 else f"{why}, and a replica takes {devices}"


def _autoscaling_plan(scaled: stack_file.Autoscaling, most: int, places: int) -> AutoscalingPlan:
    fallback = scaled.fallback.replicas
    return AutoscalingPlan(
        settings=scaled,
        max=most,
        places=places,
        target=_target(scaled),
        # Never 0: if Prometheus had no answer, KEDA would take the last replica away
        # (kedacore/keda, pkg/scaling/executor/scale_scaledobjects.go).
        fallback_replicas=fallback if fallback is not None else max(scaled.min, 1),
    )


@rule("autoscaling-free-devices")
def _all_free_devices(
    placed: PlacedWorkload, at: stack_file.Path, neighbors: Sequence[PlacedWorkload], places: int
) -> Checked[int | None]:
    """The replicas on all devices that neighbors leave. None if a neighbor takes them too."""
    greedy = [
        neighbor.workload.name
        for neighbor in neighbors
        if neighbor.workload.autoscaling is not None
        and neighbor.workload.autoscaling.max == "partitions"
    ]
    if greedy:
        yield refuse(
            (*at, "max"),
            f"{listed(greedy)} takes all partitions that are left too",
            "write a number",
        )
        return None
    reserved = sum(neighbor.most_devices for neighbor in neighbors)
    return min(max(placed.offered - reserved, 0) // placed.devices_per_replica, places)


def _target(scaled: stack_file.Autoscaling) -> int:
    target = scaled.target
    return stack_file.microseconds(target) if isinstance(target, str) else target
