"""Checks processor, memory, volumes and ports of a workload's pods against a node."""

from __future__ import annotations

from collections import Counter

from slicewright.infra import stack_file
from slicewright.infra.catalog import Machine
from slicewright.infra.plan.findings import Checked, Stated, refuse, rule
from slicewright.infra.plan.model.pools import CloudSettings, PoolPlan


def check_against_node(
    workload: stack_file.ServedWorkload, path: stack_file.Path, pool: PoolPlan
) -> Checked[None]:
    """Refuses a pod that no node of the pool can run."""
    if isinstance(pool.settings, CloudSettings):
        yield from _check_machine(workload, path, pool.settings.machine)
    yield from _check_cache(workload, path, pool)


@rule("workload-requests")
def _check_machine(
    workload: stack_file.ServedWorkload, path: stack_file.Path, machine: Machine
) -> Checked[None]:
    cpu = workload.requests.cpu
    if cpu is not None and stack_file.millicpus(cpu) >= machine.vcpus * 1000:
        yield refuse(
            (*path, "requests", "cpu"),
            f"{cpu} CPUs are never free on one {machine.name}, which has "
            f"{machine.vcpus} for all of its pods",
            f"write {machine.vcpus - 1} or less",
            machine.source,
        )
    asked_mib = stack_file.mebibytes(workload.requests.memory) if workload.requests.memory else 0
    if asked_mib >= machine.memory_gib * 1024:
        yield refuse(
            (*path, "requests", "memory"),
            f"{workload.requests.memory} are never free on one {machine.name}, which has "
            f"{machine.memory_gib}Gi for all of its pods",
            f"write less than {machine.memory_gib}Gi",
            machine.source,
        )


@rule("workload-cache")
def _check_cache(
    workload: stack_file.ServedWorkload, path: stack_file.Path, pool: PoolPlan
) -> Checked[None]:
    cache = None if isinstance(workload, stack_file.TritonWorkload) else workload.cache
    if (
        isinstance(cache, stack_file.NewVolume)
        and cache.access_mode == "ReadWriteOnce"
        and pool.nodes.max > 1
        and (
            workload.replicas > 1 if workload.autoscaling is None else workload.autoscaling.max != 1
        )
    ):
        yield refuse(
            (*path, "cache", "access_mode"),
            f"such a volume is on one node at a time, and {pool.name} has up to {pool.nodes.max}: "
            "replicas on the others would never start",
            "write ReadWriteMany, with a storage class that has it",
            "Kubernetes docs, persistent volumes: access modes",
        )


@rule("workload-limits")
def check_limits(workload: stack_file.ServedWorkload, path: stack_file.Path) -> Checked[None]:
    for name in ("cpu", "memory"):
        least, most = getattr(workload.requests, name), getattr(workload.limits, name)
        if least is None or most is None:
            continue
        amount = stack_file.mebibytes if name == "memory" else stack_file.millicpus
        least, most = amount(least), amount(most)
        if least > most:
            yield refuse(
                (*path, "requests", name),
                f"{getattr(workload.requests, name)} is above the limit, "
                f"{getattr(workload.limits, name)}",
                f"write {getattr(workload.limits, name)} or less, or raise the limit",
                "Kubernetes docs, resource management",
            )
    limit = workload.limits.memory
    if limit is not None and stack_file.mebibytes(workload.shared_memory) >= stack_file.mebibytes(
        limit
    ):
        yield refuse(
            (*path, "shared_memory"),
            f"{workload.shared_memory} counts as the pod's memory, whose limit is {limit}",
            f"write less than {limit}, or raise the limit",
            "Kubernetes docs, volumes: emptyDir",
        )


@rule("workload-ports")
def check_ports(
    workload: stack_file.ContainerWorkload, path: stack_file.Path, stated: Stated
) -> Checked[None]:
    if not stated.has((*path, "ports")):
        return
    if workload.health is not None and workload.health.port not in workload.ports:
        yield refuse(
            (*path, "health", "port"),
            f"no port is named {workload.health.port}",
            f"write {' or '.join(workload.ports)}" if workload.ports else "add ports: {http: 8000}",
        )
    if "service" in workload.model_fields_set and not workload.ports:
        yield refuse(
            (*path, "service"),
            "needs a port",
            "add ports: {http: 8000}, or leave service out",
            in_key=True,
        )
    numbers = Counter(workload.ports.values())
    for name, number in workload.ports.items():
        if numbers[number] > 1:
            yield refuse(
                (*path, "ports", name),
                f"{number} is also listed under another name",
                "name each port once",
            )
