"""Rules about pools of GPU nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from policy.rules import karpenter, labels, pools
from policy.rules.pools import Pool
from policy.rules.resources import Resource, property_at
from policy.rules.rule import (
    ResourceRule,
    Setting,
    Settings,
    StackRule,
    names,
    number,
)
from slicewright.apis.names import POOL_LABEL, STARTUP_TAINT_KEY
from slicewright.infra import catalog

_CATALOG = catalog.load()
_GPU_TAINT = "nvidia.com/gpu"
_NO_GKE_PLUGIN = "gke-no-default-nvidia-gpu-device-plugin"
_NO_DRIVER = "INSTALLATION_DISABLED"
"""Source of both: GKE documentation, "Manage the GPU stack with the NVIDIA GPU Operator"."""


def _size(pool: Pool, settings: Settings) -> Iterator[str]:
    limit = int(settings["most_nodes"])
    if pool.autoscaled_without_limit:
        yield f"pool {pool.name!r} is autoscaled without a maximum; set one of at most {limit}"
    elif pool.most_nodes is not None and pool.most_nodes > limit:
        yield (
            f"pool {pool.name!r} may have {pool.most_nodes} nodes, and most_nodes is {limit}; "
            "lower its maximum, or raise most_nodes in the pack's config file"
        )


def _machine_types(pool: Pool, settings: Settings) -> Iterator[str]:
    if pool.any_machine and "*" not in settings["allowed"]:
        yield (
            f"pool {pool.name!r} names no machine types, so Karpenter may choose any; allowed: "
            f"{_join_names(settings['allowed'])}"
        )
    yield from (
        f"pool {pool.name!r} has the machine type {machine_type}; "
        f"allowed: {_join_names(settings['allowed'])}"
        for machine_type in pool.machine_types
        if not _is_allowed(machine_type, settings["allowed"])
    )


def _regions(pool: Pool, settings: Settings) -> Iterator[str]:
    if pool.region is not None and not _is_allowed(pool.region, settings["allowed"]):
        yield (
            f"pool {pool.name!r} is in {pool.region}; allowed: {_join_names(settings['allowed'])}"
        )


def _spot(pool: Pool, settings: Settings) -> Iterator[str]:
    if pool.spot and not _is_allowed(pool.name, settings["allowed"]):
        yield (
            f"pool {pool.name!r} uses spot capacity, which the cloud may reclaim at any time; "
            f"pools that may use it: {_join_names(settings['allowed'])}"
        )


def _labels(pool: Pool, settings: Settings) -> Iterator[str]:
    if missing := labels.missing_keys(pool.billed_by, settings):
        where = "resource_labels" if pool.cloud == "gke" else "tags"
        yield (
            f"pool {pool.name!r} lacks {', '.join(missing)}, needed to attribute its "
            f"cost; add them to its {where}"
        )


def _billing_labels(resource: Resource, settings: Settings) -> Iterator[str]:
    """Checks the billing labels. Karpenter reads the instances' tags from the EC2NodeClass."""
    if resource.type != karpenter.NODE_CLASS:
        yield from pools.pool_check(_labels)(resource, settings)
        return
    if missing := labels.missing_keys(karpenter.tags(resource), settings):
        yield (
            f"instances of EC2NodeClass {property_at(resource.props, 'metadata', 'name')!r} lack "
            f"{', '.join(missing)}, needed to attribute their cost; add them to the pool's "
            "instance_tags"
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
    for accelerator in pool.accelerators:
        row = _CATALOG.accelerators.get(accelerator.type)
        if (
            accelerator.partition_size is None
            or row is None
            or accelerator.partition_size in row.sizes
        ):
            continue
        reason = row.refused.get(accelerator.partition_size, f"{row.gpu.name} has no such profile")
        yield (
            f"pool {pool.name!r}: GKE does not partition {accelerator.type} into "
            f"{accelerator.partition_size} ({reason}); it offers {', '.join(row.sizes)}"
        )


def _gpus_of_machine(pool: Pool, settings: Settings) -> Iterator[str]:
    machine = pool.machine
    if machine is None or machine.accelerator is None:
        return
    for accelerator in pool.accelerators:
        wrong_type = (
            accelerator.type in _CATALOG.accelerators and accelerator.type != machine.accelerator
        )
        if wrong_type or (accelerator.count and accelerator.count != machine.gpu_count):
            yield (
                f"pool {pool.name!r} requests {accelerator.count} x {accelerator.type} on "
                f"{machine.name}, which comes with {machine.gpu_count} x "
                f"{machine.accelerator}: GKE refuses it"
            )


def _gpu_taint(pool: Pool, settings: Settings) -> Iterator[str]:
    """Checks EKS only: GKE taints its GPU nodes itself. Source: GKE documentation, "Run GPUs in
    Standard node pools".
    """
    if pool.cloud == "eks" and pool.taints is not None and _GPU_TAINT not in pool.taints:
        yield (
            f"pool {pool.name!r} has no taint {_GPU_TAINT}: pods without a GPU fill its nodes, and "
            "keep them when the pool shrinks"
        )


def _capacity(pool: Pool, settings: Settings) -> Iterator[str]:
    if not pool.capacity_stated:
        yield (
            f"pool {pool.name!r} does not state whether it uses on-demand, spot or reserved "
            "capacity; state it, as a default depends on the tool that creates the pool"
        )


def _single_partitioner(pool: Pool, settings: Settings) -> Iterator[str]:
    sizes = {accelerator.partition_size for accelerator in pool.accelerators} - {None}
    if sizes and "nvidia.com/mig.config" in pool.labels:
        yield (
            f"pool {pool.name!r} is partitioned by GKE ({', '.join(sorted(map(str, sizes)))}) and "
            "has the label nvidia.com/mig.config, which NVIDIA's mig-manager applies: each would "
            "undo the other's partitions"
        )


def _driver(pool: Pool, settings: Settings) -> Iterator[str]:
    """Checks pools without GKE's device plugin: NVIDIA's operator installs driver and plugin."""
    if pool.labels.get(_NO_GKE_PLUGIN) != "true":
        return
    for accelerator in pool.accelerators:
        if accelerator.driver not in (None, _NO_DRIVER):
            yield (
                f"pool {pool.name!r} has the label {_NO_GKE_PLUGIN} and lets GKE install the "
                f"driver ({accelerator.driver}), so that two installers work on each node; set "
                f"gpuDriverInstallationConfig.gpuDriverVersion to {_NO_DRIVER}"
            )


def _fleet(resources: Sequence[Resource], settings: Settings) -> Iterator[tuple[str, str]]:
    """Checks the fleet's size and cost. Violations name the largest pool, the first to reduce."""
    # A NodePool does not state its region. Its cluster's provider does.
    regions = {
        property_at(candidate.provider, "region")
        for candidate in resources
        if candidate.type.startswith("aws:")
    }
    region = next(
        (candidate for candidate in regions if isinstance(candidate, str) and len(regions) == 1),
        None,
    )
    fleet = [
        replace(pool, region=pool.region or (region if pool.cloud == "eks" else None))
        for pool in map(pools.read, resources)
        if pool is not None and pool.has_gpus
    ]
    if not fleet:
        return
    largest = max(fleet, key=lambda pool: (pool.most_nodes or 0) * (pool.gpus or 0)).urn
    gpus = sum((pool.most_nodes or 0) * (pool.gpus or 0) for pool in fleet)
    if gpus > int(settings["most_gpus"]):
        yield (
            largest,
            f"the fleet may have {gpus} GPUs, and most_gpus is {int(settings['most_gpus'])}",
        )
    budget = float(settings["usd_per_hour"])
    if not budget:
        return
    # Values that a preview does not know are checked by the next preview or by `up`.
    stated = [pool for pool in fleet if pool.machine_types and pool.region and pool.most_nodes]
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
            f"the cost of {', '.join(unknown)} is unknown, so it cannot be checked whether the "
            f"fleet stays within {budget:.2f} USD per hour",
        )


def _usd_per_hour(pool: Pool) -> float | None:
    """The cost of all nodes at the highest price of the zones. None: unknown, which is not 0."""
    if pool.machine is None or pool.region is None or pool.most_nodes is None:
        return None
    price = pool.machine.price("spot" if pool.spot else "on-demand", pool.region)
    return None if price is None else pool.most_nodes * (price.up_to or price.usd_per_hour)


def _is_allowed(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _join_names(patterns: Sequence[str]) -> str:
    return ", ".join(patterns) or "none"


def _patterns(subject: str) -> Sequence[Setting]:
    return (names("allowed", f"{subject}; * stands for any characters", ("*",)),)


RULES = (
    ResourceRule(
        name="pool-size",
        description="A pool has a maximum, and it is not too high.",
        level="mandatory",
        settings=(number("most_nodes", "nodes of a pool in all its zones together", 16),),
        check=pools.pool_check(_size),
    ),
    ResourceRule(
        name="pool-machine-types",
        description="Pools have only allowed machine types.",
        level="mandatory",
        settings=_patterns("machine types"),
        check=pools.pool_check(_machine_types),
    ),
    ResourceRule(
        name="pool-regions",
        description="Pools are only in allowed regions.",
        level="mandatory",
        settings=_patterns("regions"),
        check=pools.pool_check(_regions),
    ),
    ResourceRule(
        name="pool-spot",
        description="Only allowed pools use spot capacity.",
        level="mandatory",
        settings=_patterns("names of pools that may use spot capacity"),
        check=pools.pool_check(_spot),
    ),
    ResourceRule(
        name="pool-labelled",
        description="Pools have the labels or tags that attribute cost.",
        level="mandatory",
        settings=(names("required", "keys of GKE's resource labels and of AWS's tags"),),
        check=_billing_labels,
    ),
    ResourceRule(
        name="pool-startup-taint",
        description="Nodes accept no pods before their partitions are verified.",
        level="mandatory",
        check=pools.pool_check(_startup_taint),
    ),
    ResourceRule(
        name="pool-node-credentials",
        description="Pods do not get the credentials of their GKE node.",
        level="mandatory",
        check=pools.pool_check(_metadata),
    ),
    ResourceRule(
        name="partition-size-exists",
        description="GKE can partition the GPU into the requested size.",
        level="mandatory",
        check=pools.pool_check(_partition_size),
    ),
    ResourceRule(
        name="pool-gpus-of-machine",
        description="A GKE pool requests the GPUs of its machine type.",
        level="mandatory",
        check=pools.pool_check(_gpus_of_machine),
    ),
    ResourceRule(
        name="pool-gpu-taint",
        description="Nodes with GPUs are reserved for pods that request a GPU.",
        level="advisory",
        check=pools.pool_check(_gpu_taint),
    ),
    ResourceRule(
        name="pool-capacity-stated",
        description="A pool on AWS states its type of capacity.",
        level="advisory",
        check=pools.pool_check(_capacity),
    ),
    ResourceRule(
        name="one-partitioner",
        description="Either GKE or NVIDIA's mig-manager partitions a pool's GPUs.",
        level="mandatory",
        check=pools.pool_check(_single_partitioner),
    ),
    ResourceRule(
        name="one-driver",
        description="If NVIDIA's operator serves a GKE pool, GKE installs no driver.",
        level="mandatory",
        check=pools.pool_check(_driver),
    ),
    StackRule(
        name="fleet-size",
        description="All pools at their maximum stay within a number of GPUs and a budget.",
        level="mandatory",
        settings=(
            number("most_gpus", "GPUs of all pools", 256),
            number(
                "usd_per_hour", "cost of all pools' machines at public prices; 0: not checked", 0
            ),
        ),
        check=_fleet,
    ),
)
