"""Finds the pool of a workload, and the devices of its nodes that each replica gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slicewright.infra import stack_file
from slicewright.infra.plan.findings import Checked, Stated, listed, nearest, refuse, rule
from slicewright.infra.plan.fractional.engines import CARDS_OF
from slicewright.infra.plan.model.deployments import Devices, WorkloadPlan
from slicewright.infra.plan.model.nodes import WHOLE_GPU
from slicewright.infra.plan.model.pools import CloudSettings, GkeSettings, PoolPlan
from slicewright.infra.plan.partition.resource_names import resource_of


@dataclass(frozen=True, kw_only=True)
class PlacedWorkload:
    """A workload with the pool that it runs on, and the resource that its pods request."""

    path: stack_file.Path
    workload: stack_file.ServedWorkload
    pool: PoolPlan
    devices: Devices
    share: WorkloadPlan | None = None
    """The fraction that each replica requests. None: whole devices."""

    @property
    def resource(self) -> tuple[str, str]:
        """Pool and resource. Workloads with the same compete for its devices."""
        return self.pool.name, self.devices.resource

    @property
    def devices_per_replica(self) -> int:
        if self.share is not None:
            return self.share.cards
        match self.workload:
            case stack_file.VllmWorkload():
                return self.workload.tensor_parallel
            case stack_file.ContainerWorkload():
                return self.workload.gpus
            case stack_file.TritonWorkload():
                return 1

    @property
    def devices_per_node(self) -> int:
        """Devices of the resource on one node, for all workloads."""
        return self.pool.offer.resources[self.devices.resource]

    @property
    def offered(self) -> int:
        """Devices of the resource on as many nodes as the pool may have."""
        return self.devices_per_node * self.pool.nodes.max

    @property
    def most_devices(self) -> int:
        """Devices of the greatest stated number of replicas, or of the least one if the greatest
        depends on the partitions left.
        """
        scaled = self.workload.autoscaling
        if scaled is None:
            return self.workload.replicas * self.devices_per_replica
        replicas = scaled.min if scaled.max == "partitions" else scaled.max
        return replicas * self.devices_per_replica

    @property
    def first_replicas(self) -> int:
        """The number of replicas when the workload is created."""
        scaled = self.workload.autoscaling
        return self.workload.replicas if scaled is None else scaled.min

    @property
    def room_on_a_node(self) -> int | None:
        """Replicas that fit into one machine's processor and memory. None: unknown, or no limit."""
        if not isinstance(self.pool.settings, CloudSettings):
            return None
        machine, requests = self.pool.settings.machine, self.workload.requests
        by_cpu = (
            [machine.vcpus * 1000 // stack_file.millicpus(requests.cpu)]
            if requests.cpu is not None
            else []
        )
        by_memory = (
            [int(machine.memory_gib * 1024) // stack_file.mebibytes(requests.memory)]
            if requests.memory is not None
            else []
        )
        return min([*by_cpu, *by_memory], default=None)

    @property
    def room(self) -> int | None:
        """Replicas that fit into processor and memory of as many nodes as the pool may have."""
        return None if self.room_on_a_node is None else self.room_on_a_node * self.pool.nodes.max


def place_share(
    workload: stack_file.ServedWorkload, path: stack_file.Path, pool: PoolPlan, share: WorkloadPlan
) -> PlacedWorkload | None:
    """The workload on shared cards of its pool. None if the engine has no resource for cards."""
    resource = next((name for name in share.requests if name in CARDS_OF.values()), None)
    if resource is None:
        return None
    mib = share.memory_mib_per_card or pool.gpu.memory_mib
    devices = Devices(resource=resource, profiles=(), mib=mib, sharers=1)
    return PlacedWorkload(path=path, workload=workload, pool=pool, devices=devices, share=share)


def place_workload(
    workload: stack_file.ServedWorkload, path: stack_file.Path, pool: PoolPlan, stated: Stated
) -> Checked[PlacedWorkload | None]:
    """The workload on its pool. None if its resource is refused."""
    at = (*path, "resource")
    if not stated.has(at):
        return None
    base = yield from _base_resource(workload, at, pool)
    if base is None:
        return None
    return PlacedWorkload(path=path, workload=workload, pool=pool, devices=_devices(base, pool))


@rule("workload-pool")
def pool_of(
    workload: stack_file.ServedWorkload,
    path: stack_file.Path,
    stated_pools: Sequence[stack_file.GkePool | stack_file.EksPool | stack_file.ByoPool],
    planned_pools: Mapping[str, PoolPlan],
    stated: Stated,
) -> Checked[PoolPlan | None]:
    """The pool with the stated name. None if it is refused or could not be planned."""
    at = (*path, "pool")
    if not stated.has(at) or not stated.has_for_all(stated_pools, "name"):
        return None
    by_name = {pool.name: pool for pool in stated_pools}
    if workload.pool not in by_name:
        yield refuse(
            at,
            f"no pool is named {workload.pool}",
            nearest(workload.pool, tuple(by_name)) if by_name else "add node_pools",
        )
        return None
    fractional = isinstance(by_name[workload.pool].sharing, stack_file.FractionalSharing)
    if workload.gpu_share is not None and not fractional:
        yield refuse(
            at,
            f"the GPUs of {workload.pool} are not shared by fractions",
            "write sharing: fractional in that pool, or leave gpu_share out",
        )
        return None
    if fractional and workload.gpu_share is None:
        yield refuse(
            at,
            f"the GPUs of {workload.pool} are shared by fractions, and workloads of kind "
            f"{workload.kind} request whole devices",
            "add gpu_share, or write the name of another pool",
        )
        return None
    return planned_pools.get(workload.pool)


@rule("workload-resource")
def _base_resource(
    workload: stack_file.ServedWorkload, at: stack_file.Path, pool: PoolPlan
) -> Checked[str | None]:
    """The requested resource before sharing renames it: the stated one, or the pool's only one."""
    offered = pool.offer.devices
    short = sorted(name.removeprefix("nvidia.com/") for name in offered)
    if workload.resource is None and len(offered) > 1:
        yield refuse(
            at,
            f"is required: nodes of {pool.name} offer several resources",
            f"write one of {listed(short)}",
        )
        return None
    if workload.resource is None:
        return next(iter(offered))
    base = f"nvidia.com/{workload.resource.removeprefix('nvidia.com/')}"
    if base in offered:
        return base
    why = ""
    if base != WHOLE_GPU and isinstance(pool.settings, GkeSettings) and not pool.operated:
        why = ": GKE advertises partitions as nvidia.com/gpu"
    elif base == WHOLE_GPU:
        why = ": all of its GPUs are partitioned"
    yield refuse(
        at,
        f"nodes of {pool.name} offer no {base}{why}",
        f"write {' or '.join(short)}, or name another pool",
        "NVIDIA/k8s-device-plugin, internal/rm",
    )
    return None


def _devices(base: str, pool: PoolPlan) -> Devices:
    """The devices that pods get for a resource."""
    shared = next((s for s in pool.offer.sharing if s.resource == base), None)
    profiles = sorted(
        {
            profile
            for layout in pool.offer.layouts
            for profile in layout
            if _advertised_as(profile, pool) == base
        }
    )
    sizes = [pool.gpu.profiles[name].memory_mib for name in profiles] or [pool.gpu.memory_mib]
    known_sizes = [size for size in sizes if size is not None]
    return Devices(
        resource=shared.advertised if shared else base,
        profiles=tuple(profiles),
        mib=min(known_sizes) if len(known_sizes) == len(sizes) else None,
        sharers=shared.replicas if shared else 1,
    )


def _advertised_as(profile: str, pool: PoolPlan) -> str:
    """A plugin with one resource for all devices advertises partitions as whole GPUs."""
    resource = resource_of(profile)
    return resource if resource in pool.offer.devices else WHOLE_GPU
