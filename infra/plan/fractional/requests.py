"""Requests for fractions: from totals over cards, as in the stack file, to each engine's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slicewright.infra import stack_file
from slicewright.infra.catalog import Gpu
from slicewright.infra.plan.findings import Checked, Stated, refuse, rule
from slicewright.infra.plan.fractional.checks import HAMI, VKE
from slicewright.infra.plan.fractional.engines import (
    VKE_POLICY,
    is_fractional,
    share_requests,
    shared_card,
    vke_policy,
)
from slicewright.infra.plan.fractional.request_checks import check_request, check_settings
from slicewright.infra.plan.model.deployments import WorkloadPlan
from slicewright.infra.plan.model.fractional import Engine


@dataclass(frozen=True, kw_only=True)
class CardShape:
    """A container's request of each of its cards."""

    cards: int
    memory_mib: int | None
    """None: all memory."""
    compute_percent: int


def card_shape(share: stack_file.FractionalRequest, engine: Engine) -> CardShape:
    """The request of each card. Memory is rounded up to the engine's unit."""
    if share.memory is None or share.compute_percent is None:
        return CardShape(cards=share.cards, memory_mib=None, compute_percent=100)
    mib, factor = stack_file.mebibytes(share.memory) // share.cards, engine.memory_factor
    return CardShape(
        cards=share.cards,
        memory_mib=-(-mib // factor) * factor,
        compute_percent=share.compute_percent // share.cards,
    )


@rule("fractional-request-engine")
def plan_workloads(
    fleet: stack_file.Fleet,
    engine: Engine | None,
    nodes: Sequence[tuple[Gpu, int]],
    stated: Stated,
) -> Checked[Mapping[str, WorkloadPlan]]:
    """The requests of all workloads that ask for fractions, by name.

    nodes: GPU and count per node of each fractional pool that could be planned.
    """
    planned: dict[str, WorkloadPlan] = {}
    if not stated.has(("fractional",)):
        return planned
    if not _all_planned(fleet, nodes, stated):
        nodes = ()  # a pool that could not be planned may have larger cards, or more of them
    for i, workload, share in share_requests(fleet.workloads):
        at: stack_file.Path = ("workloads", i, "gpu_share")
        if engine is None:
            yield refuse(
                at,
                "the fleet has no scheduler for fractional GPUs",
                "add fractional: {provider: hami}",
                in_key=True,
            )
            continue
        yield from check_settings(workload, share, ("workloads", i), engine, stated)
        fits = yield from _check_fit(share, at, engine, nodes, stated)
        if fits:
            planned[workload.name] = _request(workload, share, engine, fleet.workloads)
    return planned


def _all_planned(fleet: stack_file.Fleet, nodes: Sequence[tuple[Gpu, int]], stated: Stated) -> bool:
    """Whether the nodes of all fractional pools are known."""
    pools = [pool for pool in fleet.node_pools if is_fractional(pool)]
    return len(nodes) == len(pools) and all(
        stated.has_for_all(fleet.node_pools, key) for key in ("sharing", "gpu")
    )


@rule("fractional-cards")
def _check_fit(
    share: stack_file.FractionalRequest,
    at: stack_file.Path,
    engine: Engine,
    nodes: Sequence[tuple[Gpu, int]],
    stated: Stated,
) -> Checked[bool]:
    """Whether the request fits on the empty cards of a node."""
    most = max((count for _, count in nodes), default=share.cards)
    if share.cards > most:
        yield refuse(
            (*at, "cards"),
            f"{share.cards} cards are too many: no node has more than {most}",
            f"write {most} or less",
            "Kubernetes docs, Pods: a pod runs on one node",
        )
    if not stated.has((*at, "cards")):
        return False
    largest = max((shared_card(engine, gpu).memory_mib for gpu, _ in nodes), default=None)
    source = VKE if engine.provider == "vke" else HAMI
    wrong = tuple(check_request(share, at, source, most, largest))
    yield from wrong
    return not wrong


def _request(
    workload: stack_file.AnyWorkload,
    share: stack_file.FractionalRequest,
    engine: Engine,
    workloads: Sequence[stack_file.AnyWorkload],
) -> WorkloadPlan:
    shape = card_shape(share, engine)
    plain = workload if isinstance(workload, stack_file.Workload) else None
    containers = plain.containers if plain else 1
    return WorkloadPlan(
        name=workload.name,
        cards=shape.cards,
        memory_mib_per_card=shape.memory_mib,
        compute_percent_per_card=shape.compute_percent,
        requests=_resources(share, shape, engine),
        annotations=_annotations(share, containers, engine, workloads),
        replicas=plain.replicas if plain else 0,
        containers=containers,
    )


def _resources(
    share: stack_file.FractionalRequest, shape: CardShape, engine: Engine
) -> Mapping[str, int]:
    """Extended resources of a container. HAMi and Volcano count per card, VKE in total."""
    match engine.provider:
        case "hami":
            return _hami_resources(share, shape)
        case "volcano":
            return _volcano_resources(shape, engine)
        case _:
            total = {"vke.volcengine.com/mgpu-core": shape.compute_percent * shape.cards}
            if shape.memory_mib is None:
                return total
            return total | {"vke.volcengine.com/mgpu-memory": shape.memory_mib * shape.cards}


def _hami_resources(share: stack_file.FractionalRequest, shape: CardShape) -> Mapping[str, int]:
    memory = (
        {"nvidia.com/gpumem-percentage": 100}
        if shape.memory_mib is None
        else {"nvidia.com/gpumem": shape.memory_mib}
    )
    priority = {"high": 0, "low": 1}
    return {
        "nvidia.com/gpu": shape.cards,
        **memory,
        "nvidia.com/gpucores": shape.compute_percent,
        **({"nvidia.com/priority": priority[share.priority]} if share.priority else {}),
    }


def _volcano_resources(shape: CardShape, engine: Engine) -> Mapping[str, int]:
    """A container that asks for no memory gets all of each card."""
    units = (
        {}
        if shape.memory_mib is None
        else {"volcano.sh/vgpu-memory": shape.memory_mib // engine.memory_factor}
    )
    return {
        "volcano.sh/vgpu-number": shape.cards,
        **units,
        "volcano.sh/vgpu-cores": shape.compute_percent,
    }


def _annotations(
    share: stack_file.FractionalRequest,
    containers: int,
    engine: Engine,
    workloads: Sequence[stack_file.AnyWorkload],
) -> Mapping[str, str]:
    """Annotations of a pod. Volcano's policies are settings of its scheduler."""
    settings = engine.settings
    match engine.provider:
        case "hami":
            return {
                "hami.io/node-scheduler-policy": share.node_policy or settings.node_policy,
                "hami.io/gpu-scheduler-policy": share.gpu_policy or settings.gpu_policy,
            }
        case "volcano":
            return {"volcano.sh/vgpu-mode": "hami-core"}
        case _:
            cards = ",".join([str(share.cards)] * containers)
            several = {"vke.volcengine.com/container-multiple-gpu": cards}
            policy = {VKE_POLICY: vke_policy(settings, workloads)}
            return policy | (several if share.cards > 1 else {})
