"""GPU pools of EKS: managed node groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from slicewright.apis.gpu_pool.settings import NodeShareBounds
from slicewright.infra.stack_file.schema.capacity import EksCapacity, OnDemand
from slicewright.infra.stack_file.schema.constraints import (
    OWN_LIMIT,
    DnsLabel,
    FreeText,
    IntRange,
    Pattern,
)
from slicewright.infra.stack_file.schema.field_types import (
    MAX_NODES,
    NODE_LIMIT,
    KmsKeyArn,
    OptionalZones,
    Tags,
)
from slicewright.infra.stack_file.schema.model import SpecModel
from slicewright.infra.stack_file.schema.node_shares import ShareOfNodes
from slicewright.infra.stack_file.schema.partition import EksPartition, Unpartitioned
from slicewright.infra.stack_file.schema.pools import CloudPool


class EksDisk(SpecModel):
    size_gb: Annotated[
        int,
        IntRange(
            minimum=20,
            maximum=65_536,
            unit="GB",
            why_minimum="the machine image alone takes 20 GB",
            why_maximum="EBS has no larger volumes",
            source="EKS API, NodeGroup.diskSize; EBS docs, volume constraints",
        ),
    ] = 100
    encrypted: bool | None = None
    """Whether the disk is encrypted. The default is true in a pool with a launch template, else the
    account's default for new volumes.
    """
    kms_key: KmsKeyArn | None = None
    """ARN of the key that encrypts the disk, instead of EBS's default key."""


class InstanceMetadata(SpecModel):
    """The instance metadata service, always version 2 (IMDSv2), which needs a session token."""

    hop_limit: Annotated[
        int,
        IntRange(
            minimum=1,
            maximum=64,
            unit="hop",
            source="EC2 API, LaunchTemplateInstanceMetadataOptionsRequest.HttpPutResponseHopLimit",
        ),
    ] = 1
    """Network hops of a token. With 1, pods without the host network cannot get the node's
    credentials. With 2 they can.
    """


_UPDATE = "EKS API, NodegroupUpdateConfig"
_REPAIR = "EKS API, NodeRepairConfig"


def _repaired(key: str) -> ShareOfNodes:
    bounds = NodeShareBounds(minimum=1, maximum=MAX_NODES)
    return ShareOfNodes(key=key, bounds=bounds, source=f"{_REPAIR}; {NODE_LIMIT}")


class EksUpdate(SpecModel):
    """How EKS recreates nodes for a new version, release or launch template."""

    max_unavailable: (
        Annotated[
            int | str,
            ShareOfNodes(key="max_unavailable", bounds=NodeShareBounds(minimum=1), source=_UPDATE),
        ]
        | None
    ) = None
    """Nodes that are recreated at the same time: a number, or a percentage of the pool's nodes such
    as `25%`. By default 1.
    """
    strategy: Literal["minimal", "default"] = "minimal"
    """`minimal` removes an old node first. `default` first adds new nodes beyond the pool's number.
    """

    replaced_keys: ClassVar[Mapping[str, str]] = {
        "max_unavailable_percent": "max_unavailable: {value}%",
    }


class RepairRule(SpecModel):
    """EKS's reaction to a kind of node fault."""

    condition: Annotated[str, FreeText("a condition", _REPAIR, "AcceleratedHardwareReady")]
    """The Node's condition, as eks-node-monitoring-agent sets it."""
    reason: Annotated[str, FreeText("a reason", _REPAIR, "NvidiaXID64Error")]
    """The condition's reason."""
    wait_minutes: Annotated[
        int,
        IntRange(
            minimum=1,
            maximum=1440,
            unit="minute",
            why_maximum="a node that is not repaired after a day needs manual action",
            source=OWN_LIMIT,
        ),
    ]
    action: Literal["replace", "reboot", "none"]


class EksRepair(SpecModel):
    """EKS replaces or reboots unhealthy nodes. EKS's limits apply by default."""

    enabled: bool = True
    max_unhealthy: Annotated[int | str, _repaired("max_unhealthy")] | None = None
    """If more nodes are unhealthy, EKS repairs none: a number, or a percentage such as `25%`."""
    max_parallel: Annotated[int | str, _repaired("max_parallel")] | None = None
    """Nodes that are repaired at the same time: a number, or a percentage such as `25%`."""
    rules: tuple[RepairRule, ...] = ()

    replaced_keys: ClassVar[Mapping[str, str]] = {
        "max_unhealthy_percent": "max_unhealthy: {value}%",
        "max_parallel_percent": "max_parallel: {value}%",
    }


class EksPool(CloudPool):
    # `<pool>-<hash8>` is a label value, so at most 63 characters with the hash of the layout.
    name: Annotated[str, DnsLabel(54, "Kubernetes docs, labels: 63 with the layout's hash", "a100")]
    machine_type: Annotated[
        str, FreeText("a machine type", "EC2 docs, accelerated computing", "p4d.24xlarge")
    ]
    """The cloud's name of the type. The catalog has its GPUs."""
    other_machine_types: tuple[
        Annotated[str, FreeText("a machine type", "EC2 docs, accelerated computing", "g6.2xlarge")],
        ...,
    ] = ()
    """Further types with the same GPUs. More types give access to more spot capacity."""
    zones: OptionalZones = None
    """Zones of the cluster. By default only its first zone, so that nodes are close together."""
    capacity: EksCapacity = OnDemand()
    partition: EksPartition = Unpartitioned()
    ami_type: (
        Literal[
            "AL2023_x86_64_NVIDIA",
            "AL2023_ARM_64_NVIDIA",
            "BOTTLEROCKET_x86_64_NVIDIA",
            "BOTTLEROCKET_ARM_64_NVIDIA",
        ]
        | None
    ) = None
    """The EKS AMI type with NVIDIA's driver. By default Amazon Linux 2023 for the machine's
    architecture. Bottlerocket partitions its GPUs itself when it boots, by `mode: native`, and
    includes a device plugin: the GPU operator does not run on its nodes.
    """
    release_version: (
        Annotated[
            str,
            Pattern(
                pattern=r"[0-9]+\.[0-9]+\.[0-9]+-[0-9a-f]{8}",
                is_not="a release version of the EKS AMI",
                examples=("1.34.0-20260714",),
                source="EKS API, releaseVersion",
            ),
        ]
        | None
    ) = None
    """Version of the AMI, for example 1.34.0-20260714, or 1.54.0-5ed15786 of Bottlerocket. By
    default the newest.
    """
    disk: EksDisk = EksDisk()
    instance_metadata: InstanceMetadata | None = None
    """Settings of the metadata service. By default EKS's for AL2023: version 2, one hop."""
    instance_store: Literal["raid0"] | None = None
    """`raid0` combines the machine's local disks into a file system for containers, images and the
    kubelet. By default they are not used.
    """
    efa: bool = False
    """Attach all Elastic Fabric Adapters of the machine type to each node.
    """
    placement: Literal["cluster"] | None = None
    """`cluster`: nodes close together, in a placement group of the pool. By default anywhere with
    capacity.
    """
    update: EksUpdate = EksUpdate()
    repair: EksRepair | None = None
    """Node repair, by default off. Once on, only `enabled: false` turns it off."""
    instance_tags: Tags = Field(default_factory=dict)
    """Tags of the instances and their disks."""
    tags: Tags = Field(default_factory=dict)
    """Tags of the node group, not of its instances."""
