"""GPU pools: the keys that all clouds share, and the keys of existing clusters."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from slicewright.infra.stack_file.schema.capacity import Capacity, OnDemand
from slicewright.infra.stack_file.schema.constraints import DnsLabel, IntRange, NotEmpty
from slicewright.infra.stack_file.schema.field_types import (
    MAX_NODES,
    NODE_LIMIT,
    LabelKey,
    Labels,
    LabelValue,
    NodeCount,
)
from slicewright.infra.stack_file.schema.hosts import NodeGpus
from slicewright.infra.stack_file.schema.model import SpecModel, keys_of
from slicewright.infra.stack_file.schema.partition import (
    Exclusive,
    OperatorPartition,
    Sharing,
    Unpartitioned,
)
from slicewright.infra.stack_file.schema.rollout import Rollout


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
    return "autoscaled" if {"min", "max"}.intersection(keys_of(value)) else "fixed"


Nodes = Annotated[
    Annotated[Fixed, Tag("fixed")] | Annotated[Autoscaled, Tag("autoscaled")],
    Discriminator(_nodes_tag),
]


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
    gpu: NodeGpus
    """The GPUs of every node."""
    select: Annotated[
        Labels,
        NotEmpty(
            why="to Kubernetes an empty selector means all nodes",
            instead="write labels of the nodes, or leave it out for nodes with slicewright.io/pool",
            source="Kubernetes API, LabelSelector",
        ),
    ] = Field(default_factory=dict)
    """Labels that select the nodes. By default `slicewright.io/pool: <name>`."""
    partition: OperatorPartition = Unpartitioned()
