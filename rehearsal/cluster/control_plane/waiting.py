"""Waiting for a control plane, and the error when it does not become ready."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from slicewright.kubeapi import ApiError, Client, Unreachable
from slicewright.rehearsal.cluster.control_plane.errors import ControlPlaneError
from slicewright.rehearsal.host import processes
from slicewright.rehearsal.host.processes import Recorded
from slicewright.rehearsal.host.toolchain import disk

_POLL_S = 0.02
_LOG_LINES = 8
_LOG_TAIL_BYTES = 20_000
_ETCD_NEEDS_BYTES = 128e6
"""etcd allocates two files of its write-ahead log at 64 MB each."""


def wait_for(
    awaited: str, condition: Callable[[], bool], *, running: Iterable[Recorded], timeout_s: float
) -> None:
    """Returns when `condition` holds.

    Raises ControlPlaneError when one of the `running` processes has ended, or after timeout_s.
    """
    running = tuple(running)
    deadline = time.monotonic() + timeout_s
    while not condition():
        for record in running:
            if not processes.is_alive(record):
                raise ControlPlaneError(
                    f"{record.name} ended before there was {awaited}"
                    f"{_low_space(record.log.parent)}{log_end(record.log)}"
                )
        if time.monotonic() > deadline:
            logs = ", ".join(str(record.log) for record in running)
            raise ControlPlaneError(
                f"there was no {awaited.removeprefix('a ')} within {timeout_s:.0f} s"
                f"{_low_space(running[0].log.parent)}; see whether the machine is overloaded, and "
                f"the logs: {logs}"
            )
        time.sleep(_POLL_S)


def listens(directory: Path, socket_name: str) -> bool:
    """Whether a process accepts connections on a unix socket; its file may outlive the process."""
    descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX) as probe:
            # Through the descriptor, because the address may hold 107 bytes only.
            probe.connect(f"/proc/self/fd/{descriptor}/{socket_name}")
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def is_ready(client: Client) -> bool:
    """Whether the API server answers /readyz with ok, which includes etcd."""
    try:
        return client.text("/readyz") == "ok"
    except (ApiError, Unreachable):
        return False


def hands_out_accounts(client: Client) -> bool:
    """Whether a pod could be created: its ServiceAccount and the CA's ConfigMap exist."""
    try:
        client.get("/api/v1/namespaces/default/serviceaccounts/default")
        client.get("/api/v1/namespaces/default/configmaps/kube-root-ca.crt")
    except (ApiError, Unreachable):
        return False
    return True


def may_list_nodes(client: Client) -> bool:
    """Whether the API server lets this user list nodes; it learns of roles from a watch."""
    try:
        client.get("/api/v1/nodes", limit="1")
    except (ApiError, Unreachable):
        return False
    return True


def _low_space(directory: Path) -> str:
    if not disk.is_used_up(directory, below=_ETCD_NEEDS_BYTES):
        return ""
    return f"; {directory} has only {disk.size(disk.free(directory))} of disk space free"


def log_end(log: Path) -> str:
    """The end of a log, to be appended to a message."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - _LOG_TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return f"; its log {log} cannot be read"
    # Only what the last start wrote, without its first line (the time, or an incomplete line).
    lines = f"\n{text}".rpartition("\n--- ")[2].splitlines()[1:][-_LOG_LINES:]
    return f"; the end of its log {log}:\n" + "\n".join(f"  {line[:500]}" for line in lines)
