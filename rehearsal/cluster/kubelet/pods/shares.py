"""NFS servers, as directories: every pod that mounts a path of a server sees the same files."""

from __future__ import annotations

from pathlib import Path

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.cluster.kubelet.containers.environment_variables import (
    MissingReference,
    Unsupported,
)


def directory(environment: Path, server: str, path: str) -> Path:
    """What stands for `path` of `server`. environment: the root of the rehearsal's environment.

    Raises Unsupported for a path that leads out of the server.
    """
    of_server = environment / "nfs" / server
    found = of_server / path.lstrip("/")
    if "/" in server or server in ("", ".", "..") or ".." in Path(path).parts:
        raise Unsupported(f"nfs {server}:{path} does not name a directory of a server")
    return found


def mounted(environment: Path, nfs: JsonObject) -> Path:
    """The directory of a volume `nfs`. Raises MissingReference where its server has no such path,
    Unsupported.
    """
    server, path = str(nfs["server"]), str(nfs["path"])
    found = directory(environment, server, path)
    if not found.is_dir():
        raise MissingReference(
            f"mount.nfs: mounting {server}:{path} failed, reason given by server: No such file or "
            f"directory (in a rehearsal an NFS server is a directory: make {found})"
        )
    return found
