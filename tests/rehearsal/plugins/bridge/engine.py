"""A provider stand-in over a simulated cloud in this process, driven as the engine drives it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rehearsal.clouds.core.client import CloudClient
from rehearsal.clouds.core.fake_control_planes import PaperNodes, PaperPlanes
from rehearsal.clouds.server import Server
from rehearsal.clouds.service import Cloud
from rehearsal.plugins.bridge.provider import BridgedProvider
from rehearsal.plugins.engine.plugin import Difference, InitFailed, Properties


@contextmanager
def cloud_in(environment: Path) -> Iterator[Cloud]:
    """A simulated cloud with clusters on paper, serving its environment."""
    cloud = Cloud(environment, PaperPlanes(environment), ready_timeout_s=0.1)
    server = Server(environment / "cloud.sock", cloud)
    threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    ).start()
    yield cloud
    server.shutdown()
    server.server_close()


class Resource:
    """One resource of a stack: what the engine keeps of it between operations."""

    def __init__(self, engine: Engine, kind: str, name: str, asked: Properties) -> None:
        self.engine = engine
        self.kind = kind
        self.name = name
        checked = engine.checked(kind, name, {}, asked)
        self.inputs = checked
        try:
            made = engine.provider.create("urn", kind, name, checked, 0, False)
            self.id, self.outputs, self.trouble = made.id, made.outputs, ()
        except InitFailed as e:
            self.id, self.outputs, self.trouble = e.id, e.outputs, e.reasons

    def plan(self, asked: Properties, ignore: tuple[str, ...] = ()) -> Difference:
        """What `up` with these inputs would do."""
        self.next = self.engine.checked(self.kind, self.name, self.inputs, asked)
        return self.engine.provider.diff(
            "urn", self.kind, self.id, self.outputs, self.inputs, self.next, ignore
        )

    def update(self, asked: Properties) -> Difference:
        found = self.plan(asked)
        assert not found.replaces
        assert not any(k.endswith("replace") for k in (found.detailed or {}).values()), (
            found.detailed
        )
        arguments = ("urn", self.kind, self.id, self.outputs, self.inputs, self.next, 0, (), False)
        self.outputs = self.engine.provider.update(*arguments)
        self.inputs = self.next
        return found

    def refresh(self) -> Difference | None:
        """None: gone. The difference is the drift: from what was asked for to what is there."""
        found = self.engine.provider.read("urn", self.kind, self.id, self.outputs, self.inputs, 0)
        if found is None:
            return None
        return self.engine.provider.diff(
            "urn", self.kind, self.id, found.outputs, self.inputs, found.inputs, ()
        )

    def delete(self) -> None:
        self.engine.provider.delete("urn", self.kind, self.id, self.outputs, self.inputs, 0)


class Engine:
    """Makes resources through the provider, and keeps what a stack would."""

    def __init__(self, provider: BridgedProvider, cloud: Cloud, environment: Path) -> None:
        self.provider = provider
        self.cloud = cloud
        self.environment = environment
        self.client = CloudClient(environment)
        self.made: list[Resource] = []
        self._seed = 0

    def checked(self, kind: str, name: str, olds: Properties, asked: Properties) -> Properties:
        self._seed += 1
        checked = self.provider.check(
            "urn", kind, name, olds, dict(asked), self._seed.to_bytes(4, "big"), None
        )
        assert not checked.failures, checked.failures
        return checked.inputs

    def failures(self, kind: str, asked: Properties) -> dict[str, str]:
        checked = self.provider.check("urn", kind, "x", {}, dict(asked), b"seed", None)
        return {f.property: f.reason for f in checked.failures}

    def make(self, kind: str, label: str, /, **asked: Any) -> Resource:
        resource = Resource(self, kind, label, asked)
        self.made.append(resource)
        return resource

    def nodes_on_paper(self, cluster: str) -> list[dict[str, Any]]:
        return PaperNodes(self.environment / "clusters" / cluster / "nodes-on-paper").read()
