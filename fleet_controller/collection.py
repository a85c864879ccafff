"""The objects of one kind in memory, kept current by lists and watches."""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from kubeapi import ApiError, Client, Event, Unreachable, list_all, list_and_watch
from telemetry import log

_BACKOFF_MAX_S = 5.0
_TOMBSTONES = 1000
"""Deleted objects that are remembered: a request takes 30 s at most."""

T = TypeVar("T")


class Collection(Generic[T]):
    """The objects of one kind, parsed, by `key_of`. Thread-safe; `follow` has its own thread."""

    def __init__(
        self,
        path: str,
        read: Callable[[Mapping[str, Any]], T | None],
        changed: threading.Event,
        matters: Callable[[T | None, T | None], bool] = operator.ne,
        *,
        field_selector: str = "",
    ) -> None:
        """read: None for an object that is not needed. matters: whether a change from one to the
        other (None: not there) sets `changed`. field_selector: empty for all objects.
        """
        self.path = path
        self.listed = threading.Event()
        """Set after the first list."""
        self.error: str | None = None
        """Why the last list or watch failed; None while they succeed."""
        self.thread: threading.Thread | None = None
        """In which `follow` runs."""
        self._read = read
        self._changed = changed
        self._matters = matters
        self._selector = field_selector
        self._lock = threading.Lock()
        self._items: dict[str, tuple[int, T]] = {}
        self._deleted: dict[str, int] = {}
        """Name -> version, of the last few."""
        self._listed_at = 0
        """Version of the last list: what it does not have was gone by then."""

    def all(self) -> dict[str, T]:
        with self._lock:
            return {name: item for name, (_, item) in self._items.items()}

    def put(self, raw: Mapping[str, Any]) -> None:
        """Stores an object that the API server answered, unless a newer one is known."""
        parsed = self._parsed(raw, known=self._newest)
        if parsed is None:
            return
        name, version, item = parsed
        with self._lock:
            if self._newest(name) >= version:
                return
            known = self._items.get(name)
            self._items[name] = (version, item)
            self._stored(known[1] if known else None, item)
        if self._matters(known[1] if known else None, item):
            self._changed.set()

    def list_again(self, client: Client) -> None:
        """Takes over what there is at this moment. Raises ApiError or Unreachable."""
        listed = list_all(client, self.path, keep=self._parsed, fieldSelector=self._selector)
        self._take(listed)

    def follow(self, client: Client, stop: threading.Event) -> None:
        """Keeps the collection current until `stop` is set, whatever happens."""
        while not stop.is_set():
            try:
                for event in list_and_watch(
                    client,
                    self.path,
                    stop=stop,
                    backoff_max_s=_BACKOFF_MAX_S,
                    on_error=self._failed,
                    on_open=self._opened,
                    keep=self._parsed,
                    fieldSelector=self._selector,
                ):
                    self._apply(event)
            except Exception as e:  # noqa: BLE001 - a thread that ends here would end unseen
                self._failed(ValueError(f"{type(e).__name__}: {e}"))
                stop.wait(_BACKOFF_MAX_S)

    def outdated(self) -> str | None:
        """Why what is known may be out of date; None where a list or watch is open."""
        if self.thread and not self.thread.is_alive():
            return f"the thread that follows {self.path} has ended"
        return f"{self.path} is not followed: {self.error}" if self.error else None

    def _opened(self) -> None:
        self.error = None

    def _apply(self, event: Event) -> None:
        if event.type == "LISTED":
            self._take(event)
            self.listed.set()
        elif event.type == "DELETED":
            self._gone(key_of(event.object), int(event.object["metadata"]["resourceVersion"]))
        elif event.type in ("ADDED", "MODIFIED"):
            self.put(event.object)

    def _gone(self, name: str, version: int) -> None:
        with self._lock:
            known = self._items.pop(name, None)
            self._deleted[name] = version
            if len(self._deleted) > _TOMBSTONES:
                del self._deleted[next(iter(self._deleted))]
            if known is not None:
                self._stored(known[1], None)
        if known is not None and self._matters(known[1], None):
            self._changed.set()

    def _newest(self, name: str) -> int:
        """The version that is known; 0 where none is. The answer to a write may come after the news
        that the object is gone.
        """
        item = self._items.get(name)
        return item[0] if item else max(self._listed_at, self._deleted.get(name, 0))

    def _stored(self, old: T | None, new: T | None) -> None:
        """Called with each change, under the lock."""

    def _replaced(self) -> None:
        """Called when a list has replaced what was known, under the lock."""

    def _take(self, listed: Event) -> None:
        """Replaces what is known, but for what is newer than the list."""
        at = int(listed.object["metadata"]["resourceVersion"])
        found = {name: (version, item) for name, version, item in filter(None, listed.items)}
        with self._lock:
            newer = {
                name: known
                for name, known in self._items.items()
                if known[0] > (found[name][0] if name in found else at)
            }
            self._items = {
                name: one
                for name, one in {**found, **newer}.items()
                if one[0] > self._deleted.get(name, 0)
            }
            self._listed_at = at
            self._replaced()
        self._changed.set()

    def _parsed(
        self, raw: Mapping[str, Any], *, known: Callable[[str], int] = lambda name: 0
    ) -> tuple[str, int, T] | None:
        """None also for an object that cannot be parsed: it must not hide the others. And for one
        of a version that is `known`: most news is of the controller's own writes, where many nodes
        join.
        """
        try:
            name, version = key_of(raw), int(raw["metadata"]["resourceVersion"])
            if known(name) >= version:
                return None
            item = self._read(raw)
            return None if item is None else (name, version, item)
        except (KeyError, TypeError, ValueError, AttributeError) as e:
            log.warning(
                "object ignored: cannot be parsed", path=self.path, error=f"{type(e).__name__}: {e}"
            )
            return None

    def _failed(self, error: ApiError | Unreachable | ValueError) -> None:
        text = error_text(error)
        if text != self.error:
            log.warning("cluster not readable", path=self.path, error=text)
        self.error = text


def key_of(raw: Mapping[str, Any]) -> str:
    """An object's name, or `namespace/name`. Raises KeyError without one."""
    meta = raw["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])


def error_text(error: ApiError | Unreachable | ValueError) -> str:
    """An error of the API server, for logs and /readyz."""
    return f"HTTP {error.status}: {error.message}" if isinstance(error, ApiError) else str(error)
