"""Own children among the recorded processes: only their parent can take their zombies away."""

from __future__ import annotations

import subprocess
import threading

_lock = threading.Lock()
_running: list[subprocess.Popen[bytes]] = []


def adopt(child: subprocess.Popen[bytes]) -> None:
    """Keeps the child until it has ended, so that nobody's zombie stands for a running process."""
    with _lock:
        _running.append(child)


def reap() -> None:
    """Takes away the zombies of ended children; never waits."""
    with _lock:
        _running[:] = [child for child in _running if child.poll() is None]
