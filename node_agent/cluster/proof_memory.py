"""The last proof that succeeded, for the agent's later containers on this node.

It is a small file on a volume of the pod (an emptyDir), which outlives a container.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from slicewright.node_agent.cluster.restart_memory import DIRECTORY
from slicewright.telemetry import log

_FILE: Final = "proven"
_LARGEST: Final = 128


class ProofMemory:
    """Stores the digest of a proven state. Without a directory it lasts only for the process."""

    def __init__(self, directory: Path = DIRECTORY) -> None:
        self._path = directory / _FILE
        self._key: str | None = None

    def load(self) -> str:
        """The digest, empty if there is none."""
        if self._key is None:
            self._key = self._read()
        return self._key

    def save(self, key: str) -> None:
        """Saves the digest. Never raises: without the file, the next container proves again."""
        self._key = key
        if not self._path.parent.is_dir():
            return
        new = self._path.with_suffix(".new")
        try:
            new.write_text(key, encoding="ascii")
            new.replace(self._path)
        except OSError as e:
            log.warning("proof not recorded", file=str(self._path), error=str(e))

    def _read(self) -> str:
        try:
            with self._path.open(encoding="ascii", errors="replace") as file:
                return file.read(_LARGEST)
        except FileNotFoundError:
            return ""
        except OSError as e:
            log.warning("proof not read", file=str(self._path), error=str(e))
            return ""
