"""A cluster's plan holds its network, its add-ons and the settings of its control plane."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from slicewright.infra.plan.model.access import AccessEntryPlan
from slicewright.infra.plan.model.role_names import role_name
from slicewright.infra.stack_file import (
    EksEndpoint,
    EksNetwork,
    ExistingNetwork,
    GkeControlPlane,
    GkeLogging,
    GkeMaintenance,
    GkeMonitoring,
    PodIdentity,
    PrivateNetwork,
    PublicNetwork,
    ScaleDown,
)


@dataclass(frozen=True, kw_only=True)
class AddonIdentity:
    """The role that an add-on needs: the stack makes it."""

    role: str
    """Name of the Pulumi resource, after the cluster's name."""
    service_account: str
    policy: str
    """Name of AWS's managed policy."""


@dataclass(frozen=True, kw_only=True)
class GkeNetworkPlan:
    """A VPC and a subnet that exist."""

    project: str | None
    """The host project of a Shared VPC. None: the cluster's project."""
    vpc: str
    subnet: str
    pods_range: str
    services_range: str


@dataclass(frozen=True, kw_only=True)
class GpuNetwork:
    """The network of one interface for GPUs, of all nodes that have it."""

    name: str
    """Name of its Network object. Pods ask for the network by this name."""
    vpc: str | None
    """None: the stack makes VPC and subnet."""
    subnet: str | None
    addresses: str | None
    """Range of the subnet that the stack makes, in CIDR notation."""


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
    """The networks of the pools that have the most of them."""
    private_nodes: bool | None
    """None: not stated, to the cluster or its pools."""
    control_plane: GkeControlPlane | None
    maintenance: GkeMaintenance | None
    monitoring: GkeMonitoring | None
    """Components in the API's order. None: GKE's choice."""
    logging: GkeLogging | None
    kms_key: str | None
    """KMS key of the boot disks of all pools."""
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
    """None: EKS's choice at first, then the installed version."""
    settings: str | None
    """JSON, with sorted keys. None: EKS's defaults at first, then the existing settings."""
    identity: AddonIdentity | None
    """None: it needs no rights in the account."""


@dataclass(frozen=True, kw_only=True)
class EksAutoscalerPlan:
    """cluster-autoscaler in a new cluster."""

    repository: str
    """Repository of its chart."""
    chart_version: str
    image: str
    tag: str
    """The image's tag, with its digest if one is stated."""
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
    """Version of both charts."""
    interruption_queue: str | None
    """Name of the SQS queue. None: it learns of interruptions when nodes are gone."""
    consolidation: Literal["empty", "underutilized"]
    empty_minutes: int


@dataclass(frozen=True, kw_only=True)
class EksClusterPlan:
    name: str
    region: str
    zones: tuple[str, ...]
    """Zones of the control plane's network interfaces. EKS never lets them change. Empty if the
    cluster exists.
    """
    pool_zones: tuple[str, ...]
    """Zones that only pools use: they have subnets of the same VPC, which the cluster lacks."""
    version: str | None
    network: EksNetwork
    endpoint: EksEndpoint
    logs: tuple[str, ...]
    """Types of the control plane's logs that are sent to CloudWatch, sorted."""
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
    """Tags of all that the stack makes in the account, except instances and disks. Sorted by key.
    """
    permissions_boundary: str | None
    """ARN of a policy that limits every role that the stack makes."""
    creator_admin: bool
    """Whether the creator of a new cluster gets administrator's rights in it."""
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
        return {
            part: role_name(
                cluster=self.name, region=self.region, part=part, existing=self.existing
            )
            for part in parts
        }

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
class ExistingClusterPlan:
    name: str
    context: str
    kubeconfig: str | None
