"""The control planes of the simulated clouds' clusters: API servers and kubelet stand-ins."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from slicewright.rehearsal.clouds.core import access, tokens
from slicewright.rehearsal.clouds.core.exec_credential import VARIABLE
from slicewright.rehearsal.clouds.core.node_api import ApiServerNodes, NodeApi

if TYPE_CHECKING:
    from slicewright.rehearsal.cluster.control_plane.access_webhooks import AccessWebhooks


@dataclass(frozen=True, kw_only=True)
class Address:
    """The address of a cluster's API server, and the CA that signed its certificate."""

    server: str
    """https://127.0.0.1:PORT"""
    ca_data: str
    """base64 of PEM."""


@dataclass(frozen=True, kw_only=True)
class Login:
    """The credential plugin of people who use a cluster of a cloud."""

    command: str
    arguments: tuple[str, ...]


ACCESS_PATH = "/cluster-access/"
"""Below it, on the clouds' endpoint: what API servers ask about the users of CLUSTER."""
USER_KUBECONFIG = "kubeconfig-user.json"
"""The file in a cluster's directory with the kubeconfig of people, who log in to the cloud."""


class ControlPlanes(Protocol):
    """Clusters by name, unique per environment. `start` and `remove` can be repeated."""

    def start(
        self, cluster: str, *, login: Login | None = None, critical_pods_need_quota: bool = False
    ) -> Address:
        """Returns when the API server answers and the kubelet stand-in has been started.

        login: of a cluster of a cloud, whose identities are its users; the same at every start.
        None: a cluster that knows the users of its own certificates only.
        critical_pods_need_quota: whether pods of critical priority classes are admitted only in
        namespaces with a ResourceQuota for these classes; the same at every start of a cluster.
        """

    def remove(self, cluster: str) -> None: ...

    def nodes(self, cluster: str) -> NodeApi: ...


@dataclass(frozen=True)
class LocalControlPlanes:
    """Real API servers on loopback; their files are under E/clusters."""

    environment: Path

    def start(
        self, cluster: str, *, login: Login | None = None, critical_pods_need_quota: bool = False
    ) -> Address:
        from slicewright.rehearsal.cluster import control_plane
        from slicewright.rehearsal.host.toolchain import Toolchain

        control_plane.start(
            self.environment,
            cluster,
            Toolchain.load(self.environment / "toolchain.json"),
            critical_pods_need_quota=critical_pods_need_quota,
            webhooks=None if login is None else self._webhooks(cluster),
        )
        if login is not None:
            self._write_user_kubeconfig(cluster, login)
        self._start_kubelet(cluster)
        return self._address(cluster)

    def _start_kubelet(self, cluster: str) -> None:
        from slicewright.rehearsal.host import processes

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

    def _webhooks(self, cluster: str) -> AccessWebhooks | None:
        """None without an endpoint, in tests: the cluster then has no user of the cloud."""
        from slicewright.rehearsal.cluster.control_plane.access_webhooks import AccessWebhooks

        served = access.load(self.environment)
        if served is None:
            return None
        key = tokens.webhook_key(cluster, secret=served.credentials.google_access_token)
        return AccessWebhooks(url=f"{served.url}{ACCESS_PATH}{key}/{cluster}/")

    def _write_user_kubeconfig(self, cluster: str, login: Login) -> None:
        from slicewright.rehearsal.cluster.control_plane import files

        directory = files.directory(self.environment, cluster)
        plugin = {
            "apiVersion": "client.authentication.k8s.io/v1beta1",
            "command": str(self.environment / "bin" / login.command),
            "args": list(login.arguments),
            "env": [{"name": VARIABLE, "value": str(self.environment)}],
            "interactiveMode": "Never",
            "provideClusterInfo": True,
        }
        config = json.loads(files.kubeconfig(directory, "admin").read_text())
        config["users"] = [{"name": "you", "user": {"exec": plugin}}]
        config["contexts"] = [{"name": cluster, "context": {"cluster": cluster, "user": "you"}}]
        files.write(directory / USER_KUBECONFIG, json.dumps(config, indent=1))

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
