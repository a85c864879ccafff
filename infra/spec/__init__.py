"""The stack file, typed and frozen: what it may say, where each thing stands in it, and one refusal
that names every problem.
"""

from infra.spec.problem import REFERENCE, Path, Problem
from infra.spec.reading.meaning import Reading
from infra.spec.reading.parse import parse, parse_file, unreadable
from infra.spec.reading.source import KEY, Source, read
from infra.spec.reading.spec_error import SpecError
from infra.spec.reading.yaml_values import NotReadable
from infra.spec.schema.base import mebibytes
from infra.spec.schema.capacity import (
    Capacity,
    CapacityBlock,
    FlexStart,
    OnDemand,
    Queued,
    Reservation,
    Spot,
)
from infra.spec.schema.fleet import (
    ByoCluster,
    ByoFleet,
    EksCluster,
    EksFleet,
    Fleet,
    GkeCluster,
    GkeFleet,
    NodeAgent,
    SystemPool,
)
from infra.spec.schema.fractional import Fractional, GpuShare, Workload
from infra.spec.schema.gpu_operator import ComponentSwitch, GpuOperator, MigManager
from infra.spec.schema.hosts import GpuChoice, Host, HostGpu, Instance, Refuse, Wait
from infra.spec.schema.partition import (
    Exclusive,
    FractionalShares,
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
    EksDisk,
    EksPool,
    Fixed,
    GkeDisk,
    GkeFeatures,
    GkePool,
    LocalSsd,
    Management,
    Nodes,
    Rollout,
    Taint,
)

__all__ = [
    "KEY",
    "REFERENCE",
    "Autoscaled",
    "ByoCluster",
    "ByoFleet",
    "ByoPool",
    "Capacity",
    "CapacityBlock",
    "ComponentSwitch",
    "EksCluster",
    "EksDisk",
    "EksFleet",
    "EksPool",
    "Exclusive",
    "Fixed",
    "Fleet",
    "FlexStart",
    "Fractional",
    "FractionalShares",
    "GkeCluster",
    "GkeDisk",
    "GkeFeatures",
    "GkeFleet",
    "GkePool",
    "GpuChoice",
    "GpuGroup",
    "GpuOperator",
    "GpuShare",
    "Host",
    "HostGpu",
    "Instance",
    "LocalSsd",
    "Management",
    "MigManager",
    "Mps",
    "Native",
    "NodeAgent",
    "Nodes",
    "NotReadable",
    "OnDemand",
    "Operator",
    "Path",
    "Problem",
    "Queued",
    "Reading",
    "Refuse",
    "Reservation",
    "Rollout",
    "Sharing",
    "Source",
    "SpecError",
    "Spot",
    "SystemPool",
    "Taint",
    "TimeSlicing",
    "Unpartitioned",
    "Wait",
    "Workload",
    "mebibytes",
    "parse",
    "parse_file",
    "read",
    "unreadable",
]
