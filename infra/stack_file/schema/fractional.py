"""Fractional GPUs: the engine that allocates them, and the requests of workloads."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from slicewright.infra.stack_file.schema import charts
from slicewright.infra.stack_file.schema.constraints import (
    OWN_LIMIT,
    DnsLabel,
    IntRange,
    Pattern,
)
from slicewright.infra.stack_file.schema.field_types import Memory, NamespaceName
from slicewright.infra.stack_file.schema.model import SpecModel

Policy = Literal["binpack", "spread"]
_SCALING: Final = "HAMi docs, deviceMemoryScaling and deviceCoreScaling"
_VERSION = Pattern(
    pattern=r"[0-9]+\.[0-9]+\.[0-9]+",
    is_not="a version of a chart: one exact version, not a range",
    examples=("2.10.0",),
    source="Helm docs, charts",
)
_SECRET = Pattern(
    pattern=r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?",
    is_not="the name of a Secret: at most 253 lowercase letters, digits, '-' and '.', starting "
    "and ending with a letter or digit",
    examples=("registry",),
    source="Kubernetes docs, object names",
)
_Percent = Annotated[
    int,
    IntRange(
        minimum=100,
        maximum=1000,
        why_minimum="100 is a whole card",
        why_maximum="a card that is promised ten times over serves nobody",
        source=_SCALING,
    ),
]


class Oversubscription(SpecModel):
    """The part of each card that may be promised: above 100 %, more than the card has."""

    memory_percent: _Percent = 100
    """Memory beyond 100 is in the node's own memory, which is slow, and in HAMi experimental."""
    compute_percent: _Percent = 100
    """Compute beyond 100 is not there when all containers compute. HAMi only."""


class Fractional(SpecModel):
    """The engine: `hami` (any cluster, with its own scheduler), `volcano` (clusters that schedule
    with Volcano), or `vke` (Volcengine's managed clusters, planned only).
    """

    provider: Literal["hami", "volcano", "vke"]
    existing: bool = False
    """The cluster has Volcano already: its scheduler is not installed, and its configuration is
    checked. The stack installs Volcano's vGPU device plugin. For `cloud: byo`.
    """
    node_policy: Policy = "binpack"
    """`binpack` fills one node first. `spread` distributes over nodes."""
    gpu_policy: Policy = "spread"
    """The same choice among the GPUs of a node."""
    compute_policy: (
        Literal["fixed-share", "guaranteed-burst-share", "native-burst-share"] | None
    ) = None
    """VKE only: who may use idle compute of other pods. By default `native-burst-share` if a
    workload uses several cards, because no other policy allows that, else `fixed-share`. It applies
    to the whole fleet: VKE schedules a pod only on nodes with the same policy.
    """
    shares_per_gpu: (
        Annotated[
            int,
            IntRange(
                minimum=1,
                maximum=64,
                why_maximum="64 containers on a 16 GB card have 256 MiB each",
                source="HAMi docs, deviceSplitCount (default 10); VKE docs 6460/182418 (16)",
            ),
        ]
        | None
    ) = None
    """Maximum number of containers on a GPU. Default 10 (HAMi, Volcano) or 16 (VKE, also its
    maximum).
    """
    oversubscription: Oversubscription = Oversubscription()
    namespace: NamespaceName | None = None
    """Namespace of the engine. Default `hami-system` or `volcano-system`."""
    repository: Annotated[str, charts.repository("https://project-hami.github.io/HAMi/")] | None = (
        None
    )
    """Repository of the engine's chart. By default its publisher's."""
    chart_version: Annotated[str, _VERSION] | None = None
    """Version of the engine's chart. Default 2.10.0 (HAMi) or 1.15.1 (Volcano)."""
    plugin_repository: (
        Annotated[
            str, charts.repository("https://project-hami.github.io/volcano-vgpu-device-plugin")
        ]
        | None
    ) = None
    """Volcano only: repository of the chart volcano-vgpu-device-plugin. By default its
    publisher's.
    """
    plugin_version: Annotated[str, _VERSION] | None = None
    """Volcano only: version of volcano-vgpu-device-plugin. Default 1.12.0."""
    registry: charts.Registry | None = None
    """A mirror instead of docker.io and registry.k8s.io, with the same paths."""
    image_pull_secrets: tuple[Annotated[str, _SECRET], ...] = ()
    """Secrets of the engine's namespace. Volcano's chart takes one."""


class FractionalRequest(SpecModel):
    """The total request of a workload. Each card provides an equal part. Without memory and
    compute, it is whole cards that no other container shares.
    """

    memory: Memory | None = None
    """None, with `compute_percent`: whole cards."""
    compute_percent: (
        Annotated[
            int,
            IntRange(
                minimum=1,
                source="HAMi docs, gpucores; VKE docs 6460/182418",
            ),
        ]
        | None
    ) = None
    """100 is the compute of a whole card."""
    cards: Annotated[
        int,
        IntRange(
            minimum=1,
            maximum=16,
            why_maximum="no machine type in the catalog has more GPUs (a2-megagpu-16g)",
            source=OWN_LIMIT,
        ),
    ] = 1
    priority: Literal["high", "low"] | None = None
    """HAMi only: a container with `low` pauses while one with `high` computes on its card."""
    node_policy: Policy | None = None
    """HAMi only: another policy than the fleet's, for this workload's pods."""
    gpu_policy: Policy | None = None
    """HAMi only: another policy than the fleet's, for this workload's pods."""


class Workload(SpecModel):
    name: Annotated[str, DnsLabel(63, "Kubernetes docs, names", "app")]
    gpu_share: FractionalRequest
    replicas: Annotated[
        int, IntRange(minimum=0, maximum=5000, unit="replica", source=OWN_LIMIT)
    ] = 1
    """Pods that the plan places. You create them yourself."""
    containers: Annotated[
        int, IntRange(minimum=1, maximum=16, unit="container", source=OWN_LIMIT)
    ] = 1
    """Containers of a pod that each have this share. More than one with HAMi only."""
