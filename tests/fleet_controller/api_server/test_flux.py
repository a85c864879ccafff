"""Flux's own controllers apply what is pushed to a bare repository, with `gitops/flux/models.yaml`:
the models wait until the fleet controller has found the pool Verified, and do not follow while it
is not.
"""

from __future__ import annotations

import functools
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from slicewright.apis.names import NODE_CONDITION
from slicewright.fleet_controller.app.loop import Loop
from slicewright.fleet_controller.objects.bounds import stamp
from slicewright.fleet_controller.pools.members import DAMPING_S
from slicewright.kubeapi import ApiError
from slicewright.rehearsal.host.toolchain.go_sdk import Sdk
from tests.fleet_controller import git_over_http
from tests.fleet_controller import kubernetes_objects as objects
from tests.fleet_controller.api_server.test_api_server import Clock, running
from tests.fleet_controller.kubernetes_objects import POOLS, REPORTS
from tests.infra.cross_check import go_module

pytestmark = [pytest.mark.soak]
_ROOT = Path(__file__).resolve().parents[3]
_MODULES = _ROOT / "rehearsal" / "host" / "toolchain" / "go"
_CONTROLLERS = ("source", "kustomize")
_SOURCES = "source.toolkit.fluxcd.io"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_FLUX = "flux-system"
_KUSTOMIZATIONS = f"/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/{_FLUX}/kustomizations"
_REPOSITORIES = f"/apis/{_SOURCES}/v1/namespaces/{_FLUX}/gitrepositories"
_NAMESPACE = "/api/v1/namespaces/models-of-flux"
_SETTINGS = f"{_NAMESPACE}/configmaps/llm"
_POOL, _NODE = "h100-partition-3g", "flux-n1"


def test_models_follow_the_repository_only_while_the_pool_is_verified(flux: Flux) -> None:
    """Each commit changes the namespace, which is before the gate, and the models behind it."""
    flux.push("small")
    flux.wait(lambda: flux.applied(_NAMESPACE) == "small", "what is before the gate is applied")
    flux.wait(lambda: flux.ready("models") == ("False", "DependencyNotReady"), "models wait")
    assert flux.ready("gpu-pools")[0] == "Unknown", "Flux waits for a pool without nodes"
    assert flux.applied(_SETTINGS) == ""

    flux.node_reports(verdict="Match")
    flux.wait(lambda: flux.applied(_SETTINGS) == "small", "the models are applied")
    flux.wait(lambda: flux.ready("gpu-pools") == ("True", "ReconciliationSucceeded"), "ready")

    flux.node_reports(verdict="Mismatch", reason="WrongLayout", message="GPU 3 has no partition.")
    flux.wait(lambda: flux.node_is("WrongLayout"), "the fleet controller has seen it")
    flux.later(DAMPING_S + 1)
    flux.wait(lambda: flux.pool_is("Stalled"), "the fleet controller calls the pool wrong")
    flux.push("large")
    flux.wait(lambda: flux.applied(_NAMESPACE) == "large", "the commit is before the gate")
    # Long before its timeout, an hour: a pool that has failed is not waited for.
    flux.wait(lambda: flux.ready("gpu-pools") == ("False", "HealthCheckFailed"), "it fails")
    flux.wait(lambda: flux.ready("models") == ("False", "DependencyNotReady"), "models wait")
    assert flux.applied(_SETTINGS) == "small"

    flux.node_reports(verdict="Match")
    flux.wait(lambda: flux.pool_is("Ready"), "the pool is verified again")
    flux.reconcile(f"{_KUSTOMIZATIONS}/gpu-pools")
    flux.wait(lambda: flux.applied(_SETTINGS) == "large", "the models follow")


@dataclass(frozen=True)
class Flux:
    """Its controllers at work beside the fleet controller, and a clone of the repository."""

    server: Any
    clock: Clock
    loop: Loop
    repository: Path
    controllers: Mapping[str, subprocess.Popen[bytes]]

    def wait(self, holds: Callable[[], bool], what: str) -> None:
        def held() -> bool:
            for name, process in self.controllers.items():
                assert process.poll() is None, f"{name}-controller has ended"
            return holds()

        self.server.wait(held, what, timeout_s=300)

    def later(self, seconds: float) -> None:
        """The fleet controller's clock goes on."""
        self.clock.ahead_s += seconds
        self.loop._cluster.changed.set()

    def push(self, size: str) -> None:
        """As a merge, and then `flux reconcile source git fleet`, instead of waiting a minute."""
        label = f"labels: {{ size: {size} }}"
        settings = f"metadata: {{ name: llm, namespace: models-of-flux, {label} }}"
        for file, text in {
            "namespaces/models.yaml": "apiVersion: v1\nkind: Namespace\n"
            f"metadata: {{ name: models-of-flux, {label} }}\n",
            "models/settings.yaml": f"apiVersion: v1\nkind: ConfigMap\n{settings}\n",
        }.items():
            path = self.repository / "clusters" / "production" / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self._git("add", "--all")
        self._git("commit", "--quiet", "--message", f"Models are {size}")
        self._git("push", "--quiet", "origin", "main")
        self.reconcile(f"{_REPOSITORIES}/fleet")
        wanted = f"main@sha1:{self._git('rev-parse', 'HEAD').strip()}"
        self.wait(lambda: self._fetched() == wanted, f"source-controller has fetched {size}")

    def _fetched(self) -> str:
        status = self.server.admin.get(f"{_REPOSITORIES}/fleet").get("status") or {}
        return str((status.get("artifact") or {}).get("revision", ""))

    def _git(self, *arguments: str) -> str:
        who = {
            f"GIT_{role}_{key}": "t@example.org"
            for role in ("AUTHOR", "COMMITTER")
            for key in ("NAME", "EMAIL")
        }
        return subprocess.run(
            ["git", *arguments],
            cwd=self.repository,
            env={**os.environ, **who},
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    def node_reports(self, **report: str) -> None:
        node = self.server.admin.get(f"/api/v1/nodes/{_NODE}")
        later = stamp(time.time() + self.clock.ahead_s)
        self.server.apply(REPORTS, objects.report(node, _POOL, time=later, **report))

    def applied(self, path: str) -> str:
        """The size of the commit that the object is from; empty: there is none."""
        try:
            return str(self.server.admin.get(path)["metadata"]["labels"]["size"])
        except ApiError as e:
            if e.status == 404:
                return ""
            raise

    def ready(self, kustomization: str) -> tuple[str, str]:
        """Status and reason of its condition."""
        status = self.server.admin.get(f"{_KUSTOMIZATIONS}/{kustomization}").get("status") or {}
        return next(
            (
                (str(one["status"]), str(one["reason"]))
                for one in status.get("conditions", ())
                if one["type"] == "Ready"
            ),
            ("", ""),
        )

    def pool_is(self, condition: str) -> bool:
        status = self.server.admin.get(f"{POOLS}/{_POOL}").get("status") or {}
        found = {one["type"]: one["status"] for one in status.get("conditions", ())}
        return found.get(condition) == "True"

    def node_is(self, reason: str) -> bool:
        conditions = self.server.admin.get(f"/api/v1/nodes/{_NODE}")["status"]["conditions"]
        return any(one["type"] == NODE_CONDITION and one["reason"] == reason for one in conditions)

    def reconcile(self, path: str) -> None:
        """As `flux reconcile`, instead of waiting for the next interval."""
        asked = {"reconcile.fluxcd.io/requestedAt": datetime.now(UTC).isoformat()}
        self.server.admin.patch(path, {"metadata": {"annotations": asked}}, kind="merge")


@pytest.fixture
def flux(
    api_server: Any,
    one_tool: Callable[[str], Path],
    go: tuple[Sdk, dict[str, str]],
    tmp_path: Path,
) -> Iterator[Flux]:
    programs = {name: one_tool(f"{name}_controller") for name in _CONTROLLERS}
    for name in _CONTROLLERS:
        _define(api_server, go, name)
    for path in (_KUSTOMIZATIONS, _REPOSITORIES):
        api_server.wait(functools.partial(_is_served, api_server, path), f"{path} is served")
    clock, port = Clock(), _free_port()
    artifacts = tmp_path / "artifacts"
    artifacts.mkdir()
    flags = {
        "source": (
            f"--storage-path={artifacts}",
            f"--storage-addr=127.0.0.1:{port}",
            f"--storage-adv-addr=127.0.0.1:{port}",
        ),
        "kustomize": ("--requeue-dependency=1s",),
    }
    with ExitStack() as ends:
        url = ends.enter_context(git_over_http.served(tmp_path / "repositories"))
        loop = ends.enter_context(running(api_server, clock))
        api_server.apply("/api/v1/namespaces", _namespace(_FLUX))
        api_server.make_node(_NODE, _POOL)
        api_server.apply(POOLS, objects.pool(_POOL))
        made = Flux(
            server=api_server,
            clock=clock,
            loop=loop,
            repository=tmp_path / "clone",
            controllers={
                name: ends.enter_context(_controller(api_server, program, flags[name], tmp_path))
                for name, program in programs.items()
            },
        )
        bare = tmp_path / "repositories" / "fleet.git"
        for path in (bare, made.repository):
            path.mkdir(parents=True)
        made._git("init", "--quiet", "--bare", "--initial-branch=main", str(bare))
        made._git("init", "--quiet", "--initial-branch=main")
        made._git("remote", "add", "origin", str(bare))
        source = {"interval": "1m", "url": f"{url}/fleet.git", "ref": {"branch": "main"}}
        api_server.apply(
            _REPOSITORIES,
            {
                "apiVersion": f"{_SOURCES}/v1",
                "kind": "GitRepository",
                "metadata": {"name": "fleet", "namespace": _FLUX},
                "spec": source,
            },
        )
        for one in yaml.safe_load_all((_ROOT / "gitops" / "flux" / "models.yaml").read_text()):
            api_server.apply(_KUSTOMIZATIONS, one)
        try:
            yield made
        finally:
            _take_back(made)


@contextmanager
def _controller(
    api_server: Any, program: Path, flags: tuple[str, ...], directory: Path
) -> Iterator[subprocess.Popen[bytes]]:
    log = directory / f"{program.name}.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [str(program), "--metrics-addr=0", "--health-addr=127.0.0.1:0", *flags],
            env={
                **os.environ,
                "KUBECONFIG": str(api_server.endpoint.kubeconfig),
                "RUNTIME_NAMESPACE": _FLUX,
            },
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(timeout=60)
        print(program.name, log.read_text()[-6000:])


def _take_back(flux: Flux) -> None:
    """Deleted Kustomizations prune what they have applied, which a later test must not find."""
    admin = flux.server.admin
    for collection, names in (
        (_KUSTOMIZATIONS, ("models", "gpu-pools")),
        (_REPOSITORIES, ("fleet",)),
    ):
        for name in names:
            admin.delete(f"{collection}/{name}")
        flux.wait(functools.partial(_is_empty, admin, collection), f"{collection} is empty")
    for path in (f"{REPORTS}/{_NODE}", f"{POOLS}/{_POOL}", f"/api/v1/nodes/{_NODE}"):
        with suppress(ApiError):
            admin.patch(path, {"metadata": {"finalizers": None}}, kind="merge")
            admin.delete(path)


def _is_empty(admin: Any, collection: str) -> bool:
    return not admin.get(collection)["items"]


def _define(api_server: Any, go: tuple[Sdk, dict[str, str]], name: str) -> None:
    """What the controller's own module defines."""
    own, module = _MODULES / f"{name}_controller", f"github.com/fluxcd/{name}-controller"
    for file in (go_module.directory(go, own, module) / "config" / "crd" / "bases").glob("*.yaml"):
        api_server.apply(_CRDS, yaml.safe_load(file.read_text()))


def _is_served(api_server: Any, path: str) -> bool:
    try:
        api_server.admin.get(path)
    except ApiError:
        return False
    return True


def _namespace(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
