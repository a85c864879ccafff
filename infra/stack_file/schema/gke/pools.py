"""GPU pools of GKE."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from slicewright.infra.stack_file.schema.constraints import FreeText, IntRange, Pattern
from slicewright.infra.stack_file.schema.field_types import CloudLabels, OptionalZones
from slicewright.infra.stack_file.schema.gke.capacity import GkeCapacity, GkeOnDemand
from slicewright.infra.stack_file.schema.gke.upgrade import Surge, Upgrade
from slicewright.infra.stack_file.schema.hosts import GpuChoice
from slicewright.infra.stack_file.schema.model import SpecModel
from slicewright.infra.stack_file.schema.partition import CloudPartition, Unpartitioned
from slicewright.infra.stack_file.schema.pools import CloudPool


class GkeDisk(SpecModel):
    size_gb: Annotated[
        int,
        IntRange(
            minimum=10,
            maximum=65_536,
            unit="GB",
            why_minimum="GKE has no smaller boot disks",
            why_maximum="Compute Engine has no larger disks",
            source="GKE API, NodeConfig.diskSizeGb; Compute Engine docs, disks",
        ),
    ] = 100
    type: Literal["pd-standard", "pd-balanced", "pd-ssd", "hyperdisk-balanced"] = "pd-balanced"


_Ssds = Annotated[
    int,
    IntRange(
        minimum=0,
        maximum=32,
        unit="disk",
        why_maximum="no GPU machine type has more (a3-ultragpu-8g: 32 of 375 GB)",
        source="Compute Engine docs, GPU machine types",
    ),
]


class LocalSsd(SpecModel):
    """Local SSDs of 375 GB. All disks of a machine type must be used, in one of two ways."""

    ephemeral: _Ssds = 0
    """Disks for the node's ephemeral storage."""
    raw: _Ssds = 0
    """Disks as raw NVMe block devices."""


class GkeFeatures(SpecModel):
    gvnic: bool = True
    gcfs: bool = False
    """Image streaming."""
    fast_socket: bool = False
    logging_variant: Literal["DEFAULT", "MAX_THROUGHPUT"] = "DEFAULT"


class Management(SpecModel):
    auto_repair: bool = True
    auto_upgrade: bool = True


class GkePool(CloudPool):
    machine_type: Annotated[
        str, FreeText("a machine type", "Compute Engine docs, GPU machine types", "a3-highgpu-8g")
    ]
    """The cloud's name of the type. The catalog has its GPUs."""
    zones: OptionalZones = None
    """Zones. By default the zone of a zonal cluster, required for a regional cluster."""
    capacity: GkeCapacity = GkeOnDemand()
    gpu: GpuChoice | None = None
    """GPUs to attach to a machine type without GPUs (N1)."""
    partition: CloudPartition = Unpartitioned()
    driver: Literal["DEFAULT", "LATEST"] = "DEFAULT"
    """The driver that GKE installs, of those available for the node version."""
    image_type: Literal["COS_CONTAINERD", "UBUNTU_CONTAINERD"] = "COS_CONTAINERD"
    disk: GkeDisk = GkeDisk()
    local_ssd: LocalSsd | None = None
    max_pods_per_node: Annotated[
        int,
        IntRange(
            minimum=8,
            maximum=256,
            unit="pod",
            source="GKE API, maxPodsConstraint",
        ),
    ] = 110
    resource_labels: CloudLabels = Field(default_factory=dict)
    """Labels of the cloud resources, for billing."""
    features: GkeFeatures = GkeFeatures()
    management: Management = Management()
    upgrade: Upgrade = Surge()
    location_policy: Literal["BALANCED", "ANY"] | None = None
    """How new nodes are distributed over the zones: evenly, or by capacity and reservations. By
    default GKE's choice.
    """
    placement: Literal["compact"] | None = None
    """`compact`: nodes close together."""
    placement_policy: (
        Annotated[
            str,
            Pattern(
                pattern=r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?",
                is_not="the name of a resource policy",
                examples=("rack",),
                source="Compute Engine API, resourcePolicies",
            ),
        ]
        | None
    ) = None
    """An existing placement policy of the project, instead of a new policy for the pool."""
    gpu_network: Literal["dranet", "tcpx", "tcpxo"] | None = None
    """Networks between the GPUs of nodes. `dranet`: created by GKE, and pods claim their interfaces
    by Dynamic Resource Allocation. `tcpx` and `tcpxo`: a VPC for each interface, which pods name in
    an annotation. By default none.
    """
