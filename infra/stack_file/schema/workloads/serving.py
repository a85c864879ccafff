"""Keys that all serving workloads share: a Deployment on the devices of a pool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from slicewright.infra.stack_file.schema.constraints import OWN_LIMIT, DnsLabel, IntRange, Pattern
from slicewright.infra.stack_file.schema.field_types import (
    Image,
    LabelKey,
    Memory,
    NamespaceName,
    ObjectName,
    ResourceName,
)
from slicewright.infra.stack_file.schema.fractional import FractionalRequest
from slicewright.infra.stack_file.schema.model import SpecModel, keys_of
from slicewright.infra.stack_file.schema.quantities import Cpu
from slicewright.infra.stack_file.schema.workloads.autoscaling import Autoscaling

VariableName = Annotated[
    str,
    Pattern(
        pattern=r"[A-Za-z_][A-Za-z0-9_]{0,127}",
        is_not="the name of an environment variable: letters, digits and '_', not starting with a "
        "digit",
        examples=("HF_TOKEN",),
        source="POSIX, environment variables",
    ),
]
Line = Annotated[
    str,
    Pattern(
        pattern=r"[^\x00-\x1f]{0,4096}",
        is_not="a text on one line, of at most 4096 characters",
        examples=("INFO",),
        source=OWN_LIMIT,
    ),
]
Argument = Annotated[
    str,
    Pattern(
        pattern=r"[^\x00-\x1f]{1,4096}",
        is_not="an argument: a text on one line, of 1 to 4096 characters",
        examples=("--enable-prefix-caching",),
        source=OWN_LIMIT,
    ),
]


class SecretKey(SpecModel):
    """A key of a Secret in the workload's namespace. Its value is never in a stack file."""

    name: ObjectName
    key: Annotated[
        str,
        Pattern(
            pattern=r"[-._a-zA-Z0-9]{1,253}",
            is_not="a key of a Secret: at most 253 letters, digits, '-', '_' and '.'",
            examples=("token",),
            source="Kubernetes docs, Secrets",
        ),
    ]


class HostResources(SpecModel):
    """CPU and memory of the node. `pool` and `resource` request GPUs."""

    cpu: Cpu | None = None
    memory: Memory | None = None


class Exposure(SpecModel):
    """The workload's Service."""

    type: Literal["ClusterIP", "LoadBalancer"] = "ClusterIP"
    """`ClusterIP`: reachable from inside the cluster. `LoadBalancer`: also from outside, by a load
    balancer of the cloud, which may have a public address.
    """
    annotations: Mapping[LabelKey, Line] = Field(default_factory=dict)
    """Settings for the cloud: networking.gke.io/load-balancer-type: Internal."""


class ClaimedVolume(SpecModel):
    """An existing PersistentVolumeClaim."""

    claim: ObjectName


class NewVolume(SpecModel):
    """A new PersistentVolumeClaim, deleted with the workload."""

    size: Memory
    storage_class: ObjectName | None = None
    """None: the cluster's default."""
    access_mode: Literal["ReadWriteMany", "ReadWriteOnce"] = "ReadWriteMany"
    """`ReadWriteOnce` volumes are on one node at a time."""


def volume_tag(value: Any) -> str:
    return "claimed" if "claim" in keys_of(value) else "new"


Volume = Annotated[
    Annotated[ClaimedVolume, Tag("claimed")] | Annotated[NewVolume, Tag("new")],
    Discriminator(volume_tag),
]
GpuCount = Annotated[
    int,
    IntRange(
        minimum=1,
        maximum=16,
        unit="GPU",
        why_maximum="no machine type in the catalog has more GPUs (a2-megagpu-16g)",
        source=OWN_LIMIT,
    ),
]


class ServingWorkload(SpecModel):
    """Keys of all kinds: a Deployment whose pods each get a device of a pool."""

    name: Annotated[str, DnsLabel(52, "Kubernetes docs, labels: 63 with a suffix", "llm")]
    """Name of the Deployment, its Service and its other objects."""
    namespace: NamespaceName = "default"
    create_namespace: bool = True
    """Whether the stack creates the namespace, which then admits restricted pods only. `default`
    always exists.
    """
    pool: Annotated[str, DnsLabel(54, "Kubernetes docs, labels", "h100")]
    """A pool of `node_pools`: the pods run on its nodes only."""
    resource: ResourceName | None = None
    """Resource of a pod, such as `mig-1g.5gb`. By default the only resource of the pool's nodes."""
    gpu_share: FractionalRequest | None = None
    """A fraction of the pool's GPUs for each replica, on pools with `sharing: fractional`. It takes
    the place of `resource` and of the number of GPUs. None: whole devices.
    """
    replicas: Annotated[
        int, IntRange(minimum=0, maximum=5000, unit="replica", source=OWN_LIMIT)
    ] = 1
    """Number of replicas. Cannot be combined with `autoscaling`, which changes the number."""
    autoscaling: Autoscaling | None = None
    """None: the number of replicas is fixed."""
    image: Image
    """Image with a tag or a digest."""
    image_pull_secrets: tuple[ObjectName, ...] = ()
    """Secrets of the namespace, of type kubernetes.io/dockerconfigjson, to pull the image."""
    env: Mapping[VariableName, Line] = Field(default_factory=dict)
    """Environment variables. Secrets belong in `secrets`."""
    secrets: Mapping[VariableName, SecretKey] = Field(default_factory=dict)
    """Environment variables whose values are in Secrets: `HF_TOKEN: {name: llm, key: token}`."""
    requests: HostResources = HostResources()
    limits: HostResources = HostResources()
    shared_memory: Memory = "1Gi"
    """Size of /dev/shm. It counts as memory of the pod."""
    startup_minutes: Annotated[
        int,
        IntRange(
            minimum=1,
            maximum=240,
            unit="minute",
            why_maximum="a server that has not started after four hours needs manual action",
            source=OWN_LIMIT,
        ),
    ] = 30
    """How long a container may take to download and load the model until it serves."""
    grace_seconds: Annotated[
        int,
        IntRange(minimum=1, maximum=3600, unit="second", source=OWN_LIMIT),
    ] = 60
    """How long a pod may take to shut down."""
    max_unavailable: Annotated[
        int, IntRange(minimum=1, maximum=5000, unit="replica", source=OWN_LIMIT)
    ] = 1
    """Replicas that may be unavailable at the same time, in an update or a drain of nodes."""
    run_as_user: Annotated[
        int,
        IntRange(
            minimum=1,
            maximum=2**31 - 1,
            why_minimum="0 is root, which restricted pods may not be",
            source="Kubernetes docs, Pod Security Standards: restricted",
        ),
    ] = 1000
    """User and group of the container. Volumes are made writable for the group."""
    service: Exposure = Exposure()
