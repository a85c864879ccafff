"""Pods that fail: what the first `kubectl get pods -A` would show in red."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from slicewright.kubeapi import Client

_EVERY_S: Final = 0.5
_STARTING: Final = ("ContainerCreating", "PodInitializing")
"""Reasons of containers that wait for nothing unusual."""


def wait_until_none(
    client: Client, *, timeout_s: float = 60.0, lasting_s: float = 3.0
) -> tuple[str, ...]:
    """The failing pods of all namespaces: none, once none has failed for `lasting_s`, or those that
    were the last to be seen failing within `timeout_s`.

    A container may fail a few times while what it needs comes up, such as the driver.
    """
    began = good_since = time.monotonic()
    last: tuple[str, ...] = ()
    while True:
        found, now = failing(client.get("/api/v1/pods")["items"]), time.monotonic()
        if found:
            last, good_since = found, now
        if now - good_since >= lasting_s:
            return ()
        if now - began > timeout_s:
            return last
        time.sleep(_EVERY_S)


def failing(pods: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """`namespace/name: reason` of each pod that failed, is not Ready though it runs, or has a
    container that cannot start.
    """
    return tuple(
        sorted(
            f"{pod['metadata']['namespace']}/{pod['metadata']['name']}: {reason}"
            for pod in pods
            if "deletionTimestamp" not in pod["metadata"] and (reason := _failure(pod))
        )
    )


def _failure(pod: Mapping[str, Any]) -> str:
    """Why the pod fails; empty if it does not."""
    status = pod.get("status") or {}
    if status.get("phase") == "Failed":
        return str(status.get("reason") or "Failed")
    reasons = (str(waiting.get("reason") or "") for waiting in _waiting(status))
    if reason := next((reason for reason in reasons if reason and reason not in _STARTING), ""):
        return reason
    ready = any(
        c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or ()
    )
    return "not Ready" if status.get("phase") == "Running" and not ready else ""


def _waiting(status: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    containers = (
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    )
    states = (container.get("state") or {} for container in containers)
    return [state["waiting"] for state in states if "waiting" in state]
