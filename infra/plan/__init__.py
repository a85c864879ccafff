"""Every decision of a fleet as one frozen value, a pure function of stack file and catalog: no
cloud, no clock.
"""

from infra.plan.build import build, read, read_file
from infra.plan.buildable import deployable, unbuildable
from infra.plan.change_rules import Effect, Rule
from infra.plan.changes import Change, FleetChange, PartChange, cloud_of, compare
from infra.plan.fleet import (
    SYSTEM_LABELS,
    ByoClusterPlan,
    ByoFleetPlan,
    ByoPoolPlan,
    CloudPoolPlan,
    EksClusterPlan,
    EksFleetPlan,
    EksPoolPlan,
    FleetPlan,
    GkeClusterPlan,
    GkeFleetPlan,
    GkePoolPlan,
    Layout,
    NodeCount,
    PoolPlan,
    Share,
    SystemPoolPlan,
    Taint,
)
from infra.plan.hosts import HostGpuPlan, HostPlan
from infra.plan.notes import notes
from infra.plan.shares import SharePlan

__all__ = [
    "SYSTEM_LABELS",
    "ByoClusterPlan",
    "ByoFleetPlan",
    "ByoPoolPlan",
    "Change",
    "CloudPoolPlan",
    "Effect",
    "EksClusterPlan",
    "EksFleetPlan",
    "EksPoolPlan",
    "FleetChange",
    "FleetPlan",
    "GkeClusterPlan",
    "GkeFleetPlan",
    "GkePoolPlan",
    "HostGpuPlan",
    "HostPlan",
    "Layout",
    "NodeCount",
    "PartChange",
    "PoolPlan",
    "Rule",
    "Share",
    "SharePlan",
    "SystemPoolPlan",
    "Taint",
    "build",
    "cloud_of",
    "compare",
    "deployable",
    "notes",
    "read",
    "read_file",
    "unbuildable",
]
