"""A fleet's plan: one frozen value, a pure function of stack file and catalog, without a cloud."""

from infra.plan.autoscaling import KEDA_POLL_S
from infra.plan.build import build, read, read_file, read_source, source_of
from infra.plan.buildable import deployable, unbuildable
from infra.plan.change_rules import ChangeEffect, Rule
from infra.plan.changes import Change, FleetChange, PartChange, cloud_of, compare
from infra.plan.eks_addons import NODE_MONITORING
from infra.plan.eks_addresses import SUBNET_PREFIX as EKS_SUBNET_PREFIX
from infra.plan.eks_addresses import nodes_by_zone
from infra.plan.eks_cluster import EVERYWHERE
from infra.plan.eks_identities import AGENT as POD_IDENTITY_AGENT
from infra.plan.eks_roles import ROLE_NAME_MAX, role_name, role_pattern
from infra.plan.existing_subnets import ExistingSubnet, misfits, of_cluster, of_nodes
from infra.plan.gke_addresses import OWN as GKE_RANGES
from infra.plan.gke_addresses import pod_addresses
from infra.plan.gke_gpu_direct import GPU_MTU, GPU_NETWORK_LABEL, offers_gpu_direct
from infra.plan.gke_gpu_network import NETWORK_PROFILE_LABEL, offers_dranet
from infra.plan.gke_node_counts import first_nodes
from infra.plan.monitoring import MonitoringPlan
from infra.plan.notes import NO_STARTUP_TAINT, notes
from infra.plan.planned_access import AccessEntryPlan, AccessPolicyPlan
from infra.plan.planned_clusters import (
    AddonIdentity,
    ByoClusterPlan,
    EksAddonPlan,
    EksAutoscalerPlan,
    EksClusterPlan,
    GkeClusterPlan,
    GkeNetworkPlan,
    GpuNetwork,
    KarpenterPlan,
)
from infra.plan.planned_deployments import DeploymentPlan, WorkloadPlan
from infra.plan.planned_fleets import ByoFleetPlan, EksFleetPlan, FleetPlan, GkeFleetPlan
from infra.plan.planned_hosts import HostGpuPlan, HostPlan
from infra.plan.planned_nodes import SYSTEM_LABELS, Layout, NodeCount, Taint
from infra.plan.planned_offers import ReplicatedResource
from infra.plan.planned_pools import (
    ByoPoolPlan,
    CloudPoolPlan,
    EksPoolPlan,
    GkePoolPlan,
    KarpenterPool,
    PoolPlan,
    SystemPoolPlan,
)
from infra.plan.planned_scaling import AdapterPlan, AutoscalingPlan, KedaPlan, PodAutoscalingPlan
from infra.plan.planned_templates import EksTemplate, ReservedCapacity
from infra.plan.sharing import alike_by_mps

__all__ = [
    "EKS_SUBNET_PREFIX",
    "EVERYWHERE",
    "GKE_RANGES",
    "GPU_MTU",
    "GPU_NETWORK_LABEL",
    "KEDA_POLL_S",
    "NETWORK_PROFILE_LABEL",
    "NODE_MONITORING",
    "NO_STARTUP_TAINT",
    "POD_IDENTITY_AGENT",
    "ROLE_NAME_MAX",
    "SYSTEM_LABELS",
    "AccessEntryPlan",
    "AccessPolicyPlan",
    "AdapterPlan",
    "AddonIdentity",
    "AutoscalingPlan",
    "ByoClusterPlan",
    "ByoFleetPlan",
    "ByoPoolPlan",
    "Change",
    "ChangeEffect",
    "CloudPoolPlan",
    "DeploymentPlan",
    "EksAddonPlan",
    "EksAutoscalerPlan",
    "EksClusterPlan",
    "EksFleetPlan",
    "EksPoolPlan",
    "EksTemplate",
    "ExistingSubnet",
    "FleetChange",
    "FleetPlan",
    "GkeClusterPlan",
    "GkeFleetPlan",
    "GkeNetworkPlan",
    "GkePoolPlan",
    "GpuNetwork",
    "HostGpuPlan",
    "HostPlan",
    "KarpenterPlan",
    "KarpenterPool",
    "KedaPlan",
    "Layout",
    "MonitoringPlan",
    "NodeCount",
    "PartChange",
    "PodAutoscalingPlan",
    "PoolPlan",
    "ReplicatedResource",
    "ReservedCapacity",
    "Rule",
    "SystemPoolPlan",
    "Taint",
    "WorkloadPlan",
    "alike_by_mps",
    "build",
    "cloud_of",
    "compare",
    "deployable",
    "first_nodes",
    "misfits",
    "nodes_by_zone",
    "notes",
    "of_cluster",
    "of_nodes",
    "offers_dranet",
    "offers_gpu_direct",
    "pod_addresses",
    "read",
    "read_file",
    "read_source",
    "role_name",
    "role_pattern",
    "source_of",
    "unbuildable",
]
