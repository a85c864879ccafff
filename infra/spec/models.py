"""What a stack file may say under `slicewright:fleet`. One schema for both clouds and for what exists
already; a union's tag makes bad mixtures unwritable.

Shapes and syntax only: whether a machine exists or a layout fits is decided in `infra.plan`, with the catalog.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from infra.spec.base import DnsName, Spec, ZoneNames
from infra.spec.gpu_operator import GpuOperator
from infra.spec.hosts import Host
from infra.spec.pools import ByoPool, EksPool, Fixed, GkePool, Nodes
from infra.spec.shares import Fractional, Workload


class SystemPool(Spec):
    """CPU nodes for the controller, the GPU operator and the cluster's own add-ons."""

    machine_type: str | None = None
    nodes: Nodes = Fixed(count=1)
    zones: ZoneNames | None = None


class GkeCluster(Spec):
    name: Annotated[str, DnsName(40)]
    location: Annotated[str, Field(pattern=r"^[a-z]+-[a-z]+\d+(-[a-z])?$")]
    """A region, or a zone for a zonal cluster."""
    version: str | None = None
    release_channel: Literal["RAPID", "REGULAR", "STABLE", "EXTENDED"] = "REGULAR"
    existing: bool = False
    """The cluster is there already: take it by its name, and leave it there."""


class EksCluster(Spec):
    name: Annotated[str, DnsName(63)]
    region: Annotated[str, Field(pattern=r"^[a-z]{2}(-[a-z]+)+-\d$")]
    zones: ZoneNames | None = None
    """At least two; the region's a and b where not said."""
    version: str | None = None
    existing: bool = False
    """The cluster is there already: take it by its name, and leave it there."""


class ByoCluster(Spec):
    """A cluster of any kind that exists already."""

    name: Annotated[str, DnsName(63)]
    context: Annotated[str, Field(min_length=1)]
    """The context of the kubeconfig that reaches it."""
    kubeconfig: str | None = None
    """Path of the kubeconfig; kubectl's own rule where not said."""


class _Fleet(Spec):
    verify_timeout_minutes: Annotated[int, Field(ge=1, le=240)] = 30
    """How long `up` waits for every pool's nodes to prove their layout. One reboot of an A100 node is 10 to 15 minutes."""
    image: Annotated[str, Field(min_length=1)] = (
        "docker.io/library/python:3.13-slim@sha256:6771159cd4fa5d9bba1258caf0b82e6b73458c694d178ad97c5e925c2d0e1a91"
    )
    """A Python image (3.11 or newer) that the agent and the controller run on. Pinned by digest."""
    fractional: Fractional | None = None
    """Who hands out fractions of GPUs, for pools with `sharing: fractional`."""
    workloads: tuple[Workload, ...] = ()
    """What asks for fractions of GPUs."""


class _CloudFleet(_Fleet):
    system_pool: SystemPool = SystemPool()


class GkeFleet(_CloudFleet):
    cloud: Literal["gke"]
    cluster: GkeCluster
    node_pools: tuple[GkePool, ...]
    gpu_operator: GpuOperator | None = None
    """For pools with `partition: {mode: operator}`; other pools are GKE's own."""


class EksFleet(_CloudFleet):
    cloud: Literal["eks"]
    cluster: EksCluster
    node_pools: tuple[EksPool, ...]
    gpu_operator: GpuOperator = GpuOperator()


class ByoFleet(_Fleet):
    """An existing cluster, or hosts without Kubernetes, or both."""

    cloud: Literal["byo"]
    cluster: ByoCluster | None = None
    node_pools: tuple[ByoPool, ...] = ()
    hosts: tuple[Host, ...] = ()
    gpu_operator: GpuOperator = GpuOperator()


Fleet = GkeFleet | EksFleet | ByoFleet
