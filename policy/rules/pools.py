"""GPU pools of both clouds as a single type: GKE node pools, EKS node groups and Karpenter's
NodePools.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from policy.rules import karpenter, labels
from policy.rules.resources import UNKNOWN, Resource, items, property_at, texts, whole
from policy.rules.rule import Settings
from slicewright.infra import catalog


@dataclass(frozen=True, kw_only=True)
class Accelerator:
    """GPUs that a GKE node pool requests."""

    type: str
    count: int
    """Number per node."""
    partition_size: str | None
    driver: str | None
    """The driver that GKE installs, such as LATEST, by default DEFAULT. None: not known yet."""


@dataclass(frozen=True, kw_only=True)
class Pool:
    cloud: catalog.Cloud
    name: str
    urn: str
    machine_types: tuple[str, ...]
    """The known types. EKS uses any of several. Empty if a launch template has the type."""
    any_machine: bool = False
    """Karpenter chooses among all machine types with GPUs, as the pool names none."""
    accelerators: tuple[Accelerator, ...]
    """GPUs of a GKE pool, empty on EKS."""
    spot: bool
    capacity_stated: bool = True
    """Whether it states its type of capacity, which GKE pools may omit."""
    most_nodes: int | None
    """None: not stated, or not known yet."""
    autoscaled_without_limit: bool
    autoscaled: bool | None
    """Whether the number of nodes may change. None: not known yet."""
    labels: Mapping[str, str]
    """Labels of its Kubernetes nodes."""
    taints: frozenset[str] | None
    """Keys of the taints. None: not all are known yet."""
    billed_by: frozenset[str] | None
    """Keys of the cloud's labels or tags with a value. None: not known yet."""
    region: str | None
    metadata_server: bool
    """GKE: pods read metadata from GKE's server, which hides the node's credentials."""

    @property
    def gpus(self) -> int | None:
        """GPUs per node, None if neither the pool nor the catalog has the number."""
        if self.accelerators:
            return sum(accelerator.count for accelerator in self.accelerators)
        return None if self.machine is None else self.machine.gpu_count

    @property
    def machine(self) -> catalog.Machine | None:
        """The catalog's row of the only machine type."""
        if len(self.machine_types) != 1:
            return None
        return _row(self.cloud, self.machine_types[0])

    @property
    def has_gpus(self) -> bool:
        rows = [_row(self.cloud, name) for name in self.machine_types]
        named = any(row is not None and row.gpu_count for row in rows)
        return bool(self.accelerators) or self.any_machine or named


_CATALOG = catalog.load()
_DRIVER = ("gpuDriverInstallationConfig", "gpuDriverVersion")
_ZONES = 3
"""Zones of a pool that names none, in a regional cluster. Source: GKE docs, regional clusters."""


def read(resource: Resource) -> Pool | None:
    """The pool that a resource declares, None for every other resource."""
    match resource.type:
        case "gcp:container/nodePool:NodePool":
            return _gke(resource)
        case "aws:eks/nodeGroup:NodeGroup":
            return _eks(resource)
        case karpenter.NODE_POOL:
            return _karpenter(resource)
        case _:
            return None


def pool_check(
    check: Callable[[Pool, Settings], Iterator[str]],
) -> Callable[[Resource, Settings], Iterator[str]]:
    """Converts a check of a pool with GPUs into a check of a resource."""

    def checked(resource: Resource, settings: Settings) -> Iterator[str]:
        pool = read(resource)
        if pool is not None and pool.has_gpus:
            yield from check(pool, settings)

    return checked


def _gke(resource: Resource) -> Pool:
    props = resource.props
    config = property_at(props, "nodeConfig")
    locations = property_at(props, "nodeLocations")
    zones = [zone for zone in items(locations) if isinstance(zone, str)]
    scaling = property_at(props, "autoscaling")
    fixed = whole(property_at(props, "nodeCount"))
    # Per zone, unless it is a total. Source: the provider's documentation of container.NodePool.
    # In a preview, unset outputs are unknown. A pool with a count has no autoscaling.
    autoscaled = isinstance(scaling, Mapping) or (scaling is UNKNOWN and fixed is None)
    per_zone = whole(property_at(scaling, "maxNodeCount")) if autoscaled else fixed
    total = whole(property_at(scaling, "totalMaxNodeCount"))
    region = property_at(resource.provider, "region")
    return Pool(
        cloud="gke",
        name=_name(property_at(props, "name"), resource),
        urn=resource.urn,
        machine_types=_known_texts([property_at(config, "machineType")]),
        accelerators=tuple(
            Accelerator(
                type=str(property_at(gpus, "type")),
                count=whole(property_at(gpus, "count")) or 0,
                partition_size=_text(property_at(gpus, "gpuPartitionSize")) or None,
                driver=_text(
                    "DEFAULT" if (driver := property_at(gpus, *_DRIVER)) is None else driver
                ),
            )
            for gpus in items(property_at(config, "guestAccelerators"))
        ),
        spot=property_at(config, "spot") is True or property_at(config, "preemptible") is True,
        most_nodes=total if total is not None else _times(per_zone, locations),
        autoscaled_without_limit=isinstance(scaling, Mapping)
        and property_at(scaling, "maxNodeCount") is None
        and property_at(scaling, "totalMaxNodeCount") is None,
        autoscaled=None if scaling is UNKNOWN and fixed is None else autoscaled,
        labels=texts(property_at(config, "labels")),
        taints=_taints(property_at(config, "taints")),
        billed_by=labels.labels_of(resource, property_at(config, "resourceLabels")),
        region=zones[0].rpartition("-")[0] if zones else _text(region),
        metadata_server=property_at(config, "workloadMetadataConfig", "mode")
        in ("GKE_METADATA", UNKNOWN),
    )


def _eks(resource: Resource) -> Pool:
    props = resource.props
    machines = [
        machine
        for machine in items(property_at(props, "instanceTypes"))
        if isinstance(machine, str)
    ]
    return Pool(
        cloud="eks",
        name=_name(property_at(props, "nodeGroupName"), resource),
        urn=resource.urn,
        machine_types=_known_texts(machines),
        accelerators=(),
        spot=property_at(props, "capacityType") == "SPOT",
        capacity_stated=property_at(props, "capacityType") is not None,
        most_nodes=whole(property_at(props, "scalingConfig", "maxSize")),
        autoscaled_without_limit=False,  # EKS requires a maximum
        autoscaled=_differ(property_at(props, "scalingConfig")),
        labels=texts(property_at(props, "labels")),
        taints=_taints(property_at(props, "taints")),
        billed_by=labels.tags_of(resource),
        region=_text(property_at(resource.provider, "region")),
        metadata_server=True,
    )


def _karpenter(resource: Resource) -> Pool:
    pool = Pool(
        cloud="eks",
        name=_name(property_at(resource.props, "metadata", "name"), resource),
        urn=resource.urn,
        machine_types=karpenter.machine_types(resource),
        any_machine=karpenter.takes_any_machine(resource),
        accelerators=(),
        spot=karpenter.takes_spot(resource),
        capacity_stated=karpenter.states_capacity(resource),
        most_nodes=None,
        autoscaled_without_limit=karpenter.is_unlimited(resource),
        autoscaled=True,
        labels=karpenter.labels(resource),
        taints=_taints(karpenter.taints(resource)),
        billed_by=None,  # its EC2NodeClass has the tags
        region=None,
        metadata_server=True,
    )
    least = 1 if pool.any_machine else pool.gpus
    return replace(pool, most_nodes=karpenter.most_nodes(resource, gpus=least))


def _differ(scaling: Any) -> bool | None:
    least, most = property_at(scaling, "minSize"), property_at(scaling, "maxSize")
    return None if UNKNOWN in (least, most) else least != most


def _taints(value: Any) -> frozenset[str] | None:
    keys = (
        {property_at(taint, "key") for taint in value}
        if isinstance(value, list | tuple)
        else {value}
    )
    return None if UNKNOWN in keys else frozenset(key for key in keys if isinstance(key, str))


def _name(value: Any, resource: Resource) -> str:
    return value if isinstance(value, str) else resource.name


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _known_texts(values: list[Any]) -> tuple[str, ...]:
    return tuple(text for text in values if isinstance(text, str))


def _times(per_zone: int | None, locations: Any) -> int | None:
    if per_zone is None or locations is UNKNOWN:
        return None
    return per_zone * (len(locations) if locations else _ZONES)


def _row(cloud: catalog.Cloud, name: str) -> catalog.Machine | None:
    return _CATALOG.machines.get((cloud, name)) or catalog.general_machine(cloud, name)
