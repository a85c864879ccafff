"""GPU pools of either cloud as one typed value: GKE node pools, EKS node groups, Karpenter's
NodePools.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from infra import catalog
from policy.rules import karpenter, labels
from policy.rules.declared import UNKNOWN, Resource, at, items, texts, whole
from policy.rules.rule import Settings


@dataclass(frozen=True, kw_only=True)
class Accelerator:
    """GPUs that a GKE node pool asks for."""

    type: str
    count: int
    """On each node."""
    partition_size: str | None
    driver: str | None
    """What GKE installs, such as LATEST; DEFAULT where nothing is stated; None: not known yet."""


@dataclass(frozen=True, kw_only=True)
class Pool:
    cloud: catalog.Cloud
    name: str
    urn: str
    machine_types: tuple[str, ...]
    """Those that are known. EKS takes any of several; empty where a launch template says it."""
    any_machine: bool = False
    """It names no machine types: Karpenter chooses among all that have GPUs."""
    accelerators: tuple[Accelerator, ...]
    """GKE's; EKS has none."""
    spot: bool
    capacity_stated: bool = True
    """Whether it says which kind of capacity it takes; GKE's pools may leave it out."""
    most_nodes: int | None
    """None: not stated, or not known yet."""
    autoscaled_without_limit: bool
    autoscaled: bool | None
    """Whether the number of nodes may change; None: not known yet."""
    labels: Mapping[str, str]
    """Of its Kubernetes nodes."""
    taints: frozenset[str] | None
    """Keys; None: not all of them are known yet."""
    billed_by: frozenset[str] | None
    """Keys of the cloud's own labels or tags that are not empty; None: not known yet."""
    region: str | None
    metadata_server: bool
    """GKE: pods get Google's metadata through GKE's server, and not the node's credentials."""

    @property
    def gpus(self) -> int | None:
        """On each node; None where neither the pool nor the catalog says it."""
        if self.accelerators:
            return sum(one.count for one in self.accelerators)
        return None if self.machine is None else self.machine.gpu_count

    @property
    def machine(self) -> catalog.Machine | None:
        """The catalog's row of the only machine type."""
        if len(self.machine_types) != 1:
            return None
        return _CATALOG.machines.get((self.cloud, self.machine_types[0]))

    @property
    def has_gpus(self) -> bool:
        rows = [_CATALOG.machines.get((self.cloud, name)) for name in self.machine_types]
        named = any(row is not None and row.gpu_count for row in rows)
        return bool(self.accelerators) or self.any_machine or named


_CATALOG = catalog.load()
_DRIVER = ("gpuDriverInstallationConfig", "gpuDriverVersion")
_ZONES = 3
"""Of a pool that names none, in a regional cluster. Source: GKE docs, regional clusters."""


def read(resource: Resource) -> Pool | None:
    """None for every resource that is not a pool of nodes."""
    match resource.type:
        case "gcp:container/nodePool:NodePool":
            return _gke(resource)
        case "aws:eks/nodeGroup:NodeGroup":
            return _eks(resource)
        case karpenter.NODE_POOL:
            return _karpenter(resource)
        case _:
            return None


def each(
    check: Callable[[Pool, Settings], Iterator[str]],
) -> Callable[[Resource, Settings], Iterator[str]]:
    """A rule's check of a resource, from one of a pool with GPUs."""

    def checked(resource: Resource, settings: Settings) -> Iterator[str]:
        pool = read(resource)
        if pool is not None and pool.has_gpus:
            yield from check(pool, settings)

    return checked


def _gke(resource: Resource) -> Pool:
    props = resource.props
    config = at(props, "nodeConfig")
    locations = at(props, "nodeLocations")
    zones = [zone for zone in items(locations) if isinstance(zone, str)]
    scaling = at(props, "autoscaling")
    fixed = whole(at(props, "nodeCount"))
    # Per zone, unless it is a total. Source: the provider's documentation of container.NodePool.
    # Of a preview, outputs that are not stated are unknown: a pool with a count has no autoscaling.
    autoscaled = isinstance(scaling, Mapping) or (scaling is UNKNOWN and fixed is None)
    per_zone = whole(at(scaling, "maxNodeCount")) if autoscaled else fixed
    total = whole(at(scaling, "totalMaxNodeCount"))
    region = at(resource.provider, "region")
    return Pool(
        cloud="gke",
        name=_name(at(props, "name"), resource),
        urn=resource.urn,
        machine_types=_known_texts([at(config, "machineType")]),
        accelerators=tuple(
            Accelerator(
                type=str(at(one, "type")),
                count=whole(at(one, "count")) or 0,
                partition_size=_text(at(one, "gpuPartitionSize")) or None,
                driver=_text("DEFAULT" if (driver := at(one, *_DRIVER)) is None else driver),
            )
            for one in items(at(config, "guestAccelerators"))
        ),
        spot=at(config, "spot") is True or at(config, "preemptible") is True,
        most_nodes=total if total is not None else _times(per_zone, locations),
        autoscaled_without_limit=isinstance(scaling, Mapping)
        and at(scaling, "maxNodeCount") is None
        and at(scaling, "totalMaxNodeCount") is None,
        autoscaled=None if scaling is UNKNOWN and fixed is None else autoscaled,
        labels=texts(at(config, "labels")),
        taints=_taints(at(config, "taints")),
        billed_by=labels.labels_of(resource, at(config, "resourceLabels")),
        region=zones[0].rpartition("-")[0] if zones else _text(region),
        metadata_server=at(config, "workloadMetadataConfig", "mode") in ("GKE_METADATA", UNKNOWN),
    )


def _eks(resource: Resource) -> Pool:
    props = resource.props
    machines = [one for one in items(at(props, "instanceTypes")) if isinstance(one, str)]
    return Pool(
        cloud="eks",
        name=_name(at(props, "nodeGroupName"), resource),
        urn=resource.urn,
        machine_types=_known_texts(machines),
        accelerators=(),
        spot=at(props, "capacityType") == "SPOT",
        capacity_stated=at(props, "capacityType") is not None,
        most_nodes=whole(at(props, "scalingConfig", "maxSize")),
        autoscaled_without_limit=False,  # EKS requires a maximum
        autoscaled=_differ(at(props, "scalingConfig")),
        labels=texts(at(props, "labels")),
        taints=_taints(at(props, "taints")),
        billed_by=labels.tags_of(resource),
        region=_text(at(resource.provider, "region")),
        metadata_server=True,
    )


def _karpenter(resource: Resource) -> Pool:
    found = Pool(
        cloud="eks",
        name=_name(at(resource.props, "metadata", "name"), resource),
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
    least = 1 if found.any_machine else found.gpus
    return replace(found, most_nodes=karpenter.most_nodes(resource, gpus=least))


def _differ(scaling: Any) -> bool | None:
    least, most = at(scaling, "minSize"), at(scaling, "maxSize")
    return None if UNKNOWN in (least, most) else least != most


def _taints(value: Any) -> frozenset[str] | None:
    keys = {at(one, "key") for one in value} if isinstance(value, list | tuple) else {value}
    return None if UNKNOWN in keys else frozenset(key for key in keys if isinstance(key, str))


def _name(value: Any, resource: Resource) -> str:
    return value if isinstance(value, str) else resource.name


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _known_texts(values: list[Any]) -> tuple[str, ...]:
    return tuple(one for one in values if isinstance(one, str))


def _times(per_zone: int | None, locations: Any) -> int | None:
    if per_zone is None or locations is UNKNOWN:
        return None
    return per_zone * (len(locations) if locations else _ZONES)
