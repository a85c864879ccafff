"""The value of `slicewright:fleet`: a schema for GKE, EKS, existing clusters and hosts.

It covers structure and syntax. `slicewright.infra.plan` checks against the catalog whether a
machine type exists or a layout fits.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from slicewright.infra.stack_file.schema.access import AdminGroup, MetricsSource, PodGuard
from slicewright.infra.stack_file.schema.constraints import (
    OWN_LIMIT,
    DnsLabel,
    FreeText,
    IntRange,
    NotEmpty,
)
from slicewright.infra.stack_file.schema.demand import Demand
from slicewright.infra.stack_file.schema.eks.cluster import EksCluster
from slicewright.infra.stack_file.schema.eks.pools import EksPool
from slicewright.infra.stack_file.schema.field_types import Image, ObjectName, OptionalZones
from slicewright.infra.stack_file.schema.fractional import Fractional
from slicewright.infra.stack_file.schema.gke.cluster import GkeCluster
from slicewright.infra.stack_file.schema.gke.pools import GkePool
from slicewright.infra.stack_file.schema.gpu_operator import GpuOperator
from slicewright.infra.stack_file.schema.hosts import Host
from slicewright.infra.stack_file.schema.model import SpecModel
from slicewright.infra.stack_file.schema.monitoring import Monitoring
from slicewright.infra.stack_file.schema.pools import ByoPool, Fixed, Nodes
from slicewright.infra.stack_file.schema.workloads.autoscaling import Keda, PodAutoscaling
from slicewright.infra.stack_file.schema.workloads.kinds import AnyWorkload


class SystemPool(SpecModel):
    """CPU nodes for the controller, the GPU operator and the cluster's add-ons."""

    machine_type: (
        Annotated[
            str,
            FreeText("a machine type", "Compute Engine and EC2 docs", "e2-standard-4", "m7i.large"),
        ]
        | None
    ) = None
    nodes: Nodes = Fixed(count=1)
    zones: OptionalZones = None


class ByoCluster(SpecModel):
    """A cluster of any kind that already exists."""

    name: Annotated[str, DnsLabel(63, "Kubernetes docs, labels")]
    context: Annotated[
        str,
        FreeText("the name of a kubeconfig context", "kubectl config get-contexts", "gpu-cluster"),
    ]
    """The kubeconfig context of the cluster."""
    kubeconfig: Annotated[str, FreeText("a path", "kubectl docs", "~/.kube/config")] | None = None
    """Path of the kubeconfig. By default kubectl's."""


class NodeAgent(SpecModel):
    """Optional reports of the node agents, in addition to the verification of the layout."""

    attribution: bool = False
    """Run a second container in each agent's pod that exports to Prometheus which pod uses which
    partition. It runs as root, without capabilities: the kubelet's socket belongs to root.
    """
    utilization: bool = False
    """Measure how busy every partition is, for 0.1 s once a minute. Hopper GPUs and later only."""


class Verification(SpecModel):
    """The proofs that a node needs before its first pods, besides NVML's list of partitions."""

    compute: bool = True
    """Run a small CUDA program on each partition and whole GPU of a node that has no pods with
    GPUs: before the node's first pods, after each change of its layout, and after each reboot.
    Pools that share by MPS are left out, and GPUs older than Volta cannot be tested.
    """
    pod: bool = False
    """Run the same program in one short pod per node too, at the same moments: scheduled like a
    tenant's, with one device of each resource from the device plugin. Pools that share by MPS or by
    fractions are left out.
    """


_PYTHON: Final = (
    "python:3.13-slim@sha256:6771159cd4fa5d9bba1258caf0b82e6b73458c694d178ad97c5e925c2d0e1a91"
)
"""A Docker official image, with the digest of the index for amd64 and arm64."""


class _Fleet(SpecModel):
    verify_timeout_minutes: Annotated[
        int,
        IntRange(
            minimum=1,
            maximum=240,
            unit="minute",
            why_maximum="nodes that are not verified after four hours need manual action",
            source=OWN_LIMIT,
        ),
    ] = 60
    """How long `up` waits until all nodes are verified. A new A100 node takes up to an hour: it
    joins, is partitioned, and reboots. If nothing is wrong, `up` ends earlier.
    """
    image: Image = f"docker.io/library/{_PYTHON}"
    """Python image (3.11 or newer) for node agent and fleet controller. Pin it by the digest
    of the index, which has the image for every processor.
    """
    image_pull_secrets: tuple[ObjectName, ...] = ()
    """Secrets of namespace slicewright-system, of type kubernetes.io/dockerconfigjson, to pull
    `image`. Their contents are never in a stack file.
    """
    node_agent: NodeAgent = NodeAgent()
    verification: Verification = Verification()
    admin_groups: tuple[AdminGroup, ...] = ("system:masters",)
    """Kubernetes groups whose members may do the fleet controller's work by hand: change the label
    nvidia.com/mig.config and remove the startup taint.
    """
    pod_guard: PodGuard | None = None
    """Admission policy that rejects pods of tenants. None: no pod is rejected."""
    metrics_from: tuple[MetricsSource, ...] = ()
    """Other clients that may read the metrics of agents and fleet controller, besides the
    Prometheus of `monitoring`. By default none.
    """
    monitoring: Monitoring | None = None
    """A Prometheus for the fleet, with alerts and dashboards. None: nothing is created."""
    fractional: Fractional | None = None
    """The scheduler that allocates fractions of GPUs, for pools with `sharing: fractional`."""
    workloads: tuple[AnyWorkload, ...] = ()
    """Workloads of the pools: with `kind`, servers that the stack creates. With `gpu_share`,
    requests for fractions of GPUs.
    """
    pod_autoscaling: PodAutoscaling = Keda()
    """The controller for workloads with `autoscaling`, created only if there are any."""


_NO_POOLS: Final = NotEmpty(why="nothing would be partitioned", instead="list at least one pool")


class _CloudFleet(_Fleet):
    system_pool: SystemPool = SystemPool()
    demand: Demand | None = None
    """The demand that `slicewright optimise` plans the pools for. `up` does not read it."""
    allow_unlisted: bool = False
    """Accept regions, zones, Kubernetes versions and machine types that are newer than
    slicewright's record of the cloud.
    """


class GkeFleet(_CloudFleet):
    cloud: Literal["gke"]
    cluster: GkeCluster
    node_pools: Annotated[tuple[GkePool, ...], _NO_POOLS]
    gpu_operator: GpuOperator | None = None
    """The GPU operator, for pools with `partition: {mode: operator}`. GKE partitions the others."""


class EksFleet(_CloudFleet):
    cloud: Literal["eks"]
    cluster: EksCluster
    # Amazon's copy of the same index. Docker Hub limits the pulls of nodes behind a NAT gateway in
    # six hours. Amazon limits only the rate, to 10 pulls a second from EC2, and back-off copes with
    # that. On GKE docker.io stays: its nodes try Google's copy first, then Docker Hub, while a name
    # in mirror.gcr.io itself fails for an image without demand. Sources: Amazon ECR
    # docs, public service quotas; Artifact Registry docs, pulling cached Docker Hub images.
    image: Image = f"public.ecr.aws/docker/library/{_PYTHON}"
    node_pools: Annotated[tuple[EksPool, ...], _NO_POOLS]
    gpu_operator: GpuOperator = GpuOperator()


class OnDestroy(SpecModel):
    """What happens to a node that leaves its pool because the stack is destroyed, the pool is
    removed from the stack file, or the pool no longer selects the node. Labels, taints and
    annotations that slicewright added are always removed.
    """

    mig_layout: Literal["keep", "disable"] = "keep"
    """`keep` leaves the partitions and the label `nvidia.com/mig.config`. `disable` disables MIG
    first, once no pod uses the node's GPUs.
    """


class ByoFleet(_Fleet):
    """An existing cluster, or hosts without Kubernetes, or both."""

    cloud: Literal["byo"]
    cluster: ByoCluster | None = None
    node_pools: tuple[ByoPool, ...] = ()
    hosts: tuple[Host, ...] = ()
    startup_taint: Literal["admission-policy", "registered", "none"] = "none"
    """How new nodes get the startup taint. `admission-policy`: the API server adds it, from
    Kubernetes 1.36. `registered`: your provisioner registers the nodes with it. `none`: the nodes
    do not get it, and may run pods before they are verified.
    """
    on_destroy: OnDestroy = OnDestroy()
    gpu_operator: GpuOperator = GpuOperator()


Fleet = GkeFleet | EksFleet | ByoFleet
