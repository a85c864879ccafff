"""The names of Services, as the cluster's DNS would answer them: an /etc/hosts for each namespace.

Not in DNS: nothing that runs as an ordinary user can serve port 53. Headless Services have no names
here.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_MACHINES: Final = Path("/etc/hosts")
DOMAIN: Final = "cluster.local"

Names = Mapping[tuple[str, str], str]
"""(namespace, name) of a Service -> its address."""


class HostsFiles:
    """Written in place, because running containers have them mounted. Thread-safe."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._names: Names = {}
        self._namespaces: set[str] = set()

    def of(self, namespace: str) -> Path:
        """The file for the pods of a namespace; kept up to date from now on."""
        with self._lock:
            path = self._directory / namespace
            if namespace not in self._namespaces:
                self._directory.mkdir(parents=True, exist_ok=True)
                self._namespaces.add(namespace)
                self._write(namespace)
            return path

    def tell(self, names: Names) -> None:
        with self._lock:
            if names == self._names:
                return
            self._names = dict(names)
            for namespace in self._namespaces:
                self._write(namespace)

    def _write(self, namespace: str) -> None:
        lines = [f"{a} {' '.join(_of(*of, namespace))}" for of, a in sorted(self._names.items())]
        text = "\n".join([_machines(), *lines, ""]).encode()
        descriptor = os.open(self._directory / namespace, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            # In this order, whoever reads meanwhile finds no name missing that stays.
            os.pwrite(descriptor, text, 0)
            os.ftruncate(descriptor, len(text))
        finally:
            os.close(descriptor)


def _of(namespace: str, name: str, asking: str) -> list[str]:
    full = f"{name}.{namespace}"
    own = [name] if namespace == asking else []
    return [f"{full}.svc.{DOMAIN}", f"{full}.svc", full, *own]


def _machines() -> str:
    try:
        return _MACHINES.read_text(errors="replace")
    except OSError:
        return "127.0.0.1 localhost"
