"""Stack files: the schema, and a parser that reports every problem at once with its line."""

from infra.spec.problem import KEY, REFERENCE, Path, Problem
from infra.spec.reading.formatting import format_path, plain
from infra.spec.reading.not_readable import NotReadable
from infra.spec.reading.parse import parse, parse_file, unreadable
from infra.spec.reading.recovery import RecoveredFleet
from infra.spec.reading.source import Source, read
from infra.spec.reading.spec_error import SpecError
from infra.spec.schema.access import MetricsNamespace, MetricsRange, MetricsSource, PodGuard
from infra.spec.schema.autoscaling import (
    Autoscaling,
    Fallback,
    Keda,
    Pace,
    PrometheusAdapter,
    microseconds,
    seconds,
)
from infra.spec.schema.capacity import (
    FLEX_START_HOURS,
    Capacity,
    CapacityBlock,
    FlexStart,
    OnDemand,
    Queued,
    Reservation,
    Spot,
)
from infra.spec.schema.container import ContainerWorkload
from infra.spec.schema.eks_access import AccessEntry, AccessPolicy, EksAccess
from infra.spec.schema.eks_autoscaler import ClusterAutoscaler, Karpenter, ScaleDown
from infra.spec.schema.eks_cluster import (
    EksAddon,
    EksCluster,
    EksEndpoint,
    EksNetwork,
    ExistingNetwork,
    PrivateNetwork,
    PublicNetwork,
)
from infra.spec.schema.eks_identities import PodIdentity
from infra.spec.schema.eks_pools import EksDisk, EksPool, EksRepair, EksUpdate, InstanceMetadata
from infra.spec.schema.field_types import mebibytes
from infra.spec.schema.fleet import (
    ByoCluster,
    ByoFleet,
    EksFleet,
    Fleet,
    GkeFleet,
    NodeAgent,
    OnDestroy,
    SystemPool,
)
from infra.spec.schema.fractional import Fractional, FractionalRequest, Workload
from infra.spec.schema.gke_capacity import GkeOnDemand, GkeReservation, GkeSpot
from infra.spec.schema.gke_cluster import (
    AuthorizedNetwork,
    GkeCluster,
    GkeControlPlane,
    GkeNetwork,
    GpuNetwork,
)
from infra.spec.schema.gke_maintenance import (
    DailyMaintenance,
    GkeMaintenance,
    MaintenanceExclusion,
    RecurringMaintenance,
)
from infra.spec.schema.gke_observability import (
    GkeLogging,
    GkeMonitoring,
    LogsComponent,
    MetricsComponent,
)
from infra.spec.schema.gke_pools import GkeDisk, GkeFeatures, GkePool, LocalSsd, Management
from infra.spec.schema.gke_upgrade import BlueGreen, Surge, Upgrade
from infra.spec.schema.gpu_operator import ComponentSwitch, GpuOperator, MigManager
from infra.spec.schema.hosts import GpuChoice, Host, HostGpu, Instance, Refuse, Wait
from infra.spec.schema.monitoring import (
    ExistingPrometheus,
    ManagedPrometheus,
    Monitoring,
    PrometheusStack,
)
from infra.spec.schema.partition import (
    Exclusive,
    FractionalSharing,
    GpuGroup,
    Mps,
    Native,
    Operator,
    Sharing,
    TimeSlicing,
    Unpartitioned,
)
from infra.spec.schema.pools import (
    Autoscaled,
    ByoPool,
    Fixed,
    Nodes,
    Taint,
)
from infra.spec.schema.rollout import Rollout
from infra.spec.schema.served import ClaimedVolume, HostResources, NewVolume
from infra.spec.schema.triton import ModelShare, TritonWorkload
from infra.spec.schema.vllm import VllmWorkload
from infra.spec.schema.workloads import AnyWorkload, ServedWorkload

__all__ = [
    "FLEX_START_HOURS",
    "KEY",
    "REFERENCE",
    "AccessEntry",
    "AccessPolicy",
    "AnyWorkload",
    "AuthorizedNetwork",
    "Autoscaled",
    "Autoscaling",
    "BlueGreen",
    "ByoCluster",
    "ByoFleet",
    "ByoPool",
    "Capacity",
    "CapacityBlock",
    "ClaimedVolume",
    "ClusterAutoscaler",
    "ComponentSwitch",
    "ContainerWorkload",
    "DailyMaintenance",
    "EksAccess",
    "EksAddon",
    "EksCluster",
    "EksDisk",
    "EksEndpoint",
    "EksFleet",
    "EksNetwork",
    "EksPool",
    "EksRepair",
    "EksUpdate",
    "Exclusive",
    "ExistingNetwork",
    "ExistingPrometheus",
    "Fallback",
    "Fixed",
    "Fleet",
    "FlexStart",
    "Fractional",
    "FractionalRequest",
    "FractionalSharing",
    "GkeCluster",
    "GkeControlPlane",
    "GkeDisk",
    "GkeFeatures",
    "GkeFleet",
    "GkeLogging",
    "GkeMaintenance",
    "GkeMonitoring",
    "GkeNetwork",
    "GkeOnDemand",
    "GkePool",
    "GkeReservation",
    "GkeSpot",
    "GpuChoice",
    "GpuGroup",
    "GpuNetwork",
    "GpuOperator",
    "Host",
    "HostGpu",
    "HostResources",
    "Instance",
    "InstanceMetadata",
    "Karpenter",
    "Keda",
    "LocalSsd",
    "LogsComponent",
    "MaintenanceExclusion",
    "ManagedPrometheus",
    "Management",
    "MetricsComponent",
    "MetricsNamespace",
    "MetricsRange",
    "MetricsSource",
    "MigManager",
    "ModelShare",
    "Monitoring",
    "Mps",
    "Native",
    "NewVolume",
    "NodeAgent",
    "Nodes",
    "NotReadable",
    "OnDemand",
    "OnDestroy",
    "Operator",
    "Pace",
    "Path",
    "PodGuard",
    "PodIdentity",
    "PrivateNetwork",
    "Problem",
    "PrometheusAdapter",
    "PrometheusStack",
    "PublicNetwork",
    "Queued",
    "RecoveredFleet",
    "RecurringMaintenance",
    "Refuse",
    "Reservation",
    "Rollout",
    "ScaleDown",
    "ServedWorkload",
    "Sharing",
    "Source",
    "SpecError",
    "Spot",
    "Surge",
    "SystemPool",
    "Taint",
    "TimeSlicing",
    "TritonWorkload",
    "Unpartitioned",
    "Upgrade",
    "VllmWorkload",
    "Wait",
    "Workload",
    "format_path",
    "mebibytes",
    "microseconds",
    "parse",
    "parse_file",
    "plain",
    "read",
    "seconds",
    "unreadable",
]
