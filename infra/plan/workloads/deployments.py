"""Plans workloads that serve models: each against the pool that it runs on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from slicewright.infra import stack_file
from slicewright.infra.plan.findings import Checked, Stated
from slicewright.infra.plan.model.deployments import DeploymentPlan, WorkloadPlan
from slicewright.infra.plan.model.pools import GkeSettings, PoolPlan
from slicewright.infra.plan.model.scaling import AutoscalingPlan
from slicewright.infra.plan.workloads.autoscaling import check_autoscaling, plan_autoscaling
from slicewright.infra.plan.workloads.gpu_shares import check_share, check_share_memory
from slicewright.infra.plan.workloads.gpus import check_gpu_memory, check_gpus
from slicewright.infra.plan.workloads.model_memory import model_memory
from slicewright.infra.plan.workloads.namespaces import (
    check_names,
    check_namespaces,
    check_pod_security,
)
from slicewright.infra.plan.workloads.placement import (
    PlacedWorkload,
    place_share,
    place_workload,
    pool_of,
)
from slicewright.infra.plan.workloads.pod_resources import (
    check_against_node,
    check_limits,
    check_ports,
)
from slicewright.infra.plan.workloads.servers.triton import check_triton
from slicewright.infra.plan.workloads.servers.vllm import check_dtype, check_memory, check_vllm
from slicewright.infra.plan.workloads.shared_memory import Tenant, check_shared_memory
from slicewright.infra.plan.workloads.texts import check_texts


def plan_deployments(
    fleet: stack_file.Fleet,
    pools: Sequence[PoolPlan],
    requests: Mapping[str, WorkloadPlan],
    stated: Stated,
) -> Checked[tuple[DeploymentPlan, ...]]:
    """pools: those that could be planned. requests: for fractions of GPUs, by workload."""
    yield from check_names(fleet, stated)
    yield from check_namespaces(fleet, stated)
    placed_workloads = yield from _place(
        fleet, {pool.name: pool for pool in pools}, requests, stated
    )
    scaled = yield from _autoscale(placed_workloads, stated)
    yield from check_shared_memory(
        [
            Tenant(
                placed=placed, replicas=_most_devices(placed, plan) // placed.devices_per_replica
            )
            for placed, plan in scaled
            if placed.share is None
        ],
        stated,
    )
    demanded: dict[tuple[str, str], int] = defaultdict(int)
    at_first: dict[tuple[str, str], int] = defaultdict(int)
    for placed, plan in scaled:
        demanded[placed.resource] += _most_devices(placed, plan)
        at_first[placed.resource] += placed.first_replicas * placed.devices_per_replica
    return tuple(
        _deployment(
            placed,
            plan,
            coming_nodes=_coming_nodes(placed.pool, fleet),
            demanded=demanded[placed.resource],
            at_first=at_first[placed.resource],
        )
        for placed, plan in scaled
    )


def _place(
    fleet: stack_file.Fleet,
    pools: Mapping[str, PoolPlan],
    requests: Mapping[str, WorkloadPlan],
    stated: Stated,
) -> Checked[list[PlacedWorkload]]:
    """The workloads that have a pool and devices. Checks each of them, also on its pool."""
    placed_workloads = []
    for i, workload in enumerate(fleet.workloads):
        if isinstance(workload, stack_file.Workload):
            continue
        path: stack_file.Path = ("workloads", i)
        yield from _check_workload(workload, path, stated)
        pool = yield from pool_of(workload, path, fleet.node_pools, pools, stated)
        if pool is None:
            continue
        yield from check_pod_security(workload, path, pool, stated)
        if workload.gpu_share is None:
            placed = yield from place_workload(workload, path, pool, stated)
        elif (request := requests.get(workload.name)) is not None:
            yield from check_share(workload, workload.gpu_share, path, stated)
            placed = place_share(workload, path, pool, request)
        else:
            placed = None  # refused elsewhere
        if placed is None:
            continue
        yield from check_against_node(workload, path, pool)
        yield from _check_devices(placed, stated)
        placed_workloads.append(placed)
    return placed_workloads


def _check_workload(
    workload: stack_file.ServedWorkload, path: stack_file.Path, stated: Stated
) -> Checked[None]:
    """Refuses settings that are wrong on every pool."""
    yield from check_texts(workload, path, stated)
    yield from check_limits(workload, path)
    yield from check_autoscaling(workload, path, stated)
    match workload:
        case stack_file.VllmWorkload():
            yield from check_vllm(workload, path, stated)
        case stack_file.TritonWorkload():
            yield from check_triton(workload, path, stated)
        case stack_file.ContainerWorkload():
            yield from check_ports(workload, path, stated)


def _check_devices(placed: PlacedWorkload, stated: Stated) -> Checked[None]:
    """Refuses a workload whose replica does not fit on its devices."""
    workload, path, pool, devices = placed.workload, placed.path, placed.pool, placed.devices
    if placed.share is not None:
        yield from check_share_memory(workload, placed.share, path, stated)
        return
    match workload:
        case stack_file.VllmWorkload():
            at = (*path, "tensor_parallel")
            yield from check_gpus(workload.tensor_parallel, at, pool, devices)
            yield from check_dtype(workload, path, pool)
            yield from check_memory(workload, path, pool, devices, stated)
        case stack_file.TritonWorkload():
            yield from check_gpu_memory(workload, path, pool, devices, stated)
        case stack_file.ContainerWorkload():
            yield from check_gpus(workload.gpus, (*path, "gpus"), pool, devices)
            yield from check_gpu_memory(workload, path, pool, devices, stated)


def _autoscale(
    placed_workloads: Sequence[PlacedWorkload], stated: Stated
) -> Checked[list[tuple[PlacedWorkload, AutoscalingPlan | None]]]:
    """Each workload with the plan of its autoscaling, which depends on its neighbors' demand."""
    scaled = []
    for placed in placed_workloads:
        neighbors = [
            neighbor
            for neighbor in placed_workloads
            if neighbor is not placed and neighbor.resource == placed.resource
        ]
        scaled.append((placed, (yield from plan_autoscaling(placed, neighbors, stated))))
    return scaled


def _most_devices(placed: PlacedWorkload, autoscaling: AutoscalingPlan | None) -> int:
    """Devices of as many replicas as the workload may have."""
    if autoscaling is None:
        return placed.most_devices
    return autoscaling.max * placed.devices_per_replica


def _deployment(
    placed: PlacedWorkload,
    autoscaling: AutoscalingPlan | None,
    *,
    coming_nodes: int,
    demanded: int,
    at_first: int,
) -> DeploymentPlan:
    """coming_nodes: of the pool, once pods ask for them.

    demanded, at_first: devices of the resource for all workloads together, at most and when they
    are created.
    """
    workload, pool, devices = placed.workload, placed.pool, placed.devices
    on_a_node = placed.room_on_a_node
    fits = on_a_node is None or placed.first_replicas <= on_a_node * coming_nodes
    return DeploymentPlan(
        workload=workload,
        resource=devices.resource,
        devices=placed.devices_per_replica,
        profiles=devices.profiles,
        device_mib=devices.mib,
        node_labels={"cloud.google.com/gke-gpu-partition-size": pool.settings.partition_size}
        if isinstance(pool.settings, GkeSettings) and pool.settings.partition_size
        else {},
        offered=placed.offered,
        demanded=demanded,
        room=placed.room,
        awaited=fits and at_first <= placed.devices_per_node * coming_nodes,
        memory=model_memory(workload) if isinstance(workload, stack_file.VllmWorkload) else None,
        autoscaling=autoscaling,
        share=placed.share,
    )


def _coming_nodes(pool: PoolPlan, fleet: stack_file.Fleet) -> int:
    """The number of nodes once pods ask for them. GKE's autoscaler comes with its cluster, EKS's
    on request. Nodes of queued capacity only come for a ProvisioningRequest.
    """
    match fleet:
        case stack_file.GkeFleet():
            queued = isinstance(pool.settings, GkeSettings) and isinstance(
                pool.settings.capacity, stack_file.Queued
            )
            scaled = not queued
        case stack_file.EksFleet():
            scaled = fleet.cluster.autoscaler is not None
        case stack_file.ByoFleet():
            scaled = False
    return pool.nodes.max if scaled else pool.nodes.min
