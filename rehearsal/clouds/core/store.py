"""What exists in the simulated clouds: one JSON file per thing, written whole or not at all."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, unquote

from kubeapi import JsonObject


class Store:
    """A kind (`container/nodePools`) holds things by key. A write is on disk before it returns: a
    kill loses nothing answered.

    `lock` makes "look, then write" one step; take it for quick work only.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.lock = threading.RLock()
        root.mkdir(parents=True, exist_ok=True, mode=0o700)

    def get(self, kind: str, key: str) -> JsonObject | None:
        try:
            value: JsonObject = json.loads(self._file(kind, key).read_text())
        except FileNotFoundError:
            return None
        return value

    def put(self, kind: str, key: str, value: JsonObject) -> JsonObject:
        path = self._file(kind, key)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # One temporary name per thread: two writers of one thing never share a half-written file.
        temporary = path.with_name(f".{path.name}.{threading.get_ident()}")
        with temporary.open("w", encoding="utf-8") as file:
            json.dump(value, file, indent=1, sort_keys=True)
        temporary.replace(path)
        return value

    def delete(self, kind: str, key: str) -> None:
        self._file(kind, key).unlink(missing_ok=True)

    def items(self, kind: str) -> Iterator[tuple[str, JsonObject]]:
        directory = self.root / kind
        for path in sorted(directory.glob("*.json")):
            if path.name.startswith("."):
                continue
            key = unquote(path.name.removesuffix(".json"))
            value = self.get(kind, key)
            if value is not None:
                yield key, value

    def values(self, kind: str) -> list[JsonObject]:
        return [value for _, value in self.items(kind)]

    def _file(self, kind: str, key: str) -> Path:
        return self.root / kind / f"{quote(key, safe='')}.json"
