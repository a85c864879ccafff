"""The parts of the cluster that the decisions about all pools share. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from slicewright.fleet_controller.objects.node_pods import NodePod
from slicewright.fleet_controller.objects.proof_pod import ProofPod
from slicewright.fleet_controller.objects.report import Report
from slicewright.fleet_controller.rollout.drain import Refusal


@dataclass(frozen=True, kw_only=True)
class ShareFacts:
    """The pods and schedulers that decisions about shares need, as the watch has shown them."""

    pods: Mapping[str, tuple[NodePod, ...]] = field(default_factory=dict)
    """Node -> its pods."""
    schedulers: Mapping[str, float] = field(default_factory=dict)
    """Namespace -> the last start of an engine's scheduler there."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The observations of one pass, see `decide.decide`."""

    reports: Mapping[str, Report]
    pods: Mapping[str, tuple[NodePod, ...]]
    refusals: Mapping[str, Refusal]
    no_agents: Mapping[str, str]
    no_operands: Mapping[str, str]
    other_plugins: Mapping[str, str]
    brought_keys: AbstractSet[str]
    gpu_pods: Mapping[str, int]
    proof_pods: Mapping[str, ProofPod]
    """The pods that prove nodes, by node."""
    progress_interval_s: float
    """Interval of the Events that show the progress to a waiting `pulumi up`."""
    now: float
    shares: ShareFacts = field(default_factory=ShareFacts)
