"""The agent's word to the cluster: its own node's `GPUNodeReport`, written when something changed, else by a slow heartbeat.

2,000 agents share one API server, so: nothing is written that says what stands there already, heartbeats are spread by
jitter, a restarted agent first reads what it wrote before, and after errors it waits longer each time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from kubeapi import ApiError, Client, Unreachable
from kubeapi.client import path_of
from node_agent.node import NodeState
from node_agent.observed import Observation, ObservedGpu
from node_agent.verify import Verdict

# The wire names of the report; fleet_controller/api.py defines the resource, and a test holds the two together.
API_VERSION = "slicewright.io/v1alpha1"
KIND = "GPUNodeReport"
PLURAL = "gpunodereports"
FIELD_MANAGER = "slicewright-node-agent"

HEARTBEAT_S = 300.0
"""Shortest time between two reports that say the same; up to a fifth is added so that agents do not write in step."""
_JITTER = 0.2
_SETTLE_S = 5.0
"""Shortest time between two reports with the same reason: while a node is being partitioned only details change."""
_BACKOFF_FIRST_S = 1.0
_BACKOFF_MAX_S = 120.0


def body(
    verdict: Verdict, observation: Observation, node: NodeState, *, pool: str, layout_hash: str, at: float
) -> dict[str, Any]:
    """The whole object. at: seconds since the epoch when the GPUs were looked at."""
    report: dict[str, Any] = {
        "verdict": verdict.verdict,
        "reason": verdict.reason,
        "message": verdict.message,
        "pool": pool,
        "observedHash": layout_hash,
        "bootID": node.boot_id,
        "time": stamp(at),
        "gpus": [_gpu(gpu, instances) for gpu, instances in zip(observation.gpus, verdict.instances, strict=True)],
    }
    if observation.driver:
        report["driver"] = observation.driver
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            "name": node.name,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid}],
        },
        "report": report,
    }


def substance(report: Mapping[str, Any]) -> dict[str, Any]:
    """A report object without its time and without what the API server adds: equal where nothing new is said."""
    owners = [owner.get("uid") for owner in report.get("metadata", {}).get("ownerReferences", [])]
    return {"owners": owners, **{key: value for key, value in report.get("report", {}).items() if key != "time"}}


def stamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds(timestamp: str) -> float:
    """Inverse of `stamp`. Raises ValueError."""
    return datetime.fromisoformat(timestamp).timestamp()


def _gpu(gpu: ObservedGpu, instances: Mapping[str, int]) -> dict[str, Any]:
    shown: dict[str, Any] = {"index": gpu.index, "mig": gpu.mig}
    if gpu.model:
        shown["model"] = gpu.model
    if gpu.uuid:
        shown["uuid"] = gpu.uuid
    if gpu.mig_pending != gpu.mig:
        shown["pending"] = gpu.mig_pending
    if instances:
        shown["instances"] = dict(instances)
    if gpu.failure:
        shown["error"] = f"{gpu.failure.call}: {gpu.failure.text}"[:256]
    return shown


@dataclass
class Reporter:
    """Writes reports. Call `write` after every look; it decides whether there is anything to write.

    Times are seconds since the epoch, as in the reports; a clock that jumps costs at most one early or late heartbeat.
    """

    client: Client
    node_name: str
    random: Callable[[], float] = random.random
    _written: dict[str, Any] | None = None
    _written_at: float = float("-inf")
    _next_heartbeat: float = 0.0
    _not_before: float = 0.0
    _failures: int = 0
    _known: bool = False
    last_error: str | None = field(default=None)
    """Why the newest report is not in the cluster; None when it is."""

    def write(self, new: dict[str, Any], *, now: float) -> bool:
        """True when a report was written. Errors of the API server are kept in `last_error` and retried by later calls."""
        # A clock set back must not silence the agent for as long as it was wrong.
        if now < self._not_before <= now + _BACKOFF_MAX_S:
            return False
        try:
            if not self._known:
                self._recall(now)
            if not self._is_due(substance(new), now):
                return False
            self.client.patch(
                path_of(API_VERSION, PLURAL, self.node_name), new, kind="apply", fieldManager=FIELD_MANAGER, force="true"
            )
        except (ApiError, Unreachable) as e:
            self._failed(e, now)
            return False
        self._written, self._failures, self.last_error = substance(new), 0, None
        self._not_before, self._written_at = 0.0, now
        self._next_heartbeat = now + self._interval()
        return True

    def _is_due(self, new: dict[str, Any], now: float) -> bool:
        old = self._written
        if old is None:
            return True
        if new == old:
            self.last_error = None
            return not now < self._next_heartbeat <= now + HEARTBEAT_S * (1 + _JITTER)
        same_reason = (old.get("verdict"), old.get("reason")) == (new["verdict"], new["reason"])
        return not (same_reason and self._written_at <= now < self._written_at + _SETTLE_S)

    def _recall(self, now: float) -> None:
        """What an agent before this one wrote: a restart is no reason to write again."""
        try:
            old = self.client.get(path_of(API_VERSION, PLURAL, self.node_name))
            written_at = seconds(old["report"]["time"])
        except ApiError as e:
            if e.status != 404:
                raise
        except (KeyError, TypeError, ValueError):
            pass  # written by nobody we know: write over it
        else:
            self._written = substance(old)
            self._next_heartbeat = min(written_at, now) + self._interval()
        self._known = True

    def _interval(self) -> float:
        return HEARTBEAT_S * (1 + _JITTER * self.random())

    def _failed(self, error: ApiError | Unreachable, now: float) -> None:
        self._failures += 1
        pause = min(_BACKOFF_MAX_S, _BACKOFF_FIRST_S * 2 ** min(self._failures, 16)) * self.random()
        asked = error.retry_after_s if isinstance(error, ApiError) else None
        self._not_before = now + max(pause, min(asked or 0.0, _BACKOFF_MAX_S))
        self.last_error = f"HTTP {error.status}: {error.message}" if isinstance(error, ApiError) else str(error)
