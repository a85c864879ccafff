"""Stack files: the schema, and a parser that reports every problem at once with its line."""

from infra.stack_file.problem import KEY, REFERENCE, Path, Problem
from infra.stack_file.reading.formatting import format_path, plain
from infra.stack_file.reading.not_readable import NotReadable
from infra.stack_file.reading.parse import parse, parse_file, unreadable
from infra.stack_file.reading.recovery import RecoveredFleet
from infra.stack_file.reading.source import Source, read
from infra.stack_file.reading.spec_error import SpecError
from infra.stack_file.schema.access import MetricsNamespace, MetricsRange, MetricsSource, PodGuard
from infra.stack_file.schema.capacity import (
    FLEX_START_HOURS,
    Capacity,
    CapacityBlock,
    FlexStart,
    OnDemand,
    Queued,
    Reservation,
    Spot,
)
from infra.stack_file.schema.eks.access import AccessEntry, AccessPolicy, EksAccess
from infra.stack_file.schema.eks.autoscaler import ClusterAutoscaler, Karpenter, ScaleDown
from infra.stack_file.schema.eks.cluster import (
    EksAddon,
    EksCluster,
    EksEndpoint,
    EksNetwork,
    ExistingNetwork,
    PrivateNetwork,
    PublicNetwork,
)
from infra.stack_file.schema.eks.identities import PodIdentity
from infra.stack_file.schema.eks.pools import (
    EksDisk,
    EksPool,
    EksRepair,
    EksUpdate,
    InstanceMetadata,
)
from infra.stack_file.schema.field_types import mebibytes
from infra.stack_file.schema.fleet import (
    ByoCluster,
    ByoFleet,
    EksFleet,
    Fleet,
    GkeFleet,
    NodeAgent,
    OnDestroy,
    SystemPool,
)
from infra.stack_file.schema.fractional import Fractional, FractionalRequest, Workload
from infra.stack_file.schema.gke.capacity import GkeOnDemand, GkeReservation, GkeSpot
from infra.stack_file.schema.gke.cluster import (
    AuthorizedNetwork,
    GkeCluster,
    GkeControlPlane,
    GkeNetwork,
    GpuNetwork,
)
from infra.stack_file.schema.gke.maintenance import (
    DailyMaintenance,
    GkeMaintenance,
    MaintenanceExclusion,
    RecurringMaintenance,
)
from infra.stack_file.schema.gke.observability import (
    GkeLogging,
    GkeMonitoring,
    LogsComponent,
    MetricsComponent,
)
from infra.stack_file.schema.gke.pools import GkeDisk, GkeFeatures, GkePool, LocalSsd, Management
from infra.stack_file.schema.gke.upgrade import BlueGreen, Surge, Upgrade
from infra.stack_file.schema.gpu_operator import ComponentSwitch, GpuOperator, MigManager
from infra.stack_file.schema.hosts import GpuChoice, Host, HostGpu, Instance, Refuse, Wait
from infra.stack_file.schema.monitoring import (
    ExistingPrometheus,
    ManagedPrometheus,
    Monitoring,
    PrometheusStack,
)
from infra.stack_file.schema.partition import (
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
from infra.stack_file.schema.pools import Autoscaled, ByoPool, Fixed, Nodes, Taint
from infra.stack_file.schema.rollout import Rollout
from infra.stack_file.schema.workloads.autoscaling import (
    Autoscaling,
    Fallback,
    Keda,
    Pace,
    PrometheusAdapter,
    microseconds,
    seconds,
)
from infra.stack_file.schema.workloads.container import ContainerWorkload
from infra.stack_file.schema.workloads.kinds import AnyWorkload, ServedWorkload
from infra.stack_file.schema.workloads.served import ClaimedVolume, HostResources, NewVolume
from infra.stack_file.schema.workloads.triton import ModelShare, TritonWorkload
from infra.stack_file.schema.workloads.vllm import VllmWorkload
