"""How a pool's GPUs are cut, and how what comes out of it is shared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Discriminator, Field, Tag

from infra.spec.schema.base import GpuIndex, ProfileName, ResourceName, Short, Spec
from infra.spec.schema.limits import Filled, Named, Whole


class Unpartitioned(Spec):
    """Whole GPUs."""

    mode: Literal["none"] = "none"


class Native(Spec):
    """GKE cuts every GPU into as many of one profile as fit."""

    mode: Literal["native"]
    profile: ProfileName


_Instances = Annotated[
    int,
    Whole(
        least=1,
        below="a profile without instances is not there",
        source="mig-parted",
        otherwise="leave the profile out",
    ),
]


class GpuGroup(Spec):
    """Some GPUs of a node, by NVML's index."""

    index: Annotated[
        tuple[GpuIndex, ...],
        Filled(
            empty="the layout would be for no GPU", instead="name the GPUs that the layout is for"
        ),
    ]
    layout: Mapping[ProfileName, _Instances]
    """MIG profile -> instances on each of these GPUs; `{}` leaves them whole."""


class Operator(Spec):
    """NVIDIA's mig-manager cuts the GPUs. One of `layout`, `config` and `gpus`."""

    model_config = ConfigDict(
        json_schema_extra={
            # With their types: a key that is null is not said.
            "oneOf": [
                {"required": [key], "properties": {key: {"type": kind}}}
                for key, kind in (("layout", "object"), ("config", "string"), ("gpus", "array"))
            ]
        }
    )

    mode: Literal["operator"]
    layout: (
        Annotated[
            Mapping[ProfileName, _Instances],
            Filled(
                empty="nothing would be cut",
                instead="name at least one profile, or write partition: none",
            ),
        ]
        | None
    ) = None
    """MIG profile -> instances on every GPU."""
    config: (
        Annotated[
            str,
            Named(
                "a layout",
                "default-mig-parted-config of the GPU operator",
                "all-balanced",
                "all-1g.5gb",
            ),
        ]
        | None
    ) = None
    """A layout by NVIDIA's name, on every GPU: `all-balanced`, `all-1g.5gb`."""
    gpus: (
        Annotated[
            tuple[GpuGroup, ...],
            Filled(
                empty="no GPU would be cut",
                instead="name every GPU of the node, or write partition: none",
            ),
        ]
        | None
    ) = None
    """Different layouts on one node; every GPU must be named. Drivers may count the GPUs in another
    order after a reboot.
    """


GkePartition = Annotated[
    Unpartitioned | Native | Operator, Field(discriminator="mode"), Short("none")
]
OperatorPartition = Annotated[Unpartitioned | Operator, Field(discriminator="mode"), Short("none")]


Replicas = Annotated[
    int,
    Whole(
        least=2,
        below="one pod alone shares nothing",
        most=1514,
        above="no node takes so many pods (g7.48xlarge on EKS: 1,514)",
        source="aws/amazon-vpc-cni-k8s, pods per instance type; GKE API: 256",
        otherwise="sharing: none",
    ),
]


def _replicas_tag(value: Any) -> str:
    return "each" if isinstance(value, dict) else "all"


AllOrEach = Annotated[
    Annotated[Replicas, Tag("all")]
    | Annotated[
        Mapping[ResourceName, Replicas],
        Filled(
            empty="nothing would be shared",
            instead="name a resource, or write one number",
            source="NVIDIA/k8s-device-plugin, internal/plugin and README",
        ),
        Tag("each"),
    ],
    Discriminator(_replicas_tag),
]


class Exclusive(Spec):
    """One pod per GPU or partition."""

    mode: Literal["none"] = "none"


class _Replicated(Spec):
    replicas: AllOrEach
    """Pods per GPU or partition: one number for all, or one per resource (`gpu`, `mig-1g.5gb`)."""
    rename_by_default: bool = False
    """Advertise `nvidia.com/gpu.shared` instead of `nvidia.com/gpu`, so that nobody gets a share
    unasked. Not on GKE.
    """
    fail_requests_greater_than_one: bool = True
    """Refuse pods that ask for two shares: a second one gives no more time. Not a choice on GKE."""


class TimeSlicing(_Replicated):
    """Pods take turns. No isolation of memory or of faults."""

    mode: Literal["time-slicing"]


class Mps(_Replicated):
    """Pods run at once, each with its part of memory and threads. Not with MIG, but on GKE."""

    mode: Literal["mps"]


class FractionalShares(Spec):
    """Any share of memory and compute, by the fleet's `fractional` scheduler. Never with MIG."""

    mode: Literal["fractional"]


Sharing = Annotated[
    Exclusive | TimeSlicing | Mps | FractionalShares,
    Field(discriminator="mode"),
    Short("none", "fractional"),
]
