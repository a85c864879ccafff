"""A fleet's plan is a cluster with its pools, or hosts, decided to the last value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypedDict

from slicewright.infra.plan.findings import Checked
from slicewright.infra.plan.model.clusters import (
    EksClusterPlan,
    ExistingClusterPlan,
    GkeClusterPlan,
)
from slicewright.infra.plan.model.deployments import DeploymentPlan, WorkloadPlan
from slicewright.infra.plan.model.fractional import Engine, FractionalPlacement
from slicewright.infra.plan.model.hosts import HostPlan
from slicewright.infra.plan.model.monitoring import MonitoringPlan
from slicewright.infra.plan.model.nodes import StartupTaintBy
from slicewright.infra.plan.model.pools import (
    EksPoolPlan,
    ExistingPoolPlan,
    GkePoolPlan,
    PoolPlan,
    SystemPoolPlan,
)
from slicewright.infra.plan.model.scaling import PodAutoscalingPlan
from slicewright.infra.stack_file import (
    ExistingNetwork,
    Fractional,
    GpuOperator,
    MetricsSource,
    NodeAgent,
    PodGuard,
)


@dataclass(frozen=True, kw_only=True)
class CommonPlan:
    """The fields that the fleets of all clouds share."""

    image: str
    """Python image of the agent and the controller."""
    image_pull_secrets: tuple[str, ...]
    """Pull secrets of the agents' namespace."""
    node_agent: NodeAgent
    admin_groups: tuple[str, ...]
    """Kubernetes groups exempt from the admission policy on nodes."""
    pod_guard: PodGuard | None
    """The admission policy on pods. None: there is none."""
    metrics_from: tuple[MetricsSource, ...]
    """Who may connect to the ports of agents and controller. Empty: no one."""
    verify_timeout_minutes: int
    fractional: Fractional | None
    engine: Engine | None
    """The engine that `fractional` asks for. None: no GPU is shared by fractions."""
    placement: FractionalPlacement | None
    """The shares of all pods on their cards. None without an engine, and for VKE."""
    workloads: tuple[WorkloadPlan, ...]
    """Requests for fractions of GPUs."""
    deployments: tuple[DeploymentPlan, ...]
    """Servers that the stack makes."""
    monitoring: MonitoringPlan | None
    """None: nothing is made for metrics."""
    pod_autoscaling: PodAutoscalingPlan | None
    """None: no workload is scaled."""


class CommonParts(TypedDict):
    """The fields of a `CommonPlan`. In `GkeFleetPlan(**common, …)` mypy sees a missing one."""

    image: str
    image_pull_secrets: tuple[str, ...]
    node_agent: NodeAgent
    admin_groups: tuple[str, ...]
    pod_guard: PodGuard | None
    metrics_from: tuple[MetricsSource, ...]
    verify_timeout_minutes: int
    fractional: Fractional | None
    engine: Engine | None
    placement: FractionalPlacement | None
    workloads: tuple[WorkloadPlan, ...]
    deployments: tuple[DeploymentPlan, ...]
    monitoring: MonitoringPlan | None
    pod_autoscaling: PodAutoscalingPlan | None


CommonPlanner = Callable[[Sequence[PoolPlan]], Checked[CommonParts]]
"""A cloud's planner calls it once its pools are planned, as far as they could be."""


@dataclass(frozen=True, kw_only=True)
class GkeFleetPlan(CommonPlan):
    cluster: GkeClusterPlan
    system: SystemPoolPlan | None
    """None in a cluster that exists, unless the stack file asks for one."""
    pools: tuple[GkePoolPlan, ...]
    operator: GpuOperator | None
    """The operator of the pools that mig-manager partitions. None if there are none."""

    @property
    def gpu_networks(self) -> frozenset[str]:
        """The kinds of networks that pools have between their GPUs."""
        return frozenset(
            pool.settings.gpu_network
            for pool in self.pools
            if pool.settings.gpu_network is not None
        )

    @property
    def operated(self) -> tuple[GkePoolPlan, ...]:
        """The pools that the operator manages."""
        return tuple(pool for pool in self.pools if pool.operated)


@dataclass(frozen=True, kw_only=True)
class EksFleetPlan(CommonPlan):
    cluster: EksClusterPlan
    system: SystemPoolPlan
    pools: tuple[EksPoolPlan, ...]
    operator: GpuOperator | None
    """None if all pools run Bottlerocket, which needs none."""

    @property
    def node_groups(self) -> tuple[EksPoolPlan, ...]:
        """The pools that are managed node groups."""
        return tuple(pool for pool in self.pools if pool.settings.karpenter is None)

    @property
    def karpenter_pools(self) -> tuple[EksPoolPlan, ...]:
        """The pools whose nodes Karpenter makes."""
        return tuple(pool for pool in self.pools if pool.settings.karpenter is not None)

    @property
    def operated(self) -> tuple[EksPoolPlan, ...]:
        """The pools that the operator manages."""
        return tuple(pool for pool in self.pools if not pool.settings.bottlerocket)

    @property
    def node_subnets(self) -> str | tuple[str, ...]:
        """The nodes' subnets: `public` or `private` ones of the stack, or ids of existing ones. An
        existing cluster's count as public, because a cluster that the stack made has public ones.
        """
        network = self.cluster.network
        if self.cluster.existing and not isinstance(network, ExistingNetwork):
            return "public"
        return (
            tuple(sorted(network.subnets))
            if isinstance(network, ExistingNetwork)
            else (network.mode)
        )


@dataclass(frozen=True, kw_only=True)
class ExistingFleetPlan(CommonPlan):
    cluster: ExistingClusterPlan | None
    pools: tuple[ExistingPoolPlan, ...]
    hosts: tuple[HostPlan, ...]
    operator: GpuOperator
    startup_taint: StartupTaintBy

    @property
    def operated(self) -> tuple[ExistingPoolPlan, ...]:
        """The pools that the operator manages: all."""
        return self.pools


FleetPlan = GkeFleetPlan | EksFleetPlan | ExistingFleetPlan
