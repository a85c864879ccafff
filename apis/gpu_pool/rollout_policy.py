"""The policy of bringing a new layout to a pool's nodes: `rolloutPolicy` of a GPUPool. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

OnTimeout = Literal["Stop", "Force"]
Evicted = Literal["GPU", "All", "None"]


@dataclass(frozen=True, kw_only=True)
class DrainPolicy:
    timeout_s: float = 3600.0
    on_timeout: OnTimeout = "Stop"
    pods: Evicted = "GPU"
    delete_local_data: bool = False


@dataclass(frozen=True, kw_only=True)
class RolloutPolicy:
    """The defaults are those of the CRD, because pools that are older than the field have none."""

    max_unavailable: int | str = 1
    """A number of nodes, or a percentage such as `25%`."""
    canary: int = 1
    one_zone_at_a_time: bool = False
    drain: DrainPolicy = DrainPolicy()
    max_failures: int | str = 1
    """Number of failed nodes that stops the rollout, or a percentage."""
    max_failures_in_a_row: int | None = None
    """The same limit, but counting only failures since a node's change last ended well."""
    tolerate_unproven: int | str = 0
    """Number of nodes that may be unproven though the pool is Verified, or a percentage."""
    quarantine: bool = False
    """True if nodes that are definitely not as wanted are emptied."""

    def tolerated(self, nodes: int) -> int:
        """Returns how many of `nodes` may be unproven."""
        return _part(self.tolerate_unproven, nodes)

    def limit(self, nodes: int) -> int:
        """Returns how many of `nodes` may be out of service."""
        return max(1, _part(self.max_unavailable, nodes))

    def failures(self, nodes: int) -> int:
        """Returns how many failures among `nodes` stop further nodes from being changed."""
        return max(1, _part(self.max_failures, nodes))


def _part(of: int | str, nodes: int) -> int:
    """Returns a number as it is, and a percentage as that part of `nodes`, rounded down."""
    return of if isinstance(of, int) else nodes * int(of.removesuffix("%")) // 100


DEFAULT_POLICY = RolloutPolicy()


def read_policy(raw: Mapping[str, Any] | None) -> RolloutPolicy:
    """Reads a GPUPool's `rolloutPolicy`.

    Raises TypeError or ValueError for values that the CRD does not allow.
    """
    default, given = DEFAULT_POLICY, dict(raw or {})
    drain = dict(given.get("drain") or {})
    in_a_row = given.get("maxFailuresInARow")
    policy = RolloutPolicy(
        max_unavailable=given.get("maxUnavailable", default.max_unavailable),
        canary=int(given.get("canary", default.canary)),
        one_zone_at_a_time=bool(given.get("oneZoneAtATime", default.one_zone_at_a_time)),
        drain=DrainPolicy(
            timeout_s=float(drain.get("timeoutSeconds", default.drain.timeout_s)),
            on_timeout=drain.get("onTimeout", default.drain.on_timeout),
            pods=drain.get("pods", default.drain.pods),
            delete_local_data=bool(drain.get("deleteLocalData", default.drain.delete_local_data)),
        ),
        max_failures=given.get("maxFailures", default.max_failures),
        max_failures_in_a_row=None if in_a_row is None else int(in_a_row),
        tolerate_unproven=given.get("tolerateUnproven", default.tolerate_unproven),
        quarantine=given.get("quarantine") == "NoExecute",
    )
    policy.tolerated(1)
    policy.failures(1)
    policy.limit(1)  # a malformed percentage is refused here, not in the middle of a pass
    return policy
