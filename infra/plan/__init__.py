"""A fleet's plan: one frozen value, a pure function of stack file and catalog, without a cloud."""

from infra.plan.build import build, read, read_file, read_source, source_of
from infra.plan.buildable import deployable, unbuildable
from infra.plan.changes.change import Change, FleetChange, PartChange
from infra.plan.changes.comparison import cloud_of, compare
from infra.plan.changes.rules import ChangeEffect, Rule
from infra.plan.eks.addons import NODE_MONITORING
from infra.plan.eks.addresses import SUBNET_PREFIX as EKS_SUBNET_PREFIX
from infra.plan.eks.addresses import nodes_by_zone
from infra.plan.eks.cluster import EVERYWHERE
from infra.plan.eks.existing_subnets import ExistingSubnet, misfits, of_cluster, of_nodes
from infra.plan.eks.identities import AGENT as POD_IDENTITY_AGENT
from infra.plan.gke.addresses import OWN_RANGES as GKE_RANGES
from infra.plan.gke.addresses import pod_addresses
from infra.plan.gke.gpu_direct import GPU_MTU, GPU_NETWORK_LABEL, offers_gpu_direct
from infra.plan.gke.gpu_network import NETWORK_PROFILE_LABEL, offers_dranet
from infra.plan.gke.node_counts import first_nodes
from infra.plan.gpu_operator.settings import asks_by_mount
from infra.plan.model.access import AccessEntryPlan, AccessPolicyPlan
from infra.plan.model.clusters import (
    AddonIdentity,
    EksAddonPlan,
    EksAutoscalerPlan,
    EksClusterPlan,
    ExistingClusterPlan,
    GkeClusterPlan,
    GkeNetworkPlan,
    GpuNetwork,
    KarpenterPlan,
)
from infra.plan.model.deployments import DeploymentPlan, WorkloadPlan
from infra.plan.model.fleets import EksFleetPlan, ExistingFleetPlan, FleetPlan, GkeFleetPlan
from infra.plan.model.hosts import HostGpuPlan, HostPlan
from infra.plan.model.launch_templates import EksTemplate, ReservedCapacity
from infra.plan.model.monitoring import MonitoringPlan
from infra.plan.model.nodes import SYSTEM_LABELS, Layout, NodeCount, Taint
from infra.plan.model.offers import ReplicatedResource
from infra.plan.model.pools import (
    CloudPoolPlan,
    CloudSettings,
    EksPoolPlan,
    EksSettings,
    ExistingPoolPlan,
    ExistingSettings,
    GkePoolPlan,
    GkeSettings,
    KarpenterPool,
    PlannedPool,
    PoolPlan,
    SystemPoolPlan,
)
from infra.plan.model.role_names import ROLE_NAME_MAX, role_name, role_pattern
from infra.plan.model.scaling import AdapterPlan, AutoscalingPlan, KedaPlan, PodAutoscalingPlan
from infra.plan.notes import NO_STARTUP_TAINT, notes
from infra.plan.partition.sharing import alike_by_mps
from infra.plan.workloads.autoscaling import KEDA_POLL_S
