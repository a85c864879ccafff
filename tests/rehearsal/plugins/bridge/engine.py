"""A provider over a simulated cloud in this process, called as the engine calls it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from slicewright.rehearsal.clouds.__main__ import protocols
from slicewright.rehearsal.clouds.aws import account
from slicewright.rehearsal.clouds.core.client import CloudClient
from slicewright.rehearsal.clouds.core.fake_control_planes import FakeControlPlanes, fake_nodes
from slicewright.rehearsal.clouds.endpoint import Endpoint
from slicewright.rehearsal.clouds.server import Server
from slicewright.rehearsal.clouds.service import Cloud
from slicewright.rehearsal.plugins.bridge.provider import BridgedProvider
from slicewright.rehearsal.plugins.engine.plugin import (
    Checked,
    Created,
    Difference,
    InitFailed,
    ReadBack,
)
from slicewright.rehearsal.plugins.engine.properties import Properties
from slicewright.rehearsal.plugins.engine.requests import (
    Autonaming,
    CheckRequest,
    CreateRequest,
    DeleteRequest,
    DiffRequest,
    ReadRequest,
    UpdateRequest,
)
from slicewright.rehearsal.scenario import cloud_variables


@contextmanager
def cloud_in(environment: Path) -> Iterator[Cloud]:
    """A simulated cloud with fake control planes, serving its environment.

    Its AWS account has no delays, unless its settings are written already.
    """
    if not (environment / "cloud" / account.FILE).exists():
        account.write_account(environment, **account.PROMPT)
    cloud = Cloud(environment, FakeControlPlanes(environment), ready_timeout_s=0.1)
    server = Server(environment / "cloud.sock", cloud)
    threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    ).start()
    endpoint = Endpoint(environment)
    endpoint.protocols = protocols(cloud, endpoint.credentials)
    threading.Thread(
        target=endpoint.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    ).start()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in cloud_variables.of(endpoint.access, environment).items():
            patch.setenv(name, value)
        yield cloud
    for each in (server, endpoint):
        each.shutdown()
        each.server_close()


class Resource:
    """One resource of a stack, with what the engine stores between operations."""

    def __init__(self, engine: Engine, kind: str, name: str, asked: Properties) -> None:
        self.engine = engine
        self.kind = kind
        self.name = name
        self.inputs = engine.checked(kind, name, {}, asked)
        request = CreateRequest(urn="urn", type=kind, name=name, inputs=self.inputs)
        try:
            made = engine.provider.create(request)
            self.id, self.outputs, self.reasons = made.id, made.outputs, ()
        except InitFailed as e:
            self.id, self.outputs, self.reasons = e.id, e.outputs, e.reasons

    def plan(self, asked: Properties) -> Difference:
        """The difference that `up` with these inputs would apply."""
        self.next = self.engine.checked(self.kind, self.name, self.inputs, asked)
        return self._diff(self.outputs, self.next)

    def _diff(self, outputs: Properties, inputs: Properties) -> Difference:
        request = DiffRequest(
            urn="urn",
            type=self.kind,
            id=self.id,
            old_inputs=self.inputs,
            old_outputs=outputs,
            new_inputs=inputs,
        )
        return self.engine.provider.diff(request)

    def update(self, asked: Properties) -> Difference:
        found = self.plan(asked)
        assert not found.replaces
        assert not any(k.endswith("replace") for k in (found.detailed or {}).values()), (
            found.detailed
        )
        self.outputs = self.engine.provider.update(self.update_request(self.next))
        self.inputs = self.next
        return found

    def update_request(self, inputs: Properties, *, preview: bool = False) -> UpdateRequest:
        return UpdateRequest(
            urn="urn",
            type=self.kind,
            id=self.id,
            old_inputs=self.inputs,
            old_outputs=self.outputs,
            new_inputs=inputs,
            preview=preview,
        )

    def refresh(self) -> Difference | None:
        """The drift, from the inputs to the live state; None if the resource is gone."""
        request = ReadRequest(
            urn="urn", type=self.kind, id=self.id, inputs=self.inputs, outputs=self.outputs
        )
        found = self.engine.provider.read(request)
        return None if found is None else self._diff(self.outputs, found.inputs)

    def delete(self) -> None:
        request = DeleteRequest(
            urn="urn", type=self.kind, id=self.id, inputs=self.inputs, outputs=self.outputs
        )
        self.engine.provider.delete(request)


class Engine:
    """Creates resources through the provider."""

    def __init__(self, provider: BridgedProvider, cloud: Cloud, environment: Path) -> None:
        self.provider = provider
        self.cloud = cloud
        self.environment = environment
        self.client = CloudClient(environment)
        self.made: list[Resource] = []
        self._seed = 0

    def checked(self, kind: str, name: str, olds: Properties, asked: Properties) -> Properties:
        checked = self.check(kind, name, olds, asked)
        assert not checked.failures, checked.failures
        return checked.inputs

    def check(
        self,
        kind: str,
        name: str,
        olds: Properties,
        asked: Properties,
        autonaming: Autonaming | None = None,
    ) -> Checked:
        self._seed += 1
        request = CheckRequest(
            urn="urn",
            type=kind,
            name=name,
            old_inputs=olds,
            new_inputs=dict(asked),
            random_seed=self._seed.to_bytes(4, "big"),
            autonaming=autonaming,
        )
        return self.provider.check(request)

    def failures(self, kind: str, asked: Properties) -> dict[str, str]:
        return {f.property: f.reason for f in self.check(kind, "x", {}, asked).failures}

    def diff(self, kind: str, old: Properties, new: Properties) -> Difference:
        """From one set of checked inputs to another, of a resource that does not exist."""
        request = DiffRequest(
            urn="urn", type=kind, id="id", old_inputs=old, old_outputs={}, new_inputs=new
        )
        return self.provider.diff(request)

    def preview(self, kind: str, name: str, inputs: Properties) -> Created:
        request = CreateRequest(urn="urn", type=kind, name=name, inputs=inputs, preview=True)
        return self.provider.create(request)

    def imported(self, kind: str, resource_id: str) -> ReadBack | None:
        request = ReadRequest(urn="urn", type=kind, id=resource_id, inputs={}, outputs={})
        return self.provider.read(request)

    def make(self, kind: str, label: str, /, **asked: Any) -> Resource:
        resource = Resource(self, kind, label, asked)
        self.made.append(resource)
        return resource

    def nodes_of(self, cluster: str) -> list[dict[str, Any]]:
        return fake_nodes(self.environment, cluster).read()
