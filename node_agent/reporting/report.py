"""The node's `GPUNodeReport`: written on a change, else as a slow heartbeat.

2,000 agents share an API server. So an unchanged report is not written again, heartbeats have
jitter, a restarted agent first reads its last report, and errors back off.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from slicewright.apis.names import API_VERSION, REPORT_KIND, REPORT_PLURAL
from slicewright.kubeapi import ApiError, Client, Unreachable
from slicewright.kubeapi.client import path_of
from slicewright.node_agent.cluster.backoff import Backoff
from slicewright.node_agent.cluster.node import NodeState
from slicewright.node_agent.nvml.observed import Observation, ObservedGpu
from slicewright.node_agent.verdict.findings import Verdict
from slicewright.telemetry.plain import plain

FIELD_MANAGER = "slicewright-node-agent"

HEARTBEAT_S = 300.0
"""Shortest time between two equal reports. Up to `_JITTER` of it is added."""
_JITTER = 0.2
_SETTLE_S = 5.0
"""Shortest time between two reports with the same reason, whose details change while a node is
being partitioned.
"""
_BURST = 20
"""Number of changed reports that are written at once, more than a node's set-up needs. Later ones
need `_REFILL_S` each (a token bucket).
"""
_REFILL_S = 60.0
_BACKOFF_MAX_S = 120.0
MAX_BYTES = 2048
"""Limit of the whole object as sent: etcd and every watcher store one for each node."""
_MAX_MODEL, _MAX_DRIVER, _MAX_ERROR = 96, 80, 256
_MAX_ANSWER = 500
"""The limit of the resource's schema, in characters."""


def body(
    verdict: Verdict,
    observation: Observation,
    node: NodeState,
    *,
    pool: str,
    layout_hash: str,
    at: float,
    proof: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The whole object, at most `MAX_BYTES` long. at: time of the probe, seconds since the epoch.

    Equal GPUs share an entry. UUIDs are in the metrics and in `show`, and here only those that the
    proof names. All text is plain.

    proof: the record of the compute proof of this state. None or empty: there is none.
    """
    models = sorted({_shorten(gpu.model, _MAX_MODEL) for gpu in observation.gpus if gpu.model})
    report: dict[str, Any] = {
        "verdict": verdict.verdict,
        "reason": verdict.reason,
        "message": plain(verdict.message),
        "pool": pool,
        "observedHash": layout_hash,
        "bootID": node.boot_id,
        "time": stamp(at),
    }
    if observation.driver:
        report["driver"] = _shorten(observation.driver, _MAX_DRIVER)
    if models:
        report["models"] = models
    if proof:
        report["compute"] = {**proof, "devices": []}
    whole = {
        "apiVersion": API_VERSION,
        "kind": REPORT_KIND,
        "metadata": {
            "name": node.name,
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid}
            ],
        },
        "report": report,
    }
    entries = _group_gpus(
        [
            (gpu.index, _entry(gpu, instances, several_models=len(models) > 1))
            for gpu, instances in zip(observation.gpus, verdict.instances, strict=True)
        ]
    )
    _fit(whole, entries)
    if proof:
        _fit_devices(whole, proof)
    return whole


def _fit_devices(whole: dict[str, Any], proof: Mapping[str, Any]) -> None:
    """Adds as many devices of the proof as fit. `deviceCount` counts all of them."""
    compute = whole["report"]["compute"]
    for device in proof["devices"]:
        compute["devices"].append(device)
        if len(json.dumps(whole)) > MAX_BYTES:
            compute["devices"].pop()
            return


def _fit(whole: dict[str, Any], entries: list[dict[str, Any]]) -> None:
    """Adds as many GPUs as fit, and shortens other texts if even they are too long."""
    report = whole["report"]
    for complete in range(len(entries), -1, -1):
        rest = sorted(index for entry in entries[complete:] for index in entry["indexes"])
        report["gpus"] = entries[:complete] + ([{"indexes": rest}] if rest else [])
        if len(json.dumps(whole)) <= MAX_BYTES:
            return
    # Every text of a broken driver can be long. The message is the most important.
    report.pop("models", None)
    while len(json.dumps(whole)) > MAX_BYTES:
        report["message"] = report["message"][: len(report["message"]) * 3 // 4]


def content(report: Mapping[str, Any]) -> dict[str, Any]:
    """A report object without its time and the API server's fields, to compare two reports."""
    owners = [owner.get("uid") for owner in report.get("metadata", {}).get("ownerReferences", [])]
    return {
        "owners": owners,
        **{key: value for key, value in report.get("report", {}).items() if key != "time"},
    }


def stamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds(timestamp: str) -> float:
    """Inverse of `stamp`. Raises ValueError."""
    return datetime.fromisoformat(timestamp).timestamp()


def _entry(
    gpu: ObservedGpu, instances: Mapping[str, int], *, several_models: bool
) -> dict[str, Any]:
    """A GPU's entry without its index."""
    entry: dict[str, Any] = {"mig": gpu.mig}
    if gpu.model and several_models:
        entry["model"] = _shorten(gpu.model, _MAX_MODEL)
    if gpu.mig_pending != gpu.mig:
        entry["pending"] = gpu.mig_pending
    if instances:
        entry["instances"] = {plain(profile): count for profile, count in instances.items()}
    if gpu.failure:
        entry["error"] = _shorten(f"{gpu.failure.call}: {gpu.failure.text}", _MAX_ERROR)
    return entry


def _shorten(text: str, most: int) -> str:
    return plain(text)[:most]


def _group_gpus(entries: Sequence[tuple[int, dict[str, Any]]]) -> list[dict[str, Any]]:
    groups: list[dict[str, Any]] = []
    for index, entry in entries:
        for group in groups:
            if entry == {key: value for key, value in group.items() if key != "indexes"}:
                group["indexes"].append(index)
                break
        else:
            groups.append({"indexes": [index], **entry})
    return groups


@dataclass
class Reporter:
    """Writes reports. Call `write` after every probe: it decides whether a write is due.

    Times are seconds since the epoch, as in the reports. A jump of the clock causes at most one
    early or late heartbeat.
    """

    client: Client
    node_name: str
    random: Callable[[], float] = random.random
    _written: dict[str, Any] | None = None
    _written_at: float = float("-inf")
    _time: str = ""
    """The time in the last report, as text. Such times sort as text."""
    _tokens: float = _BURST
    """Changed reports that may be written now."""
    _refilled_at: float = 0.0
    _next_heartbeat: float = 0.0
    _recalled: bool = False
    _backoff: Backoff = field(init=False)
    last_error: str | None = field(default=None)
    """Why the newest report is not written, None after a success."""

    def __post_init__(self) -> None:
        self._backoff = Backoff(longest_s=_BACKOFF_MAX_S, random=self.random)

    def write(self, new: dict[str, Any], *, now: float, after: str = "") -> bool:
        """Writes the report if that is due. Returns True if it was written. An error sets
        `last_error`, and later calls try again.

        after: the controller ignores reports of this time (as in reports) and earlier, so a newer
        report is written even if it is equal.
        """
        if self._backoff.waits(now):
            return False
        try:
            if not self._recalled:
                self._recall(now)
            outdated = bool(after) and self._time <= after < new["report"]["time"]
            if not outdated and not self._is_due(content(new), now):
                return False
            self.client.patch(
                path_of(API_VERSION, REPORT_PLURAL, self.node_name),
                new,
                kind="apply",
                fieldManager=FIELD_MANAGER,
                force="true",
            )
        except (ApiError, Unreachable) as e:
            self._record_failure(e, now)
            return False
        self._backoff.succeeded()
        self._written, self._written_at, self.last_error = content(new), now, None
        self._time = new["report"]["time"]
        self._tokens -= 1
        self._next_heartbeat = now + self._interval()
        return True

    def last_proof(self, now: float) -> Mapping[str, Any]:
        """The record of the compute proof in the report of the previous agent. Empty: none."""
        if not self._recalled and not self._backoff.waits(now):
            try:
                self._recall(now)
            except (ApiError, Unreachable) as e:
                self._record_failure(e, now)
        proof = (self._written or {}).get("compute")
        return proof if isinstance(proof, dict) else {}

    def _is_due(self, new: dict[str, Any], now: float) -> bool:
        old = self._written
        if old is None:
            return True
        if new == old:
            self.last_error = None
            return not now < self._next_heartbeat <= now + HEARTBEAT_S * (1 + _JITTER)
        if old.get("verdict") == "Match" and new["verdict"] != "Match":
            # Nobody may rely on the match any longer. Damping limits how often this happens.
            return True
        same_reason = (old.get("verdict"), old.get("reason")) == (new["verdict"], new["reason"])
        settling = same_reason and self._written_at <= now < self._written_at + _SETTLE_S
        return self._allowed(now) and not settling

    def _allowed(self, now: float) -> bool:
        """True if the token bucket allows a changed report now, which limits a flapping node."""
        self._tokens = min(_BURST, self._tokens + max(0.0, now - self._refilled_at) / _REFILL_S)
        self._refilled_at = now
        return self._tokens >= 1

    def _recall(self, now: float) -> None:
        """Reads the previous agent's report, so that a restart does not write the same again."""
        try:
            old = self.client.get(path_of(API_VERSION, REPORT_PLURAL, self.node_name))
            written_at = seconds(old["report"]["time"])
            last_content = content(old)
        except ApiError as e:
            if e.status != 404:
                raise
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            pass  # not a report of ours: overwrite it
        else:
            self._written, self._time = last_content, old["report"]["time"]
            self._next_heartbeat = min(written_at, now) + self._interval()
        self._recalled = True

    def _interval(self) -> float:
        return HEARTBEAT_S * (1 + _JITTER * self.random())

    def _record_failure(self, error: ApiError | Unreachable, now: float) -> None:
        self._backoff.failed(now, error.retry_after_s if isinstance(error, ApiError) else None)
        message = (
            f"HTTP {error.status}: {error.message}" if isinstance(error, ApiError) else str(error)
        )
        self.last_error = _shorten(message, _MAX_ANSWER)
