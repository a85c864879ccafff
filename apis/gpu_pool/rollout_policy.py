"""The policy for rolling a new layout out to a pool's nodes: `rolloutPolicy` of a GPUPool. Pure.

This is the only place that states the settings, their defaults, bounds and descriptions. A pool's
`rollout` in a stack file takes them from here (`slicewright.infra.stack_file.schema.rollout`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from slicewright.apis.gpu_pool.settings import (
    Choice,
    Duration,
    Flag,
    NodeShare,
    NodeTotal,
    Switch,
    dump_settings,
    nodes_in,
    read_settings,
    schema_of,
    setting,
    settings_of,
)
from slicewright.apis.names import QUARANTINE_EFFECT, Manifest
from slicewright.apis.openapi import object_of

OnTimeout = Literal["Stop", "Force"]
Evicted = Literal["GPU", "All", "None"]
_EVICTIONS: Final[Mapping[Evicted, str]] = {
    "GPU": "pods that use their GPUs are evicted, within their disruption budgets",
    "All": "their pods are evicted, but those of DaemonSets, within their disruption budgets",
    "None": "each waits until the pods that use its GPUs have ended",
}


@dataclass(frozen=True, kw_only=True)
class DrainPolicy:
    """How the pods of a node make room."""

    timeout_s: float = setting(
        Duration(
            description="How long the pods of a node may take to leave.",
            default=3600.0,
            maximum=24 * 3600,
        )
    )
    on_timeout: OnTimeout = setting(
        Choice(
            about="What follows if pods have not left in time.",
            meanings={
                "Stop": "the node has failed",
                "Force": "pods without a controller and with local data are evicted, too, and have "
                "the same time again; disruption budgets are respected even then",
            },
        )
    )
    pods: Evicted = setting(
        Choice(
            about="Which pods are evicted.",
            meanings={
                "GPU": "those that request GPUs",
                "All": "all but those of DaemonSets and static ones",
                "None": "no pod; the change waits until those that use the GPUs have ended",
            },
        )
    )
    delete_local_data: bool = setting(
        Flag(
            description="Whether pods with an emptyDir on disk are evicted: their data are lost.",
        )
    )

    @property
    def longest_s(self) -> float:
        """The longest that a drain may take: after the timeout, `Force` begins another one."""
        return self.timeout_s * (2 if self.on_timeout == "Force" else 1)

    def describe_evictions(self) -> str:
        """Returns what happens to the pods of nodes that change, for previews."""
        return _EVICTIONS[self.pods]


@dataclass(frozen=True, kw_only=True)
class RolloutPolicy:
    """The defaults are those of the CRD, because pools that are older than the field have none.

    Percentages are of the pool's nodes, and are rounded down, as Kubernetes rounds those of a
    Deployment.
    """

    max_unavailable: int | str = setting(
        NodeShare(
            description="Nodes of the pool that may be out of service for a change: a number, "
            "or a percentage, rounded down, of the pool's nodes; one node at least. Nodes that "
            "are out for another reason count.",
            default=1,
            minimum=1,
        )
    )
    canary: int = setting(
        NodeTotal(
            description="Nodes that must be verified with the new layout before others are "
            "changed; 0 for none.",
            default=1,
            minimum=0,
        )
    )
    one_zone_at_a_time: bool = setting(
        Flag(
            description="Whether nodes of different zones are never out together for a change.",
        )
    )
    drain: DrainPolicy = DrainPolicy()
    max_failures: int | str = setting(
        NodeShare(
            description="With so many failed nodes no further node is changed: a number, or a "
            "percentage, rounded down, of the pool's nodes; one node at least. 100% never stops "
            "the rollout early.",
            default=1,
            minimum=1,
        )
    )
    max_failures_in_a_row: int | None = setting(
        NodeTotal(
            description="No further node is changed either when so many have failed since the "
            "change of one has last ended well; absent for no such limit.",
            default=None,
            minimum=1,
        )
    )
    max_unverified: int | str = setting(
        NodeShare(
            description="Nodes of the pool that may be unverified though the pool is Verified: a "
            "number, or a percentage, rounded down, of the pool's nodes. They are held, counted "
            "and shown all the same. Nodes that are being set up or changed are waited for until "
            "the pool is Verified.",
            default=0,
            minimum=0,
        )
    )
    quarantine: bool = setting(
        Switch(
            about="What becomes of the pods on a node whose GPUs are definitely not as wanted.",
            off="None",
            on="NoExecute",
            meanings=(
                "they stay, and no others come",
                "the startup taint gets this effect, too, so that the pods end, whatever "
                "disruption budgets say; at most on as many nodes at a time as may be unavailable",
            ),
        )
    )

    def tolerated(self, nodes: int) -> int:
        """Returns how many of `nodes` may be unverified."""
        return nodes_in(self.max_unverified, nodes)

    def limit(self, nodes: int) -> int:
        """Returns how many of `nodes` may be out of service."""
        return max(1, nodes_in(self.max_unavailable, nodes))

    def failures(self, nodes: int) -> int:
        """Returns how many failures among `nodes` stop further nodes from being changed."""
        return max(1, nodes_in(self.max_failures, nodes))

    def canaries(self, nodes: int) -> int:
        """Returns how many of `nodes` are changed before the others."""
        return min(self.canary, nodes)

    def zone_group(self, zone: str) -> str:
        """Returns the group of a zone. Nodes of two groups are never out together for a change."""
        return zone if self.one_zone_at_a_time else ""

    def zone_groups(self, zones: int) -> int:
        """Returns how many groups that many zones make."""
        return zones if self.one_zone_at_a_time else 1

    @property
    def extra_taint_effects(self) -> tuple[Literal["NoExecute"], ...]:
        """Effects that the startup taint may get on a node in service, beside its usual one."""
        return (QUARANTINE_EFFECT,) if self.quarantine else ()

    @property
    def applies_without_rollout(self) -> bool:
        """True if a pool needs the policy even if no change is rolled out to its nodes."""
        return any(
            getattr(self, field) != getattr(DEFAULT_POLICY, field) for field in ALWAYS_APPLIED
        )

    def dump(self) -> Manifest:
        """Returns `rolloutPolicy` of a GPUPool."""
        return {**dump_settings(self), "drain": dump_settings(self.drain)}


DEFAULT_POLICY = RolloutPolicy()
LIMIT_FIELD: Final = "max_unavailable"
"""The field that limits how many nodes are out of service, which is also the stack file's key."""
ALWAYS_APPLIED: Final = frozenset({"max_unverified", "quarantine"})
"""Fields that apply to every pool, even if no change is rolled out to its nodes."""


def read_policy(raw: Mapping[str, Any] | None) -> RolloutPolicy:
    """Reads a GPUPool's `rolloutPolicy`.

    Raises TypeError or ValueError for values that the CRD does not allow.
    """
    return RolloutPolicy(
        drain=DrainPolicy(**read_settings(DrainPolicy, (raw or {}).get("drain"))),
        **read_settings(RolloutPolicy, raw),
    )


SETTINGS: Final = {**settings_of(RolloutPolicy), **settings_of(DrainPolicy)}
"""Field of the policy or of its drain -> its setting."""

_DRAIN_SCHEMA: Final[Manifest] = object_of(
    "How the pods of a node make room.",
    schema_of(DrainPolicy),
    required=(),
    **{
        "default": {},
        "x-kubernetes-validations": [
            {
                # The default itself is checked before those within it are filled in.
                "rule": "!(has(self.pods) && self.pods == 'None' && has(self.onTimeout) "
                "&& self.onTimeout == 'Force')",
                "message": "onTimeout must be Stop where no pod is evicted",
            }
        ],
    },
)
SCHEMA: Final[Manifest] = object_of(
    "How a new MIG layout reaches nodes that are in service: a node is cordoned, its pods are "
    "evicted, its label is set, and it is verified before it takes pods again.",
    {**schema_of(RolloutPolicy), "drain": _DRAIN_SCHEMA},
    required=(),
    **{
        "x-kubernetes-validations": [
            {
                "rule": "!has(self.maxFailuresInARow) || type(self.maxFailures) == string || "
                "self.maxFailuresInARow <= self.maxFailures",
                "message": "maxFailuresInARow must not be greater than maxFailures, with which "
                "the rollout stops anyway",
            }
        ]
    },
)
