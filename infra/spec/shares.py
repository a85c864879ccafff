"""Fractions of GPUs: the scheduler that hands them out, and what workloads ask for."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from infra.spec.base import DnsName, Memory, Positive, Spec

Policy = Literal["binpack", "spread"]


class Fractional(Spec):
    """`hami` (any cluster) or `vke` (Volcengine's own clusters)."""

    provider: Literal["hami", "vke"]
    node_policy: Policy = "binpack"
    """Fill one node first, or spread over nodes."""
    gpu_policy: Policy = "spread"
    """The same among the GPUs of a node."""
    shares_per_gpu: Annotated[int, Field(ge=1, le=64)] | None = None
    """Most containers on one GPU: 10 where not said (HAMi), 16 (VKE, which allows no more)."""


class GpuShare(Spec):
    """Totals over all cards; each card gives an equal part."""

    memory: Memory
    compute_percent: Positive
    """100 is one whole card's compute."""
    cards: Annotated[int, Field(ge=1, le=16)] = 1


class Workload(Spec):
    name: Annotated[str, DnsName(63)]
    gpu_share: GpuShare
