"""Turns a stack file into its plan, or reports all of its problems at once."""

from __future__ import annotations

import dataclasses
import gc
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path as FilePath

from slicewright.infra import stack_file
from slicewright.infra.plan.eks.fleet import plan_eks
from slicewright.infra.plan.existing.fleet import plan_existing
from slicewright.infra.plan.findings import Checked, Stated, collect, refuse, rule
from slicewright.infra.plan.fractional.checks import check_fractional
from slicewright.infra.plan.fractional.engines import engine_of
from slicewright.infra.plan.fractional.fleet_placement import place_fleet, with_places
from slicewright.infra.plan.fractional.requests import plan_workloads
from slicewright.infra.plan.gke.fleet import plan_gke
from slicewright.infra.plan.model.deployments import WorkloadPlan
from slicewright.infra.plan.model.fleets import CommonParts, FleetPlan
from slicewright.infra.plan.model.nodes import AnyPool
from slicewright.infra.plan.model.pools import PoolPlan
from slicewright.infra.plan.monitoring.checks import monitoring_of, readers
from slicewright.infra.plan.pools.clusters import SYSTEM_POOL
from slicewright.infra.plan.workloads.deployments import plan_deployments
from slicewright.infra.plan.workloads.pod_autoscaling import plan_pod_autoscaling
from slicewright.infra.stack_file import Problem, SpecError


def read_file(file: FilePath, *, name: str | None = None) -> FleetPlan:
    """The plan of a stack file, read without Pulumi. Raises SpecError."""
    with _without_gc():
        # A separate function: its objects are gone before the garbage collector is back on.
        return _read_file(file, name)


def _read_file(file: FilePath, name: str | None) -> FleetPlan:
    source = source_of(file, name=name)
    return read(json.dumps(source.raw), source)


def source_of(file: FilePath, *, name: str | None = None) -> stack_file.Source:
    """Reads a stack file for `read_source`, and for later questions about its text. Raises
    SpecError.
    """
    with _without_gc():
        try:
            return stack_file.read(file, name=name)
        except stack_file.NotReadable as e:
            raise stack_file.unreadable(str(e), name or str(file)) from None


def read_source(source: stack_file.Source) -> FleetPlan:
    """The plan of a stack file. Raises SpecError."""
    with _without_gc():
        return read(json.dumps(source.raw), source)


def read(text: str, source: stack_file.Source) -> FleetPlan:
    """The plan of a fleet in JSON text. Raises SpecError with every problem of the file."""
    try:
        fleet = stack_file.parse(text, source)
    except SpecError as e:
        recovered, more = e.recovered, list(e.problems)
        if recovered is not None and recovered.fleet is not None:
            _, problems = build(recovered.fleet, recovered.unknown)
            more = [*dict.fromkeys((*more, *map(recovered.in_file, problems)))]
        raise (SpecError(e.source, more) if len(more) > len(e.problems) else e) from None
    plan, problems = build(fleet)
    if plan is None:
        raise SpecError(
            source if source.raw is not None else dataclasses.replace(source, raw=json.loads(text)),
            problems,
        )
    return plan


def build(
    fleet: stack_file.Fleet, unknown: frozenset[stack_file.Path] = frozenset()
) -> tuple[FleetPlan | None, tuple[Problem, ...]]:
    """The plan, or None with the problems.

    unknown: paths whose value in the file is invalid. Nothing is concluded from them, and there is
    no plan.
    """
    stated = Stated(unknown)
    plan, findings = collect(_plan(fleet, stated))
    if not isinstance(fleet, stack_file.ByoFleet) and fleet.allow_unlisted:
        findings = tuple(finding for finding in findings if not finding.dated)
    return (None if findings or unknown else plan), stated.reportable(findings)


def _plan(fleet: stack_file.Fleet, stated: Stated) -> Checked[FleetPlan | None]:
    yield from _check_names(fleet.node_pools, stated)
    yield from check_fractional(fleet, stated)
    plan_common = partial(_common, fleet, stated)
    match fleet:
        case stack_file.GkeFleet():
            return (yield from plan_gke(fleet, stated, plan_common))
        case stack_file.EksFleet():
            return (yield from plan_eks(fleet, stated, plan_common))
        case stack_file.ByoFleet():
            return (yield from plan_existing(fleet, stated, plan_common))


def _common(
    fleet: stack_file.Fleet, stated: Stated, pools: Sequence[PoolPlan]
) -> Checked[CommonParts]:
    """pools: all that could be planned. The workloads are planned for them."""
    fractional = {
        p.name for p in fleet.node_pools if isinstance(p.sharing, stack_file.FractionalSharing)
    }
    shared = [pool for pool in pools if pool.name in fractional]
    nodes = [(pool.gpu, pool.gpu_count) for pool in shared]
    engine = engine_of(fleet)
    requests = yield from plan_workloads(fleet, engine, nodes, stated)
    deployments = yield from plan_deployments(fleet, pools, requests, stated)
    placement = (
        place_fleet(engine, shared, fleet.workloads, requests, deployments) if engine else None
    )
    deployments = with_places(deployments, placement)
    monitoring = yield from monitoring_of(fleet, fleet.cloud, stated)
    scaler = yield from plan_pod_autoscaling(fleet, deployments, monitoring, stated)
    return {
        "image": fleet.image,
        "image_pull_secrets": tuple(dict.fromkeys(fleet.image_pull_secrets)),
        "node_agent": fleet.node_agent,
        "admin_groups": fleet.admin_groups,
        "pod_guard": fleet.pod_guard,
        "metrics_from": readers(fleet.metrics_from, monitoring),
        "verify_timeout_minutes": fleet.verify_timeout_minutes,
        "fractional": fleet.fractional,
        "engine": engine,
        "placement": placement,
        "workloads": _plain_requests(fleet, requests),
        "deployments": deployments,
        "monitoring": monitoring,
        "pod_autoscaling": scaler,
    }


def _plain_requests(
    fleet: stack_file.Fleet, requests: Mapping[str, WorkloadPlan]
) -> tuple[WorkloadPlan, ...]:
    """The requests of pods that the stack does not create."""
    return tuple(
        requests[workload.name]
        for workload in fleet.workloads
        if isinstance(workload, stack_file.Workload) and workload.name in requests
    )


@contextmanager
def _without_gc() -> Iterator[None]:
    """Pauses the garbage collector: on 200 pools it took a third of the time and found nothing."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@rule("pool-name")
def _check_names(pools: Sequence[AnyPool], stated: Stated) -> Checked[None]:
    first: dict[str, int] = {}
    for i, pool in enumerate(pools):
        if pool.name == SYSTEM_POOL:
            yield refuse(
                ("node_pools", i, "name"),
                f"{SYSTEM_POOL!r} is the name of the system pool",
                "choose another name",
            )
        elif not stated.has(("node_pools", i, "name")):
            continue
        elif pool.name in first:
            yield refuse(
                ("node_pools", i, "name"),
                f"{pool.name!r} is also the name of node_pools[{first[pool.name]}]",
                "choose another name",
            )
        first.setdefault(pool.name, i)
