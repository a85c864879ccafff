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
