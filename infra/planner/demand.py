"""The demand: how much of each class there is, and which devices can serve it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from slicewright.infra.planner.candidates import NodeType, Slot

Objective = Literal["cost", "gpus", "nodes"]


@dataclass(frozen=True, kw_only=True)
class DemandClass:
    """Replicas that are alike, or one service with a rate of requests."""

    name: str
    required: int
    """Replicas; or thousandths of requests per second."""
    yields: Mapping[Slot, int]
    """A suitable device -> the part of `required` that one replica on it serves. For replicas, 1.
    A device that is not here cannot serve the class.
    """
    unit: str = "replicas"


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Upper limits of an answer. None: no limit."""

    pools: int | None = 4
    """Different pairs of a node type and a layout. An autoscaler needs a pool for each."""
    nodes: int | None = None
    gpus: Mapping[str, int] = field(default_factory=dict)
    """GPU model -> the maximum number of its GPUs."""
    spare_nodes: int = 0
    """The nodes of each pool that may fail while the demand is still served."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One input of the planner. Classes and node types have unique names."""

    classes: tuple[DemandClass, ...]
    node_types: tuple[NodeType, ...]
    objective: Objective = "cost"
    limits: Limits = field(default_factory=Limits)
