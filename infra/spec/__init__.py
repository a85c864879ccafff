"""The stack file, typed and frozen: what it may say, where each thing stands in it, and one refusal that names every problem."""

from infra.spec.base import mebibytes
from infra.spec.capacity import Capacity, CapacityBlock, FlexStart, OnDemand, Queued, Reservation, Spot
from infra.spec.gpu_operator import ComponentSwitch, GpuOperator, MigManager
from infra.spec.hosts import GpuChoice, Host, HostGpu, Instance, Refuse, Wait
from infra.spec.meaning import Reading
from infra.spec.models import ByoCluster, ByoFleet, EksCluster, EksFleet, Fleet, GkeCluster, GkeFleet, NodeAgent, SystemPool
from infra.spec.parse import parse, parse_file, unreadable
from infra.spec.partition import Exclusive, FractionalShares, GpuGroup, Mps, Native, Operator, Sharing, TimeSlicing, Unpartitioned
from infra.spec.pools import (
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
from infra.spec.problem import REFERENCE, Path, Problem
from infra.spec.shares import Fractional, GpuShare, Workload
from infra.spec.source import KEY, Source, read
from infra.spec.spec_error import SpecError
from infra.spec.yaml_values import NotReadable

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
