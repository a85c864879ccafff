"""Fractional GPUs: the scheduler that allocates them, and the requests of workloads."""

from __future__ import annotations

from typing import Annotated, Literal

from slicewright.infra.stack_file.schema.constraints import OWN_LIMIT, DnsLabel, IntRange
from slicewright.infra.stack_file.schema.field_types import Memory
from slicewright.infra.stack_file.schema.model import SpecModel

Policy = Literal["binpack", "spread"]


class Fractional(SpecModel):
    """The scheduler: `hami` (any cluster) or `vke` (Volcengine's managed clusters)."""

    provider: Literal["hami", "vke"]
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
    """Maximum number of containers on a GPU. Default 10 (HAMi) or 16 (VKE, also its maximum)."""


class FractionalRequest(SpecModel):
    """The total request of a workload. Each card provides an equal part."""

    memory: Memory
    compute_percent: Annotated[
        int,
        IntRange(
            minimum=1,
            source="HAMi docs, gpucores; VKE docs 6460/182418",
        ),
    ]
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


class Workload(SpecModel):
    name: Annotated[str, DnsLabel(63, "Kubernetes docs, names", "app")]
    gpu_share: FractionalRequest
