"""Fake control planes: nodes are files and Ready at once. For tests of the clouds alone."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.context import now
from slicewright.rehearsal.clouds.core.control_planes import Address, Login
from slicewright.rehearsal.clouds.core.node_api import NodeApi, NotReady
from slicewright.rehearsal.clouds.core.taints import Taint, changed_taints


@dataclass(frozen=True)
class FakeControlPlanes:
    """ControlPlanes without API servers; nodes are kept under E/clusters/NAME/fake-nodes."""

    environment: Path
    server: str = "https://127.0.0.1:6443"
    """Where they all are said to be."""

    def start(
        self, cluster: str, *, login: Login | None = None, critical_pods_need_quota: bool = False
    ) -> Address:
        self._directory(cluster).mkdir(parents=True, exist_ok=True)
        return Address(server=self.server, ca_data=base64.b64encode(b"a fake CA").decode())

    def remove(self, cluster: str) -> None:
        directory = self._directory(cluster)
        for path in directory.glob("*"):
            path.unlink()
        if directory.exists():
            directory.rmdir()
            directory.parent.rmdir()

    def nodes(self, cluster: str) -> NodeApi:
        return fake_nodes(self.environment, cluster)

    def _directory(self, cluster: str) -> Path:
        return fake_nodes(self.environment, cluster).directory


def fake_nodes(environment: Path, cluster: str) -> FakeNodes:
    return FakeNodes(environment / "clusters" / cluster / "fake-nodes")


@dataclass(frozen=True)
class FakeNodes:
    """NodeApi over a directory: one file per node."""

    directory: Path

    def register(self, node: JsonObject) -> None:
        path = self._file(node["metadata"]["name"])
        if not path.exists():
            _write(path, node)

    def update(
        self,
        name: str,
        *,
        labels: Mapping[str, str | None],
        add_taints: Sequence[Taint],
        remove_taints: Sequence[Taint],
    ) -> None:
        path = self._file(name)
        if not path.exists():
            return
        node = json.loads(path.read_text())
        merged = {**node["metadata"]["labels"], **labels}
        node["metadata"]["labels"] = {k: v for k, v in merged.items() if v is not None}
        node["spec"]["taints"] = changed_taints(
            node["spec"]["taints"], add=add_taints, remove=remove_taints
        )
        _write(path, node)

    def remove(self, name: str) -> None:
        self._file(name).unlink(missing_ok=True)

    def names(self) -> set[str]:
        return {p.stem for p in self.directory.glob("*.json")}

    def read(self) -> list[JsonObject]:
        return [json.loads(p.read_text()) for p in sorted(self.directory.glob("*.json"))]

    def never_become_ready(self) -> None:
        """From now on `wait_ready` fails, as when kubelets do not come up."""
        self._never_ready.touch()

    def wait_ready(self, names: Sequence[str], *, timeout_s: float) -> None:
        missing = set(names) - self.names()
        if missing or self._never_ready.exists():
            raise NotReady(
                f"not Ready after {timeout_s:.0f} s: {', '.join(sorted(missing or names))}"
            )

    def listed(self, path: str, **query: str) -> list[JsonObject]:
        """What `add_object` has put there, whatever the query; and the nodes."""
        if path == "/api/v1/nodes":
            return self.read()
        try:
            objects: list[JsonObject] = json.loads(self._objects.read_text()).get(path, [])
        except FileNotFoundError:
            return []
        return objects

    def add_object(self, path: str, manifest: JsonObject) -> None:
        """As if a user had created it."""
        try:
            objects = json.loads(self._objects.read_text())
        except FileNotFoundError:
            objects = {}
        objects.setdefault(path, []).append(manifest)
        self._objects.write_text(json.dumps(objects))

    @property
    def _objects(self) -> Path:
        return self.directory / "objects"

    def create(self, path: str, manifest: JsonObject) -> None:
        meta = manifest["metadata"]
        if all(existing["metadata"]["name"] != meta["name"] for existing in self.listed(path)):
            uid = {"uid": str(uuid.uuid5(uuid.NAMESPACE_URL, f"{path}/{meta['name']}"))}
            self.add_object(path, {**manifest, "metadata": {**uid, **meta}})

    def merge(self, path: str, patch: JsonObject) -> None:
        """What has been deleted goes with its last finalizer."""

        def changed(stored: JsonObject) -> JsonObject | None:
            new = _merged(stored, patch)
            meta = new["metadata"]
            return None if "deletionTimestamp" in meta and not meta.get("finalizers") else new

        self._change(path.removesuffix("/status"), changed)

    def delete(self, path: str) -> None:
        def marked(stored: JsonObject) -> JsonObject | None:
            meta = {**stored["metadata"], "deletionTimestamp": now()}
            return {**stored, "metadata": meta} if meta.get("finalizers") else None

        self._change(path, marked)

    def _change(self, path: str, change: Callable[[JsonObject], JsonObject | None]) -> None:
        collection, _, name = path.rpartition("/")
        objects = json.loads(self._objects.read_text()) if self._objects.exists() else {}
        listed = objects.get(collection, [])
        new = [
            change(stored) if stored["metadata"]["name"] == name else stored for stored in listed
        ]
        objects[collection] = [stored for stored in new if stored is not None]
        self._objects.write_text(json.dumps(objects))

    def install(self, path: str, manifest: JsonObject) -> None:
        """Does nothing: no fake node runs pods."""

    @property
    def _never_ready(self) -> Path:
        return self.directory / "never-ready"

    def _file(self, name: str) -> Path:
        return self.directory / f"{name}.json"


def _merged(old: JsonObject, patch: JsonObject) -> JsonObject:
    """As a JSON merge patch; None removes."""
    new = dict(old)
    for key, value in patch.items():
        new[key] = _merged(new.get(key) or {}, value) if isinstance(value, dict) else value
    return {key: value for key, value in new.items() if value is not None}


def _write(path: Path, node: JsonObject) -> None:
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(node))
    temporary.replace(path)
