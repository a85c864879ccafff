"""GPU pools: what both clouds and existing clusters have in common, and what is each one's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from infra.spec.base import DnsName, LabelKey, Labels, LabelValue, NodeCount, NotNegative, Positive, Spec, ZoneNames
from infra.spec.capacity import Capacity, OnDemand
from infra.spec.hosts import GpuChoice
from infra.spec.partition import Exclusive, GkePartition, OperatorPartition, Sharing, Unpartitioned


class Taint(Spec):
    key: LabelKey
    value: LabelValue = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute", "NO_SCHEDULE", "PREFER_NO_SCHEDULE", "NO_EXECUTE"]
    """Kubernetes' spelling or the clouds'."""


class Fixed(Spec):
    count: NodeCount
    """Nodes of the pool, over all its zones."""


class Autoscaled(Spec):
    min: NotNegative
    max: NodeCount


def _nodes_tag(value: Any) -> str:
    fields = value if isinstance(value, dict) else {}
    return "autoscaled" if "min" in fields or "max" in fields else "fixed"


Nodes = Annotated[Annotated[Fixed, Tag("fixed")] | Annotated[Autoscaled, Tag("autoscaled")], Discriminator(_nodes_tag)]


class Rollout(Spec):
    """How a new layout goes over the pool's nodes."""

    max_unavailable: Positive = 1
    """Nodes that change at the same time."""
    canary: NotNegative = 1
    """Nodes that change and prove it before any other; 0: none."""
    drain_timeout_minutes: Annotated[int, Field(ge=1, le=1440)] = 60
    on_failure: Literal["pause", "continue"] = "pause"


class _Pool(Spec):
    name: Annotated[str, DnsName(40)]
    nodes: Nodes
    labels: Labels = Field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    sharing: Sharing = Exclusive()
    rollout: Rollout = Rollout()


class _CloudPool(_Pool):
    machine_type: str
    """The cloud's name; the catalog knows its GPUs."""
    capacity: Capacity = OnDemand()


class GkeDisk(Spec):
    size_gb: Annotated[int, Field(ge=10)] = 100
    type: Literal["pd-standard", "pd-balanced", "pd-ssd", "hyperdisk-balanced"] = "pd-balanced"


class EksDisk(Spec):
    size_gb: Annotated[int, Field(ge=20)] = 100


class LocalSsd(Spec):
    """Local SSD partitions of 375 GB. What a machine type brings along must be used one way or the other."""

    ephemeral: NotNegative = 0
    """For the node's ephemeral storage."""
    raw: NotNegative = 0
    """As raw NVMe block devices."""


class GkeFeatures(Spec):
    gvnic: bool = True
    gcfs: bool = False
    """Image streaming."""
    fast_socket: bool = False
    logging_variant: Literal["DEFAULT", "MAX_THROUGHPUT"] = "DEFAULT"


class Management(Spec):
    auto_repair: bool = True
    auto_upgrade: bool = True


class GkePool(_CloudPool):
    zones: ZoneNames | None = None
    """Where the nodes are; the cluster's own zone where the cluster has one."""
    gpu: GpuChoice | None = None
    """GPUs to attach to a machine type that has none of its own (N1)."""
    partition: GkePartition = Unpartitioned()
    driver: Literal["DEFAULT", "LATEST"] = "DEFAULT"
    """Which of the drivers that GKE has for the node's version it installs."""
    image_type: Literal["COS_CONTAINERD", "UBUNTU_CONTAINERD"] = "COS_CONTAINERD"
    disk: GkeDisk = GkeDisk()
    local_ssd: LocalSsd | None = None
    max_pods_per_node: Annotated[int, Field(ge=8, le=256)] = 110
    resource_labels: Mapping[str, str] = Field(default_factory=dict)
    """Labels of the cloud's own resources, for billing."""
    features: GkeFeatures = GkeFeatures()
    management: Management = Management()


class EksPool(_CloudPool):
    # 63 less the dash and hash of the pool's layout: `<pool>-<hash8>` is a label value.
    name: Annotated[str, DnsName(54)]
    zones: ZoneNames | None = None
    """One or more of the cluster's zones; its first where not said: a node group over zones may split what belongs together."""
    partition: OperatorPartition = Unpartitioned()
    ami_type: Literal["AL2023_x86_64_NVIDIA"] = "AL2023_x86_64_NVIDIA"
    release_version: str | None = None
    """Version of the machine image, for example 1.34.0-20260714; EKS's newest where not said."""
    disk: EksDisk = EksDisk()
    tags: Mapping[str, str] = Field(default_factory=dict)


class ByoPool(_Pool):
    """Nodes that exist already."""

    name: Annotated[str, DnsName(54)]
    gpu: GpuChoice
    """What every one of the nodes has."""
    select: Labels = Field(default_factory=dict)
    """Labels by which the nodes are known; `slicewright.io/pool: <name>` where not said."""
    partition: OperatorPartition = Unpartitioned()
