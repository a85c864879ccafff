"""How GKE replaces a pool's nodes for an upgrade or a setting that needs new nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from slicewright.apis.gpu_pool.settings import NodeShareBounds
from slicewright.infra.stack_file.schema.constraints import IntRange
from slicewright.infra.stack_file.schema.model import Shorthand, SpecModel
from slicewright.infra.stack_file.schema.node_shares import ShareOfNodes

_STRATEGIES = "GKE docs, node pool upgrade strategies"
_Nodes = Annotated[
    int,
    IntRange(
        minimum=0,
        maximum=20,
        unit="node",
        why_maximum="GKE upgrades no more at the same time",
        source=_STRATEGIES,
    ),
]
_Minutes = Annotated[
    int,
    IntRange(
        minimum=0,
        maximum=10_080,
        unit="minute",
        why_maximum="GKE completes a blue-green upgrade after seven days",
        source=_STRATEGIES,
    ),
]


class Surge(SpecModel):
    """Replaces a few nodes at a time."""

    mode: Literal["surge"] = "surge"
    max_surge: _Nodes = 0
    """Nodes created beyond the pool's number, which need scarce GPU quota and capacity."""
    max_unavailable: _Nodes = 1
    """Nodes that may be missing at the same time."""


class BlueGreen(SpecModel):
    """Creates a new node for every old one, drains the old nodes in batches, and deletes them at
    the end.
    """

    mode: Literal["blue-green"] = "blue-green"
    batch_nodes: Annotated[
        int | str,
        ShareOfNodes(
            key="batch_nodes",
            bounds=NodeShareBounds(minimum=1, maximum=1000),
            source=_STRATEGIES,
        ),
    ] = 1
    """Old nodes that are drained together: a number, or a percentage of the pool's nodes such as
    `25%`.
    """
    batch_soak_minutes: _Minutes = 0
    """Wait after each batch."""
    soak_minutes: _Minutes = 60
    """Wait after the last batch, before the old nodes are deleted."""

    replaced_keys: ClassVar[Mapping[str, str]] = {"batch_percent": "batch_nodes: {value}%"}


Upgrade = Annotated[
    Surge | BlueGreen, Field(discriminator="mode"), Shorthand("surge", "blue-green")
]
