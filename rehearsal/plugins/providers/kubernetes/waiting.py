"""Waiting for an object, with live status from its readiness rule and its Warning events."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from slicewright.kubeapi import ApiError, JsonObject, Unreachable
from slicewright.kubeapi.client import path_of
from slicewright.rehearsal.plugins.engine.plugin import Severity
from slicewright.rehearsal.plugins.providers.kubernetes.cluster import Cluster
from slicewright.rehearsal.plugins.providers.kubernetes.related_objects import (
    Collection,
    RelatedObjects,
    WatchedObjects,
)

ShowStatus = Callable[[Severity, str], None]
"""Shows one line of live status; an empty one clears it."""

_TICK_S: Final = 0.25
"""The longest delay in noticing an interrupt or the timeout."""
TIMED_OUT: Final = "timed out waiting for the condition"


@dataclass(frozen=True)
class Verdict:
    """Whether an object is ready."""

    done: bool
    status: str = ""
    severity: Severity = Severity.INFO
    failed: tuple[str, ...] = ()
    """Reasons that end the wait."""
    recheck: bool = False
    """Judge again without a change, for rules that depend on time."""


class Rule(Protocol):
    """When an object is ready."""

    def needs(self, live: JsonObject) -> Mapping[str, Collection]:
        """Further collections that `judge` reads, by name."""

    def judge(self, live: JsonObject, related: RelatedObjects) -> Verdict:
        """Whether the object is ready now."""

    def on_timeout(self, live: JsonObject) -> tuple[str, ...]:
        """The reasons of the failure, the main one first."""


class ObjectRule:
    """Base of rules that look at nothing but the object."""

    def needs(self, live: JsonObject) -> Mapping[str, Collection]:
        return {}

    def on_timeout(self, live: JsonObject) -> tuple[str, ...]:
        return (TIMED_OUT,)


@dataclass
class NotReady(Exception):
    """The object was stored but did not become ready."""

    reasons: tuple[str, ...]
    """The main one first."""
    live: JsonObject = field(default_factory=dict)


def await_ready(
    cluster: Cluster,
    path: str,
    live: JsonObject,
    rule: Rule,
    *,
    timeout_s: float,
    cancelled: threading.Event,
    show_status: ShowStatus,
) -> JsonObject:
    """The live object once the rule is satisfied. Raises NotReady."""
    metadata = live["metadata"]
    collection = path.rsplit("/", 1)[0]
    events = path_of("v1", "events", namespace=metadata.get("namespace"))
    collections = {
        "self": Collection(collection, f"metadata.name={metadata['name']}"),
        "events": Collection(events, f"involvedObject.uid={metadata['uid']}"),
        **rule.needs(live),
    }
    identity = {key: live[key] for key in ("apiVersion", "kind")}
    deadline = time.monotonic() + timeout_s
    reported: set[str] = set()

    def show(severity: Severity, text: str) -> None:
        if text and text not in reported:
            reported.add(text)
            show_status(severity, text)

    revision, fresh = 0, True
    with WatchedObjects(cluster, collections) as related:
        try:
            while True:
                for item in related.items("self"):
                    live = {**identity, **item}
                for event in related.items("events"):
                    if event.get("type") == "Warning":
                        show(
                            Severity.WARNING,
                            f"{event.get('reason', '')}: {event.get('message', '')}",
                        )
                if fresh:
                    verdict = rule.judge(live, related)
                    show(verdict.severity, verdict.status)
                    if verdict.failed:
                        raise NotReady(verdict.failed, live)
                    if verdict.done:
                        return live
                if cancelled.is_set():
                    raise NotReady((_interrupted(live),), live)
                if time.monotonic() >= deadline:
                    raise NotReady(rule.on_timeout(live), live)
                reached = related.wait(revision, _TICK_S)
                fresh = reached != revision or verdict.recheck
                revision = reached
        finally:
            if reported:
                show_status(Severity.INFO, "")


def await_gone(
    cluster: Cluster,
    path: str,
    uid: str,
    *,
    timeout_s: float,
    cancelled: threading.Event,
    show_status: ShowStatus,
) -> None:
    """Returns when no object has this path and uid. Raises NotReady."""
    deadline = time.monotonic() + timeout_s
    pause = 0.05
    live: JsonObject = {}
    announced = False
    try:
        while True:
            try:
                live = cluster.get(path)
                if live["metadata"]["uid"] != uid:
                    return
            except ApiError as e:
                if e.status == 404:
                    return
                raise
            except Unreachable:
                pass  # the deadline bounds an outage
            if cancelled.wait(pause):
                raise NotReady(("context canceled",), live)
            if time.monotonic() >= deadline:
                raise NotReady((TIMED_OUT,), live)
            if pause > 0.2 and not announced:
                show_status(Severity.INFO, "Resource scheduled for deletion")
                announced = True
            pause = min(pause * 1.5, 1.0)
    finally:
        if announced:
            show_status(Severity.INFO, "")


def _interrupted(live: JsonObject) -> str:
    if live.get("kind") == "Job":
        return f'Resource operation was cancelled for "{live["metadata"]["name"]}"'
    return "context canceled"
