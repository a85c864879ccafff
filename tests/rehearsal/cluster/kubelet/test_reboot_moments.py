"""A node that goes down or is deleted ends its pods, at whatever moment of their start."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from slicewright.rehearsal.cluster.kubelet.images.registries import Puller, Registries
from slicewright.rehearsal.cluster.kubelet.images.store import ImageStore
from slicewright.rehearsal.cluster.kubelet.nodes.holds import Holds
from slicewright.rehearsal.cluster.kubelet.pods.pod import PodRun
from tests.properties import cases

POD = {
    "metadata": {"name": "p", "namespace": "ns", "uid": "u"},
    "spec": {
        "nodeName": "n",
        "initContainers": [{"name": "first", "image": "python:3"}],
        "containers": [{"name": "main", "image": "python:3"}],
    },
}
MOMENTS = 120
"""Turns of the event loop from the pod's beginning, and from the end of its init container; it
runs after fewer."""


class Processes:
    """An init container ends at once; the other one runs on."""

    def __init__(self) -> None:
        self.started: list[tuple[str, subprocess.Popen[bytes]]] = []

    async def start(self, wanted: Any) -> tuple[subprocess.Popen[bytes], None]:
        name = wanted.container["name"]
        argv = ["true"] if name == "first" else ["sleep", "1000"]
        process = subprocess.Popen(argv, start_new_session=True)
        self.started.append((name, process))
        return process, None

    def execute(
        self, wanted: Any, devices: None, command: Sequence[str], output: Path
    ) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(command, start_new_session=True)
        self.started.append((" ".join(command), process))
        return process

    def run(self, name: str) -> bool:
        return any(n == name and p.poll() is None for n, p in self.started)


class NodeOfPod(SimpleNamespace):
    """What a pod asks of its node, one without GPUs."""

    def __init__(self, directory: Path) -> None:
        super().__init__(
            ready=asyncio.Event(),
            directory=directory,
            held=Holds(),
            kubelet_service=SimpleNamespace(runs=asyncio.Event()),
            machine=SimpleNamespace(cloud="eks"),
            files=SimpleNamespace(
                root=directory / "root",
                containerd=SimpleNamespace(runtimes=(), network_plugins=None),
            ),
            release=lambda _: None,
            images=ImageStore(Registries(directory / "no faults")),
            puller=Puller(
                architecture="amd64", address="n1", shared=False, asks_googles_cache=False
            ),
        )
        self.ready.set()
        self.kubelet_service.runs.set()


class ApiOfPod:
    """Accepts every status; runs calls at once, so that a turn of the loop is always the same."""

    def __init__(self) -> None:
        self.statuses: list[Any] = []

    async def run(self, call: Callable[..., Any], *args: Any, **named: Any) -> Any:
        return call(*args, **named)

    async def patch_status(self, path: str, body: Any) -> Any:
        self.statuses.append(body["status"])
        return body

    async def remove_pod(self, pod: Any) -> bool:
        return True

    def report(self, *_: Any) -> None: ...


class Addresses:
    def take(self, preferred: str | None = None) -> str:
        return "127.16.1.1"

    def give_back(self, address: str) -> None: ...


def pod_on(node: NodeOfPod, processes: Processes, pod: Any = POD) -> PodRun:
    return PodRun(
        pod,
        cast(Any, node),
        cast(Any, ApiOfPod()),
        cast(Any, None),
        cast(Any, Addresses()),
        cast(Any, processes),
    )


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def within_a_minute(what: Awaitable[Any], when: str) -> None:
    try:
        async with asyncio.timeout(60):
            await what
    except TimeoutError:
        pytest.fail(f"not ended within a minute when it began {when}")


async def comes_to(processes: Processes, since: str, count: int) -> None:
    """Until `count` turns after that moment."""
    if since == "the end of the init container":
        while not processes.started or processes.started[0][1].returncode is None:
            await asyncio.sleep(0)
    await turns(count)


@pytest.mark.parametrize("since", ["its beginning", "the end of the init container"])
def test_a_pod_is_lost_at_any_moment_and_starts_again(tmp_path: Path, since: str) -> None:
    async def lose_at(moment: int) -> None:
        node, processes = NodeOfPod(tmp_path / str(moment)), Processes()
        run = pod_on(node, processes)
        living = asyncio.create_task(run.run())
        await comes_to(processes, since, moment)
        # As cluster.py does: the node is down a turn before its pods hear of it.
        lost = asyncio.gather(run.lose())
        node.ready.clear()
        await within_a_minute(lost, f"{moment} turns after {since}")
        assert not processes.run("first")
        assert not processes.run("main")
        node.ready.set()
        async with asyncio.timeout(60):
            while not processes.run("main"):
                await asyncio.sleep(0.001)
        run.vanished()
        await within_a_minute(living, "with a pod that runs")
        assert not processes.run("main")

    for moment in cases(range(MOMENTS)):
        asyncio.run(lose_at(moment))


@pytest.mark.parametrize("since", ["its beginning", "the end of the init container"])
def test_a_pod_of_a_node_deleted_while_it_is_down_ends(tmp_path: Path, since: str) -> None:
    async def delete_at(moment: int) -> None:
        node, processes = NodeOfPod(tmp_path / str(moment)), Processes()
        run = pod_on(node, processes)
        living = asyncio.create_task(run.run())
        await comes_to(processes, since, moment)
        node.ready.clear()
        run.vanished()
        await within_a_minute(living, f"{moment} turns after {since}")
        assert not processes.run("first")
        assert not processes.run("main")

    for moment in cases(range(MOMENTS)):
        asyncio.run(delete_at(moment))


def test_a_pod_that_is_deleted_while_the_kubelet_is_stopped_runs_until_it_starts(
    tmp_path: Path,
) -> None:
    deleted = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 1}

    async def delete() -> None:
        node, processes = NodeOfPod(tmp_path), Processes()
        run = pod_on(node, processes)
        living = asyncio.create_task(run.run())
        while not run.is_running("main"):
            await asyncio.sleep(0)
        node.ready.clear()
        node.kubelet_service.runs.clear()
        run.update({**POD, "metadata": {**POD["metadata"], **deleted}})
        await asyncio.sleep(0.5)
        assert processes.run("main")
        node.kubelet_service.runs.set()
        node.ready.set()
        await within_a_minute(living, "with a pod that runs")
        assert not processes.run("main")

    asyncio.run(delete())


def test_a_pod_of_a_node_deleted_while_its_kubelet_is_stopped_ends(tmp_path: Path) -> None:
    async def delete() -> None:
        node, processes = NodeOfPod(tmp_path), Processes()
        run = pod_on(node, processes)
        living = asyncio.create_task(run.run())
        while not run.is_running("main"):
            await asyncio.sleep(0)
        node.ready.clear()
        node.kubelet_service.runs.clear()
        run.vanished()
        await within_a_minute(living, "with a pod that runs")
        assert not processes.run("main")

    asyncio.run(delete())


def test_a_pod_that_a_fault_holds_is_deleted_after_its_hook(tmp_path: Path) -> None:
    hook = {"exec": {"command": ["true"]}}
    containers = [{"name": "main", "image": "python:3", "lifecycle": {"preStop": hook}}]
    pod = {**POD, "spec": {"containers": containers}}
    deleted = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 1}

    async def delete() -> None:
        node, processes = NodeOfPod(tmp_path), Processes()
        run = pod_on(node, processes, pod)
        living = asyncio.create_task(run.run())
        while not run.is_running("main"):
            await asyncio.sleep(0)
        node.held = Holds(pods=("p",))
        run.update({**pod, "metadata": {**POD["metadata"], **deleted}})
        await within_a_minute(living, "with a pod that runs")
        assert [name for name, _ in processes.started] == ["main", "true"]
        assert not processes.run("main")

    asyncio.run(delete())
