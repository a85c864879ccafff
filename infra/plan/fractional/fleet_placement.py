"""The placement of a fleet's pods: its pools' nodes, its workloads' pods, and what results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from slicewright.infra import stack_file
from slicewright.infra.plan.fractional.engines import share_requests, shared_card
from slicewright.infra.plan.fractional.placement import place_pods
from slicewright.infra.plan.fractional.requests import card_shape
from slicewright.infra.plan.model.deployments import DeploymentPlan, WorkloadPlan
from slicewright.infra.plan.model.fractional import (
    Engine,
    FractionalPlacement,
    SharedNode,
    SharingPod,
)
from slicewright.infra.plan.model.pools import PoolPlan


def place_fleet(
    engine: Engine,
    pools: Sequence[PoolPlan],
    workloads: Sequence[stack_file.AnyWorkload],
    requests: Mapping[str, WorkloadPlan],
    deployments: Sequence[DeploymentPlan],
) -> FractionalPlacement | None:
    """None for VKE, whose scheduler is not published.

    pools: those with fractional sharing. requests: of the workloads that are not refused.
    """
    if engine.provider == "vke":
        return None
    most = {deployment.name: deployment.most for deployment in deployments}
    pods = [
        pod
        for _, workload, share in share_requests(workloads)
        if workload.name in requests
        for pod in _pods(workload, share, engine, most.get(workload.name))
    ]
    nodes = [node for pool in pools for node in _nodes(pool, engine)]
    return place_pods(engine.provider, nodes, pods)


def _nodes(pool: PoolPlan, engine: Engine) -> Iterator[SharedNode]:
    cards = (shared_card(engine, pool.gpu),) * pool.gpu_count
    for i in range(pool.nodes.max):
        yield SharedNode(name=f"{pool.name} node {i + 1}", pool=pool.name, cards=cards)


def _pods(
    workload: stack_file.AnyWorkload,
    share: stack_file.FractionalRequest,
    engine: Engine,
    most: int | None,
) -> Iterator[SharingPod]:
    """most: the replicas that a served workload may have."""
    shape, settings = card_shape(share, engine), engine.settings
    plain = workload if isinstance(workload, stack_file.Workload) else None
    count = workload.replicas if most is None else most
    for i in range(count):
        yield SharingPod(
            name=workload.name if count == 1 else f"{workload.name}-{i + 1}",
            workload=workload.name,
            cards=shape.cards,
            memory_mib=shape.memory_mib,
            compute_percent=shape.compute_percent,
            node_policy=share.node_policy or settings.node_policy,
            gpu_policy=share.gpu_policy or settings.gpu_policy,
            containers=plain.containers if plain else 1,
            pool=None if isinstance(workload, stack_file.Workload) else workload.pool,
        )


def with_places(
    deployments: Sequence[DeploymentPlan], placement: FractionalPlacement | None
) -> tuple[DeploymentPlan, ...]:
    """The deployments, with no more room than the cards leave for their replicas."""
    if placement is None:
        return tuple(deployments)
    return tuple(
        _with_places(deployment, placement.pods.get(deployment.name, 0))
        if deployment.share is not None
        else deployment
        for deployment in deployments
    )


def _with_places(deployment: DeploymentPlan, places: int) -> DeploymentPlan:
    room = places if deployment.room is None else min(places, deployment.room)
    awaited = deployment.awaited and deployment.at_first <= places
    return replace(deployment, room=room, awaited=awaited)
