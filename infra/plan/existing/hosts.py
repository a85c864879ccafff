"""Plans hosts without Kubernetes: the GPU instances of each GPU, and their places on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from slicewright.infra import geometry, stack_file
from slicewright.infra.catalog import Gpu
from slicewright.infra.geometry import Fit, Misfit, Placement
from slicewright.infra.plan.existing.gpus import gpu_of_model
from slicewright.infra.plan.findings import Checked, Finding, Stated, listed, refuse, rule
from slicewright.infra.plan.model.hosts import HostGpuPlan, HostPlan


@rule("host-name")
def plan_hosts(hosts: tuple[stack_file.Host, ...], stated: Stated) -> Checked[tuple[HostPlan, ...]]:
    planned, names = (
        [],
        Counter(h.name for i, h in enumerate(hosts) if stated.has(("hosts", i, "name"))),
    )
    for i, host in enumerate(hosts):
        if names[host.name] > 1:
            yield refuse(
                ("hosts", i, "name"),
                f"{host.name} is listed {names[host.name]} times",
                "name each host once",
            )
        host_plan = yield from _host(host, ("hosts", i), stated)
        if host_plan is not None:
            planned.append(host_plan)
    return tuple(planned)


@rule("host-gpus")
def _host(host: stack_file.Host, path: stack_file.Path, stated: Stated) -> Checked[HostPlan | None]:
    gpu = yield from gpu_of_model(host.gpu.model, (*path, "gpu"), stated)
    gpus, indexes = [], set()
    for i, stated_gpu in enumerate(host.gpus):
        at = (*path, "gpus", i)
        if stated.has((*at, "index")):
            if stated_gpu.index >= host.gpu.count and stated.has((*path, "gpu", "count")):
                yield refuse(
                    (*at, "index"),
                    f"there is no GPU {stated_gpu.index}: {host.name} has {host.gpu.count} GPUs, "
                    "counted from 0",
                    f"write {' or '.join(sorted({'0', str(host.gpu.count - 1)}))}"
                    if host.gpu.count < 3
                    else f"write 0 to {host.gpu.count - 1}",
                    "NVML API, device index",
                )
            elif stated_gpu.index in indexes:
                yield refuse(
                    (*at, "index"), f"GPU {stated_gpu.index} is listed twice", "name each GPU once"
                )
            indexes.add(stated_gpu.index)
        placed = yield from _instances(stated_gpu, gpu, at, stated)
        if placed is not None:
            gpus.append(
                HostGpuPlan(
                    index=stated_gpu.index,
                    mig=stated_gpu.mig,
                    persistence=stated_gpu.persistence,
                    instances=placed,
                )
            )
    if gpu is None:
        return None
    return HostPlan(
        name=host.name,
        gpu=gpu,
        gpu_count=host.gpu.count,
        wait_minutes=host.in_use.minutes if isinstance(host.in_use, stack_file.Wait) else None,
        gpus=tuple(sorted(gpus, key=lambda g: g.index)),
    )


@rule("host-instances")
def _instances(
    host_gpu: stack_file.HostGpu, gpu: Gpu | None, path: stack_file.Path, stated: Stated
) -> Checked[tuple[Placement, ...] | None]:
    """gpu: None if it is unknown. Errors on every model are reported all the same."""
    if gpu is not None and gpu.family is None:
        yield from _check_unpartitioned(host_gpu, gpu, path)
        return ()
    if host_gpu.instances and not host_gpu.mig:
        yield refuse(
            (*path, "mig"),
            "is false, but there are instances",
            "write mig: true, or leave the instances out",
        )
    here = {
        i: instance
        for i, instance in enumerate(host_gpu.instances)
        if stated.has((*path, "instances", i))
    }
    placed = [i for i, instance in here.items() if instance.start is not None]
    if placed and len(placed) < len(here):
        first = next(i for i in here if i not in placed)
        yield refuse(
            (*path, "instances", first),
            "has no start, but other instances on this GPU have",
            "write all starts, or none",
        )
    if gpu is None:
        return None
    fit = geometry.check(gpu, Counter(instance.profile for instance in here.values()))
    if isinstance(fit, Misfit):
        yield _misfit(fit, gpu, (*path, "instances"))
    legal = yield from _legal({i: here[i] for i in placed}, gpu, path)
    if not isinstance(fit, Fit):
        return None  # overlaps cannot be judged: an instance may have to be removed
    return (yield from _as_placed(legal, gpu, path)) if placed else fit.placements


@rule("host-unpartitioned")
def _check_unpartitioned(
    host_gpu: stack_file.HostGpu, gpu: Gpu, path: stack_file.Path
) -> Checked[None]:
    """Refuses partitions of a GPU without MIG."""
    if host_gpu.mig or host_gpu.instances:
        yield refuse(
            (*path, "mig") if host_gpu.mig else (*path, "instances"),
            f"{gpu.name} has no MIG: it cannot be partitioned",
            " and ".join(
                ["write mig: false"] * host_gpu.mig
                + ["leave the instances out"] * bool(host_gpu.instances)
            ),
            gpu.source,
        )


def _misfit(misfit: Misfit, gpu: Gpu, at: stack_file.Path) -> Finding:
    near = ", ".join(f"{name}: {count}" for name, count in sorted(misfit.nearest.items()))
    return refuse(
        at,
        f"does not fit on one {gpu.name}: {misfit.reason}",
        f"nearest that fits: {{{near}}}"
        if near
        else f"profiles of {gpu.name}: {listed(tuple(gpu.profiles))}",
        gpu.family.source if gpu.family else gpu.source,
        certain=True,
    )


@rule("host-placement")
def _legal(
    instances: Mapping[int, stack_file.Instance], gpu: Gpu, path: stack_file.Path
) -> Checked[Mapping[int, Placement]]:
    """The instances whose start their profile allows."""
    legal = {}
    for i, instance in instances.items():
        if instance.profile not in gpu.profiles:
            continue
        kind, start = gpu.profiles[instance.profile].kind, instance.start or 0
        if start in kind.starts:
            legal[i] = Placement(profile=instance.profile, start=start, size=kind.size)
            continue
        starts = ", ".join(map(str, kind.starts))
        yield refuse(
            (*path, "instances", i, "start"),
            f"{instance.profile} cannot start at slot {start}",
            f"write one of {starts}",
            kind.source,
        )
    return legal


@rule("host-placement-overlap")
def _as_placed(
    placed: Mapping[int, Placement], gpu: Gpu, path: stack_file.Path
) -> Checked[tuple[Placement, ...]]:
    """The placements ordered by start, so that the order in the file does not matter."""
    occupied: dict[int, int] = {}
    for i, placement in placed.items():
        slots = range(placement.start, placement.start + placement.size)
        clash = next((occupied[slot] for slot in slots if slot in occupied), None)
        if clash is not None:
            yield refuse(
                (*path, "instances", i, "start"),
                f"slots {placement.start} to {slots[-1]} overlap those of instances[{clash}]",
                "choose another start",
                gpu.profiles[placement.profile].kind.source,
            )
        occupied.update(dict.fromkeys(slots, i))
    return tuple(sorted(placed.values(), key=lambda p: p.start))
