"""How a new layout reaches the nodes of a pool: `rolloutPolicy` of a GPUPool. Pure."""

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
    """The defaults are those of the CRD: pools of before it had the field have none."""

    max_unavailable: int | str = 1
    """A number of nodes, or a percentage such as `25%`."""
    canary: int = 1
    one_zone_at_a_time: bool = False
    drain: DrainPolicy = DrainPolicy()
    max_failures: int = 1

    def limit(self, nodes: int) -> int:
        """How many of `nodes` may be out of service."""
        if isinstance(self.max_unavailable, int):
            return max(1, self.max_unavailable)
        return max(1, nodes * int(self.max_unavailable.removesuffix("%")) // 100)


DEFAULT_POLICY = RolloutPolicy()


def read_policy(raw: Mapping[str, Any] | None) -> RolloutPolicy:
    """Raises TypeError or ValueError for what the CRD does not allow."""
    default, given = DEFAULT_POLICY, dict(raw or {})
    drain = dict(given.get("drain") or {})
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
        max_failures=int(given.get("maxFailures", default.max_failures)),
    )
    policy.limit(1)  # a percentage that is none is refused here, not in the middle of a pass
    return policy
