"""Plans the resources that a pool's nodes will advertise: their partitions, then the sharing."""

from __future__ import annotations

from collections.abc import Mapping

from slicewright.apis.label_keys import PLUGIN_CONFIG_LABEL
from slicewright.infra import stack_file
from slicewright.infra.plan.findings import CATALOG, Checked, Stated, refuse, rule
from slicewright.infra.plan.fractional.engines import (
    desired_shares,
    engine_labels,
    fractional_resources,
)
from slicewright.infra.plan.model.fractional import Engine
from slicewright.infra.plan.model.nodes import (
    NO_GKE_PLUGIN_LABEL,
    OPERANDS_LABEL,
    AnyCloud,
    AnyPool,
    GpuMachine,
    Gpus,
    MigStrategy,
)
from slicewright.infra.plan.model.offers import Offer, ReplicatedResource
from slicewright.infra.plan.partition.boot import (
    MIG_MANAGER_OFF,
    boot_partitioning,
    partitioned_at_boot,
)
from slicewright.infra.plan.partition.bottlerocket import (
    bottlerocket_partitioning,
    bottlerocket_sharing,
    with_bottlerocket,
)
from slicewright.infra.plan.partition.feature_labels import feature_labels
from slicewright.infra.plan.partition.partitions import (
    Partitioning,
    StatedLayouts,
    check_ways,
    gke_partitioning,
    offer,
    operator_partitioning,
    unpartitioned,
)
from slicewright.infra.plan.partition.sharing import gke_sharing, plugin_sharing


@rule("gpu-memory-unknown")
def offer_of(
    pool: AnyPool,
    path: stack_file.Path,
    gpus: Gpus | None,
    *,
    cloud: AnyCloud,
    strategy: MigStrategy,
    engine: Engine | None,
    stated: Stated,
) -> Checked[tuple[Offer, Mapping[str, str]] | None]:
    """The resources that the nodes advertise, and the labels that they need for it. None if they
    are refused.

    gpus: the nodes' GPUs. None if they were refused before. Sharing is checked even then.
    """
    at = (*path, "partition")
    partitioning = yield from _partitioning(pool, at, gpus, cloud, strategy, stated)
    if not stated.has(at):
        partitioning = None
    sharing = yield from _sharing(pool, path, partitioning, cloud, strategy, stated)
    if gpus is None or partitioning is None or sharing is None:
        return None
    by_fractions = isinstance(pool.sharing, stack_file.FractionalSharing) and engine is not None
    if by_fractions and gpus.gpu.memory_mib is None:
        yield refuse(
            (*path, "sharing"),
            f"the memory of {gpus.gpu.name} is unknown, so its fractions cannot be counted",
            "share the GPUs by time-slicing, or use a GPU of the catalog",
            CATALOG,
        )
        return None
    # GPU feature discovery comes with the operator, whose device plugin the engine replaces.
    discovered = (
        not by_fractions
        and not with_bottlerocket(pool)
        and (cloud != "gke" or isinstance(pool.partition, stack_file.Operator))
    )
    offer_plan = offer(
        pool.name,
        gpus,
        partitioning,
        sharing,
        resources=fractional_resources(engine, gpus.gpu, gpus.count)
        if engine is not None and by_fractions
        else None,
        labels=feature_labels(gpus.gpu, partitioning.layouts, strategy, sharing)
        if discovered
        else None,
        shares=desired_shares(engine) if engine is not None and by_fractions else None,
    )
    labels = _kept_away(pool, cloud)
    if engine is not None and by_fractions:
        labels |= engine_labels(engine, cloud)
    if _has_plugin_config(pool, cloud):
        labels[PLUGIN_CONFIG_LABEL] = pool.name
    return offer_plan, labels


@rule("sharing-with-mig")
def _sharing(
    pool: AnyPool,
    path: stack_file.Path,
    partitioning: Partitioning | None,
    cloud: AnyCloud,
    strategy: MigStrategy,
    stated: Stated,
) -> Checked[tuple[ReplicatedResource, ...] | None]:
    """The shared resources. None if sharing is refused, or depends on a part that is."""
    at, devices = (*path, "sharing"), partitioning.devices if partitioning else None
    partitioned = (
        any(partitioning.layouts)
        if partitioning
        else not isinstance(pool.partition, stack_file.Unpartitioned)
    )
    match pool.sharing:
        case stack_file.Exclusive():
            return ()
        case stack_file.FractionalSharing():
            if not partitioned:
                return ()
            yield refuse(
                at,
                "fractional sharing and MIG cannot be combined in a pool",
                "leave one out",
                "Project-HAMi/HAMi docs",
            )
            return None
        case stack_file.TimeSlicing() | stack_file.Mps() as sharing:
            if with_bottlerocket(pool):
                if isinstance(sharing, stack_file.Mps):
                    return None
                return (yield from bottlerocket_sharing(sharing, at, devices))
            if cloud == "gke" and not stated.has((*path, "partition", "mode")):
                return None  # GKE's plugin or NVIDIA's: the partition decides
            if not _has_plugin_config(pool, cloud):
                return (yield from gke_sharing(sharing, at, devices))
            return (
                yield from plugin_sharing(
                    sharing,
                    at,
                    devices,
                    partitioned=partitioned,
                    strategy=strategy,
                    cloud=cloud,
                    stated=stated,
                )
            )


def _has_plugin_config(pool: AnyPool, cloud: AnyCloud) -> bool:
    """True if the operator's device plugin shares the pool's GPUs, by a config of its own."""
    if not isinstance(pool.sharing, stack_file.TimeSlicing | stack_file.Mps) or with_bottlerocket(
        pool
    ):
        return False
    return cloud != "gke" or isinstance(pool.partition, stack_file.Operator)


def _kept_away(pool: AnyPool, cloud: AnyCloud) -> dict[str, str]:
    """The labels that keep one of two device plugins, or mig-manager, off the nodes."""
    if cloud == "gke" and isinstance(pool.partition, stack_file.Operator):
        return {NO_GKE_PLUGIN_LABEL: "true"}
    if partitioned_at_boot(pool):
        return dict(MIG_MANAGER_OFF)
    return {OPERANDS_LABEL: "false"} if with_bottlerocket(pool) else {}


def _partitioning(
    pool: AnyPool,
    path: stack_file.Path,
    gpus: Gpus | None,
    cloud: AnyCloud,
    strategy: MigStrategy,
    stated: Stated,
) -> Checked[Partitioning | None]:
    if isinstance(pool.partition, StatedLayouts):
        yield from check_ways(pool.partition, path)
    if gpus is None:
        return None
    if with_bottlerocket(pool):
        if isinstance(pool.partition, StatedLayouts):
            return None  # refused elsewhere
        native = pool.partition if isinstance(pool.partition, stack_file.Native) else None
        return (yield from bottlerocket_partitioning(native, path, gpus))
    match pool.partition:
        case stack_file.Unpartitioned():
            # Also under an engine for fractions: GPUs that were partitioned before must be whole.
            return unpartitioned(gpus, by_mig_manager=cloud != "gke")
        case stack_file.Native() as partition:
            if cloud != "gke":
                return None  # refused elsewhere
            assert isinstance(gpus, GpuMachine), "GKE pools have machines"
            return (yield from gke_partitioning(partition, path, gpus))
        case stack_file.Operator() as partition:
            return (
                yield from operator_partitioning(partition, pool.name, path, gpus, strategy, stated)
            )
        case stack_file.Boot() as partition:
            return (
                yield from boot_partitioning(partition, pool.name, path, gpus, strategy, stated)
            )
