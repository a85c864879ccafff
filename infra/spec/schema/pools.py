"""GPU pools: what both clouds and existing clusters have in common, and what is each one's own."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from infra.spec.schema.base import (
    MOST_NODES,
    CloudLabels,
    LabelKey,
    Labels,
    LabelValue,
    NodeCount,
    Spec,
    Tags,
    ZoneNames,
)
from infra.spec.schema.capacity import Capacity, EksCapacity, GkeCapacity, OnDemand
from infra.spec.schema.hosts import GpuChoice
from infra.spec.schema.limits import OWN, DnsName, Form, Named, Whole
from infra.spec.schema.partition import (
    Exclusive,
    GkePartition,
    OperatorPartition,
    Sharing,
    Unpartitioned,
)


class Taint(Spec):
    key: LabelKey
    value: LabelValue = ""
    effect: Literal[
        "NoSchedule",
        "PreferNoSchedule",
        "NoExecute",
        "NO_SCHEDULE",
        "PREFER_NO_SCHEDULE",
        "NO_EXECUTE",
    ]
    """Kubernetes' spelling or the clouds'."""


class Fixed(Spec):
    count: NodeCount
    """Nodes of the pool, over all its zones."""


class Autoscaled(Spec):
    min: Annotated[
        int,
        Whole(
            least=0,
            below="there are no fewer nodes than none",
            most=MOST_NODES,
            above="no cluster of any cloud is larger",
            source="GKE limits: 65,000 nodes per cluster from 1.31 on, the most of all clouds",
        ),
    ]
    max: NodeCount


def _nodes_tag(value: Any) -> str:
    fields = value if isinstance(value, dict) else {}
    return "autoscaled" if "min" in fields or "max" in fields else "fixed"


Nodes = Annotated[
    Annotated[Fixed, Tag("fixed")] | Annotated[Autoscaled, Tag("autoscaled")],
    Discriminator(_nodes_tag),
]


class Rollout(Spec):
    """How a new layout goes over the pool's nodes."""

    max_unavailable: Annotated[
        int,
        Whole(
            least=1,
            below="a layout that reaches no node is never rolled out",
            most=100,
            above="more nodes at once is no rollout",
            source="EKS API, updateConfig.maxUnavailable",
        ),
    ] = 1
    """Nodes that change at the same time."""
    canary: Annotated[
        int,
        Whole(
            least=0,
            below="there are no fewer nodes than none",
            most=100,
            above="so many are no sample any more",
            source=OWN,
        ),
    ] = 1
    """Nodes that change and prove it before any other; 0: none."""
    drain_timeout_minutes: Annotated[
        int,
        Whole(
            least=1,
            below="no pod leaves in no time",
            most=1440,
            above="a node that is not empty after a day never will be",
            source=OWN,
        ),
    ] = 60
    on_failure: Literal["pause", "continue"] = "pause"


class _Pool(Spec):
    name: Annotated[str, DnsName(40, "GKE API, NodePool.name", "h100")]
    nodes: Nodes
    labels: Labels = Field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    sharing: Sharing = Exclusive()
    rollout: Rollout = Rollout()


class _CloudPool(_Pool):
    capacity: Capacity = OnDemand()


class GkeDisk(Spec):
    size_gb: Annotated[
        int,
        Whole(
            least=10,
            below="GKE makes no smaller boot disk",
            most=65_536,
            above="Google has no larger disk",
            source="GKE API, NodeConfig.diskSizeGb; Compute Engine docs, disks",
        ),
    ] = 100
    type: Literal["pd-standard", "pd-balanced", "pd-ssd", "hyperdisk-balanced"] = "pd-balanced"


class EksDisk(Spec):
    size_gb: Annotated[
        int,
        Whole(
            least=20,
            below="the machine image alone takes 20 GB",
            most=65_536,
            above="EBS has no larger volume",
            source="EKS API, NodeGroup.diskSize; EBS docs, volume constraints",
        ),
    ] = 100


_Ssds = Annotated[
    int,
    Whole(
        least=0,
        below="there are no fewer disks than none",
        most=32,
        above="no GPU machine type has more (a3-ultragpu-8g: 32 of 375 GB)",
        source="Compute Engine docs, GPU machine types",
    ),
]


class LocalSsd(Spec):
    """Local SSD partitions of 375 GB. What a machine type brings along must be used one way or the
    other.
    """

    ephemeral: _Ssds = 0
    """For the node's ephemeral storage."""
    raw: _Ssds = 0
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
    machine_type: Annotated[
        str, Named("a machine type", "Compute Engine docs, GPU machine types", "a3-highgpu-8g")
    ]
    """The cloud's name; the catalog knows its GPUs."""
    zones: ZoneNames | None = None
    """Where the nodes are; the cluster's own zone where not said, and required where the cluster is
    in a region.
    """
    capacity: GkeCapacity = OnDemand()
    gpu: GpuChoice | None = None
    """GPUs to attach to a machine type that has none of its own (N1)."""
    partition: GkePartition = Unpartitioned()
    driver: Literal["DEFAULT", "LATEST"] = "DEFAULT"
    """Which of the drivers that GKE has for the node's version it installs."""
    image_type: Literal["COS_CONTAINERD", "UBUNTU_CONTAINERD"] = "COS_CONTAINERD"
    disk: GkeDisk = GkeDisk()
    local_ssd: LocalSsd | None = None
    max_pods_per_node: Annotated[
        int,
        Whole(
            least=8,
            below="GKE itself runs about as many on every node",
            most=256,
            above="GKE gives a node addresses for no more",
            source="GKE API, maxPodsConstraint",
        ),
    ] = 110
    resource_labels: CloudLabels = Field(default_factory=dict)
    """Labels of the cloud's own resources, for billing."""
    features: GkeFeatures = GkeFeatures()
    management: Management = Management()


class EksPool(_CloudPool):
    # 63 less the dash and hash of the pool's layout: `<pool>-<hash8>` is a label value.
    name: Annotated[str, DnsName(54, "Kubernetes docs, labels: 63 with the layout's hash", "a100")]
    machine_type: Annotated[
        str, Named("a machine type", "EC2 docs, accelerated computing", "p4d.24xlarge")
    ]
    """The cloud's name; the catalog knows its GPUs."""
    zones: ZoneNames | None = None
    """One or more of the cluster's zones; its first where not said: a node group over zones may
    split what belongs together.
    """
    capacity: EksCapacity = OnDemand()
    partition: OperatorPartition = Unpartitioned()
    ami_type: Literal["AL2023_x86_64_NVIDIA", "AL2023_ARM_64_NVIDIA"] | None = None
    """EKS's machine image with NVIDIA's driver; the one for the machine's processors where not
    said.
    """
    release_version: (
        Annotated[
            str,
            Form(
                pattern=r"[0-9]+\.[0-9]+\.[0-9]+-[0-9]{8}",
                wrong="is no version of EKS's machine image",
                examples=("1.34.0-20260714",),
                source="EKS API, releaseVersion",
            ),
        ]
        | None
    ) = None
    """Version of the machine image, for example 1.34.0-20260714; EKS's newest where not said."""
    disk: EksDisk = EksDisk()
    tags: Tags = Field(default_factory=dict)


class ByoPool(_Pool):
    """Nodes that exist already."""

    name: Annotated[str, DnsName(54, "Kubernetes docs, labels: 63 with the layout's hash", "a100")]
    gpu: GpuChoice
    """What every one of the nodes has."""
    select: Labels = Field(default_factory=dict)
    """Labels by which the nodes are known; `slicewright.io/pool: <name>` where not said."""
    partition: OperatorPartition = Unpartitioned()
