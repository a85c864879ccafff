"""Stack files: the schema, and a parser that reports every problem at once with its line."""

from slicewright.infra.stack_file.layers.bases import BaseNotReadable, base_files, extend, read
from slicewright.infra.stack_file.layers.layered_source import LayeredSource
from slicewright.infra.stack_file.parse import parse, parse_file, unreadable
from slicewright.infra.stack_file.problem import KEY, REFERENCE, Path, Problem
from slicewright.infra.stack_file.project import (
    PROJECT_FILE,
    find_project,
    stack_directory,
    stack_path,
)
from slicewright.infra.stack_file.reading.formatting import format_path, plain
from slicewright.infra.stack_file.reading.not_readable import NotReadable
from slicewright.infra.stack_file.reading.recovery import RecoveredFleet
from slicewright.infra.stack_file.reading.scalars import is_plain_string
from slicewright.infra.stack_file.reading.source import Source, read_single, read_text
from slicewright.infra.stack_file.reading.spec_error import SpecError
from slicewright.infra.stack_file.schema.access import (
    MetricsNamespace,
    MetricsRange,
    MetricsSource,
    PodGuard,
)
from slicewright.infra.stack_file.schema.capacity import (
    FLEX_START_HOURS,
    Capacity,
    CapacityBlock,
    FlexStart,
    OnDemand,
    Queued,
    Reservation,
    Spot,
)
from slicewright.infra.stack_file.schema.demand import (
    Demand,
    Measurement,
    RateDemand,
    ReplicaDemand,
)
from slicewright.infra.stack_file.schema.eks.access import AccessEntry, AccessPolicy, EksAccess
from slicewright.infra.stack_file.schema.eks.autoscaler import (
    ClusterAutoscaler,
    Karpenter,
    ScaleDown,
)
from slicewright.infra.stack_file.schema.eks.cluster import (
    EksAddon,
    EksCluster,
    EksEndpoint,
    EksNetwork,
    ExistingNetwork,
    PrivateNetwork,
    PublicNetwork,
)
from slicewright.infra.stack_file.schema.eks.identities import PodIdentity
from slicewright.infra.stack_file.schema.eks.pools import (
    EksDisk,
    EksPool,
    EksRepair,
    EksUpdate,
    InstanceMetadata,
)
from slicewright.infra.stack_file.schema.fleet import (
    ByoCluster,
    ByoFleet,
    EksFleet,
    Fleet,
    GkeFleet,
    NodeAgent,
    OnDestroy,
    SystemPool,
    Verification,
)
from slicewright.infra.stack_file.schema.fractional import (
    Fractional,
    FractionalRequest,
    Oversubscription,
    Policy,
    Workload,
)
from slicewright.infra.stack_file.schema.gke.capacity import GkeOnDemand, GkeReservation, GkeSpot
from slicewright.infra.stack_file.schema.gke.cluster import (
    AuthorizedNetwork,
    GkeCluster,
    GkeControlPlane,
    GkeNetwork,
    GpuNetwork,
)
from slicewright.infra.stack_file.schema.gke.maintenance import (
    DailyMaintenance,
    GkeMaintenance,
    MaintenanceExclusion,
    RecurringMaintenance,
)
from slicewright.infra.stack_file.schema.gke.observability import (
    GkeLogging,
    GkeMonitoring,
    LogsComponent,
    MetricsComponent,
)
from slicewright.infra.stack_file.schema.gke.pools import (
    GkeDisk,
    GkeFeatures,
    GkePool,
    LocalSsd,
    Management,
)
from slicewright.infra.stack_file.schema.gke.upgrade import BlueGreen, Surge, Upgrade
from slicewright.infra.stack_file.schema.gpu_operator import (
    DriverSwitch,
    GpuOperator,
    MigManager,
)
from slicewright.infra.stack_file.schema.hosts import (
    GpuChoice,
    Host,
    HostGpu,
    Instance,
    NodeGpus,
    Refuse,
    Wait,
)
from slicewright.infra.stack_file.schema.monitoring import (
    ExistingPrometheus,
    ManagedPrometheus,
    Monitoring,
    PrometheusStack,
)
from slicewright.infra.stack_file.schema.partition import (
    Boot,
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
from slicewright.infra.stack_file.schema.pools import Autoscaled, ByoPool, Fixed, Nodes, Taint
from slicewright.infra.stack_file.schema.quantities import mebibytes, millicpus
from slicewright.infra.stack_file.schema.rollout import Rollout
from slicewright.infra.stack_file.schema.workloads.autoscaling import (
    Autoscaling,
    Fallback,
    Keda,
    Pace,
    PrometheusAdapter,
    microseconds,
    seconds,
)
from slicewright.infra.stack_file.schema.workloads.container import ContainerWorkload
from slicewright.infra.stack_file.schema.workloads.kinds import AnyWorkload, ServedWorkload
from slicewright.infra.stack_file.schema.workloads.serving import (
    ClaimedVolume,
    HostResources,
    NewVolume,
)
from slicewright.infra.stack_file.schema.workloads.triton import ModelShare, TritonWorkload
from slicewright.infra.stack_file.schema.workloads.vllm import VllmWorkload
