"""A fleet's plan: one frozen value, a pure function of stack file and catalog, without a cloud."""

from slicewright.infra.plan.build import build, read, read_file, read_source, source_of
from slicewright.infra.plan.buildable import deployable, unbuildable
from slicewright.infra.plan.changes.change import Change, FleetChange, PartChange
from slicewright.infra.plan.changes.comparison import cloud_of, compare
from slicewright.infra.plan.changes.rules import ChangeEffect, Rule
from slicewright.infra.plan.eks.addons import NODE_MONITORING
from slicewright.infra.plan.eks.cluster import EVERYWHERE
from slicewright.infra.plan.eks.identities import AGENT as POD_IDENTITY_AGENT
from slicewright.infra.plan.eks.subnets.addresses import SUBNET_PREFIX as EKS_SUBNET_PREFIX
from slicewright.infra.plan.eks.subnets.addresses import nodes_by_zone
from slicewright.infra.plan.eks.subnets.existing import (
    ExistingSubnet,
    cluster_subnet_ids,
    misfits,
    node_subnet_ids,
)
from slicewright.infra.plan.gke.addresses import OWN_RANGES as GKE_RANGES
from slicewright.infra.plan.gke.addresses import pod_addresses
from slicewright.infra.plan.gke.gpu_direct import GPU_MTU, GPU_NETWORK_LABEL, offers_gpu_direct
from slicewright.infra.plan.gke.gpu_network import NETWORK_PROFILE_LABEL, offers_dranet
from slicewright.infra.plan.gke.node_counts import first_nodes
from slicewright.infra.plan.gpu_operator.settings import asks_by_mount
from slicewright.infra.plan.model.access import AccessEntryPlan, AccessPolicyPlan
from slicewright.infra.plan.model.clusters import (
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
from slicewright.infra.plan.model.deployments import DeploymentPlan, WorkloadPlan
from slicewright.infra.plan.model.fleets import (
    EksFleetPlan,
    ExistingFleetPlan,
    FleetPlan,
    GkeFleetPlan,
)
from slicewright.infra.plan.model.fractional import (
    CardShare,
    Engine,
    FractionalPlacement,
    PlacedCard,
    PlacedNode,
)
from slicewright.infra.plan.model.hosts import HostGpuPlan, HostPlan
from slicewright.infra.plan.model.launch_templates import BootLayout, EksTemplate, ReservedCapacity
from slicewright.infra.plan.model.monitoring import MonitoringPlan
from slicewright.infra.plan.model.nodes import (
    NO_GKE_PLUGIN_LABEL,
    SYSTEM_LABELS,
    Layout,
    NodeCount,
    Taint,
)
from slicewright.infra.plan.model.offers import ReplicatedResource
from slicewright.infra.plan.model.pools import (
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
    PoolVerification,
    RequestedDevice,
    SystemPoolPlan,
)
from slicewright.infra.plan.model.role_names import ROLE_NAME_MAX, role_name, role_pattern
from slicewright.infra.plan.model.scaling import (
    AdapterPlan,
    AutoscalingPlan,
    KedaPlan,
    PodAutoscalingPlan,
)
from slicewright.infra.plan.notes import NO_STARTUP_TAINT, notes
from slicewright.infra.plan.partition.sharing import alike_by_mps
from slicewright.infra.plan.workloads.autoscaling import KEDA_POLL_S
