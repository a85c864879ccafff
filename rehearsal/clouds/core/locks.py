"""A lock for each resource, for work that takes longer than the store's may be held."""

from __future__ import annotations

import threading


class Locks:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_key: dict[str, threading.Lock] = {}

    def lock(self, key: str) -> threading.Lock:
        with self._lock:
            return self._by_key.setdefault(key, threading.Lock())
