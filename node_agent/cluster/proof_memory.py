"""The last proof that succeeded, for the agent's later containers on this node.

It is a small file on a volume of the pod (an emptyDir), which outlives a container. The node's
report outlives the pod, and has the same record.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from slicewright.node_agent.cluster.restart_memory import DIRECTORY
from slicewright.telemetry import log

_FILE: Final = "proven"
_LARGEST: Final = 64 * 1024


class ProofMemory:
    """Stores the record of a success. Without a directory it lasts only for the process."""

    def __init__(self, directory: Path = DIRECTORY) -> None:
        self._path = directory / _FILE
        self._record: Mapping[str, Any] | None = None

    def load(self) -> Mapping[str, Any]:
        """The record, empty if there is none."""
        if self._record is None:
            self._record = self._read()
        return self._record

    def save(self, record: Mapping[str, Any]) -> None:
        """Saves the record. Never raises: without the file, the next container proves again."""
        self._record = record
        if not self._path.parent.is_dir():
            return
        new = self._path.with_suffix(".new")
        try:
            new.write_text(json.dumps(record), encoding="ascii")
            new.replace(self._path)
        except OSError as e:
            log.warning("proof not recorded", file=str(self._path), error=str(e))

    def _read(self) -> Mapping[str, Any]:
        try:
            with self._path.open(encoding="ascii", errors="replace") as file:
                record = json.loads(file.read(_LARGEST))
            return record if isinstance(record, dict) else {}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as e:
            log.warning("proof not read", file=str(self._path), error=f"{type(e).__name__}: {e}")
            return {}
