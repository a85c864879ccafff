"""Plans how a pool's GPUs are partitioned, the resources that its nodes advertise, and the state
that the agent must find.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from slicewright.apis.desired_state import (
    Desired,
    DesiredGpu,
    DesiredShares,
    DesiredSharing,
    Partitioner,
)
from slicewright.infra import catalog, geometry, stack_file
from slicewright.infra.catalog import Gpu, driver_order
from slicewright.infra.catalog.named_configs import config_name
from slicewright.infra.geometry import Fit, Misfit, naming
from slicewright.infra.plan.findings import Checked, Stated, each, listed, nearest, refuse, rule
from slicewright.infra.plan.model.nodes import WHOLE_GPU, GpuMachine, Gpus, Layout, MigStrategy
from slicewright.infra.plan.model.offers import (
    MEMORY_AMOUNTS,
    Offer,
    ReplicatedResource,
    instances_of,
    same_layout,
)
from slicewright.infra.plan.partition.layout_names import ALL_DISABLED, layout_name
from slicewright.infra.plan.partition.resource_names import resource_of
from slicewright.infra.plan.partition.sharing import allocatable
from slicewright.infra.stack_file import Path

StatedLayouts = stack_file.Operator | stack_file.Boot
"""Partitions whose layout is stated by profile, by NVIDIA's name, or by GPU index."""


@dataclass(frozen=True, kw_only=True)
class Partitioning:
    """The partitions of one node of a pool, before sharing."""

    layouts: tuple[Layout, ...]
    devices: Mapping[str, int]
    partitioner: Partitioner
    mig_config: str | None
    previous: tuple[tuple[Layout, ...], ...] = ()


def unpartitioned(gpus: Gpus, *, by_mig_manager: bool) -> Partitioning:
    """Whole GPUs. by_mig_manager: mig-manager turns MIG off if it is on, for example because the
    pool was partitioned before.
    """
    operated = by_mig_manager and gpus.gpu.family is not None
    return Partitioning(
        layouts=({},) * gpus.count,
        devices={WHOLE_GPU: gpus.count},
        partitioner="mig-manager" if operated else "none",
        mig_config=ALL_DISABLED if operated else None,
    )


@rule("gke-partition")
def gke_partitioning(
    partition: stack_file.Native, path: Path, gpus: GpuMachine
) -> Checked[Partitioning | None]:
    """GKE makes as many partitions of one profile as fit, and advertises all as nvidia.com/gpu."""
    profile, at = partition.profile, (*path, "profile")
    if not (yield from check_mig(gpus.gpu, path)) or not (
        yield from _fits(gpus.gpu, {profile: 1}, at)
    ):
        return None
    accelerator = catalog.load().accelerators[gpus.accelerator]
    sizes = accelerator.sizes
    if profile not in sizes:
        yield refuse(
            at,
            f"GKE does not partition {gpus.accelerator} into {profile}: "
            f"{accelerator.refused[profile]}",
            f"nearest {naming.nearest_of(sizes, profile)}; GKE's sizes: {listed(sizes)}",
            accelerator.source,
        )
        return None
    per_gpu = geometry.max_instances(gpus.gpu, profile)
    return Partitioning(
        layouts=({profile: per_gpu},) * gpus.count,
        devices={WHOLE_GPU: per_gpu * gpus.count},
        partitioner="gke",
        mig_config=None,
    )


@rule("partition-ways")
def check_ways(partition: StatedLayouts, path: Path) -> Checked[None]:
    """Exactly one of layout, config and gpus states the layout."""
    ways = _ways(partition)
    if len(ways) != 1:
        has = (
            f"has {' and '.join(ways)}, but only one of them can apply"
            if ways
            else "has none of layout, config and gpus"
        )
        yield refuse(path, has, "write one of them, for example config: all-balanced", "mig-parted")


@rule("partition-strategy-none")
def operator_partitioning(
    partition: StatedLayouts,
    pool: str,
    path: Path,
    gpus: Gpus,
    strategy: MigStrategy,
    stated: Stated,
) -> Checked[Partitioning | None]:
    """mig-manager partitions. The device plugin advertises by the cluster's MIG strategy.

    A layout that is stated in two ways is checked in both.
    """
    if not (yield from check_mig(gpus.gpu, path)):
        return None
    stated_layouts = yield from each(
        _requested_layouts(way, partition, gpus, path, stated) for way in _ways(partition)
    )
    earlier = yield from each(
        _by_index(groups, gpus, (*path, "previous", i), stated)
        for i, groups in enumerate(_earlier(partition))
    )
    previous = tuple(layouts for layouts in earlier if layouts is not None)
    if len(previous) == len(earlier) and strategy == "single":
        for i, layouts in enumerate(previous):
            yield from _strategy_allows(layouts, strategy, (*path, "previous", i))
    now = stated_layouts[0] if len(stated_layouts) == 1 else None
    if now is not None and not any(now):
        whole = unpartitioned(gpus, by_mig_manager=True)
        return dataclasses.replace(whole, previous=previous)
    if strategy == "none":
        yield refuse(
            path,
            "with gpu_operator.mig_strategy: none partitions are never advertised",
            "write mig_strategy: mixed or single",
            "NVIDIA/k8s-device-plugin internal/rm",
        )
        return None
    if now is None or not (yield from _strategy_allows(now, strategy, path)):
        return None
    return Partitioning(
        layouts=now,
        devices=_devices(now, strategy),
        partitioner="mig-manager",
        mig_config=layout_name(pool, gpus.gpu, now),
        previous=previous,
    )


def _devices(layouts: tuple[Layout, ...], strategy: MigStrategy) -> Mapping[str, int]:
    """The resources that the device plugin advertises for these GPUs, with their counts."""
    whole, instances = layouts.count({}), instances_of(layouts)
    if strategy == "single":
        return {WHOLE_GPU: whole + sum(instances.values())}
    devices = {resource_of(profile): count for profile, count in instances.items()}
    return {WHOLE_GPU: whole, **devices} if whole else devices


def offer(
    pool: str,
    gpus: Gpus,
    partitioning: Partitioning,
    sharing: tuple[ReplicatedResource, ...],
    *,
    resources: Mapping[str, int] | None = None,
    labels: Mapping[str, tuple[str, ...]] | None = None,
    shares: DesiredShares | None = None,
) -> Offer:
    """resources: only given if an engine for fractions advertises them. labels: of GPU feature
    discovery, if it runs. shares: what such an engine must register.
    """
    offered = allocatable(partitioning.devices, sharing) if resources is None else resources
    desired_gpus = (
        (
            DesiredGpu(
                index="all", mig=bool(partitioning.layouts[0]), instances=partitioning.layouts[0]
            ),
        )
        if same_layout(partitioning.layouts)
        else tuple(
            DesiredGpu(index=i, mig=bool(layout), instances=layout)
            for i, layout in enumerate(partitioning.layouts)
        )
    )
    expected = Desired(
        pool=pool,
        partitioner=partitioning.partitioner,
        gpu_count=gpus.count,
        gpu_models=gpus.gpu.products,
        gpus=desired_gpus,
        # The catalog's memory is not exactly that of every driver. The agent compares with NVML's.
        resources={name: count for name, count in offered.items() if name not in MEMORY_AMOUNTS},
        gpu_memory_mib=gpus.gpu.memory_mib,
        minimum_driver=minimum_driver(gpus.gpu, partitioning.layouts),
        sharing=tuple(
            DesiredSharing(resource=s.advertised, strategy=s.strategy, replicas=s.replicas)
            for s in sharing
        ),
        labels=labels or {},
        shares=shares,
    )
    return Offer(
        layouts=partitioning.layouts,
        devices=partitioning.devices,
        sharing=sharing,
        resources=offered,
        expected=expected,
        mig_config=partitioning.mig_config,
        previous=partitioning.previous,
    )


@rule("gpu-without-mig")
def check_mig(gpu: Gpu, path: Path) -> Checked[bool]:
    """Whether the GPU has MIG. Refuses a GPU without it."""
    if gpu.family is None:
        yield refuse(
            path,
            f"{gpu.name} has MIG, but its profiles are not in the catalog"
            if gpu.unlisted_mig
            else f"{gpu.name} has no MIG: it cannot be partitioned",
            "write partition: none",
            gpu.source,
        )
    return gpu.family is not None


def _earlier(partition: StatedLayouts) -> Sequence[tuple[stack_file.GpuGroup, ...]]:
    """Layouts by GPU index that nodes may still have: only mig-manager gives nodes another one."""
    return partition.previous if isinstance(partition, stack_file.Operator) else ()


def _ways(partition: StatedLayouts) -> list[str]:
    return [name for name in ("layout", "config", "gpus") if getattr(partition, name) is not None]


def _requested_layouts(
    way: str, partition: StatedLayouts, gpus: Gpus, path: Path, stated: Stated
) -> Checked[tuple[Layout, ...] | None]:
    at = (*path, way)
    match getattr(partition, way):
        case tuple() as groups:
            return (yield from _by_index(groups, gpus, at, stated))
        case str() as config:
            layout = yield from _named_layout(config, gpus.gpu, at)
        case written:
            layout = dict(sorted(written.items()))
    if layout is None or not (yield from _fits(gpus.gpu, layout, at)):
        return None
    return (layout,) * gpus.count


@rule("partition-named-layout")
def _named_layout(config: str, gpu: Gpu, path: Path) -> Checked[Layout | None]:
    named = catalog.load().named_configs[gpu.name]
    if config in named and (named[config].layout or not named[config].mig):
        # Only its layout: our config lists the PCI IDs of every board of the model, which the
        # operator's own may not (`without`).
        return dict(sorted(named[config].layout.items()))
    if config in named:
        yield refuse(
            path,
            f"{config} enables MIG without partitions, so the nodes would offer no GPUs",
            f"write {ALL_DISABLED}, or partition: none",
            "default-mig-parted-config of the GPU operator",
        )
        return None
    near = _config_alike(config, gpu)
    yield refuse(
        path,
        f"{config} is not a layout of {gpu.name}",
        f"did you mean {near}?" if near in named else nearest(config, tuple(named)),
        "default-mig-parted-config of the GPU operator",
    )
    return None


def _config_alike(config: str, gpu: Gpu) -> str:
    """The same slices on this GPU, e.g. all-1g.10gb on an H100 for `all-1g.5gb`. Empty if none."""
    match = re.fullmatch(r"all-(\d+g\.\d+gb)(?:\.(.+)|(-.+))?", config)
    if match is None:
        return ""
    profile = naming.own_name(gpu, match[1] + (f"+{match[2]}" if match[2] else match[3] or ""))
    return config_name(profile) if profile else ""


@rule("partition-by-index")
def _by_index(
    groups: tuple[stack_file.GpuGroup, ...], gpus: Gpus, path: Path, stated: Stated
) -> Checked[tuple[Layout, ...] | None]:
    layouts: dict[int, Layout] = {}
    valid, complete = True, True
    for i, group in enumerate(groups):
        layout = dict(sorted(group.layout.items()))
        for j, index in enumerate(group.index):
            at = (*path, i, "index", j)
            if not stated.has(at):
                complete = False
                continue
            if index >= gpus.count and stated.has((*path[:2], "gpu", "count")):
                valid = False
                yield refuse(
                    at,
                    f"there is no GPU {index}: the node has {gpus.count}, counted from 0",
                    f"write 0 to {gpus.count - 1}",
                    "NVML",
                )
            elif index in layouts:
                valid = False
                yield refuse(at, f"GPU {index} is listed twice", "name each GPU once")
            layouts[index] = layout
        fits = yield from _fits(gpus.gpu, group.layout, (*path, i, "layout"))
        valid = valid and fits
    missing = [index for index in range(gpus.count) if index not in layouts]
    if missing and complete:
        yield refuse(
            path,
            f"has no layout for GPU {listed(missing)}; mig-manager never considers such a "
            "layout applied",
            f"add {{index: [{listed(missing)}], layout: {{}}}} to leave them whole",
            "NVIDIA/mig-parted #157",
        )
    if missing or not valid:
        return None
    ordered = tuple(layouts[index] for index in range(gpus.count))
    if not any(ordered):
        yield refuse(path, "leaves every GPU unpartitioned", "write partition: none")
        return None
    return ordered


@rule("partition-strategy")
def _strategy_allows(
    layouts: tuple[Layout, ...], strategy: MigStrategy, path: Path
) -> Checked[bool]:
    if strategy == "mixed":
        return True
    if any(len(layout) > 1 for layout in layouts):
        why = "has more than one profile"
    elif not all(layouts):
        why = "leaves some GPUs unpartitioned"
    elif any(set(layout) != set(layouts[0]) for layout in layouts):
        why = "gives GPUs different profiles"
    else:
        return True
    yield refuse(
        path,
        f"{why}, and with gpu_operator.mig_strategy: single the device plugin refuses such a node",
        "write one profile for all GPUs, or mig_strategy: mixed",
        "NVIDIA/k8s-device-plugin internal/rm",
    )
    return False


@rule("partition-fit")
def _fits(gpu: Gpu, layout: Layout, path: Path) -> Checked[bool]:
    match geometry.check(gpu, layout):
        case Fit():
            return True
        case Misfit(reason=reason, nearest=near):
            written = ", ".join(f"{name}: {count}" for name, count in sorted(near.items()))
            profile = next(iter(near)) if len(near) == 1 and path[-1] == "profile" else ""
            yield refuse(
                path,
                f"does not fit on one {gpu.name}: {reason}",
                f"nearest: {profile}"
                if profile
                else f"nearest that fits: {{{written}}}"
                if written
                else f"profiles of {gpu.name}: {listed(tuple(gpu.profiles))}",
                gpu.family.source if gpu.family else gpu.source,
                # It stays too large with any other entries of the layout.
                certain=True,
            )
            return False


def minimum_driver(gpu: Gpu, layouts: Iterable[Layout]) -> str | None:
    """The oldest driver that supports all of `layouts`. None if nothing is partitioned."""
    # Mostly all GPUs of a node have one layout, and one object.
    distinct = {id(layout): layout for layout in layouts if layout}
    kinds = {frozenset(layout) for layout in distinct.values()}
    return max(
        (geometry.minimum_driver(gpu, profiles) for profiles in kinds),
        key=driver_order,
        default=None,
    )
