"""The plan as data: what the components create, decided to the last value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal, TypedDict

from infra.catalog import Gpu, Machine
from infra.plan.deployments import DeploymentPlan
from infra.plan.eks_access import AccessEntryPlan
from infra.plan.eks_identities import AddonIdentity
from infra.plan.eks_roles import role_name
from infra.plan.eks_templates import EksTemplate
from infra.plan.fractional import WorkloadPlan
from infra.plan.hosts import HostPlan
from infra.plan.monitoring import MonitoringPlan
from infra.plan.pod_autoscaling import PodAutoscalingPlan
from infra.spec import (
    Capacity,
    CapacityBlock,
    EksEndpoint,
    EksNetwork,
    EksRepair,
    EksUpdate,
    ExistingNetwork,
    Fractional,
    GkeControlPlane,
    GkeDisk,
    GkeFeatures,
    GkeLogging,
    GkeMaintenance,
    GkeMonitoring,
    GpuOperator,
    LocalSsd,
    Management,
    MetricsSource,
    NodeAgent,
    OnDestroy,
    PodGuard,
    PodIdentity,
    PrivateNetwork,
    PublicNetwork,
    Queued,
    Rollout,
    ScaleDown,
    Spot,
    Upgrade,
)
from node_agent.desired import Desired, digest, dump

TaintEffect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
CloudTaintEffect = Literal["NO_SCHEDULE", "PREFER_NO_SCHEDULE", "NO_EXECUTE"]
SharingStrategy = Literal["time-slicing", "mps"]
MigStrategy = Literal["none", "single", "mixed"]
AnyCloud = Literal["gke", "eks", "byo"]
StartupTaintBy = Literal["admission-policy", "registered", "none"]
Layout = Mapping[str, int]
WHOLE_GPU: Final = "nvidia.com/gpu"
"""The extended resource of a GPU that is not partitioned."""
CLOUD_TAINT_EFFECT: Final[Mapping[TaintEffect, CloudTaintEffect]] = {
    "NoSchedule": "NO_SCHEDULE",
    "PreferNoSchedule": "PREFER_NO_SCHEDULE",
    "NoExecute": "NO_EXECUTE",
}
SYSTEM_LABELS: Final[Mapping[str, str]] = {"slicewright.io/role": "system"}
"""Labels of the system pool's nodes: where the controller and the GPU operator run."""


@dataclass(frozen=True, kw_only=True)
class Taint:
    key: str
    value: str
    effect: TaintEffect

    @property
    def cloud_effect(self) -> CloudTaintEffect:
        """The effect as both clouds' APIs spell it."""
        return CLOUD_TAINT_EFFECT[self.effect]


_QUEUED = Taint(key="cloud.google.com/gke-queued", value="true", effect="NoSchedule")
"""Of nodes that come for a ProvisioningRequest. Source: kubernetes-sigs/kueue, its admission check
for ProvisioningRequests on GKE; Google's manifests for Dynamic Workload Scheduler.
"""


@dataclass(frozen=True, kw_only=True)
class NodeCount:
    """Nodes of a pool over all its zones; fixed where min == max and not autoscaled."""

    min: int
    max: int
    autoscaled: bool


@dataclass(frozen=True, kw_only=True)
class ReplicatedResource:
    """A resource whose every device is advertised `replicas` times, by time-slicing or MPS."""

    resource: str
    """The resource without sharing: nvidia.com/gpu, nvidia.com/mig-1g.5gb."""
    advertised: str
    """The resource that pods request: the same, or with the suffix `.shared`."""
    strategy: SharingStrategy
    replicas: int
    fail_requests_greater_than_one: bool


def by_index(layouts: Sequence[Layout]) -> list[tuple[list[int], Layout]]:
    """The indexes of the GPUs that have the same layout, with it; in order of the indexes."""
    groups: list[tuple[list[int], Layout]] = []
    for index, layout in enumerate(layouts):
        same = next((indexes for indexes, known in groups if known == layout), None)
        if same is None:
            groups.append(([index], layout))
        else:
            same.append(index)
    return groups


def same_layout(layouts: Sequence[Layout]) -> bool:
    """Whether all GPUs have one layout."""
    # `count` takes a layout to equal itself; all GPUs mostly share one object.
    return layouts.count(layouts[0]) == len(layouts)


def instances_of(layouts: Sequence[Layout]) -> dict[str, int]:
    """MIG profile -> instances on all these GPUs together."""
    if same_layout(layouts):
        return {profile: count * len(layouts) for profile, count in layouts[0].items()}
    instances: dict[str, int] = {}
    for layout in layouts:
        for profile, count in layout.items():
            instances[profile] = instances.get(profile, 0) + count
    return instances


@dataclass(frozen=True, kw_only=True)
class Offer:
    """What each node of a pool will advertise."""

    layouts: tuple[Layout, ...]
    """By GPU index: MIG profile -> instances; empty: a whole GPU."""
    devices: Mapping[str, int]
    """Extended resource -> devices per node, before sharing."""
    sharing: tuple[ReplicatedResource, ...]
    """Empty where no device is shared."""
    resources: Mapping[str, int]
    """Extended resource -> allocatable per node, once partitioned and shared."""
    expected: Desired
    """What the agent must find on each node."""
    mig_config: str | None
    """Value of the node label nvidia.com/mig.config, which only the fleet controller sets; None
    without mig-manager.
    """
    previous: tuple[tuple[Layout, ...], ...] = ()
    """Earlier `layouts` by GPU index that nodes may still have."""

    @cached_property
    def desired(self) -> str:
        """The agent's desired-state file, canonical JSON. Not made before somebody asks: of the
        time to plan a pool it was a fifth.
        """
        return dump(self.expected)

    @cached_property
    def layout_hash(self) -> str:
        """SHA-256 of `desired`; every node's report must have it."""
        return digest(self.desired)

    @property
    def layout(self) -> Layout | None:
        """The layout of every GPU; None where they differ."""
        return self.layouts[0] if same_layout(self.layouts) else None

    @property
    def partitioned(self) -> bool:
        return any(self.layouts)

    @property
    def partitions(self) -> int:
        """MIG partitions of one node, before sharing."""
        return sum(sum(layout.values()) for layout in self.layouts)

    @property
    def whole_gpus(self) -> int:
        """GPUs of one node that are not partitioned."""
        return sum(not layout for layout in self.layouts)

    @property
    def advertised(self) -> int:
        """What one node advertises: partitions and whole GPUs, times their replicas."""
        return sum(self.resources.values())


@dataclass(frozen=True, kw_only=True)
class PoolPlan(Offer):
    """One GPU pool: what the pools of all clouds have."""

    name: str
    nodes: NodeCount
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    """With the startup taint; without those that the cloud adds itself."""
    gpu: Gpu
    gpu_count: int
    """GPUs per node."""
    rollout: Rollout
    driver_version: str | None = None
    """Of the GPU operator's driver, where the fleet controller replaces it node by node."""

    @property
    def tolerated(self) -> tuple[Taint, ...]:
        """The taints of its nodes that pods on them must tolerate, nvidia.com/gpu aside."""
        return self.taints

    @property
    def ends_surplus(self) -> bool:
        """Whether `up` ends nodes that are more than `nodes.max`, by the cloud's choice."""
        return False

    def parts(self) -> PoolParts:
        """What the plan of a cloud's pool starts from: `GkePoolPlan(**pool.parts(), …)`.

        Typed, unlike `vars(pool)`: mypy sees an argument that is missing beside it.
        """
        return {
            "layouts": self.layouts,
            "devices": self.devices,
            "sharing": self.sharing,
            "resources": self.resources,
            "expected": self.expected,
            "mig_config": self.mig_config,
            "previous": self.previous,
            "name": self.name,
            "nodes": self.nodes,
            "labels": self.labels,
            "taints": self.taints,
            "gpu": self.gpu,
            "gpu_count": self.gpu_count,
            "rollout": self.rollout,
        }


class PoolParts(TypedDict):
    """The fields of a `PoolPlan`."""

    layouts: tuple[Layout, ...]
    devices: Mapping[str, int]
    sharing: tuple[ReplicatedResource, ...]
    resources: Mapping[str, int]
    expected: Desired
    mig_config: str | None
    previous: tuple[tuple[Layout, ...], ...]
    name: str
    nodes: NodeCount
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    gpu: Gpu
    gpu_count: int
    rollout: Rollout


@dataclass(frozen=True, kw_only=True)
class CloudPoolPlan(PoolPlan):
    """A pool that creates its machines."""

    machine: Machine
    zones: tuple[str, ...]
    capacity: Capacity

    @property
    def spot(self) -> bool:
        return isinstance(self.capacity, Spot)


@dataclass(frozen=True, kw_only=True)
class GkePoolPlan(CloudPoolPlan):
    accelerator: str
    partition_size: str | None
    sharing_strategy: Literal["TIME_SHARING", "MPS"] | None
    """Sharing by GKE's own device plugin; None also where NVIDIA's plugin shares."""
    shared_clients: int | None
    driver: str
    """INSTALLATION_DISABLED where the NVIDIA GPU Operator manages the node."""
    image_type: str
    disk: GkeDisk
    local_ssd: LocalSsd
    max_pods_per_node: int
    resource_labels: Mapping[str, str]
    features: GkeFeatures
    management: Management
    upgrade: Upgrade
    location_policy: Literal["BALANCED", "ANY"] | None
    placement: Literal["compact"] | None
    placement_policy: str | None
    gpu_network: Literal["dranet", "tcpx", "tcpxo"] | None
    gpu_networks: tuple[GpuNetwork, ...]
    """One for each interface beyond the first, as in `GkeClusterPlan`; none without tcpx or tcpxo.
    """

    @property
    def tolerated(self) -> tuple[Taint, ...]:
        """With those that GKE adds."""
        return (*self.taints, *((_QUEUED,) if isinstance(self.capacity, Queued) else ()))

    @property
    def ends_surplus(self) -> bool:
        """GKE's autoscaler keeps those that are there until one can be spared. Source: GKE docs,
        cluster autoscaler, minimum and maximum node pool size.
        """
        return not self.nodes.autoscaled

    @property
    def operated(self) -> bool:
        """Whether the NVIDIA GPU Operator manages its nodes; else GKE does."""
        return self.mig_config is not None


@dataclass(frozen=True, kw_only=True)
class KarpenterPool:
    """What only Karpenter needs to know of a pool, as NodePool, EC2NodeClass and NodeOverlay."""

    image: str
    """Alias of the AMI, with its release: for machines with GPUs, the one with NVIDIA's driver."""
    overlay: Mapping[str, int]
    """Resource -> number that a node offers and Karpenter does not know of its machine type."""
    replaced_together: str
    """Nodes that are replaced at a time where the pool has changed: a number, or a percentage."""
    drain_minutes: int | None
    """After these, a node that is to go ends its pods. None: it waits for them."""


@dataclass(frozen=True, kw_only=True)
class EksPoolPlan(CloudPoolPlan):
    other_machines: tuple[Machine, ...]
    """More types that its nodes may have, with the same GPUs and processors."""
    ami_type: str
    version: str | None
    """Kubernetes of the nodes: the cluster's, which EKS does not give them by itself."""
    release_version: str | None
    disk_size_gb: int | None
    """None where the launch template states it."""
    template: EksTemplate | None
    """None: EKS's own, and never another as long as the node group lives."""
    update: EksUpdate
    """With a number or a percentage of nodes at a time."""
    repair: EksRepair | None
    """None: not stated, which is off in a new node group and changes nothing in an old one."""
    tags: Mapping[str, str]
    """Of the node group, beside those of the cluster's plan, before which they go."""
    karpenter: KarpenterPool | None
    """None: the pool is a managed node group. With it, `template` is what the EC2NodeClass says."""

    @property
    def ends_surplus(self) -> bool:
        """A node group's desired size cannot be above its maximum; Karpenter's limit ends no node.
        Source: kubernetes-sigs/karpenter, pkg/apis/v1/nodepool.go.
        """
        return self.karpenter is None

    @property
    def machine_types(self) -> tuple[str, ...]:
        """In the order in which on-demand instances are tried."""
        return (self.machine.name, *(machine.name for machine in self.other_machines))

    @property
    def bottlerocket(self) -> bool:
        """Whether its nodes run Bottlerocket, which partitions and shares GPUs itself."""
        return self.ami_type.startswith("BOTTLEROCKET_")

    @property
    def templated(self) -> bool:
        """Whether the program makes a launch template for it; Karpenter makes its own."""
        return self.template is not None and self.karpenter is None

    @property
    def capacity_type(self) -> Literal["ON_DEMAND", "SPOT", "CAPACITY_BLOCK"]:
        """As EKS calls it: a reservation's instances are on-demand ones."""
        match self.capacity:
            case Spot():
                return "SPOT"
            case CapacityBlock():
                return "CAPACITY_BLOCK"
            case _:
                return "ON_DEMAND"


@dataclass(frozen=True, kw_only=True)
class ByoPoolPlan(PoolPlan):
    select: Mapping[str, str]
    """Labels that select the pool's nodes."""
    on_destroy: OnDestroy


@dataclass(frozen=True, kw_only=True)
class SystemPoolPlan:
    name: str
    machine: Machine
    zones: tuple[str, ...]
    nodes: NodeCount
    template: EksTemplate | None = None
    """Of EKS; None: its own, and GKE has none."""

    @property
    def machine_type(self) -> str:
        return self.machine.name

    @property
    def templated(self) -> bool:
        return self.template is not None


@dataclass(frozen=True, kw_only=True)
class GkeNetworkPlan:
    """A VPC and a subnet that exist."""

    project: str | None
    """The host project of a Shared VPC; None: the cluster's project."""
    vpc: str
    subnet: str
    pods_range: str
    services_range: str


@dataclass(frozen=True, kw_only=True)
class GpuNetwork:
    """The network of one interface for GPUs, of all nodes that have it."""

    name: str
    """Of its Network object, by which pods ask for it."""
    vpc: str | None
    """None: the stack makes VPC and subnet."""
    subnet: str | None
    addresses: str | None
    """Of the subnet that the stack makes, in CIDR notation."""


@dataclass(frozen=True, kw_only=True)
class GkeClusterPlan:
    name: str
    location: str
    region: str
    version: str | None
    release_channel: str
    network: GkeNetworkPlan | None
    """None: the stack creates one."""
    gpu_networks: tuple[GpuNetwork, ...]
    """Of the pools that have the most of them."""
    private_nodes: bool | None
    """None: not stated, to the cluster or its pools."""
    control_plane: GkeControlPlane | None
    maintenance: GkeMaintenance | None
    monitoring: GkeMonitoring | None
    """Components in the API's order. None: GKE's choice."""
    logging: GkeLogging | None
    kms_key: str | None
    """Of the boot disks of all pools."""
    secrets_key: str | None
    resource_labels: Mapping[str, str]
    """Sorted by key. GKE gives them to the nodes of all pools by itself."""
    existing: bool
    node_account_id: str
    """ID of the nodes' service account: 6 to 30 characters."""

    @property
    def nat(self) -> bool:
        """Whether the stack creates Cloud NAT: private nodes have no other way out."""
        return self.network is None and bool(self.private_nodes)

    @property
    def makes_gpu_networks(self) -> bool:
        return any(network.vpc is None for network in self.gpu_networks)

    @property
    def by_dns(self) -> bool:
        """Whether the control plane is reached by its DNS name."""
        return self.control_plane is not None and self.control_plane.dns_endpoint


@dataclass(frozen=True, kw_only=True)
class EksAddonPlan:
    name: str
    version: str | None
    """None: EKS's choice at first, then what is there."""
    settings: str | None
    """JSON, with sorted keys. None: EKS's defaults at first, then what is there."""
    identity: AddonIdentity | None
    """None: it needs no rights in the account."""


@dataclass(frozen=True, kw_only=True)
class EksAutoscalerPlan:
    """cluster-autoscaler in a new cluster."""

    repository: str
    """Of its chart."""
    chart_version: str
    image: str
    tag: str
    """With the digest, where one is stated."""
    expander: str
    scale_down: ScaleDown
    unready_minutes: int
    """How long a node may hold its startup taint before it counts as broken, and is removed."""


@dataclass(frozen=True, kw_only=True)
class KarpenterPlan:
    """Karpenter in a new cluster."""

    repository: str
    """OCI registry of its charts."""
    chart_version: str
    """Of both."""
    interruption_queue: str | None
    """Name of the SQS queue. None: it learns of interruptions when nodes are gone."""
    consolidation: Literal["empty", "underutilized"]
    empty_minutes: int


@dataclass(frozen=True, kw_only=True)
class EksClusterPlan:
    name: str
    region: str
    zones: tuple[str, ...]
    """Of the control plane's network interfaces; EKS never lets them change. Empty where the
    cluster exists.
    """
    pool_zones: tuple[str, ...]
    """Zones that only pools use: they have subnets of the same VPC, which the cluster lacks."""
    version: str | None
    network: EksNetwork
    endpoint: EksEndpoint
    logs: tuple[str, ...]
    """Of the control plane, sent to CloudWatch; sorted."""
    secrets_key: str | None
    """ARN of the KMS key of Kubernetes secrets. None: one of EKS's own."""
    addons: tuple[EksAddonPlan, ...]
    """Sorted by name. None in a cluster that exists."""
    autoscaler: EksAutoscalerPlan | KarpenterPlan | None
    pod_identities: tuple[PodIdentity, ...]
    """Sorted by namespace and service account."""
    access: tuple[AccessEntryPlan, ...]
    """Sorted by principal."""
    tags: Mapping[str, str]
    """Of all that the stack makes in the account, but for instances and disks; sorted by key."""
    permissions_boundary: str | None
    """ARN of a policy that limits every role that the stack makes."""
    creator_admin: bool
    """Of a cluster when it is made."""
    existing: bool

    @property
    def own_vpc(self) -> bool:
        """Whether the VPC is made for the cluster."""
        return not self.existing and not isinstance(self.network, ExistingNetwork)

    @property
    def role_names(self) -> Mapping[str, str]:
        """Part of the stack -> the name of the IAM role that is made for it."""
        parts = [
            *([] if self.existing else ["control-plane"]),
            "nodes",
            *(addon.identity.role for addon in self.addons if addon.identity is not None),
            *(["autoscaler"] if self.autoscaler is not None else []),
        ]
        return {part: role_name(cluster=self.name, region=self.region, part=part) for part in parts}

    @property
    def nat_zones(self) -> tuple[str, ...]:
        """Zones with a NAT gateway."""
        match self.network:
            case PrivateNetwork(nat_gateways="one"):
                return self.zones[:1]
            case PrivateNetwork():
                return (*self.zones, *self.pool_zones)
            case PublicNetwork() | ExistingNetwork():
                return ()


@dataclass(frozen=True, kw_only=True)
class ByoClusterPlan:
    name: str
    context: str
    kubeconfig: str | None


@dataclass(frozen=True, kw_only=True)
class CommonPlan:
    """What the fleets of all clouds have."""

    image: str
    """Python image of the agent and the controller."""
    image_pull_secrets: tuple[str, ...]
    """Of the agents' namespace."""
    node_agent: NodeAgent
    admin_groups: tuple[str, ...]
    """Kubernetes groups exempt from the admission policy on nodes."""
    pod_guard: PodGuard | None
    """The admission policy on pods; None: there is none."""
    metrics_from: tuple[MetricsSource, ...]
    """Who may connect to the ports of agents and controller; empty: no one."""
    verify_timeout_minutes: int
    fractional: Fractional | None
    workloads: tuple[WorkloadPlan, ...]
    """Requests for fractions of GPUs."""
    deployments: tuple[DeploymentPlan, ...]
    """Servers that the stack makes."""
    monitoring: MonitoringPlan | None
    """None: nothing is made for metrics."""
    pod_autoscaling: PodAutoscalingPlan | None
    """None: no workload is scaled."""


@dataclass(frozen=True, kw_only=True)
class GkeFleetPlan(CommonPlan):
    cluster: GkeClusterPlan
    system: SystemPoolPlan | None
    """None in a cluster that exists, unless the stack file asks for one."""
    pools: tuple[GkePoolPlan, ...]
    operator: GpuOperator | None
    """For the pools that mig-manager partitions; None where there are none."""

    @property
    def gpu_networks(self) -> frozenset[str]:
        """The kinds of networks that pools have between their GPUs."""
        return frozenset(pool.gpu_network for pool in self.pools if pool.gpu_network is not None)

    @property
    def operated(self) -> tuple[GkePoolPlan, ...]:
        """The pools that the operator manages."""
        return tuple(pool for pool in self.pools if pool.operated)


@dataclass(frozen=True, kw_only=True)
class EksFleetPlan(CommonPlan):
    cluster: EksClusterPlan
    system: SystemPoolPlan
    pools: tuple[EksPoolPlan, ...]
    operator: GpuOperator | None
    """None where all pools run Bottlerocket, which needs none."""

    @property
    def node_groups(self) -> tuple[EksPoolPlan, ...]:
        """The pools that are managed node groups."""
        return tuple(pool for pool in self.pools if pool.karpenter is None)

    @property
    def karpenter_pools(self) -> tuple[EksPoolPlan, ...]:
        """The pools whose nodes Karpenter makes."""
        return tuple(pool for pool in self.pools if pool.karpenter is not None)

    @property
    def operated(self) -> tuple[EksPoolPlan, ...]:
        """The pools that the operator manages."""
        return tuple(pool for pool in self.pools if not pool.bottlerocket)

    @property
    def node_subnets(self) -> str | tuple[str, ...]:
        """Which subnets the nodes' are: public or private ones of the stack, or these by id. Those
        of a cluster that exists count as public: one that the stack made has such.
        """
        network = self.cluster.network
        if self.cluster.existing and not isinstance(network, ExistingNetwork):
            return "public"
        return (
            tuple(sorted(network.subnets))
            if isinstance(network, ExistingNetwork)
            else (network.mode)
        )


@dataclass(frozen=True, kw_only=True)
class ByoFleetPlan(CommonPlan):
    cluster: ByoClusterPlan | None
    pools: tuple[ByoPoolPlan, ...]
    hosts: tuple[HostPlan, ...]
    operator: GpuOperator
    startup_taint: StartupTaintBy

    @property
    def operated(self) -> tuple[ByoPoolPlan, ...]:
        """The pools that the operator manages: all."""
        return self.pools


FleetPlan = GkeFleetPlan | EksFleetPlan | ByoFleetPlan
