"""Fractions of GPUs: the scheduler that hands them out, and what workloads ask for."""

from __future__ import annotations

from typing import Annotated, Literal

from infra.spec.schema.base import Memory, Spec
from infra.spec.schema.limits import OWN, DnsName, Whole

Policy = Literal["binpack", "spread"]


class Fractional(Spec):
    """`hami` (any cluster) or `vke` (Volcengine's own clusters)."""

    provider: Literal["hami", "vke"]
    node_policy: Policy = "binpack"
    """Fill one node first, or spread over nodes."""
    gpu_policy: Policy = "spread"
    """The same among the GPUs of a node."""
    compute_policy: (
        Literal["fixed-share", "guaranteed-burst-share", "native-burst-share"] | None
    ) = None
    """VKE's: who gets compute that others leave idle. Not said: `native-burst-share` where a
    workload has several cards, as only that allows, else `fixed-share`. One for the fleet: VKE runs
    a pod only where the node has the pod's.
    """
    shares_per_gpu: (
        Annotated[
            int,
            Whole(
                least=1,
                below="a card that nobody may use is of no use",
                most=64,
                above="64 parts of a 16 GB card are 256 MiB each, the least that can be given",
                source="HAMi docs, deviceSplitCount (10 where not said); VKE docs 6460/182418 (16)",
            ),
        ]
        | None
    ) = None
    """Most containers on one GPU: 10 where not said (HAMi), 16 (VKE, which allows no more)."""


class GpuShare(Spec):
    """Totals over all cards; each card gives an equal part."""

    memory: Memory
    compute_percent: Annotated[
        int,
        Whole(
            least=1,
            below="without compute nothing runs",
            source="HAMi docs, gpucores; VKE docs 6460/182418",
        ),
    ]
    """100 is one whole card's compute."""
    cards: Annotated[
        int,
        Whole(
            least=1,
            below="the share is of one card at least",
            most=16,
            above="no machine of the catalog has more GPUs (a2-megagpu-16g)",
            source=OWN,
        ),
    ] = 1


class Workload(Spec):
    name: Annotated[str, DnsName(63, "Kubernetes docs, names", "app")]
    gpu_share: GpuShare
