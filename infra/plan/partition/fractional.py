"""Fractional GPUs: from totals over cards, as in the stack file, to each scheduler's requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slicewright.infra import stack_file
from slicewright.infra.catalog import Gpu
from slicewright.infra.plan.findings import CATALOG, Checked, Stated, refuse
from slicewright.infra.plan.model.deployments import WorkloadPlan

_LEAST_MIB = 256
"""Per card. Source: volcano-sh/volcano, mgpu device package."""
_VKE = "VKE docs 6460/182418"
_VKE_SCHEDULER = "volcano-sh/volcano docs/design/mgpu_based_on_deviceAPI.md and mgpu device package"
_SEVERAL_CARDS = "native-burst-share"
_COMPUTE_POLICY = "vke.volcengine.com/mgpu-compute-policy"
"""A node label and a pod annotation."""
_HAMI = "Project-HAMi/HAMi docs"
_DEFAULT_SHARES: Mapping[str, int] = {"hami": 10, "vke": 16}


def containers_per_gpu(fractional: stack_file.Fractional) -> int:
    """Limit of containers per card. Source: HAMi's deviceSplitCount; VKE's documented limit."""
    return fractional.shares_per_gpu or _DEFAULT_SHARES[fractional.provider]


_VKE_MEMORY = "vke.volcengine.com/mgpu-memory"


def fractional_resources(
    fractional: stack_file.Fractional, gpu: Gpu, count: int
) -> Mapping[str, int]:
    """Allocatable per node. HAMi's scheduler tracks memory and compute outside the Node."""
    if fractional.provider == "hami":
        return {"nvidia.com/gpu": count * containers_per_gpu(fractional)}
    return {
        "vke.volcengine.com/mgpu-core": 100 * count,
        **({} if gpu.memory_mib is None else {_VKE_MEMORY: gpu.memory_mib * count}),
    }


def fractional_labels(
    fractional: stack_file.Fractional, workloads: Sequence[stack_file.AnyWorkload]
) -> Mapping[str, str]:
    """Node labels that make the scheduler share a node's GPUs."""
    if fractional.provider == "hami":
        return {}
    return {
        "vke.node.gpu.schedule": "mgpu",
        _COMPUTE_POLICY: _compute_policy(fractional, workloads),
    }


def _compute_policy(
    fractional: stack_file.Fractional, workloads: Sequence[stack_file.AnyWorkload]
) -> str:
    """VKE's policy, one for the fleet: a pod is only scheduled on a node with the same policy."""
    several = any(share.gpu_share.cards > 1 for _, share in _shares(workloads))
    return fractional.compute_policy or (_SEVERAL_CARDS if several else "fixed-share")


def _shares(workloads: Sequence[stack_file.AnyWorkload]) -> list[tuple[int, stack_file.Workload]]:
    """The workloads that ask for fractions, with their places in the file."""
    return [
        (i, workload)
        for i, workload in enumerate(workloads)
        if isinstance(workload, stack_file.Workload)
    ]


def check_fractional(fleet: stack_file.Fleet, stated: Stated) -> Checked[None]:
    """A fractional scheduler needs fractional pools, and they need it."""
    pools = [
        i
        for i, p in enumerate(fleet.node_pools)
        if isinstance(p.sharing, stack_file.FractionalSharing)
    ]
    if not stated.has(("fractional",)):
        return
    if fleet.fractional is None:
        for i in pools:
            yield refuse(
                ("node_pools", i, "sharing"),
                "is fractional, but the fleet has no scheduler for that",
                "add fractional: {provider: hami}",
            )
        return
    if not pools and stated.has_for_all(fleet.node_pools, "sharing"):
        yield refuse(
            ("fractional",),
            "no pool has sharing: fractional",
            "leave it out, or write sharing: fractional in a pool",
            in_key=True,
        )
    yield from _check_vke(fleet, fleet.fractional)
    yield from _check_compute_policy(fleet, fleet.fractional, stated)
    unshared = [
        p.name
        for i, p in enumerate(fleet.node_pools)
        if i not in pools and stated.has(("node_pools", i, "sharing"))
    ]
    if fleet.cloud != "gke" and unshared and fleet.fractional.provider == "hami":
        yield refuse(
            ("fractional",),
            "HAMi's device plugin replaces the operator's in the whole cluster, so the nodes of "
            f"{', '.join(unshared)} would have none",
            "make every pool fractional, or use two clusters",
            _HAMI,
            in_key=True,
        )


def _check_vke(fleet: stack_file.Fleet, fractional: stack_file.Fractional) -> Checked[None]:
    """Refuses settings that Volcengine's scheduler does not support."""
    if fractional.provider == "vke" and fleet.cloud != "byo":
        yield refuse(
            ("fractional", "provider"),
            f"vke runs on Volcengine only, the fleet is on {fleet.cloud}",
            "write hami",
            _VKE,
        )
    if fractional.provider == "vke" and containers_per_gpu(fractional) > 16:
        yield refuse(
            ("fractional", "shares_per_gpu"),
            "VKE allows at most 16 containers on a card",
            "write 16 or less",
            _VKE,
        )


def _check_compute_policy(
    fleet: stack_file.Fleet, fractional: stack_file.Fractional, stated: Stated
) -> Checked[None]:
    at = ("fractional", "compute_policy")
    if fractional.compute_policy is None:
        return
    if fractional.provider != "vke":
        yield refuse(
            at,
            f"it is a setting of VKE, and the provider is {fractional.provider}",
            "leave it out",
            _VKE,
            in_key=True,
        )
        return
    several = [
        share.name
        for i, share in _shares(fleet.workloads)
        if share.gpu_share.cards > 1 and stated.has(("workloads", i, "gpu_share", "cards"))
    ]
    if several and fractional.compute_policy != _SEVERAL_CARDS:
        yield refuse(
            at,
            f"{fractional.compute_policy} gives a container one card, but {', '.join(several)} "
            "requests more",
            f"write {_SEVERAL_CARDS}, or leave it out",
            _VKE_SCHEDULER,
        )


def plan_workloads(
    fleet: stack_file.Fleet, nodes: Sequence[tuple[Gpu, int]], stated: Stated
) -> Checked[tuple[WorkloadPlan, ...]]:
    """The requests of all workloads.

    nodes: GPU and count per node of each fractional pool that could be planned.
    """
    fractional = [
        p for p in fleet.node_pools if isinstance(p.sharing, stack_file.FractionalSharing)
    ]
    if len(nodes) < len(fractional) or not all(
        stated.has_for_all(fleet.node_pools, key) for key in ("sharing", "gpu")
    ):
        nodes = ()  # a pool that could not be planned may have larger cards, or more of them
    planned = []
    for i, workload in _shares(fleet.workloads):
        at: stack_file.Path = ("workloads", i, "gpu_share")
        if not stated.has(("fractional",)):
            continue
        if fleet.fractional is None:
            yield refuse(
                at,
                "the fleet has no scheduler for fractional GPUs",
                "add fractional: {provider: hami}",
                in_key=True,
            )
            continue
        most = max((count for _, count in nodes), default=workload.gpu_share.cards)
        if workload.gpu_share.cards > most:
            yield refuse(
                (*at, "cards"),
                f"{workload.gpu_share.cards} cards are too many: no node has more than {most}",
                f"write {most} or less",
                "Kubernetes docs, Pods: a pod runs on one node",
            )
        largest = max((gpu.memory_mib or 0 for gpu, _ in nodes), default=0) or None
        source = _VKE if fleet.fractional.provider == "vke" else _HAMI
        if stated.has((*at, "cards")):
            wrong = tuple(_check_request(workload.gpu_share, at, source, most, largest))
            yield from wrong
            if not wrong:
                policy = _compute_policy(fleet.fractional, fleet.workloads)
                planned.append(_request(workload, fleet.fractional, policy))
    return tuple(planned)


def _check_request(
    request: stack_file.FractionalRequest,
    at: stack_file.Path,
    source: str,
    most_cards: int,
    card_mib: int | None,
) -> Checked[None]:
    """Proposed values satisfy the other rules too.

    most_cards: of one node. card_mib: memory of the largest card. None if it is unknown.
    """
    yield from _check_compute(request, at, source, most_cards)
    yield from _check_card_memory(request, at, source, card_mib)


def _check_compute(
    request: stack_file.FractionalRequest, at: stack_file.Path, source: str, most_cards: int
) -> Checked[None]:
    cards, mib, percent = (
        request.cards,
        stack_file.mebibytes(request.memory),
        request.compute_percent,
    )
    if percent % cards:
        up = min(-(-percent // cards), 100) * cards
        yield refuse(
            (*at, "compute_percent"),
            f"{percent} % cannot be divided evenly among {cards} cards",
            f"write {up}",
            source,
        )
    elif percent // cards > 100:
        enough = range(-(-percent // 100), most_cards + 1)
        more = next(
            (n for n in enough if not percent % n and not mib % n and mib // n >= _LEAST_MIB), None
        )
        yield refuse(
            (*at, "compute_percent"),
            f"{percent} % on {cards} card{'s' if cards > 1 else ''} is {percent // cards} "
            "% of each; a card has 100",
            f"write {f'cards: {more}, or ' if more else ''}{100 * cards} or less",
            source,
        )


def _check_card_memory(
    request: stack_file.FractionalRequest, at: stack_file.Path, source: str, card_mib: int | None
) -> Checked[None]:
    cards, mib = request.cards, stack_file.mebibytes(request.memory)
    per_card = max(-(-mib // cards), _LEAST_MIB)
    per_card = per_card if card_mib is None else min(per_card, card_mib)
    if mib % cards:
        yield refuse(
            (*at, "memory"),
            f"{mib} MiB cannot be divided evenly among {cards} cards",
            f"write {per_card * cards}Mi",
            source,
        )
    elif mib // cards < _LEAST_MIB:
        yield refuse(
            (*at, "memory"),
            f"{mib // cards} MiB on each of {cards} cards is below the minimum of {_LEAST_MIB}",
            f"write {_LEAST_MIB * cards}Mi or more",
            source,
        )
    elif card_mib is not None and mib // cards > card_mib:
        yield refuse(
            (*at, "memory"),
            f"{mib // cards} MiB on each of {cards} cards; the largest card has {card_mib} MiB",
            f"write {card_mib * cards}Mi or less, or more cards",
            CATALOG,
        )


def _request(
    workload: stack_file.Workload, fractional: stack_file.Fractional, compute_policy: str
) -> WorkloadPlan:
    request = workload.gpu_share
    cards, mib, percent = (
        request.cards,
        stack_file.mebibytes(request.memory),
        request.compute_percent,
    )
    annotations: Mapping[str, str]
    if fractional.provider == "hami":
        requests = {
            "nvidia.com/gpu": cards,
            "nvidia.com/gpumem": mib // cards,
            "nvidia.com/gpucores": percent // cards,
        }
        annotations = {
            "hami.io/node-scheduler-policy": fractional.node_policy,
            "hami.io/gpu-scheduler-policy": fractional.gpu_policy,
        }
    else:
        requests = {"vke.volcengine.com/mgpu-core": percent, "vke.volcengine.com/mgpu-memory": mib}
        annotations = {_COMPUTE_POLICY: compute_policy} | (
            {"vke.volcengine.com/container-multiple-gpu": str(cards)} if cards > 1 else {}
        )
    return WorkloadPlan(
        name=workload.name,
        cards=cards,
        memory_mib_per_card=mib // cards,
        compute_percent_per_card=percent // cards,
        requests=requests,
        annotations=annotations,
    )
