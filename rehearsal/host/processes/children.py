"""The recorded processes that are children of this one: only their parent can reap them."""

from __future__ import annotations

import subprocess
import threading

_lock = threading.Lock()
_running: list[subprocess.Popen[bytes]] = []


def adopt(child: subprocess.Popen[bytes]) -> None:
    """Keeps the child until it has ended and `reap` has waited for it."""
    with _lock:
        _running.append(child)


def reap() -> None:
    """Reaps ended children; does not block."""
    with _lock:
        _running[:] = [child for child in _running if child.poll() is None]
