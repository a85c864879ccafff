"""The directory of one cluster, ENVIRONMENT/clusters/NAME: its files, and its lock."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from slicewright.rehearsal.cluster.control_plane.errors import ControlPlaneError

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """How to reach a cluster's API server."""

    server: str
    """https://127.0.0.1:PORT"""
    ca_pem: bytes
    """The CA that signed the server's certificate."""
    kubeconfig: Path
    """The administrator's, as JSON."""

    @property
    def port(self) -> int:
        return urlsplit(self.server).port or 443


def directory(environment: Path, cluster: str) -> Path:
    """Raises ControlPlaneError for a name that GKE or EKS would refuse."""
    if not _NAME.fullmatch(cluster):
        raise ControlPlaneError(
            f"cluster name {cluster!r}: must be at most 63 lower-case letters, digits and "
            "'-', and must begin and end with a letter or digit"
        )
    return environment.resolve() / "clusters" / cluster


def kubeconfig(cluster_directory: Path, user: str) -> Path:
    return cluster_directory / ("kubeconfig.json" if user == "admin" else f"kubeconfig-{user}.json")


def endpoint(cluster_directory: Path) -> Endpoint | None:
    """The endpoint as last written; None without one, or with an unreadable one."""
    try:
        stored = json.loads((cluster_directory / "endpoint.json").read_text())
        return Endpoint(
            server=stored["server"],
            ca_pem=base64.b64decode(stored["ca_data"]),
            kubeconfig=kubeconfig(cluster_directory, "admin"),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def store_endpoint(cluster_directory: Path, endpoint: Endpoint) -> None:
    stored = {"server": endpoint.server, "ca_data": base64.b64encode(endpoint.ca_pem).decode()}
    write(cluster_directory / "endpoint.json", json.dumps(stored, indent=1))


def write(path: Path, content: str) -> None:
    """Replaces the file atomically; only its owner may read it."""
    new = path.with_name(path.name + ".new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(content)
    new.replace(path)


@contextlib.contextmanager
def locked(cluster_directory: Path) -> Iterator[None]:
    """Creates the directory if needed, and keeps others from starting, stopping or removing it.

    The kernel releases the lock when its holder dies.
    """
    while True:
        cluster_directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(cluster_directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # The previous holder of the lock may have removed the directory.
            if (
                cluster_directory.exists()
                and cluster_directory.stat().st_ino == os.fstat(descriptor).st_ino
            ):
                yield
                return
        finally:
            os.close(descriptor)
