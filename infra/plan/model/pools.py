"""A pool's plan holds its nodes' resources, and the settings of its machines in each cloud."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, TypeVar

from slicewright.infra.catalog import Gpu, Machine, UnlistedMachine
from slicewright.infra.plan.model.clusters import GpuNetwork
from slicewright.infra.plan.model.launch_templates import BootLayout, EksTemplate
from slicewright.infra.plan.model.nodes import NodeCount, Taint
from slicewright.infra.plan.model.offers import Offer
from slicewright.infra.stack_file import (
    Capacity,
    CapacityBlock,
    EksRepair,
    EksUpdate,
    GkeDisk,
    GkeFeatures,
    LocalSsd,
    Management,
    OnDestroy,
    Queued,
    Rollout,
    Spot,
    Upgrade,
)

_QUEUED = Taint(key="cloud.google.com/gke-queued", value="true", effect="NoSchedule")
"""Taint of nodes made for a ProvisioningRequest. Source: kubernetes-sigs/kueue, its admission check
for ProvisioningRequests on GKE; Google's manifests for Dynamic Workload Scheduler.
"""


@dataclass(frozen=True, kw_only=True)
class CloudSettings:
    """The settings of a pool that creates its machines."""

    machine: Machine
    zones: tuple[str, ...]
    capacity: Capacity

    @property
    def spot(self) -> bool:
        return isinstance(self.capacity, Spot)


@dataclass(frozen=True, kw_only=True)
class GkeSettings(CloudSettings):
    accelerator: str
    partition_size: str | None
    sharing_strategy: Literal["TIME_SHARING", "MPS"] | None
    """Sharing by GKE's own device plugin. None also if NVIDIA's plugin shares."""
    shared_clients: int | None
    driver: str
    """INSTALLATION_DISABLED if the NVIDIA GPU Operator manages the node."""
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
    """One for each interface beyond the first, as in `GkeClusterPlan`. Empty without tcpx or tcpxo.
    """


@dataclass(frozen=True, kw_only=True)
class KarpenterPool:
    """A pool's settings that only Karpenter needs, for NodePool, EC2NodeClass and NodeOverlay."""

    image: str
    """Alias of the AMI, with its release: for machines with GPUs, the one with NVIDIA's driver."""
    overlay: Mapping[str, int]
    """Resource -> number that a node offers and Karpenter does not know of its machine type."""
    replaced_together: str
    """Nodes that are replaced at a time after a change of the pool: a number, or a percentage."""
    drain_minutes: int | None
    """Minutes after which a node to be removed ends its pods. None: it waits for them."""


@dataclass(frozen=True, kw_only=True)
class EksSettings(CloudSettings):
    other_machines: tuple[Machine, ...]
    """More types that its nodes may have, with the same GPUs and processors."""
    ami_type: str
    version: str | None
    """Kubernetes of the nodes: the cluster's, which EKS does not give them by itself."""
    release_version: str | None
    disk_size_gb: int | None
    """None if the launch template states it."""
    template: EksTemplate | None
    """None: EKS's own, and never another as long as the node group lives."""
    update: EksUpdate
    """The update settings, with a number or a percentage of nodes at a time."""
    repair: EksRepair | None
    """None: not stated, which is off in a new node group and changes nothing in an old one."""
    tags: Mapping[str, str]
    """Tags of the node group besides the cluster's, which they override."""
    karpenter: KarpenterPool | None
    """None: the pool is a managed node group. Otherwise `template` is the EC2NodeClass's data."""

    @property
    def machine_types(self) -> tuple[str, ...]:
        """The machine types, in the order that EC2 tries for on-demand instances."""
        return (self.machine.name, *(machine.name for machine in self.other_machines))

    @property
    def bottlerocket(self) -> bool:
        """Whether its nodes run Bottlerocket, which partitions and shares GPUs itself."""
        return self.ami_type.startswith("BOTTLEROCKET_")

    @property
    def templated(self) -> bool:
        """Whether the program makes a launch template for it. Karpenter makes its own."""
        return self.template is not None and self.karpenter is None

    @property
    def capacity_type(self) -> Literal["ON_DEMAND", "SPOT", "CAPACITY_BLOCK"]:
        """EKS's name of the capacity: a reservation's instances are on-demand ones."""
        match self.capacity:
            case Spot():
                return "SPOT"
            case CapacityBlock():
                return "CAPACITY_BLOCK"
            case _:
                return "ON_DEMAND"


@dataclass(frozen=True, kw_only=True)
class ExistingSettings:
    select: Mapping[str, str]
    """Labels that select the pool's nodes."""
    on_destroy: OnDestroy


PoolSettings = GkeSettings | EksSettings | ExistingSettings | None
"""None: the settings are not planned yet."""
_SettingsT = TypeVar("_SettingsT", bound=PoolSettings)
_SettingsT_co = TypeVar("_SettingsT_co", bound=PoolSettings, covariant=True)


@dataclass(frozen=True, kw_only=True)
class RequestedDevice:
    """A device that a pod requests to prove its own way to it."""

    resource: str
    """The extended resource, as the node advertises it."""
    device: str
    """The profile of the partition that it must get, or `gpu`."""


@dataclass(frozen=True, kw_only=True)
class PoolVerification:
    """The proofs that a node of the pool needs before its release, besides NVML's list."""

    compute: bool
    """True if the agent computes on every partition and whole GPU."""
    why_listed_only: str
    """Why it does not. Empty if it does."""
    pod: tuple[RequestedDevice, ...]
    """One device of each resource, for a pod that computes on each node. Empty: no such pod."""
    why_no_pod: str
    """Why there is no such pod. Empty if there is one."""


@dataclass(frozen=True, kw_only=True)
class PlannedPool(Generic[_SettingsT_co]):
    """One GPU pool: the fields that all pools share, and the settings of its cloud."""

    name: str
    offer: Offer
    nodes: NodeCount
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    """The pool's taints and the startup taint, without those that the cloud adds itself."""
    gpu: Gpu
    gpu_count: int
    """GPUs per node."""
    rollout: Rollout
    verification: PoolVerification
    settings: _SettingsT_co
    driver_version: str | None = None
    """Version of the GPU operator's driver. None unless the fleet controller replaces that driver
    node by node.
    """

    @property
    def tolerated(self) -> tuple[Taint, ...]:
        """The taints of its nodes that pods on them must tolerate, nvidia.com/gpu aside. Includes
        those that GKE adds.
        """
        settings = self.settings
        queued = isinstance(settings, GkeSettings) and isinstance(settings.capacity, Queued)
        return (*self.taints, *((_QUEUED,) if queued else ()))

    @property
    def operated(self) -> bool:
        """True if the NVIDIA GPU Operator manages its nodes. Otherwise GKE or Bottlerocket does."""
        match self.settings:
            case GkeSettings():
                return self.offer.mig_config is not None
            case EksSettings(bottlerocket=bottlerocket):
                return not bottlerocket
            case _:
                return True

    @property
    def boot_layout(self) -> BootLayout | None:
        """The layout that its nodes give their GPUs when they boot. None: something else does."""
        template = self.settings.template if isinstance(self.settings, EksSettings) else None
        return template.boot if template is not None else None

    @property
    def ends_surplus(self) -> bool:
        """True if `up` ends nodes that are more than `nodes.max`, by the cloud's choice.

        GKE's autoscaler keeps existing nodes until one can be spared. Source: GKE docs, cluster
        autoscaler, minimum and maximum node pool size. A node group's desired size cannot be above
        its maximum. Karpenter's limit ends no node. Source: kubernetes-sigs/karpenter,
        pkg/apis/v1/nodepool.go.
        """
        match self.settings:
            case GkeSettings():
                return not self.nodes.autoscaled
            case EksSettings(karpenter=karpenter):
                return karpenter is None
            case _:
                return False

    def with_settings(self, settings: _SettingsT) -> PlannedPool[_SettingsT]:
        """Returns the same pool with the settings of its cloud."""
        pool: PlannedPool[Any] = self
        return replace(pool, settings=settings)


PoolPlan = PlannedPool[PoolSettings]
GkePoolPlan = PlannedPool[GkeSettings]
EksPoolPlan = PlannedPool[EksSettings]
ExistingPoolPlan = PlannedPool[ExistingSettings]
CloudPoolPlan = GkePoolPlan | EksPoolPlan


@dataclass(frozen=True, kw_only=True)
class SystemPoolPlan:
    name: str
    machine: Machine | UnlistedMachine
    zones: tuple[str, ...]
    nodes: NodeCount
    template: EksTemplate | None = None
    """The launch template on EKS. None: EKS's own. GKE has none."""

    @property
    def machine_type(self) -> str:
        return self.machine.name

    @property
    def templated(self) -> bool:
        return self.template is not None
