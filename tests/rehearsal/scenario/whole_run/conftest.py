"""Whole runs: the real engine, a real API server, and everything that must be gone afterwards."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from slicewright.kubeapi import ApiError, Client, Unreachable, list_and_watch
from slicewright.rehearsal.cluster.control_plane import process_images
from slicewright.rehearsal.cluster.node import launcher
from slicewright.rehearsal.host.toolchain import Toolchain
from slicewright.rehearsal.scenario import checkpoints
from slicewright.rehearsal.scenario import environment as environments
from slicewright.rehearsal.scenario.engine_runs import Engine
from slicewright.rehearsal.scenario.environment import Environment

Make = Callable[[str], Environment]
WHOLE_GPU = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "whole-gpu", "namespace": "default"},
    "spec": {
        "tolerations": [
            {"key": "nvidia.com/gpu", "operator": "Exists"},
            {"key": "nvidia/share", "operator": "Exists"},
        ],
        "containers": [
            {
                "name": "eager",
                "image": "example.org/eager:1",
                "resources": {"limits": {"nvidia.com/gpu": "1"}},
            }
        ],
    },
}


def _node(client: Client, name: str) -> dict[str, Any]:
    """A busy API server may be asked again: an error would end the thread that watches."""
    for _ in range(20):
        with suppress(Unreachable):
            return client.get(f"/api/v1/nodes/{name}")
    return client.get(f"/api/v1/nodes/{name}")


@dataclass
class EagerPod:
    """A pod that wants a GPU from the first moment of the cluster on, and the state of its node
    when it was bound.
    """

    environment: Environment
    stop: threading.Event = field(default_factory=threading.Event)
    node_when_bound: dict[str, Any] | None = None
    made: bool = False

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self.run, daemon=True)
        self._thread.start()

    def end(self, *, moment_s: float) -> None:
        """Gives a binding that is under way a moment to be seen, then stops looking."""
        self._thread.join(timeout=moment_s)
        self.stop.set()
        self._thread.join(timeout=120)

    def run(self) -> None:
        client = self._create()
        if client is None:
            return
        for event in list_and_watch(
            client, "/api/v1/namespaces/default/pods", stop=self.stop, window_s=5
        ):
            for pod in event.items or ((event.object,) if event.object else ()):
                if pod.get("metadata", {}).get("name") == "whole-gpu" and pod["spec"].get(
                    "nodeName"
                ):
                    self.node_when_bound = _node(client, pod["spec"]["nodeName"])
                    return

    def _create(self) -> Client | None:
        while not self.stop.wait(0.1):
            for path in self.environment.kubeconfigs().values():
                try:
                    client = Client.from_kubeconfig(path)
                    client.create("/api/v1/namespaces/default/pods", WHOLE_GPU)
                except (ApiError, Unreachable, ValueError, OSError):
                    continue
                self.made = True
                return client
        return None


class EagerPods:
    """Pods that ask for a whole GPU, from before there is a cluster until `end`.

    They tolerate every taint of a GPU node but the startup taint. There is always a fresh one: the
    scheduler tries a new pod at once, and one that it could not place only after a back-off.
    """

    def __init__(self, environment: Environment) -> None:
        self.bound: list[str] = []
        """What a binding looked like: the pod, and its node at that moment."""
        self.made = 0
        self.watched = 0
        """Events about these pods: at least one for each that was made."""
        self._environment = environment
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._make, daemon=True)]
        self._threads[0].start()

    def end(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=120)

    def _make(self) -> None:
        client: Client | None = None
        while not self._stop.wait(0.2):
            try:
                if client is None:
                    (path,) = self._environment.kubeconfigs().values()
                    client = Client.from_kubeconfig(path)
                    watching = threading.Thread(target=self._watch, args=(client,), daemon=True)
                    self._threads.append(watching)
                    watching.start()
                client.create(_PODS, self._pod(self.made))
                self.made += 1
                if self.made > 5:
                    client.delete(f"{_PODS}/eager-{self.made - 6}", gracePeriodSeconds="0")
            except (ApiError, Unreachable, ValueError, OSError):
                continue  # no cluster yet, or no more

    def _watch(self, client: Client) -> None:
        seen = set()
        for event in list_and_watch(
            client, _PODS, stop=self._stop, window_s=5, labelSelector="app=eager"
        ):
            for pod in event.items or ((event.object,) if event.object else ()):
                name, node = pod["metadata"].get("name"), pod.get("spec", {}).get("nodeName")
                self.watched += bool(name)  # a bookmark has none
                if node and name not in seen:
                    seen.add(name)
                    found = _node(client, node)
                    self.bound.append(
                        f"{name} on {node}: taints {found['spec'].get('taints')}, allocatable "
                        f"{found['status']['allocatable']}, labels {found['metadata']['labels']}"
                    )

    @staticmethod
    def _pod(number: int) -> dict[str, Any]:
        metadata = {"name": f"eager-{number}", "namespace": "default", "labels": {"app": "eager"}}
        keys = ("nvidia.com/gpu", "nvidia/share")
        outages = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
        return {
            **WHOLE_GPU,
            "metadata": metadata,
            "spec": {
                **WHOLE_GPU["spec"],  # type: ignore[dict-item]
                "terminationGracePeriodSeconds": 0,
                "tolerations": [{"key": key, "operator": "Exists"} for key in (*keys, *outages)],
            },
        }


_PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def confined(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A directory in which HOME and TMPDIR lie beside the environments, so that a file anywhere
    else is seen. Engines write their states at the end only, unless the module has ENGINES_DIE.
    """
    if reason := launcher.why_not():
        pytest.fail(f"whole runs cannot be tested here: {reason}")
    # Short, because unix sockets lie deep below it.
    base = Path(tempfile.mkdtemp(prefix="sw-", dir="/tmp"))
    before = {name: os.environ.get(name) for name in ("HOME", "TMPDIR", checkpoints.VARIABLE)}
    for name in ("HOME", "TMPDIR"):
        (base / name.lower()).mkdir()
        os.environ[name] = str(base / name.lower())
    if not getattr(request.module, "ENGINES_DIE", False):
        os.environ[checkpoints.VARIABLE] = checkpoints.AT_THE_END
    tempfile.tempdir = None
    yield base
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    tempfile.tempdir = None
    shutil.rmtree(base, ignore_errors=True)


@contextmanager
def _making(toolchain: Toolchain, confined: Path) -> Iterator[Make]:
    made: list[Environment] = []

    def make(name: str) -> Environment:
        environment = environments.create(confined / name, toolchain)
        made.append(environment)
        environments.start(environment)
        return environment

    yield make
    for environment in made:
        environments.remove(environment)


@pytest.fixture(scope="module")
def make_environment(toolchain: Toolchain, confined: Path) -> Iterator[Make]:
    """Makes and starts environments below the confined directory; ends them all afterwards,
    whatever happened.
    """
    with _making(toolchain, confined) as make:
        yield make


@pytest.fixture(scope="module")
def make_environment_with_triton(triton_toolchain: Toolchain, confined: Path) -> Iterator[Make]:
    """As make_environment; pods of NVIDIA's Triton serve in them."""
    with _making(triton_toolchain, confined) as make:
        yield make


@pytest.fixture(scope="module")
def make_environment_with_prometheus(
    monitoring_toolchain: Toolchain, confined: Path
) -> Iterator[Make]:
    """As make_environment; Prometheus and its operator run in them."""
    with _making(monitoring_toolchain, confined) as make:
        yield make


@pytest.fixture(scope="module")
def make_environment_with_volcano(volcano_toolchain: Toolchain, confined: Path) -> Iterator[Make]:
    """As make_environment; Volcano's scheduler and controllers run in them."""
    with _making(volcano_toolchain, confined) as make:
        yield make


@pytest.fixture(scope="module")
def make_environment_with_all_tools(whole_toolchain: Toolchain, confined: Path) -> Iterator[Make]:
    """As make_environment; Triton, Prometheus, its operator and KEDA run in them."""
    with _making(whole_toolchain, confined) as make:
        yield make


@pytest.fixture(scope="module")
def simulated_programs() -> Iterator[None]:
    """NVIDIA's programs are simulated: other runs have their own ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(process_images.VARIABLE, "simulated")
        yield


@pytest.fixture(scope="module")
def client(engine: Engine) -> Client:
    """Brings up the stack of the module's `engine`; a client of its only cluster."""
    up = engine.up()
    assert up.code == 0, up.output
    return Client.from_kubeconfig(next(iter(engine.environment.kubeconfigs().values())))


@pytest.fixture(scope="session")
def ask_early() -> Callable[[Environment], EagerPod]:
    """Makes a pod that asks for a GPU as soon as the environment has a cluster, and watches where
    it goes.
    """
    return EagerPod


@pytest.fixture(scope="session")
def ask_throughout() -> Callable[[Environment], EagerPods]:
    return EagerPods
