"""The engine of a fleet's fractional pools: its settings, and the resources of its nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from slicewright.apis.desired_state import DesiredShares
from slicewright.apis.shares.engines import ENGINES
from slicewright.infra import catalog, stack_file
from slicewright.infra.catalog import Gpu
from slicewright.infra.plan.model.fractional import Engine, SharedCard
from slicewright.infra.plan.model.nodes import NO_GKE_PLUGIN_LABEL, AnyCloud, AnyPool

VKE_POLICY: Final = "vke.volcengine.com/mgpu-compute-policy"
"""A node label and a pod annotation of VKE."""
SEVERAL_CARDS: Final = "native-burst-share"
"""VKE's only policy that gives a container several cards."""
_DEFAULT_SHARES: Final[Mapping[str, int]] = {"hami": 10, "volcano": 10, "vke": 16}
"""Source: HAMi's deviceSplitCount, which Volcano's plugin has too; VKE's documented limit."""
_UNITS_PER_NODE: Final = 60_000
"""Devices of one resource above which the kubelet drops the list. Source:
Project-HAMi/volcano-vgpu-device-plugin, doc/config.md, gpu-memory-factor.
"""
CARDS_OF: Final[Mapping[str, str]] = {name: engine.cards for name, engine in ENGINES.items()}
"""Engine -> the resource that counts cards."""


def engine_of(fleet: stack_file.Fleet) -> Engine | None:
    """None if the fleet has no engine for fractions."""
    settings = fleet.fractional
    if settings is None:
        return None
    return Engine(
        settings=settings,
        shares_per_gpu=settings.shares_per_gpu or _DEFAULT_SHARES[settings.provider],
        memory_factor=max(_memory_factors(fleet, settings), default=1),
    )


def is_fractional(pool: AnyPool) -> bool:
    return isinstance(pool.sharing, stack_file.FractionalSharing)


def memory_factor(node_mib: int) -> int:
    """MiB in one unit, so that a node's list of memory devices is not dropped."""
    return max(1, -(-node_mib // _UNITS_PER_NODE))


def _memory_factors(fleet: stack_file.Fleet, settings: stack_file.Fractional) -> Iterator[int]:
    """The factor that each pool needs. Plugin and scheduler have one for the whole cluster."""
    if settings.provider != "volcano":
        return
    for pool in filter(is_fractional, fleet.node_pools):
        for gpu, count in _cards(pool, fleet.cloud):
            yield memory_factor(_scaled(card_mib(gpu), settings) * count)


def _cards(pool: AnyPool, cloud: AnyCloud) -> Iterator[tuple[Gpu, int]]:
    """GPU and number per node. Nothing if the catalog does not have it, which is refused
    elsewhere.
    """
    gpus, machines = catalog.load().gpus, catalog.load().machines
    choice = getattr(pool, "gpu", None)
    if choice is not None and choice.model in gpus:
        yield gpus[choice.model], choice.count
    elif not isinstance(pool, stack_file.ByoPool) and cloud != "byo":
        machine = machines.get((cloud, pool.machine_type))
        if machine is not None and machine.gpu is not None:
            yield machine.gpu, machine.gpu_count


def card_mib(gpu: Gpu) -> int:
    """The memory of a card, in MiB. 0 for a GPU whose memory is unknown, which the plan refuses."""
    return gpu.memory_mib or 0


def _scaled(mib: int, settings: stack_file.Fractional) -> int:
    return mib * settings.oversubscription.memory_percent // 100


def shared_card(engine: Engine, gpu: Gpu) -> SharedCard:
    """A card as the engine counts it."""
    settings, factor = engine.settings, engine.memory_factor
    return SharedCard(
        memory_mib=_scaled(card_mib(gpu), settings) // factor * factor,
        compute_percent=settings.oversubscription.compute_percent,
        slots=engine.shares_per_gpu,
    )


def fractional_resources(engine: Engine, gpu: Gpu, count: int) -> Mapping[str, int]:
    """Allocatable per node. HAMi's scheduler tracks memory and compute outside the Node."""
    match engine.provider:
        case "hami":
            return {"nvidia.com/gpu": count * engine.shares_per_gpu}
        case "volcano":
            units = shared_card(engine, gpu).memory_mib // engine.memory_factor
            return {
                "volcano.sh/vgpu-number": count * engine.shares_per_gpu,
                "volcano.sh/vgpu-memory": count * units,
                "volcano.sh/vgpu-cores": 100 * count,
            }
        case _:
            return {
                "vke.volcengine.com/mgpu-core": 100 * count,
                "vke.volcengine.com/mgpu-memory": card_mib(gpu) * count,
            }


def desired_shares(engine: Engine) -> DesiredShares | None:
    """The engine's part of a node's desired state. None for VKE, which is planned only."""
    settings = engine.settings
    if settings.provider == "vke":
        return None
    return DesiredShares(
        engine=settings.provider,
        slots=engine.shares_per_gpu,
        memory_percent=settings.oversubscription.memory_percent,
        compute_percent=settings.oversubscription.compute_percent,
        memory_unit_mib=engine.memory_factor,
    )


def engine_labels(engine: Engine, cloud: AnyCloud) -> Mapping[str, str]:
    """Node labels that bring the engine's device plugin, and keep GKE's own off the nodes."""
    if engine.settings.provider == "vke":
        return {}
    name, value = ENGINES[engine.settings.provider].node_label
    return {name: value} | ({NO_GKE_PLUGIN_LABEL: "true"} if cloud == "gke" else {})


def vke_labels(
    fractional: stack_file.Fractional, workloads: Sequence[stack_file.AnyWorkload]
) -> Mapping[str, str]:
    """Node labels that make VKE's scheduler share a node's GPUs. Empty for other engines."""
    if fractional.provider != "vke":
        return {}
    return {
        "vke.node.gpu.schedule": "mgpu",
        VKE_POLICY: vke_policy(fractional, workloads),
    }


def vke_policy(
    fractional: stack_file.Fractional, workloads: Sequence[stack_file.AnyWorkload]
) -> str:
    """VKE's policy, one for the fleet: a pod is only scheduled on a node with the same policy."""
    several = any(share.cards > 1 for _, _, share in share_requests(workloads))
    return fractional.compute_policy or (SEVERAL_CARDS if several else "fixed-share")


def share_requests(
    workloads: Sequence[stack_file.AnyWorkload],
) -> list[tuple[int, stack_file.AnyWorkload, stack_file.FractionalRequest]]:
    """The workloads that ask for fractions, with their places in the file."""
    return [
        (i, workload, workload.gpu_share)
        for i, workload in enumerate(workloads)
        if workload.gpu_share is not None
    ]
