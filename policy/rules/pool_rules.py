"""Rules about pools of GPU nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from fleet_controller.api import POOL_LABEL, STARTUP_TAINT_KEY
from infra import catalog
from policy.rules import karpenter, labels, pools
from policy.rules.declared import Resource, at
from policy.rules.pools import Pool
from policy.rules.rule import (
    ResourceRule,
    Setting,
    Settings,
    StackRule,
    names,
    number,
)

_CATALOG = catalog.load()
_GPU_TAINT = "nvidia.com/gpu"
_NO_GKE_PLUGIN = "gke-no-default-nvidia-gpu-device-plugin"
_NO_DRIVER = "INSTALLATION_DISABLED"
"""Source of both: GKE documentation, "Manage the GPU stack with the NVIDIA GPU Operator"."""


def _size(pool: Pool, settings: Settings) -> Iterator[str]:
    limit = int(settings["most_nodes"])
    if pool.autoscaled_without_limit:
        yield f"pool {pool.name!r} is autoscaled without a maximum; state one of at most {limit}"
    elif pool.most_nodes is not None and pool.most_nodes > limit:
        yield (
            f"pool {pool.name!r} may have {pool.most_nodes} nodes, and most_nodes is {limit}; "
            "lower its maximum, or raise most_nodes in the pack's config file"
        )


def _machine_types(pool: Pool, settings: Settings) -> Iterator[str]:
    if pool.any_machine and "*" not in settings["allowed"]:
        yield (
            f"pool {pool.name!r} names no machine types, so Karpenter takes any; allowed: "
            f"{_listed(settings['allowed'])}"
        )
    yield from (
        f"pool {pool.name!r} has the machine type {one}; allowed: {_listed(settings['allowed'])}"
        for one in pool.machine_types
        if not _allowed(one, settings["allowed"])
    )


def _regions(pool: Pool, settings: Settings) -> Iterator[str]:
    if pool.region is not None and not _allowed(pool.region, settings["allowed"]):
        yield (f"pool {pool.name!r} is in {pool.region}; allowed: {_listed(settings['allowed'])}")


def _spot(pool: Pool, settings: Settings) -> Iterator[str]:
    if pool.spot and not _allowed(pool.name, settings["allowed"]):
        yield (
            f"pool {pool.name!r} uses spot capacity, which the cloud takes back at any time; "
            f"pools that may be: {_listed(settings['allowed'])}"
        )


def _labels(pool: Pool, settings: Settings) -> Iterator[str]:
    if missing := labels.lacking(pool.billed_by, settings):
        where = "resource_labels" if pool.cloud == "gke" else "tags"
        yield (
            f"pool {pool.name!r} lacks {', '.join(missing)}, by which its cost is "
            f"attributed; write them into its {where}"
        )


def _billed(resource: Resource, settings: Settings) -> Iterator[str]:
    """Karpenter takes the tags of instances from the EC2NodeClass."""
    if resource.type != karpenter.NODE_CLASS:
        yield from pools.each(_labels)(resource, settings)
        return
    if missing := labels.lacking(karpenter.tags(resource), settings):
        yield (
            f"instances of EC2NodeClass {at(resource.props, 'metadata', 'name')!r} lack "
            f"{', '.join(missing)}, by which their cost is attributed; write them into the "
            "pool's instance_tags"
        )


def _startup_taint(pool: Pool, settings: Settings) -> Iterator[str]:
    if pool.taints is None or POOL_LABEL not in pool.labels:
        return
    if STARTUP_TAINT_KEY not in pool.taints:
        yield (
            f"pool {pool.name!r} lacks the startup taint {STARTUP_TAINT_KEY}: pods would start on "
            "partitions that are not verified"
        )


def _metadata(pool: Pool, settings: Settings) -> Iterator[str]:
    if not pool.metadata_server:
        yield (
            f"pods on pool {pool.name!r} can take the credentials of their node; set "
            "workloadMetadataConfig.mode to GKE_METADATA"
        )


def _partition_size(pool: Pool, settings: Settings) -> Iterator[str]:
    for one in pool.accelerators:
        known = _CATALOG.accelerators.get(one.type)
        if one.partition_size is None or known is None or one.partition_size in known.sizes:
            continue
        reason = known.refused.get(one.partition_size, f"{known.gpu.name} has no such profile")
        yield (
            f"pool {pool.name!r}: GKE does not partition {one.type} into {one.partition_size} "
            f"({reason}); it offers {', '.join(known.sizes)}"
        )


def _gpus_of_machine(pool: Pool, settings: Settings) -> Iterator[str]:
    machine = pool.machine
    if machine is None or machine.accelerator is None:
        return
    for one in pool.accelerators:
        wrong_type = one.type in _CATALOG.accelerators and one.type != machine.accelerator
        if wrong_type or (one.count and one.count != machine.gpu_count):
            yield (
                f"pool {pool.name!r} asks for {one.count} x {one.type} on {machine.name}, which "
                f"comes with {machine.gpu_count} x {machine.accelerator}: GKE refuses it"
            )


def _gpu_taint(pool: Pool, settings: Settings) -> Iterator[str]:
    """GKE taints its GPU nodes itself. Source: GKE documentation, "Run GPUs in Standard node
    pools".
    """
    if pool.cloud == "eks" and pool.taints is not None and _GPU_TAINT not in pool.taints:
        yield (
            f"pool {pool.name!r} has no taint {_GPU_TAINT}: pods without a GPU fill its nodes, and "
            "keep them when the pool shrinks"
        )


def _capacity(pool: Pool, settings: Settings) -> Iterator[str]:
    if not pool.capacity_stated:
        yield (
            f"pool {pool.name!r} does not say whether it takes on-demand, spot or reserved "
            "capacity; state it, as a default may change with the tool that makes the pool"
        )


def _one_partitioner(pool: Pool, settings: Settings) -> Iterator[str]:
    sizes = {one.partition_size for one in pool.accelerators} - {None}
    if sizes and "nvidia.com/mig.config" in pool.labels:
        yield (
            f"pool {pool.name!r} is partitioned by GKE ({', '.join(sorted(map(str, sizes)))}) and "
            "has the label nvidia.com/mig.config, which NVIDIA's mig-manager follows: each would "
            "undo the other's partitions"
        )


def _driver(pool: Pool, settings: Settings) -> Iterator[str]:
    """Where GKE's device plugin is kept away, NVIDIA's operator brings driver and plugin."""
    if pool.labels.get(_NO_GKE_PLUGIN) != "true":
        return
    for one in pool.accelerators:
        if one.driver not in (None, _NO_DRIVER):
            yield (
                f"pool {pool.name!r} has the label {_NO_GKE_PLUGIN} and lets GKE install the "
                f"driver ({one.driver}), so that two installers work on each node; set "
                f"gpuDriverInstallationConfig.gpuDriverVersion to {_NO_DRIVER}"
            )


def _fleet(resources: Sequence[Resource], settings: Settings) -> Iterator[tuple[str, str]]:
    """Told of the largest pool, which is where a fleet is made smaller."""
    # A NodePool does not say where it is; the cluster that it is in does.
    regions = {at(one.provider, "region") for one in resources if one.type.startswith("aws:")}
    region = next((one for one in regions if isinstance(one, str) and len(regions) == 1), None)
    found = [
        replace(pool, region=pool.region or (region if pool.cloud == "eks" else None))
        for pool in map(pools.read, resources)
        if pool is not None and pool.has_gpus
    ]
    if not found:
        return
    largest = max(found, key=lambda pool: (pool.most_nodes or 0) * (pool.gpus or 0)).urn
    gpus = sum((pool.most_nodes or 0) * (pool.gpus or 0) for pool in found)
    if gpus > int(settings["most_gpus"]):
        yield (
            largest,
            f"the fleet may have {gpus} GPUs, and most_gpus is {int(settings['most_gpus'])}",
        )
    budget = float(settings["usd_per_hour"])
    if not budget:
        return
    # What a preview does not know yet is seen by the next one, or by `up`.
    stated = [pool for pool in found if pool.machine_types and pool.region and pool.most_nodes]
    priced = {pool.name: _usd_per_hour(pool) for pool in stated}
    unknown = sorted(name for name, usd in priced.items() if usd is None)
    total = sum(usd for usd in priced.values() if usd is not None)
    if total > budget:
        yield (
            largest,
            f"the fleet may cost {total:.2f} USD per hour at public prices, and usd_per_hour is "
            f"{budget:.2f}",
        )
    elif unknown:
        yield (
            largest,
            f"what {', '.join(unknown)} may cost is not known, so it is not known whether "
            f"the fleet keeps to {budget:.2f} USD per hour",
        )


def _usd_per_hour(pool: Pool) -> float | None:
    """All its nodes, at the highest price of the zones; None: unknown, which is not 0."""
    if pool.machine is None or pool.region is None or pool.most_nodes is None:
        return None
    price = pool.machine.price("spot" if pool.spot else "on-demand", pool.region)
    return None if price is None else pool.most_nodes * (price.up_to or price.usd_per_hour)


def _allowed(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _listed(patterns: Sequence[str]) -> str:
    return ", ".join(patterns) or "none"


def _patterns(what: str) -> Sequence[Setting]:
    return (names("allowed", f"{what}; * stands for any characters", ("*",)),)


RULES = (
    ResourceRule(
        name="pool-size",
        description="A pool has a maximum, and it is not too high.",
        level="mandatory",
        settings=(number("most_nodes", "of a pool, all its zones together", 16),),
        check=pools.each(_size),
    ),
    ResourceRule(
        name="pool-machine-types",
        description="Pools have machine types of a list only.",
        level="mandatory",
        settings=_patterns("machine types"),
        check=pools.each(_machine_types),
    ),
    ResourceRule(
        name="pool-regions",
        description="Pools are in regions of a list only.",
        level="mandatory",
        settings=_patterns("regions"),
        check=pools.each(_regions),
    ),
    ResourceRule(
        name="pool-spot",
        description="Pools are of spot capacity only where that is allowed.",
        level="mandatory",
        settings=_patterns("names of pools that may be of spot capacity"),
        check=pools.each(_spot),
    ),
    ResourceRule(
        name="pool-labelled",
        description="Pools have the labels or tags by which cost is assigned.",
        level="mandatory",
        settings=(names("required", "keys of GKE's resource labels and of AWS's tags"),),
        check=_billed,
    ),
    ResourceRule(
        name="pool-startup-taint",
        description="Nodes take no pods before their partitions are verified.",
        level="mandatory",
        check=pools.each(_startup_taint),
    ),
    ResourceRule(
        name="pool-node-credentials",
        description="Pods do not get the credentials of their GKE node.",
        level="mandatory",
        check=pools.each(_metadata),
    ),
    ResourceRule(
        name="partition-size-exists",
        description="GKE can partition the GPU into the size that is asked for.",
        level="mandatory",
        check=pools.each(_partition_size),
    ),
    ResourceRule(
        name="pool-gpus-of-machine",
        description="A GKE pool asks for the GPUs that its machine type comes with.",
        level="mandatory",
        check=pools.each(_gpus_of_machine),
    ),
    ResourceRule(
        name="pool-gpu-taint",
        description="Nodes with GPUs are kept for pods that ask for one.",
        level="advisory",
        check=pools.each(_gpu_taint),
    ),
    ResourceRule(
        name="pool-capacity-stated",
        description="A pool on AWS says what capacity it takes.",
        level="advisory",
        check=pools.each(_capacity),
    ),
    ResourceRule(
        name="one-partitioner",
        description="Either GKE or NVIDIA's mig-manager partitions a pool's GPUs.",
        level="mandatory",
        check=pools.each(_one_partitioner),
    ),
    ResourceRule(
        name="one-driver",
        description="Where NVIDIA's operator serves a GKE pool, GKE installs no driver.",
        level="mandatory",
        check=pools.each(_driver),
    ),
    StackRule(
        name="fleet-size",
        description="All pools at their maximum keep to a number of GPUs and to a budget.",
        level="mandatory",
        settings=(
            number("most_gpus", "of all pools", 256),
            number("usd_per_hour", "of all pools' machines at public prices; 0: not looked at", 0),
        ),
        check=_fleet,
    ),
)
