"""The machine types that the nodes of one EKS pool may have: all with the same GPUs."""

from __future__ import annotations

from collections.abc import Sequence

from slicewright.infra import stack_file
from slicewright.infra.catalog import AwsRegion, Machine
from slicewright.infra.plan.findings import Checked, Finding, Stated, refuse, rule
from slicewright.infra.plan.machines.machine_types import named_machine
from slicewright.infra.plan.machines.regions import check_offered_there
from slicewright.infra.plan.model.nodes import GpuMachine

_MOST_TYPES = 20
_API = "EKS API, CreateNodegroup.instanceTypes"


@rule("eks-other-machine-types")
def other_machines(
    pool: stack_file.EksPool,
    path: stack_file.Path,
    first: GpuMachine | None,
    region: AwsRegion | None,
    zones: Sequence[str],
    stated: Stated,
) -> Checked[tuple[Machine, ...]]:
    """The pool's other machine types, in the order of the stack file. path: of the pool."""
    names, at = pool.other_machine_types, (*path, "other_machine_types")
    if names and isinstance(pool.capacity, stack_file.Reservation | stack_file.CapacityBlock):
        yield refuse(
            at,
            f"capacity {pool.capacity.mode} covers a single machine type",
            "leave it out",
            "EC2 user guide, Capacity Reservations",
        )
    if len(names) >= _MOST_TYPES:
        yield refuse(
            at,
            f"{len(names)} types beside machine_type are too many: EKS allows {_MOST_TYPES} in all",
            f"write {_MOST_TYPES - 1} or less",
            _API,
        )
    machines = []
    for i, name in enumerate(names):
        if not stated.has((*at, i)):
            continue
        if name in (pool.machine_type, *names[:i]):
            yield refuse((*at, i), f"{name} is written twice", "leave one out", _API)
            continue
        machine = yield from named_machine(name, "eks", (*at, i))
        if machine is None or first is None:
            continue
        if (difference := _difference(machine, pool.machine_type, first, (*at, i))) is not None:
            yield difference
        else:
            yield from check_offered_there(machine, region, zones, path, stated, at=(*at, i))
            machines.append(machine)
    return tuple(machines)


def _difference(
    machine: Machine, first_name: str, first: GpuMachine, at: stack_file.Path
) -> Finding | None:
    """The reason why nodes of one pool cannot have both types. None if they can."""
    if machine.gpu is None:
        return refuse(
            at, f"{machine.name} has no GPU", f"write a type with {_gpus(first)}", machine.source
        )
    if (machine.gpu, machine.gpu_count) != (first.gpu, first.count):
        return refuse(
            at,
            f"{machine.name} has {machine.gpu_count} x {machine.gpu.name}, and {first_name} "
            f"{_gpus(first)}: partitions and resources would differ from node to node",
            f"write a type with {_gpus(first)}, or a pool of its own",
            machine.source,
        )
    if machine.architecture != first.machine.architecture:
        return refuse(
            at,
            f"{machine.name} has {machine.architecture} processors, and {first_name} "
            f"{first.machine.architecture}: a node group has one machine image",
            "write a type with the same processors",
            machine.source,
        )
    return None


def _gpus(machine: GpuMachine) -> str:
    return f"{machine.count} x {machine.gpu.name}"
