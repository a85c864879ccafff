"""A deployment is the set of objects that the stack creates for one workload that serves models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slicewright.infra.plan.model.memory import ModelMemory
from slicewright.infra.plan.model.scaling import AutoscalingPlan
from slicewright.infra.stack_file import ServedWorkload, VllmWorkload


@dataclass(frozen=True, kw_only=True)
class WorkloadPlan:
    """The requests of one container of a workload."""

    name: str
    cards: int
    memory_mib_per_card: int | None
    """None: all memory of each card."""
    compute_percent_per_card: int
    requests: Mapping[str, int]
    """Extended resources, requests = limits."""
    annotations: Mapping[str, str]
    replicas: int = 1
    """Pods that the plan places. 0 for a server, whose deployment has their number."""
    containers: int = 1
    """Containers of a pod that have this request."""


@dataclass(frozen=True, kw_only=True)
class Devices:
    """One resource of a pool's nodes."""

    resource: str
    profiles: tuple[str, ...]
    mib: int | None
    sharers: int
    """Pods on one device."""


@dataclass(frozen=True, kw_only=True)
class DeploymentPlan:
    """A Deployment on one pool, each of whose pods gets devices of one resource.

    Two are equal if they create the same objects. Other offers of the pool are not compared.
    """

    workload: ServedWorkload
    resource: str
    """Extended resource that each pod asks for."""
    devices: int
    """Devices of that resource for each pod."""
    profiles: tuple[str, ...] = field(compare=False)
    """MIG profiles that the resource may be. Empty: whole GPUs."""
    device_mib: int | None = field(compare=False)
    """Memory of the smallest of them. None: unknown."""
    node_labels: Mapping[str, str]
    """Labels that its nodes must have besides the pool's."""
    offered: int = field(compare=False)
    """Devices of the resource on as many nodes as the pool may have."""
    demanded: int = field(compare=False)
    """Devices that all workloads together ask of it, with as many replicas as they may have."""
    room: int | None = field(compare=False)
    """Replicas that fit into those nodes' processor and memory if nothing else runs there, and on
    shared cards beside the other workloads. None: unknown, or nothing is requested.
    """
    awaited: bool
    """Whether `up` waits until all replicas are ready: there are nodes for them, or will be."""
    memory: ModelMemory | None = field(compare=False)
    """None: its need of memory is unknown."""
    autoscaling: AutoscalingPlan | None
    """None: it has as many replicas as the stack file asks for."""
    share: WorkloadPlan | None = None
    """The fraction of GPUs that each pod requests. None: whole devices."""

    @property
    def name(self) -> str:
        return self.workload.name

    @property
    def namespace(self) -> str:
        return self.workload.namespace

    @property
    def at_first(self) -> int:
        """The number of replicas when it is created."""
        return self.workload.replicas if self.autoscaling is None else self.autoscaling.min

    @property
    def most(self) -> int:
        """Replicas that it may have."""
        return self.workload.replicas if self.autoscaling is None else self.autoscaling.max

    @property
    def runs(self) -> int:
        """Replicas that find a place if no other workload takes it first."""
        places = self.offered // self.devices if self.share is None else self.most
        return min(self.most, places, places if self.room is None else self.room)

    @property
    def pending(self) -> int:
        """Replicas of this and of all other workloads of the resource that find no place."""
        if self.share is not None:
            return self.most - self.runs
        without_device = max(self.demanded - self.offered, 0) // self.devices
        return max(without_device, self.most - self.runs)

    @property
    def usable_mib(self) -> int | None:
        """Memory of a device that the server may take."""
        if self.device_mib is None or not isinstance(self.workload, VllmWorkload):
            return self.device_mib
        return self.device_mib * self.workload.gpu_memory_percent // 100
