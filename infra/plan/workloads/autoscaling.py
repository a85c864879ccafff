"""Decides or refuses a workload's number of replicas and the metric that it follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from infra import spec
from infra.plan.findings import Checked, Stated, listed, nearest, refuse
from infra.plan.model.scaling import METRICS, AutoscalingPlan, Metric

_HPA: Final = "Kubernetes docs, horizontal pod autoscaling"
_KEDA: Final = "keda.sh docs, ScaledObject specification"
KEDA_POLL_S: Final = 15
"""How often KEDA asks for each metric: as often as Kubernetes' own controller."""
_STABILIZATION_S: Final = 3600
_PERIOD_S: Final = 1800
"""The longest that HorizontalPodAutoscalerBehavior allows (Kubernetes API, autoscaling/v2)."""


def check_autoscaling(asked: spec.ServedWorkload, path: spec.Path, stated: Stated) -> Checked[None]:
    """Refuses settings that are wrong for every pool."""
    scaled = asked.autoscaling
    if scaled is None:
        return
    if "replicas" in asked.model_fields_set and stated.has((*path, "replicas")):
        yield refuse(
            (*path, "replicas"),
            "autoscaling changes the number of replicas: two owners would undo each other",
            "leave it out; there are autoscaling.min at first",
            _HPA,
            in_key=True,
        )
    at = (*path, "autoscaling")
    yield from _check_metric(asked, scaled, at, stated)
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


def _check_metric(
    asked: spec.ServedWorkload, scaled: spec.Autoscaling, at: spec.Path, stated: Stated
) -> Checked[None]:
    if not stated.has((*at, "metric")):
        return
    metric = METRICS[scaled.metric]
    if asked.kind not in metric.kinds:
        own = [name for name, one in METRICS.items() if asked.kind in one.kinds]
        yield refuse(
            (*at, "metric"),
            f"a workload of kind {asked.kind} has no {scaled.metric}",
            f"write {' or '.join(own)}",
        )
    elif stated.has((*at, "target")):
        yield from _check_target(scaled, metric, (*at, "target"))
    if (scaled.query is None) == (scaled.metric == "query") and stated.has((*at, "query")):
        missing = scaled.query is None
        yield refuse(
            (*at, "query"),
            "is missing, and metric: query is asked by it"
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
            f"{scaled.metric} is of the whole server",
            "leave it out",
            in_key=True,
        )
    known = asked.load_models if isinstance(asked, spec.TritonWorkload) else ()
    if scaled.model is not None and known and scaled.model not in known:
        yield refuse(
            (*at, "model"), f"{scaled.model} is not in load_models", nearest(scaled.model, known)
        )


def _check_target(scaled: spec.Autoscaling, metric: Metric, at: spec.Path) -> Checked[None]:
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


def _check_wake(scaled: spec.Autoscaling, at: spec.Path, stated: Stated) -> Checked[None]:
    if not stated.has((*at, "min")):
        return
    if scaled.min == 0 and scaled.wake is None and stated.has((*at, "wake")):
        yield refuse(
            (*at, "min"),
            "without a replica nothing measures this metric, so none would ever be started",
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


def _check_cooldown(scaled: spec.Autoscaling, at: spec.Path) -> Checked[None]:
    """Between the last answer and the fallback, KEDA may take an unknown value for zero:
    a trigger whose connection another one's failure has just closed is `not active, no error`
    (kedacore/keda v2.21.0, pkg/scaling/scale_handler.go, getScalerState). The cooldown begins at
    the last answer, so it keeps the last replica if it is longer.
    """
    failures = scaled.fallback.failures
    least = (failures + 2) * KEDA_POLL_S
    if spec.seconds(scaled.cooldown) < least:
        yield refuse(
            (*at, "cooldown"),
            f"{scaled.cooldown} is over before KEDA falls back, after {failures} failed answers: "
            "the last replica could go while nobody knows what is asked",
            f"write {least}s or more" + (", or fewer fallback.failures" if failures > 1 else ""),
            _KEDA,
        )


def _check_pace(pace: spec.Pace, at: spec.Path) -> Checked[None]:
    limits = (
        ("stabilization", pace.stabilization, _STABILIZATION_S),
        ("per", pace.per, _PERIOD_S),
    )
    for name, value, most in limits:
        if value is not None and spec.seconds(value) > most:
            yield refuse(
                (*at, name),
                f"{value} is more than Kubernetes allows",
                f"write {most}s or less",
                "Kubernetes API, HorizontalPodAutoscalerBehavior",
            )
    if "per" in pace.model_fields_set and pace.replicas is None:
        yield refuse(
            (*at, "per"),
            "limits nothing: it is the time in which there may be `replicas` more or fewer",
            "add replicas, or leave it out",
            in_key=True,
        )


@dataclass(frozen=True, kw_only=True)
class Demand:
    """One workload's claim on a resource that others may ask for too."""

    asked: spec.ServedWorkload
    devices: int
    """Devices of each replica."""

    @property
    def most(self) -> int:
        """Devices of the greatest stated number of replicas, or of the least one if the greatest
        depends on the partitions left.
        """
        scaled = self.asked.autoscaling
        if scaled is None:
            return self.asked.replicas * self.devices
        return (scaled.min if scaled.max == "partitions" else scaled.max) * self.devices


def plan_autoscaling(
    one: Demand,
    path: spec.Path,
    *,
    pool: str,
    resource: str,
    offered: int,
    room: int | None,
    others: Sequence[Demand],
    stated: Stated,
) -> Checked[AutoscalingPlan | None]:
    """None if it has no autoscaling, or if its greatest number of replicas is unknown.

    offered: devices of the resource on as many nodes as the pool may have. room: replicas that fit
    into those nodes' processor and memory. others: all other demands for the same resource.
    """
    scaled = one.asked.autoscaling
    at = (*path, "autoscaling")
    if scaled is None or not stated.has(at):
        return None
    places = offered // one.devices
    why = f"pool {pool} has {offered} {resource} at most"
    if one.devices > 1:
        why += f", and a replica takes {one.devices}"
    if room is not None and room < places:
        places, why = room, f"nodes of pool {pool} have processor and memory for {room} at most"
    most: int | None
    if scaled.max != "partitions":
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
    else:
        most = yield from _all_that_is_left(one, at, others, offered, places)
    if most is None:
        return None
    if scaled.max == "partitions" and max(scaled.min, 1) > most:
        left = "are left for it" if others else f"fit: {why}"
        yield refuse(
            (*at, "min"),
            f"{max(scaled.min, 1)} replicas are more than the {most} that {left}",
            f"write {most} or less" if most else "give the pool more nodes, or partitions",
            _HPA,
        )
        return None
    fallback = scaled.fallback.replicas
    return AutoscalingPlan(
        asked=scaled,
        max=most,
        places=places,
        target=_target(scaled),
        # Never 0: if Prometheus had no answer, KEDA would take the last replica away
        # (kedacore/keda, pkg/scaling/executor/scale_scaledobjects.go).
        fallback_replicas=fallback if fallback is not None else max(scaled.min, 1),
    )


def _all_that_is_left(
    one: Demand, at: spec.Path, others: Sequence[Demand], offered: int, places: int
) -> Checked[int | None]:
    greedy = [
        other.asked.name
        for other in others
        if other.asked.autoscaling is not None and other.asked.autoscaling.max == "partitions"
    ]
    if greedy:
        yield refuse(
            (*at, "max"),
            f"{listed(greedy)} takes all partitions that are left too",
            "write a number",
        )
        return None
    taken = sum(other.most for other in others)
    return min(max(offered - taken, 0) // one.devices, places)


def _target(scaled: spec.Autoscaling) -> int:
    target = scaled.target
    return spec.microseconds(target) if isinstance(target, str) else target
