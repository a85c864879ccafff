"""The API server for the event loop: calls of kubeapi.Client, awaited.

A real kubelet makes each request with its node's certificate. Here the requests of one kubelet are
made through `Api.of_kubelet`, so that the API server's Node authorizer and NodeRestriction judge
them. The user of the stand-in's own certificate, an administrator, makes only the requests that no
kubelet makes: watches of all nodes together, of which each kubelet would have its own, and
whatever the simulation itself needs.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from slicewright.kubeapi.client import ApiError, Client, JsonObject, Unreachable, path_of
from slicewright.rehearsal.cluster.control_plane.kubelets import (
    account_of,
    controller_of,
    kubelet_of,
)
from slicewright.rehearsal.cluster.kubelet.timestamps import timestamp

_log = logging.getLogger(__name__)
_SAME_EVENT_S = 60.0
_EVENT_RETRY_S = (0.2, 1.0, 5.0)
"""Pauses between tries to send an event."""
_T = TypeVar("_T")


class Api:
    """Runs calls in a few threads; `client` is for code that runs in a thread anyway.

    Both act as the same user: an administrator, unless `of_kubelet` and the like made this object.
    """

    def __init__(self, client: Client, *, threads: int = 8) -> None:
        self.client = client
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="api")
        self._events: dict[tuple[str, str, str], float] = {}
        self._closing = threading.Event()

    def of_kubelet(self, node: str) -> Api:
        """The same threads and connections with the rights of the node's kubelet, and no others."""
        return self._acting(kubelet_of(self.client, node))

    def of_controller(self, name: str) -> Api:
        """The same with the rights of a controller of Kubernetes."""
        return self._acting(controller_of(self.client, name))

    def of_pod(self, pod: JsonObject) -> Api:
        """The same with the rights of the pod's service account."""
        account = pod["spec"].get("serviceAccountName", "default")
        return self._acting(account_of(self.client, pod["metadata"]["namespace"], account))

    async def run(self, call: Callable[..., _T], *args: object, **named: object) -> _T:
        """Any blocking call, in one of the threads."""
        return await asyncio.get_running_loop().run_in_executor(
            self._threads, functools.partial(call, *args, **named)
        )

    async def patch_status(self, path: str, body: JsonObject) -> JsonObject:
        """Merges the body into the object's status, and answers with the object."""
        return await self.run(self.client.patch, f"{path}/status", body, kind="strategic")

    async def remove_pod(self, pod: JsonObject) -> bool:
        """Deletes the pod from the API without grace, unless another pod has its name now.

        False: the API server does not know the pod. NodeRestriction answers so for a moment after
        the pod's creation, too.
        """
        metadata = pod["metadata"]
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": 0,
            "preconditions": {"uid": metadata["uid"]},
        }
        try:
            await self.run(
                self.client.delete,
                path_of("v1", "pods", metadata["name"], metadata["namespace"]),
                body,
            )
        except ApiError as e:
            if e.status == 404:
                return False
            if e.status != 409:  # another pod has that name
                raise
        return True

    def warn(self, pod: JsonObject, container: str | None, reason: str, message: str) -> None:
        """Creates a Warning Event on the pod; see `report`."""
        self.report(pod, container, "Warning", reason, message)

    def report(
        self, pod: JsonObject, container: str | None, kind: str, reason: str, message: str
    ) -> None:
        """Creates an Event on the pod, at most one a minute with the same message.

        Sent in the background, and a few times while the API server does not answer. kind: its
        type, Normal or Warning.
        """
        metadata = pod["metadata"]
        key = (metadata["uid"], reason, message)
        now = time.monotonic()
        self._events = {k: until for k, until in self._events.items() if until > now}
        if key in self._events:
            return
        self._events[key] = now + _SAME_EVENT_S
        at = timestamp()
        involved: JsonObject = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
        }
        if container:
            involved["fieldPath"] = f"spec.containers{{{container}}}"
        event: JsonObject = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "generateName": f"{metadata['name']}.",
                "namespace": metadata["namespace"],
            },
            "involvedObject": involved,
            "type": kind,
            "reason": reason,
            "message": message,
            "source": {"component": "kubelet", "host": pod["spec"].get("nodeName", "")},
            "firstTimestamp": at,
            "lastTimestamp": at,
            "count": 1,
        }
        self._threads.submit(self._send_event, event)

    def close(self) -> None:
        """Stops the threads, for the objects that share them, too."""
        self._closing.set()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _acting(self, client: Client) -> Api:
        other = copy.copy(self)
        other.client = client
        other._events = {}
        return other

    def _send_event(self, event: JsonObject) -> None:
        path = path_of("v1", "events", None, event["metadata"]["namespace"])
        for pause_s in (*_EVENT_RETRY_S, None):
            try:
                self.client.create(path, event)
                return
            except (ApiError, Unreachable) as e:
                about = f"event {event['reason']} on {event['involvedObject']['name']}"
                _log.info("%s not sent: %s", about, e)
                if isinstance(e, ApiError) and e.status < 500 and e.status != 429:
                    return  # refused, as where its namespace is being deleted
            if pause_s is None or self._closing.wait(pause_s):
                return
