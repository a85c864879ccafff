"""What the kubelet stand-in writes is not lost where the API server does not answer at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from slicewright.kubeapi import ApiError, Client, Unreachable
from slicewright.rehearsal.cluster.kubelet import api as module
from slicewright.rehearsal.cluster.kubelet.api import Api
from slicewright.rehearsal.cluster.kubelet.nodes import node as nodes
from slicewright.rehearsal.cluster.kubelet.nodes.node import SimulatedNode
from slicewright.rehearsal.cluster.kubelet.pods import pod as pods
from slicewright.rehearsal.cluster.kubelet.pods.pod import PodRun
from slicewright.rehearsal.cluster.node.fake_dbus import SystemBus

POD = {"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": {"nodeName": "n"}}


class Server:
    """Fails as often as there are errors, then stores."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.tries = 0
        self.stored: list[Any] = []
        self.answered = threading.Event()

    def acting_as(self, user: str, *, group: str | None = None) -> Server:
        return self

    def create(self, path: str, body: Any) -> Any:
        return self._answer(body)

    def patch(self, path: str, body: Any, **_: Any) -> Any:
        return self._answer(body)

    def delete(self, path: str, body: Any) -> Any:
        return self._answer(body)

    def _answer(self, body: Any) -> Any:
        self.tries += 1
        if self.errors:
            error = self.errors.pop(0)
            if not self.errors and isinstance(error, ApiError) and error.status == 403:
                self.answered.set()
            raise error
        self.stored.append(body)
        self.answered.set()
        return body


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_EVENT_RETRY_S", (0.0, 0.0, 0.0))
    monkeypatch.setattr(nodes, "_RETRY_S", (0.0,))
    monkeypatch.setattr(pods, "_WRITE_RETRY_S", (0.0,))


@pytest.fixture
def made() -> Iterator[list[Api]]:
    apis: list[Api] = []
    yield apis
    for api in apis:
        api.close()


def api_of(server: Server, made: list[Api]) -> Api:
    made.append(Api(cast(Client, server), threads=1))
    return made[-1]


def run_of(server: Server, made: list[Api], directory: Path) -> PodRun:
    """Of a pod on a node that is ready. For the event loop."""
    node = SimpleNamespace(ready=asyncio.Event(), directory=directory)
    node.ready.set()
    nothing = cast(Any, None)
    pod = {**POD, "spec": {"containers": [{"name": "c", "image": "python:3"}]}}
    return PodRun(pod, cast(Any, node), api_of(server, made), nothing, nothing, nothing)


@pytest.mark.parametrize("error", [Unreachable("refused"), ApiError(503, {}), ApiError(429, {})])
def test_an_event_is_sent_again(error: Exception, made: list[Api]) -> None:
    server = Server(error, error)
    api_of(server, made).warn(POD, None, "FailedMount", "no volume")
    assert server.answered.wait(60)
    assert [event["message"] for event in server.stored] == ["no volume"]


def test_an_event_that_is_refused_is_not(made: list[Api]) -> None:
    server = Server(ApiError(403, {}))
    api = api_of(server, made)
    api.warn(POD, None, "FailedMount", "its namespace is being deleted")
    assert server.answered.wait(60)
    # The only thread has done with it when it does something else.
    assert asyncio.run(api.run(lambda: server.tries)) == 1


@pytest.mark.parametrize("error", [Unreachable("refused"), ApiError(500, {}), ApiError(409, {})])
def test_a_nodes_status_is_written_again(error: Exception, made: list[Api], tmp_path: Path) -> None:
    server = Server(error)

    async def report() -> None:
        node = SimulatedNode(
            {"metadata": {"name": "n", "uid": "u"}},
            tmp_path,
            cast(Any, None),
            api_of(server, made),
            SystemBus(),
            10250,
            lambda *_: None,
            cast(Any, None),
        )
        node._posting.set()
        node._dirty.set()
        writing = asyncio.create_task(node._report())
        try:
            assert await asyncio.to_thread(server.answered.wait, 60)
        finally:
            writing.cancel()

    asyncio.run(report())
    (written,) = server.stored
    assert written["status"]["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 10250}}


@pytest.mark.parametrize("error", [Unreachable("refused"), ApiError(500, {}), ApiError(409, {})])
def test_a_pods_status_is_written_again(error: Exception, made: list[Api], tmp_path: Path) -> None:
    server = Server(error)

    async def report() -> None:
        run = run_of(server, made, tmp_path)
        run.changed()
        writing = asyncio.create_task(run._write_status())
        try:
            assert await asyncio.to_thread(server.answered.wait, 60)
        finally:
            writing.cancel()

    asyncio.run(report())
    (written,) = server.stored
    assert written["status"]["phase"] == "Pending"


def test_a_pod_that_the_api_server_does_not_know_yet_is_removed_later(
    made: list[Api], tmp_path: Path
) -> None:
    unknown = ApiError(404, {"reason": "NotFound"})
    server = Server(unknown, unknown, unknown)

    async def remove() -> None:
        await asyncio.wait_for(run_of(server, made, tmp_path)._remove(), 60)

    asyncio.run(remove())
    assert server.stored[-1]["preconditions"] == {"uid": "u"}
