"""GPU pools: the keys that all clouds share, and the keys of existing clusters."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from infra.spec.schema.capacity import Capacity, OnDemand
from infra.spec.schema.constraints import (
    OWN_LIMIT,
    DnsLabel,
    IntRange,
)
from infra.spec.schema.field_types import (
    MAX_NODES,
    NODE_LIMIT,
    LabelKey,
    Labels,
    LabelValue,
    NodeCount,
)
from infra.spec.schema.hosts import GpuChoice
from infra.spec.schema.model import SpecModel
from infra.spec.schema.partition import (
    Exclusive,
    OperatorPartition,
    Sharing,
    Unpartitioned,
)


class Taint(SpecModel):
    key: LabelKey
    value: LabelValue = ""
    effect: Literal[
        "NoSchedule",
        "PreferNoSchedule",
        "NoExecute",
        "NO_SCHEDULE",
        "PREFER_NO_SCHEDULE",
        "NO_EXECUTE",
    ]
    """The effect, spelled as in Kubernetes or in the cloud APIs."""


class Fixed(SpecModel):
    count: NodeCount
    """Nodes of the pool, in all its zones together."""


class Autoscaled(SpecModel):
    min: Annotated[
        int,
        IntRange(
            minimum=0,
            maximum=MAX_NODES,
            unit="node",
            why_maximum="no cloud has larger clusters",
            source=NODE_LIMIT,
        ),
    ]
    max: NodeCount


def _nodes_tag(value: Any) -> str:
    fields = value if isinstance(value, dict) else {}
    return "autoscaled" if "min" in fields or "max" in fields else "fixed"


Nodes = Annotated[
    Annotated[Fixed, Tag("fixed")] | Annotated[Autoscaled, Tag("autoscaled")],
    Discriminator(_nodes_tag),
]


class Rollout(SpecModel):
    """How a new layout is rolled out to the pool's nodes if mig-manager partitions them."""

    max_unavailable: Annotated[
        int,
        IntRange(
            minimum=1,
            maximum=100,
            unit="node",
            source="EKS API, updateConfig.maxUnavailable",
        ),
    ] = 1
    """Nodes that may be out of service for a change at the same time."""
    max_unavailable_percent: (
        Annotated[int, IntRange(minimum=1, maximum=100, unit="percent", source=OWN_LIMIT)] | None
    ) = None
    """The same in percent of the pool's nodes, rounded down, but at least one node."""
    canary: Annotated[
        int,
        IntRange(
            minimum=0,
            maximum=100,
            unit="node",
            why_maximum="a canary is a small sample",
            source=OWN_LIMIT,
        ),
    ] = 1
    """Nodes that are changed and verified before all others. 0 for none."""
    drain_timeout_minutes: Annotated[
        int,
        IntRange(
            minimum=1,
            maximum=1440,
            unit="minute",
            why_maximum="a node that is not drained after a day needs an operator",
            source=OWN_LIMIT,
        ),
    ] = 60
    on_drain_timeout: Literal["stop", "force"] = "stop"
    """`force`: also evict pods without a controller and pods with local data."""
    evict: Literal["gpu", "all", "none"] = "gpu"
    """Pods that are evicted from a node: pods with GPUs, all, or none (wait for their end)."""
    delete_local_data: bool = False
    """Whether pods with an emptyDir on disk are evicted."""
    one_zone_at_a_time: bool = False
    on_failure: Literal["pause", "continue"] = "pause"
    """Whether the first failed node stops the rollout. See max_failures for other limits."""
    max_failures: (
        Annotated[int, IntRange(minimum=1, maximum=100, unit="node", source=OWN_LIMIT)] | None
    ) = None
    """Number of failed nodes that stops the rollout."""
    max_failures_percent: (
        Annotated[int, IntRange(minimum=1, maximum=100, unit="percent", source=OWN_LIMIT)] | None
    ) = None
    """The same in percent of the pool's nodes, rounded down, but at least one node."""
    max_failures_in_a_row: (
        Annotated[int, IntRange(minimum=1, maximum=100, unit="node", source=OWN_LIMIT)] | None
    ) = None
    """Number of failures since the last node verified with the new layout that also stops it."""
    tolerate_unproven: Annotated[
        int, IntRange(minimum=0, maximum=100, unit="node", source=OWN_LIMIT)
    ] = 0
    """Nodes that may stay unproven although `up` succeeds. They accept no pods."""
    tolerate_unproven_percent: (
        Annotated[int, IntRange(minimum=1, maximum=100, unit="percent", source=OWN_LIMIT)] | None
    ) = None
    """The same in percent of the pool's nodes, rounded down."""
    quarantine: bool = False
    """Whether pods on a wrong node are ended even against disruption budgets."""


class _Pool(SpecModel):
    name: Annotated[str, DnsLabel(40, "GKE API, NodePool.name", "h100")]
    nodes: Nodes
    labels: Labels = Field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    sharing: Sharing = Exclusive()
    rollout: Rollout = Rollout()


class CloudPool(_Pool):
    capacity: Capacity = OnDemand()


class ByoPool(_Pool):
    """Nodes that already exist."""

    name: Annotated[str, DnsLabel(54, "Kubernetes docs, labels: 63 with the layout's hash", "a100")]
    gpu: GpuChoice
    """The GPUs of every node."""
    select: Labels = Field(default_factory=dict)
    """Labels that select the nodes. By default `slicewright.io/pool: <name>`."""
    partition: OperatorPartition = Unpartitioned()
