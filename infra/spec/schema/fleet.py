"""What a stack file may say under `slicewright:fleet`. One schema for both clouds and for what
exists already; a union's tag makes bad mixtures unwritable.

Shapes and syntax only: whether a machine exists or a layout fits is decided in `infra.plan`, with
the catalog.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from infra.spec.schema.base import Spec, ZoneNames
from infra.spec.schema.fractional import Fractional, Workload
from infra.spec.schema.gpu_operator import GpuOperator
from infra.spec.schema.hosts import Host
from infra.spec.schema.limits import OWN, DnsName, Filled, Form, Named, Whole
from infra.spec.schema.pools import ByoPool, EksPool, Fixed, GkePool, Nodes


class SystemPool(Spec):
    """CPU nodes for the controller, the GPU operator and the cluster's own add-ons."""

    machine_type: (
        Annotated[
            str,
            Named("a machine type", "the clouds' lists of machines", "e2-standard-4", "m7i.large"),
        ]
        | None
    ) = None
    nodes: Nodes = Fixed(count=1)
    zones: ZoneNames | None = None


class GkeCluster(Spec):
    name: Annotated[str, DnsName(40, "GKE API, Cluster.name")]
    location: Annotated[
        str,
        Form(
            pattern=r"[a-z]+-[a-z]+[0-9]+(-[a-z])?",
            wrong="is no location of Google's: neither a region nor a zone",
            examples=("us-central1", "us-central1-c"),
            source="Compute Engine docs, regions and zones",
        ),
    ]
    """A region, or a zone for a zonal cluster."""
    version: (
        Annotated[
            str,
            Form(
                pattern=r"latest|[0-9]+\.[0-9]+(\.[0-9]+(-gke\.[0-9]+)?)?",
                wrong="is no version of GKE",
                examples=('"1.34"', "1.34.1-gke.1431000"),
                source="GKE API, minMasterVersion",
            ),
        ]
        | None
    ) = None
    release_channel: Literal["RAPID", "REGULAR", "STABLE", "EXTENDED"] = "REGULAR"
    existing: bool = False
    """The cluster is there already: take it by its name, and leave it there."""


class EksCluster(Spec):
    name: Annotated[str, DnsName(63, "EKS allows 100; Kubernetes labels 63")]
    region: Annotated[
        str,
        Form(
            pattern=r"[a-z]{2}(-[a-z]+)+-[0-9]",
            wrong="is no region of Amazon's",
            examples=("eu-west-1", "us-gov-west-1"),
            source="AWS docs, regions",
        ),
    ]
    zones: ZoneNames | None = None
    """At least two; the region's a and b where not said."""
    version: (
        Annotated[
            str,
            Form(
                pattern=r"[0-9]+\.[0-9]+",
                wrong="is no version of EKS",
                examples=('"1.34"',),
                source="EKS API, Cluster.version",
            ),
        ]
        | None
    ) = None
    existing: bool = False
    """The cluster is there already: take it by its name, and leave it there."""


class ByoCluster(Spec):
    """A cluster of any kind that exists already."""

    name: Annotated[str, DnsName(63, "Kubernetes docs, labels")]
    context: Annotated[
        str, Named("the context of a kubeconfig", "kubectl config get-contexts", "gpu-cluster")
    ]
    """The context of the kubeconfig that reaches it."""
    kubeconfig: Annotated[str, Named("a file", "kubectl docs", "~/.kube/config")] | None = None
    """Path of the kubeconfig; kubectl's own rule where not said."""


class NodeAgent(Spec):
    """What the node agents tell beyond whether the partitions are the wanted ones."""

    attribution: bool = False
    """A second container beside each agent tells Prometheus which pod holds which partition. It
    runs as root, without capabilities: the kubelet's socket belongs to root.
    """
    utilization: bool = False
    """Once a minute each agent measures for a tenth of a second how busy every partition is. Hopper
    GPUs and later only.
    """


class _Fleet(Spec):
    verify_timeout_minutes: Annotated[
        int,
        Whole(
            least=1,
            below="no node proves anything in no time",
            most=240,
            above="nodes that have proven nothing after four hours will not, and they cost money",
            source=OWN,
        ),
    ] = 30
    """How long `up` waits for every pool's nodes to prove their layout. One reboot of an A100 node
    is 10 to 15 minutes.
    """
    image: Annotated[
        str,
        Named("a container image", "OCI distribution spec", "docker.io/library/python:3.13-slim"),
    ] = (
        "docker.io/library/python:3.13-slim"
        "@sha256:6771159cd4fa5d9bba1258caf0b82e6b73458c694d178ad97c5e925c2d0e1a91"
    )
    """A Python image (3.11 or newer) that the agent and the controller run on. Pinned by digest."""
    node_agent: NodeAgent = NodeAgent()
    fractional: Fractional | None = None
    """Who hands out fractions of GPUs, for pools with `sharing: fractional`."""
    workloads: tuple[Workload, ...] = ()
    """What asks for fractions of GPUs."""


_SOME_POOLS: Final = Filled(empty="nothing would be partitioned", instead="name at least one pool")


class _CloudFleet(_Fleet):
    system_pool: SystemPool = SystemPool()


class GkeFleet(_CloudFleet):
    cloud: Literal["gke"]
    cluster: GkeCluster
    node_pools: Annotated[tuple[GkePool, ...], _SOME_POOLS]
    gpu_operator: GpuOperator | None = None
    """For pools with `partition: {mode: operator}`; other pools are GKE's own."""


class EksFleet(_CloudFleet):
    cloud: Literal["eks"]
    cluster: EksCluster
    node_pools: Annotated[tuple[EksPool, ...], _SOME_POOLS]
    gpu_operator: GpuOperator = GpuOperator()


class ByoFleet(_Fleet):
    """An existing cluster, or hosts without Kubernetes, or both."""

    cloud: Literal["byo"]
    cluster: ByoCluster | None = None
    node_pools: tuple[ByoPool, ...] = ()
    hosts: tuple[Host, ...] = ()
    gpu_operator: GpuOperator = GpuOperator()


Fleet = GkeFleet | EksFleet | ByoFleet
