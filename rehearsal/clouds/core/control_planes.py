"""The control planes of the simulated clouds' clusters: API servers and kubelet stand-ins."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from slicewright.rehearsal.clouds.core.node_api import ApiServerNodes, NodeApi


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where a cluster's API server listens, and the CA that signed its certificate."""

    server: str
    """https://127.0.0.1:PORT"""
    ca_data: str
    """base64 of PEM."""


class ControlPlanes(Protocol):
    """Clusters by name, unique per environment. `start` and `remove` can be repeated."""

    def start(self, cluster: str, *, critical_pods_need_quota: bool = False) -> Address:
        """Returns when the API server answers and the kubelet stand-in has been started.

        critical_pods_need_quota: whether pods of critical priority classes are admitted only in
        namespaces with a ResourceQuota for these classes; the same at every start of a cluster.
        """

    def remove(self, cluster: str) -> None: ...

    def nodes(self, cluster: str) -> NodeApi: ...


@dataclass(frozen=True)
class LocalControlPlanes:
    """Real API servers on loopback; their files are under E/clusters."""

    environment: Path

    def start(self, cluster: str, *, critical_pods_need_quota: bool = False) -> Address:
        from slicewright.rehearsal.cluster import control_plane
        from slicewright.rehearsal.host import processes
        from slicewright.rehearsal.host.toolchain import Toolchain

        control_plane.start(
            self.environment,
            cluster,
            Toolchain.load(self.environment / "toolchain.json"),
            critical_pods_need_quota=critical_pods_need_quota,
        )
        if processes.find(self.environment, f"kubelet-{cluster}") is None:
            argv = [
                sys.executable,
                "-m",
                "slicewright.rehearsal.cluster.kubelet",
                "--environment",
                str(self.environment),
                "--cluster",
                cluster,
            ]
            processes.start(self.environment, f"kubelet-{cluster}", argv)
        return self._address(cluster)

    def _address(self, cluster: str) -> Address:
        stored = json.loads((self.environment / "clusters" / cluster / "endpoint.json").read_text())
        return Address(server=stored["server"], ca_data=stored["ca_data"])

    def remove(self, cluster: str) -> None:
        from slicewright.rehearsal.cluster import control_plane
        from slicewright.rehearsal.host import processes

        kubelet = processes.find(self.environment, f"kubelet-{cluster}")
        if kubelet is not None:
            processes.stop(kubelet)
        control_plane.remove(self.environment, cluster)

    def nodes(self, cluster: str) -> NodeApi:
        return ApiServerNodes(self.environment / "clusters" / cluster / "kubeconfig.json")
