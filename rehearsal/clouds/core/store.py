"""What exists in the simulated clouds: one JSON file per resource, replaced atomically."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar
from urllib.parse import quote, unquote

Record = TypeVar("Record", bound=Mapping[str, object])


@dataclass(frozen=True)
class Kind(Generic[Record]):
    """A kind of resource (`container/nodePools`), and the type of what is stored under it."""

    name: str
    """Also the directory under the store's root."""


class Store:
    """Records by kind and key. A write is on disk before it returns: a kill loses no answer.

    Hold `lock` around a read that a write depends on, and only for quick work.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.lock = threading.RLock()
        root.mkdir(parents=True, exist_ok=True, mode=0o700)

    def get(self, kind: Kind[Record], key: str) -> Record | None:
        try:
            record: Record = json.loads(self._file(kind, key).read_text())
        except FileNotFoundError:
            return None
        return record

    def put(self, kind: Kind[Record], key: str, record: Record) -> Record:
        path = self._file(kind, key)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # One temporary name per thread, so that two writers never share a half-written file.
        temporary = path.with_name(f".{path.name}.{threading.get_ident()}")
        with temporary.open("w", encoding="utf-8") as file:
            json.dump(record, file, indent=1, sort_keys=True)
        temporary.replace(path)
        return record

    def delete(self, kind: Kind[Record], key: str) -> None:
        self._file(kind, key).unlink(missing_ok=True)

    def items(self, kind: Kind[Record], *, prefix: str = "") -> Iterator[tuple[str, Record]]:
        """Those whose key begins with the prefix, in the order of their keys' file names."""
        for path in sorted((self.root / kind.name).glob("*.json")):
            key = unquote(path.name.removesuffix(".json"))
            if path.name.startswith(".") or not key.startswith(prefix):
                continue
            record = self.get(kind, key)
            if record is not None:
                yield key, record

    def values(self, kind: Kind[Record], *, prefix: str = "") -> list[Record]:
        return [record for _, record in self.items(kind, prefix=prefix)]

    def _file(self, kind: Kind[Record], key: str) -> Path:
        return self.root / kind.name / f"{quote(key, safe='')}.json"
