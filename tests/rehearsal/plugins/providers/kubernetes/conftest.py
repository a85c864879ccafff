"""The provider over its real gRPC, as the engine calls it, against a real API server."""

from __future__ import annotations

import json
import os
import subprocess
import textwrap
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent import futures
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import any_pb2, empty_pb2

from slicewright.kubeapi import ApiError, Client, JsonObject
from slicewright.rehearsal.cluster import control_plane
from slicewright.rehearsal.host import processes
from slicewright.rehearsal.host.toolchain import Toolchain
from slicewright.rehearsal.plugins.engine.home import make_home
from slicewright.rehearsal.plugins.engine.language_host import LanguageHost, attach
from slicewright.rehearsal.plugins.engine.plugin import Severity
from slicewright.rehearsal.plugins.engine.properties import decode, encode
from slicewright.rehearsal.plugins.engine.protocol import (
    engine_pb2_grpc,
    provider_pb2,
    provider_pb2_grpc,
)
from slicewright.rehearsal.plugins.engine.provider_server import AttachedServer
from slicewright.rehearsal.plugins.providers.kubernetes.provider import KubernetesProvider

_LONGEST_CALL_S = 360
"""Longer than the provider's own timeouts of 300 s, so that its error says what it waited for."""


class Refused(Exception):
    """The provider answered with an error. With what to store for a partial failure."""

    def __init__(self, error: grpc.RpcError) -> None:
        super().__init__(error.details())
        self.message: str = error.details()
        self.code = error.code()
        self.reasons: list[str] = []
        self.id = ""
        self.outputs: JsonObject = {}
        for key, value in error.trailing_metadata() or ():
            if key == "grpc-status-details-bin":
                detail = _detail(value)
                self.reasons, self.id, self.outputs = (
                    list(detail.reasons),
                    detail.id,
                    decode(detail.properties),
                )


def _detail(status: bytes) -> Any:
    packed = any_pb2.Any()
    # Field 3 of google.rpc.Status; the fields before it are a varint and a string.
    rest = status[2:]
    assert rest[0] == 0x12
    length, rest = _varint(rest[1:])
    length, rest = _varint(rest[length + 1 :])
    packed.ParseFromString(rest[:length])
    detail = provider_pb2.ErrorResourceInitFailed()
    assert packed.Unpack(detail)
    return detail


def _varint(raw: bytes) -> tuple[int, bytes]:
    number = shift = index = 0
    while True:
        number |= (raw[index] & 0x7F) << shift
        if not raw[index] & 0x80:
            return number, raw[index + 1 :]
        shift, index = shift + 7, index + 1


class Engine(engine_pb2_grpc.EngineServicer):
    """Records what the provider logs."""

    def __init__(self) -> None:
        self.said: list[tuple[Severity, str, bool]] = []
        self._server = grpc.server(futures.ThreadPoolExecutor(4))
        engine_pb2_grpc.add_EngineServicer_to_server(self, self._server)
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def Log(self, request: Any, context: Any) -> Any:  # noqa: N802 - the protocol's word
        self.said.append((Severity(request.severity), request.message, request.ephemeral))
        return empty_pb2.Empty()

    def texts(self) -> list[str]:
        return [text for _, text, _ in self.said if text]

    def stop(self) -> None:
        self._server.stop(None)


@dataclass
class Stored:
    """A resource as the engine keeps it."""

    id: str
    inputs: JsonObject
    outputs: JsonObject


@dataclass
class Provider:
    """One configured provider. Methods are the engine's calls."""

    stub: Any
    engine: Engine
    urn_prefix: str = "urn:pulumi:dev::test::"
    last_type: str = field(default="", init=False)

    def configure(self, **args: Any) -> None:
        self.stub.Configure(provider_pb2.ConfigureRequest(urn="urn:provider", args=encode(args)))

    def check(
        self, type_: str, name: str, news: JsonObject, olds: JsonObject | None = None, **more: Any
    ) -> tuple[JsonObject, list[tuple[str, str]]]:
        request = provider_pb2.CheckRequest(
            urn=f"{self.urn_prefix}{type_}::{name}",
            type=type_,
            name=name,
            news=encode(news),
            olds=encode(olds or {}),
            randomSeed=b"seed of this resource",
            **more,
        )
        answer = self._call(self.stub.Check, request)
        return decode(answer.inputs), [
            (failure.property, failure.reason) for failure in answer.failures
        ]

    def create(
        self,
        type_: str,
        name: str,
        news: JsonObject,
        *,
        timeout_s: float = 0,
        preview: bool = False,
    ) -> Stored:
        inputs, failures = self.check(type_, name, news)
        assert not failures, failures
        request = provider_pb2.CreateRequest(
            urn=f"{self.urn_prefix}{type_}::{name}",
            type=type_,
            name=name,
            properties=encode(inputs),
            timeout=timeout_s,
            preview=preview,
        )
        answer = self._call(self.stub.Create, request)
        return Stored(answer.id, inputs, decode(answer.properties))

    def diff(self, type_: str, name: str, old: Stored, news: JsonObject) -> Any:
        inputs, failures = self.check(type_, name, news, old.inputs)
        assert not failures, failures
        return self.diff_checked(type_, name, old, inputs)

    def diff_checked(self, type_: str, name: str, old: Stored, inputs: JsonObject) -> Any:
        is_known = self._known(type_, name, old)
        request = provider_pb2.DiffRequest(
            **is_known, olds=encode(old.outputs), old_inputs=encode(old.inputs), news=encode(inputs)
        )
        return self._call(self.stub.Diff, request)

    def update(
        self,
        type_: str,
        name: str,
        old: Stored,
        news: JsonObject,
        *,
        timeout_s: float = 0,
        preview: bool = False,
    ) -> Stored:
        inputs, failures = self.check(type_, name, news, old.inputs)
        assert not failures, failures
        request = provider_pb2.UpdateRequest(
            **self._known(type_, name, old),
            olds=encode(old.outputs),
            old_inputs=encode(old.inputs),
            news=encode(inputs),
            timeout=timeout_s,
            preview=preview,
        )
        answer = self._call(self.stub.Update, request)
        return Stored(old.id, inputs, decode(answer.properties))

    def read(self, type_: str, name: str, old: Stored) -> Stored | None:
        is_known = self._known(type_, name, old)
        request = provider_pb2.ReadRequest(
            **is_known, properties=encode(old.outputs), inputs=encode(old.inputs)
        )
        answer = self._call(self.stub.Read, request)
        return (
            Stored(answer.id, decode(answer.inputs), decode(answer.properties))
            if answer.id
            else None
        )

    def delete(self, type_: str, name: str, old: Stored, *, timeout_s: float = 0) -> None:
        request = provider_pb2.DeleteRequest(
            **self._known(type_, name, old),
            properties=encode(old.outputs),
            old_inputs=encode(old.inputs),
            timeout=timeout_s,
        )
        self._call(self.stub.Delete, request)

    def diff_config(self, old: JsonObject, new: JsonObject) -> Any:
        return self._call(
            self.stub.DiffConfig,
            provider_pb2.DiffRequest(old_inputs=encode(old), olds=encode(old), news=encode(new)),
        )

    def cancel(self) -> None:
        self.stub.Cancel(empty_pb2.Empty())

    def _known(self, type_: str, name: str, old: Stored) -> dict[str, str]:
        return {
            "urn": f"{self.urn_prefix}{type_}::{name}",
            "type": type_,
            "name": name,
            "id": old.id,
        }

    @staticmethod
    def _call(method: Callable[[Any], Any], request: Any) -> Any:
        try:
            return method(request, timeout=_LONGEST_CALL_S)
        except grpc.RpcError as e:
            raise Refused(e) from e


@dataclass(frozen=True)
class Cluster:
    """A control plane: its admin, and the admin's kubeconfig as text."""

    admin: Client
    kubeconfig: str
    path: Path


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory, toolchain: Toolchain) -> Iterator[Cluster]:
    environment = tmp_path_factory.mktemp("environment")
    try:
        endpoint = control_plane.start(environment, "alpha", toolchain)
        yield Cluster(
            Client.from_kubeconfig(endpoint.kubeconfig),
            endpoint.kubeconfig.read_text(),
            endpoint.kubeconfig,
        )
    finally:
        control_plane.stop(environment, "alpha")
        processes.end_leftovers(environment)


@pytest.fixture
def new_provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Provider]]:
    """Makes a provider with these settings, each with its own connection and configuration."""
    monkeypatch.delenv("KUBECONFIG", raising=False)
    server = AttachedServer(KubernetesProvider)
    engine = Engine()
    channels = []

    def make(**args: Any) -> Provider:
        # Without the option the channels of one address would share one connection.
        channel = grpc.insecure_channel(
            f"127.0.0.1:{server.port}", options=[("grpc.use_local_subchannel_pool", 1)]
        )
        channels.append(channel)
        provider = Provider(provider_pb2_grpc.ResourceProviderStub(channel), engine)
        provider.stub.Handshake(
            provider_pb2.ProviderHandshakeRequest(engine_address=engine.address)
        )
        provider.configure(**args)
        return provider

    yield make
    for channel in channels:
        channel.close()
    server.stop()
    engine.stop()


@pytest.fixture
def provider(cluster: Cluster, new_provider: Callable[..., Provider]) -> Provider:
    """On the cluster, with default settings."""
    return new_provider(kubeconfig=cluster.kubeconfig)


@pytest.fixture
def namespace(cluster: Cluster) -> str:
    """A new namespace for each test."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    cluster.admin.create("/api/v1/namespaces", {"metadata": {"name": name}})
    return name


@pytest.fixture(scope="session")
def pool_kind(cluster: Cluster) -> str:
    """The type of a custom resource like the product's GPUPool; its CRD is installed."""
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "gpupools.slicewright.io"},
        "spec": {
            "group": "slicewright.io",
            "scope": "Cluster",
            "names": {
                "kind": "GPUPool",
                "listKind": "GPUPoolList",
                "plural": "gpupools",
                "singular": "gpupool",
            },
            "versions": [
                {
                    "name": "v1alpha1",
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {
                                "spec": {
                                    "type": "object",
                                    "properties": {
                                        "size": {"type": "integer"},
                                        "layoutHash": {"type": "string"},
                                    },
                                },
                                "status": {
                                    "type": "object",
                                    "x-kubernetes-preserve-unknown-fields": True,
                                },
                            },
                        }
                    },
                }
            ],
        },
    }
    try:
        cluster.admin.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    except ApiError as e:
        if e.status != 409:
            raise
    deadline = time.monotonic() + 180
    while True:
        try:
            cluster.admin.get("/apis/slicewright.io/v1alpha1/gpupools")
            cluster.admin.get("/apis/slicewright.io/v1alpha1")
            return "kubernetes:slicewright.io/v1alpha1:GPUPool"
        except ApiError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


@dataclass
class Stack:
    """One stack of a program, `dev`, for the real `pulumi`."""

    directory: Path
    pulumi: Path
    variables: dict[str, str]

    def run(self, *arguments: str) -> tuple[int, str]:
        done = subprocess.run(
            [str(self.pulumi), *arguments, "--stack", "dev"],
            cwd=self.directory,
            env=self.variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=300,
            check=False,
        )
        return done.returncode, done.stdout

    def act(self, verb: str, *flags: str) -> tuple[int, str]:
        skip = () if verb == "preview" or "--preview-only" in flags else ("--yes", "--skip-preview")
        return self.run(verb, *skip, *flags, "--non-interactive", "--color", "never")

    def set(self, key: str, value: str) -> None:
        code, output = self.run("config", "set", key, value)
        assert code == 0, output


@pytest.fixture
def new_stack(tmp_path: Path, toolchain: Toolchain, cluster: Cluster) -> Callable[..., Stack]:
    """Makes the stack of a program for a namespace of its own, with these variables."""

    def make(program: str, **variables: str) -> Stack:
        for name in ("state", "project"):
            (tmp_path / name).mkdir()
        directory = tmp_path / "project"
        (directory / "Pulumi.yaml").write_text("name: tiny\nruntime: python\n")
        (directory / "__main__.py").write_text(textwrap.dedent(program))
        inherited = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith("PULUMI_") and key != "KUBECONFIG"
        }
        inherited.pop("PYTHONDONTWRITEBYTECODE", None)
        make_home(tmp_path / "home")
        stack = Stack(
            directory,
            toolchain.pulumi,
            {
                **inherited,
                "PULUMI_HOME": str(tmp_path / "home"),
                "PULUMI_BACKEND_URL": f"file://{tmp_path / 'state'}",
                "PULUMI_CONFIG_PASSPHRASE": "long enough for a test",
                "PULUMI_SKIP_UPDATE_CHECK": "true",
                "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
                **variables,
            },
        )
        assert stack.run("stack", "init")[0] == 0
        stack.set("kubeconfig", str(cluster.path))
        stack.set("namespace", f"run-{uuid.uuid4().hex[:6]}")
        return stack

    return make


@pytest.fixture
def attached() -> Iterator[dict[str, str]]:
    """Variables with which the engine uses the language host and the provider of this process."""
    host, port = attach(LanguageHost())
    with AttachedServer(KubernetesProvider) as provider:
        yield {
            "PULUMI_DEBUG_LANGUAGES": f"python:{port}",
            "PULUMI_DEBUG_PROVIDERS": f"kubernetes:{provider.port}",
        }
    host.stop(None)


@pytest.fixture
def in_background() -> Iterator[Callable[[Callable[[], Any]], futures.Future[Any]]]:
    """Runs a function in a thread."""
    with futures.ThreadPoolExecutor(4) as executor:
        yield lambda work: executor.submit(work)


@pytest.fixture
def until() -> Callable[[Callable[[], object]], Any]:
    """Waits for a condition and returns what it gave."""

    def wait(condition: Callable[[], object], *, timeout_s: float = 180.0) -> Any:
        deadline = time.monotonic() + timeout_s
        while not (found := condition()):
            assert time.monotonic() < deadline, "it did not happen in time"
            threading.Event().wait(0.02)
        return found

    return wait


@pytest.fixture
def as_user(cluster: Cluster) -> Callable[[str], str]:
    """The cluster's kubeconfig with another user in it: a service account's token."""

    def make(token: str) -> str:
        config = json.loads(cluster.kubeconfig)
        config["users"] = [{"name": config["users"][0]["name"], "user": {"token": token}}]
        return json.dumps(config)

    return make


@pytest.fixture
def refused() -> type[Refused]:
    """What a refused call raises."""
    return Refused


@pytest.fixture
def stored() -> type[Stored]:
    """To construct a resource's state."""
    return Stored
