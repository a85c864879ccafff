"""Control planes on paper: nodes as files, Ready when they are made. For tests of the clouds alone,
without API servers.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kubeapi import JsonObject
from rehearsal.clouds.core.control_planes import Address
from rehearsal.clouds.core.node_api import NodeApi, NotReady, Taint


@dataclass(frozen=True)
class PaperPlanes:
    """ControlPlanes that keep what a cluster would hold under E/clusters/NAME/nodes-on-paper."""

    environment: Path

    def start(self, cluster: str) -> Address:
        self._directory(cluster).mkdir(parents=True, exist_ok=True)
        return Address(
            server="https://127.0.0.1:6443", ca_data=base64.b64encode(b"a CA on paper").decode()
        )

    def remove(self, cluster: str) -> None:
        directory = self._directory(cluster)
        for path in directory.glob("*"):
            path.unlink()
        if directory.exists():
            directory.rmdir()
            directory.parent.rmdir()

    def nodes(self, cluster: str) -> NodeApi:
        return PaperNodes(self._directory(cluster))

    def _directory(self, cluster: str) -> Path:
        return self.environment / "clusters" / cluster / "nodes-on-paper"


@dataclass(frozen=True)
class PaperNodes:
    directory: Path

    def register(self, node: JsonObject) -> None:
        path = self._file(node["metadata"]["name"])
        if not path.exists():
            _write(path, node)

    def reshape(
        self,
        name: str,
        *,
        labels: Mapping[str, str | None],
        add_taints: Sequence[Taint],
        drop_taints: Sequence[Taint],
    ) -> None:
        path = self._file(name)
        if not path.exists():
            return
        node = json.loads(path.read_text())
        merged = {**node["metadata"]["labels"], **labels}
        node["metadata"]["labels"] = {k: v for k, v in merged.items() if v is not None}
        gone = {(t["key"], t["effect"]) for t in [*add_taints, *drop_taints]}
        kept = [t for t in node["spec"]["taints"] if (t["key"], t["effect"]) not in gone]
        node["spec"]["taints"] = kept + [dict(t) for t in add_taints]
        _write(path, node)

    def remove(self, name: str) -> None:
        self._file(name).unlink(missing_ok=True)

    def names(self) -> set[str]:
        return {p.stem for p in self.directory.glob("*.json")}

    def read(self) -> list[JsonObject]:
        return [json.loads(p.read_text()) for p in sorted(self.directory.glob("*.json"))]

    def wait_ready(self, names: Sequence[str], *, timeout_s: float) -> None:
        """A file `never-ready` beside the nodes stands for a kubelet that does not come up."""
        missing = set(names) - self.names()
        if missing or (self.directory / "never-ready").exists():
            raise NotReady(
                f"not Ready after {timeout_s:.0f} s: {', '.join(sorted(missing or names))}"
            )

    def install(self, path: str, manifest: JsonObject) -> None:
        """Add-ons run nowhere on paper."""

    def _file(self, name: str) -> Path:
        return self.directory / f"{name}.json"


def _write(path: Path, node: JsonObject) -> None:
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(node))
    temporary.replace(path)
