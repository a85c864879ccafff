"""How a pool's GPUs are partitioned, and how GPUs and partitions are shared by several pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Discriminator, Field, Tag

from slicewright.infra.stack_file.schema.constraints import FreeText, IntRange, NotEmpty
from slicewright.infra.stack_file.schema.field_types import GpuIndex, ProfileName, ResourceName
from slicewright.infra.stack_file.schema.model import Shorthand, SpecModel


class Unpartitioned(SpecModel):
    """Whole GPUs."""

    mode: Literal["none"] = "none"


class Native(SpecModel):
    """GKE, or on EKS the operating system Bottlerocket, partitions every GPU into as many instances
    of one profile as fit.
    """

    mode: Literal["native"]
    profile: ProfileName


_Instances = Annotated[
    int,
    IntRange(
        minimum=1,
        unit="instance",
        source="NVIDIA/mig-parted, mig-configs",
        alternative="leave the profile out",
    ),
]


class GpuGroup(SpecModel):
    """GPUs of a node, by NVML's index, and their layout."""

    index: Annotated[
        tuple[GpuIndex, ...],
        NotEmpty(
            why="the layout would apply to no GPU", instead="list the GPUs that have this layout"
        ),
    ]
    layout: Mapping[ProfileName, _Instances]
    """MIG profile -> instances on each of these GPUs. `{}` leaves the GPUs whole."""


_ByIndex = Annotated[
    tuple[GpuGroup, ...],
    NotEmpty(
        why="no GPU would be partitioned",
        instead="list every GPU of the node, or write partition: none",
    ),
]


_ONE_LAYOUT = ConfigDict(
    json_schema_extra={
        # Types are included: a key that is null counts as absent.
        "oneOf": [
            {"required": [key], "properties": {key: {"type": kind}}}
            for key, kind in (("layout", "object"), ("config", "string"), ("gpus", "array"))
        ]
    }
)
_LayoutOfEveryGpu = Annotated[
    Mapping[ProfileName, _Instances],
    NotEmpty(
        why="no GPU would be partitioned",
        instead="name at least one profile, or write partition: none",
    ),
]
_LayoutName = Annotated[
    str,
    FreeText(
        "a layout name",
        "default-mig-parted-config of the GPU operator",
        "all-balanced",
        "all-1g.5gb",
    ),
]


class Operator(SpecModel):
    """NVIDIA's mig-manager partitions the GPUs. Exactly one of `layout`, `config` and `gpus`."""

    model_config = _ONE_LAYOUT

    mode: Literal["operator"]
    layout: _LayoutOfEveryGpu | None = None
    """MIG profile -> instances on every GPU."""
    config: _LayoutName | None = None
    """NVIDIA's name of a layout, for every GPU: `all-balanced`, `all-1g.5gb`."""
    gpus: _ByIndex | None = None
    """A layout per GPU. Every GPU must be listed. The driver may renumber GPUs after a reboot."""
    previous: tuple[_ByIndex, ...] = ()
    """Earlier values of `gpus` that nodes may still have: kept for mig-manager."""


class Boot(SpecModel):
    """Each node partitions its GPUs when it boots, before its kubelet starts: only on EKS with
    Amazon Linux. Another layout replaces the nodes. Exactly one of `layout`, `config` and `gpus`.
    """

    model_config = _ONE_LAYOUT

    mode: Literal["boot"]
    layout: _LayoutOfEveryGpu | None = None
    """MIG profile -> instances on every GPU."""
    config: _LayoutName | None = None
    """NVIDIA's name of a layout, for every GPU: `all-balanced`, `all-1g.5gb`."""
    gpus: _ByIndex | None = None
    """A layout per GPU. Every GPU must be listed. The driver may renumber GPUs after a reboot."""


CloudPartition = Annotated[
    Unpartitioned | Native | Operator, Field(discriminator="mode"), Shorthand("none")
]
EksPartition = Annotated[
    Unpartitioned | Native | Operator | Boot, Field(discriminator="mode"), Shorthand("none")
]
OperatorPartition = Annotated[
    Unpartitioned | Operator, Field(discriminator="mode"), Shorthand("none")
]


Replicas = Annotated[
    int,
    IntRange(
        minimum=2,
        maximum=1514,
        unit="replica",
        why_maximum="no node runs more pods (g7.48xlarge on EKS: 1,514)",
        source="aws/amazon-vpc-cni-k8s, pods per instance type; GKE API: 256",
        alternative="sharing: none",
    ),
]


MpsReplicas = Annotated[
    int,
    IntRange(
        minimum=2,
        planned_maximum=48,
        unit="replica",
        source="NVIDIA/k8s-device-plugin, internal/plugin and README: MPS has 48 clients per GPU",
        alternative="sharing: none",
    ),
]


def _replicas_tag(value: Any) -> str:
    return "per resource" if isinstance(value, dict) else "uniform"


ReplicaCounts = Annotated[
    Annotated[Replicas, Tag("uniform")]
    | Annotated[
        Mapping[ResourceName, Replicas],
        NotEmpty(
            why="nothing would be shared",
            instead="name a resource, or write one number for all",
            source="NVIDIA/k8s-device-plugin, internal/plugin and README",
        ),
        Tag("per resource"),
    ],
    Discriminator(_replicas_tag),
]


MpsReplicaCounts = Annotated[
    Annotated[MpsReplicas, Tag("uniform")]
    | Annotated[
        Mapping[ResourceName, MpsReplicas],
        NotEmpty(
            why="nothing would be shared",
            instead="name a resource, or write one number for all",
            source="NVIDIA/k8s-device-plugin, internal/plugin and README",
        ),
        Tag("per resource"),
    ],
    Discriminator(_replicas_tag),
]


class Exclusive(SpecModel):
    """One pod per GPU or partition."""

    mode: Literal["none"] = "none"


class _Replicated(SpecModel):
    replicas: ReplicaCounts
    """Pods per GPU or partition: one number for all, or one per resource (`gpu`, `mig-1g.5gb`)."""
    rename_by_default: bool = False
    """Advertise nvidia.com/gpu.shared, so that pods share a GPU only on request. Not on GKE."""
    fail_requests_greater_than_one: bool = True
    """Reject pods that request several replicas: they would get no more GPU time. Always true on
    GKE.
    """


class TimeSlicing(_Replicated):
    """Pods take turns. Neither memory nor faults are isolated."""

    mode: Literal["time-slicing"]


class Mps(_Replicated):
    """Pods run concurrently, each with a part of memory and threads. With MIG only on GKE."""

    mode: Literal["mps"]
    replicas: MpsReplicaCounts


class FractionalSharing(SpecModel):
    """Any fraction of memory and compute, by the fleet's `fractional` scheduler. Never with MIG."""

    mode: Literal["fractional"]


Sharing = Annotated[
    Exclusive | TimeSlicing | Mps | FractionalSharing,
    Field(discriminator="mode"),
    Shorthand("none", "fractional"),
]
