"""Waiting for a control plane, and saying what is wrong when it does not come."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from kubeapi import ApiError, Client, Unreachable
from rehearsal.cluster.control_plane.errors import ControlPlaneError
from rehearsal.host import processes
from rehearsal.host.processes import Recorded

_POLL_S = 0.02
_LOG_LINES = 8
_LOG_TAIL_BYTES = 20_000


def wait_for(
    what: str, condition: Callable[[], bool], *, running: Iterable[Recorded], timeout_s: float
) -> None:
    """Returns when `condition` holds. Raises ControlPlaneError when a process needed for it has
    ended, or after timeout_s.
    """
    running = tuple(running)
    deadline = time.monotonic() + timeout_s
    while not condition():
        for record in running:
            if not processes.is_alive(record):
                raise ControlPlaneError(
                    f"{record.name} ended while the cluster waited for "
                    f"{what}{last_words(record.log)}"
                )
        if time.monotonic() > deadline:
            logs = ", ".join(str(record.log) for record in running)
            raise ControlPlaneError(
                f"no {what} within {timeout_s:.0f} s; the machine may be overloaded, or "
                f"look into {logs}"
            )
        time.sleep(_POLL_S)


def listens(directory: Path, socket_name: str) -> bool:
    """Whether somebody answers at a unix socket; its file alone may be a dead one's."""
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
    """Whether the API server says that all of its parts work, etcd included."""
    try:
        return client.text("/readyz") == "ok"
    except (ApiError, Unreachable):
        return False


def hands_out_accounts(client: Client) -> bool:
    """Whether a pod could be created now: its ServiceAccount and the authority it is given are
    there.
    """
    try:
        client.get("/api/v1/namespaces/default/serviceaccounts/default")
        client.get("/api/v1/namespaces/default/configmaps/kube-root-ca.crt")
    except (ApiError, Unreachable):
        return False
    return True


def last_words(log: Path) -> str:
    """The end of a log, as the tail of a message."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - _LOG_TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return f"; its log {log} cannot be read"
    # Only what the last start wrote, without the line that says when it was (or one that the cut
    # left half).
    lines = f"\n{text}".rpartition("\n--- ")[2].splitlines()[1:][-_LOG_LINES:]
    return f"; the end of its log {log}:\n" + "\n".join(f"  {line[:500]}" for line in lines)
