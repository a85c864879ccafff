"""Plans the resources that a pool's nodes will advertise: their partitions, then the sharing."""

from __future__ import annotations

from collections.abc import Mapping

from apis.label_keys import PLUGIN_CONFIG_LABEL
from infra import spec
from infra.plan.findings import Checked, Stated, refuse
from infra.plan.model.nodes import (
    NO_GKE_PLUGIN_LABEL,
    OPERANDS_LABEL,
    AnyCloud,
    AnyPool,
    GpuMachine,
    Gpus,
    MigStrategy,
)
from infra.plan.model.offers import Offer, ReplicatedResource
from infra.plan.partition.bottlerocket import (
    bottlerocket_partitioning,
    bottlerocket_sharing,
    with_bottlerocket,
)
from infra.plan.partition.feature_labels import feature_labels
from infra.plan.partition.fractional import fractional_resources
from infra.plan.partition.partitions import (
    Partitioning,
    check_ways,
    gke_partitioning,
    offer,
    operator_partitioning,
    unpartitioned,
)
from infra.plan.partition.sharing import gke_sharing, plugin_sharing


def offer_of(
    pool: AnyPool,
    path: spec.Path,
    gpus: Gpus | None,
    *,
    cloud: AnyCloud,
    strategy: MigStrategy,
    fractional: spec.Fractional | None,
    stated: Stated,
) -> Checked[tuple[Offer, Mapping[str, str]] | None]:
    """The resources that the nodes advertise, and the labels that they need for it. None if they
    are refused.

    gpus: the nodes' GPUs. None if they were refused before. Sharing is checked even then.
    """
    at_partition, at = (*path, "partition"), (*path, "sharing")
    partitioning = yield from _partitioning(pool, at_partition, gpus, cloud, strategy, stated)
    if not stated.has(at_partition):
        partitioning = None
    devices = partitioning.devices if partitioning else None
    partitioned = (
        any(partitioning.layouts)
        if partitioning
        else not isinstance(pool.partition, spec.Unpartitioned)
    )
    sharing: tuple[ReplicatedResource, ...] | None = ()
    resources: Mapping[str, int] | None = None
    labels = _kept_away(pool, cloud)
    match pool.sharing:
        case spec.Exclusive():
            pass
        case spec.FractionalSharing():
            if partitioned:
                yield refuse(
                    at,
                    "fractional sharing and MIG cannot be combined in a pool",
                    "leave one out",
                    "Project-HAMi/HAMi docs",
                )
                return None
            if fractional is not None and gpus is not None:
                resources = fractional_resources(fractional, gpus.gpu, gpus.count)
        case spec.TimeSlicing() | spec.Mps() as requested:
            if with_bottlerocket(pool):
                sharing = (
                    (yield from bottlerocket_sharing(requested, at, devices))
                    if isinstance(requested, spec.TimeSlicing)
                    else None
                )
            elif cloud == "gke" and not stated.has((*at_partition, "mode")):
                sharing = None  # GKE's plugin or NVIDIA's: the partition decides
            elif cloud == "gke" and not isinstance(pool.partition, spec.Operator):
                sharing = yield from gke_sharing(requested, at, devices)
            else:
                sharing = yield from plugin_sharing(
                    requested,
                    at,
                    devices,
                    partitioned=partitioned,
                    strategy=strategy,
                    cloud=cloud,
                    stated=stated,
                )
                labels[PLUGIN_CONFIG_LABEL] = pool.name
    if gpus is None or partitioning is None or sharing is None:
        return None
    # GPU feature discovery comes with the operator, and HAMi takes the place of its device plugin.
    discovered = (
        resources is None
        and not with_bottlerocket(pool)
        and (cloud != "gke" or isinstance(pool.partition, spec.Operator))
    )
    offer_plan = offer(
        pool.name,
        gpus,
        partitioning,
        sharing,
        resources=resources,
        labels=feature_labels(gpus.gpu, partitioning.layouts, strategy, sharing)
        if discovered
        else None,
    )
    return offer_plan, labels


def _kept_away(pool: AnyPool, cloud: AnyCloud) -> dict[str, str]:
    """The labels that keep one of two device plugins off the nodes."""
    if cloud == "gke" and isinstance(pool.partition, spec.Operator):
        return {NO_GKE_PLUGIN_LABEL: "true"}
    return {OPERANDS_LABEL: "false"} if with_bottlerocket(pool) else {}


def _partitioning(
    pool: AnyPool,
    path: spec.Path,
    gpus: Gpus | None,
    cloud: AnyCloud,
    strategy: MigStrategy,
    stated: Stated,
) -> Checked[Partitioning | None]:
    if isinstance(pool.partition, spec.Operator):
        yield from check_ways(pool.partition, path)
    if gpus is None:
        return None
    if with_bottlerocket(pool):
        if isinstance(pool.partition, spec.Operator):
            return None  # refused elsewhere
        native = pool.partition if isinstance(pool.partition, spec.Native) else None
        return (yield from bottlerocket_partitioning(native, path, gpus))
    match pool.partition:
        case spec.Unpartitioned():
            # HAMi's device plugin takes the place of NVIDIA's, and no operand changes MIG there.
            fractional = isinstance(pool.sharing, spec.FractionalSharing)
            return unpartitioned(gpus, by_mig_manager=cloud != "gke" and not fractional)
        case spec.Native() as partition:
            if cloud != "gke":
                return None  # refused elsewhere
            assert isinstance(gpus, GpuMachine), "GKE pools have machines"
            return (yield from gke_partitioning(partition, path, gpus))
        case spec.Operator() as cut_by_operator:
            return (
                yield from operator_partitioning(
                    cut_by_operator, pool.name, path, gpus, strategy, stated
                )
            )
