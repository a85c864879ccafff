"""Flux's own kustomize-controller applies a repository with `gitops/flux/models.yaml`: the models
wait until the fleet controller has found the pool Verified, and do not follow while it is not.

Simulated: the source. A commit is served as `git archive` makes it, over HTTP, and this test writes
the status of the GitRepository; its definition has no fields but status.
"""

from __future__ import annotations

import functools
import hashlib
import http.server
import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleet_controller.api import NODE_CONDITION
from fleet_controller.loop import Loop
from fleet_controller.members import DAMPING_S
from fleet_controller.state import stamp
from kubeapi import ApiError
from rehearsal.host.toolchain.go_sdk import Sdk
from tests.fleet_controller import objects
from tests.fleet_controller.objects import POOLS, REPORTS
from tests.fleet_controller.test_api_server import Clock, running

pytestmark = [pytest.mark.soak]
_ROOT = Path(__file__).resolve().parents[2]
_MODULE = _ROOT / "rehearsal" / "host" / "toolchain" / "go" / "kustomize_controller"
_CONTROLLER = "github.com/fluxcd/kustomize-controller"
_SOURCES = "source.toolkit.fluxcd.io"
_WATCHED = {
    "GitRepository": "gitrepositories",
    "OCIRepository": "ocirepositories",
    "Bucket": "buckets",
    "ExternalArtifact": "externalartifacts",
}
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_FLUX = "flux-system"
_KUSTOMIZATIONS = f"/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/{_FLUX}/kustomizations"
_REPOSITORIES = f"/apis/{_SOURCES}/v1/namespaces/{_FLUX}/gitrepositories"
_NAMESPACE = "/api/v1/namespaces/models-of-flux"
_SETTINGS = f"{_NAMESPACE}/configmaps/llm"
_POOL, _NODE = "h100-partition-3g", "flux-n1"


def test_models_follow_the_repository_only_while_the_pool_is_verified(flux: Flux) -> None:
    """Each commit changes the namespace, which is before the gate, and the models behind it."""
    flux.commit("small")
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
    flux.commit("large")
    flux.wait(lambda: flux.applied(_NAMESPACE) == "large", "the commit is before the gate")
    # Long before its timeout, an hour: a pool that has failed is not waited for.
    flux.wait(lambda: flux.ready("gpu-pools") == ("False", "HealthCheckFailed"), "it fails")
    flux.wait(lambda: flux.ready("models") == ("False", "DependencyNotReady"), "models wait")
    assert flux.applied(_SETTINGS) == "small"

    flux.node_reports(verdict="Match")
    flux.wait(lambda: flux.pool_is("Ready"), "the pool is verified again")
    flux.reconcile("gpu-pools")
    flux.wait(lambda: flux.applied(_SETTINGS) == "large", "the models follow")


@dataclass(frozen=True)
class Flux:
    """kustomize-controller at work beside the fleet controller, and a repository."""

    server: Any
    clock: Clock
    loop: Loop
    repository: Path
    served: Path
    url: str
    """Of `served`."""
    controller: subprocess.Popen[bytes]

    def wait(self, holds: Callable[[], bool], what: str) -> None:
        def held() -> bool:
            assert self.controller.poll() is None, "kustomize-controller has ended"
            return holds()

        self.server.wait(held, what, timeout_s=300)

    def later(self, seconds: float) -> None:
        """The fleet controller's clock goes on."""
        self.clock.ahead_s += seconds
        self.loop._cluster.changed.set()

    def commit(self, size: str) -> None:
        """As source-controller does after a push."""
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
        revision = self._git("rev-parse", "HEAD").strip()
        archive = self.served / f"{revision}.tar.gz"
        self._git("archive", "--format=tar.gz", f"--output={archive}", "HEAD")
        content = archive.read_bytes()
        found = self.server.admin.get(f"{_REPOSITORIES}/fleet")
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        generation = found["metadata"]["generation"]
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "Succeeded",
            "message": "stored",
            "observedGeneration": generation,
            "lastTransitionTime": now,
        }
        artifact = {
            "url": f"{self.url}/{archive.name}",
            "path": archive.name,
            "revision": f"main@sha1:{revision}",
            "digest": f"sha256:{hashlib.sha256(content).hexdigest()}",
            "size": len(content),
            "lastUpdateTime": now,
        }
        status = {"artifact": artifact, "conditions": [ready], "observedGeneration": generation}
        self.server.admin.patch(f"{_REPOSITORIES}/fleet/status", {"status": status}, kind="merge")

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

    def reconcile(self, kustomization: str) -> None:
        """As `flux reconcile kustomization NAME`, instead of waiting for its next interval."""
        asked = {"reconcile.fluxcd.io/requestedAt": datetime.now(UTC).isoformat()}
        self.server.admin.patch(
            f"{_KUSTOMIZATIONS}/{kustomization}", {"metadata": {"annotations": asked}}, kind="merge"
        )


@pytest.fixture
def flux(
    api_server: Any,
    one_tool: Callable[[str], Path],
    go: tuple[Sdk, dict[str, str]],
    tmp_path: Path,
) -> Iterator[Flux]:
    program = one_tool("kustomize_controller")
    _define(api_server, go)
    for name in ("repository", "served"):
        (tmp_path / name).mkdir()
    clock = Clock()
    with _serving(tmp_path / "served") as url, running(api_server, clock) as loop:
        api_server.apply("/api/v1/namespaces", _namespace(_FLUX))
        api_server.make_node(_NODE, _POOL)
        api_server.apply(POOLS, objects.pool(_POOL))
        api_server.apply(
            _REPOSITORIES,
            {
                "apiVersion": f"{_SOURCES}/v1",
                "kind": "GitRepository",
                "metadata": {"name": "fleet", "namespace": _FLUX},
                "spec": {"interval": "1m", "url": "https://github.com/ORG/REPO"},
            },
        )
        log = tmp_path / "log"
        with log.open("w") as output:
            controller = subprocess.Popen(
                [
                    str(program),
                    *("--metrics-addr=0", "--health-addr=127.0.0.1:0", "--requeue-dependency=1s"),
                ],
                env={
                    **os.environ,
                    "KUBECONFIG": str(api_server.endpoint.kubeconfig),
                    "RUNTIME_NAMESPACE": _FLUX,
                },
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        made = Flux(
            server=api_server,
            clock=clock,
            loop=loop,
            repository=tmp_path / "repository",
            served=tmp_path / "served",
            url=url,
            controller=controller,
        )
        made._git("init", "--quiet", "--initial-branch=main")
        for one in yaml.safe_load_all((_ROOT / "gitops" / "flux" / "models.yaml").read_text()):
            api_server.apply(_KUSTOMIZATIONS, one)
        try:
            yield made
        finally:
            _take_back(made)
            print(log.read_text()[-6000:])


def _take_back(flux: Flux) -> None:
    """Deleted Kustomizations prune what they have applied, which a later test must not find."""
    admin = flux.server.admin
    try:
        for name in ("models", "gpu-pools"):
            admin.delete(f"{_KUSTOMIZATIONS}/{name}")
        if flux.controller.poll() is None:
            flux.wait(lambda: not admin.get(_KUSTOMIZATIONS)["items"], "Flux has pruned")
    finally:
        flux.controller.terminate()
        flux.controller.wait(timeout=60)
    for path in (f"{REPORTS}/{_NODE}", f"{POOLS}/{_POOL}", f"/api/v1/nodes/{_NODE}"):
        with suppress(ApiError):
            admin.patch(path, {"metadata": {"finalizers": None}}, kind="merge")
            admin.delete(path)


def _define(api_server: Any, go: tuple[Sdk, dict[str, str]]) -> None:
    """Kustomization as kustomize-controller's module has it, and the sources that it watches."""
    sdk, environment = go
    found = subprocess.run(
        [sdk.program, "mod", "download", "-json", _CONTROLLER],
        cwd=_MODULE,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    bases = Path(json.loads(found.stdout)["Dir"], "config", "crd", "bases")
    (kustomization,) = (yaml.safe_load(file.read_text()) for file in bases.glob("*.yaml"))
    for definition in (kustomization, *(_source(k, p) for k, p in _WATCHED.items())):
        api_server.apply(_CRDS, definition)
    for path in (_KUSTOMIZATIONS, _REPOSITORIES):
        api_server.wait(functools.partial(_is_served, api_server, path), f"{path} is served")


def _is_served(api_server: Any, path: str) -> bool:
    try:
        api_server.admin.get(path)
    except ApiError:
        return False
    return True


def _source(kind: str, plural: str) -> dict[str, Any]:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {
            "openAPIV3Schema": {
                "type": "object",
                "properties": {"spec": anything, "status": anything},
            }
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{_SOURCES}"},
        "spec": {
            "group": _SOURCES,
            "names": {"kind": kind, "plural": plural, "listKind": f"{kind}List"},
            "scope": "Namespaced",
            "versions": [version],
        },
    }


def _namespace(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


@contextmanager
def _serving(directory: Path) -> Iterator[str]:
    handler = functools.partial(_Quiet, directory=str(directory))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args: Any) -> None:
        pass
