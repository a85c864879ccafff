"""The objects of one kind in memory, kept current by lists and watches."""

from __future__ import annotations

import operator
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, TypeVar

from slicewright.fleet_controller.objects.bounds import UNREADABLE
from slicewright.kubeapi import ApiError, Client, Event, Unreachable, list_all, list_and_watch
from slicewright.telemetry import log
from slicewright.telemetry.plain import plain

_BACKOFF_MAX_S = 5.0
_TOMBSTONES = 1000
"""Number of deleted objects that are remembered: a request takes 30 s at most."""

SECOND_LIST_AFTER_S: Final = 5.0
"""Least time between two lists that count as independent."""
_LONGEST_REASON = 200

T = TypeVar("T")
StandIn = Callable[[Mapping[str, Any], str, T | None], T | None]
"""Makes an item from an unreadable object, the reason, and the last readable item."""


def _as_last_read(raw: Mapping[str, Any], why: str, last: T | None) -> T | None:
    return last


class Collection(Generic[T]):
    """The objects of one kind, parsed, by `key_of`. Thread-safe. `follow` has its own thread.

    An object that cannot be read keeps its last readable state, unless `stand_in` makes something
    else of it. It hides no other object.
    """

    def __init__(
        self,
        path: str,
        read: Callable[[Mapping[str, Any]], T | None],
        changed: threading.Event,
        matters: Callable[[T | None, T | None], bool] = operator.ne,
        *,
        field_selector: str = "",
        stand_in: StandIn[T] = _as_last_read,
        two_lists: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Creates an empty collection.

        read: parses an object, or returns None if it is not needed.
        matters: True if a change from one item to the other (None: absent) sets `changed`.
        field_selector: empty for all objects.
        two_lists: True if an object is gone only when a second list lacks it, too, or a watch says
        so.
        """
        self.path = path
        self.listed = threading.Event()
        """Set after the first list."""
        self.error: str | None = None
        """Why the last list or watch failed, or None while they succeed."""
        self.thread: threading.Thread | None = None
        """The thread that runs `follow`."""
        self._read = read
        self._changed = changed
        self._matters = matters
        self._selector = field_selector
        self._stand_in = stand_in
        self._two_lists = two_lists
        self._clock = clock
        self._unreadable: dict[str, str] = {}
        """Name -> why."""
        self._first_list_at: float | None = None
        self._confirmed = False
        """True if a second list has been taken since the first one."""
        self._doubted: dict[str, float] = {}
        """Object that the last list lacks -> when a list lacked it first."""
        self._lock = threading.Lock()
        self._items: dict[str, tuple[int, T]] = {}
        self._deleted: dict[str, int] = {}
        """Name -> version, for the last few."""
        self._listed_at = 0
        """Version of the last list: objects that it lacks were gone by then."""

    def all(self) -> dict[str, T]:
        with self._lock:
            return {name: item for name, (_, item) in self._items.items()}

    def unreadable(self) -> dict[str, str]:
        """Returns the objects that cannot be read at present, each with the reason."""
        with self._lock:
            return dict(self._unreadable)

    def second_list_due_s(self) -> float | None:
        """Returns the seconds until another list can tell whether missing objects are gone, or None
        if nothing is in doubt.
        """
        with self._lock:
            if not self._two_lists or self._first_list_at is None:
                return None
            if self._confirmed and not self._doubted:
                return None
            since = max(self._doubted.values(), default=self._first_list_at)
            return max(0.0, since + SECOND_LIST_AFTER_S - self._clock())

    def confirmed(self) -> bool:
        """True if an unknown object does not exist: a second list has lacked it, too."""
        return self._confirmed or not self._two_lists

    def put(self, raw: Mapping[str, Any]) -> None:
        """Stores an object that the API server answered, unless a newer one is known."""
        parsed = self._parsed(raw, newest=self._newest)
        if parsed is None:
            return
        name, version, item = parsed
        with self._lock:
            if self._newest(name) >= version:
                return
            before = self._items.get(name)
            self._items[name] = (version, item)
            self._stored(before[1] if before else None, item)
        if self._matters(before[1] if before else None, item):
            self._changed.set()

    def list_again(self, client: Client) -> None:
        """Takes over the current objects from a list. Raises ApiError or Unreachable."""
        listed = list_all(client, self.path, keep=self._parsed, fieldSelector=self._selector)
        self._take(listed)

    def follow(self, client: Client, stop: threading.Event) -> None:
        """Keeps the collection current until `stop` is set, regardless of any errors."""
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
        """Returns why the collection may be out of date, or None if a list or watch is open."""
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
            before = self._items.pop(name, None)
            self._unreadable.pop(name, None)
            self._deleted[name] = version
            if len(self._deleted) > _TOMBSTONES:
                del self._deleted[next(iter(self._deleted))]
            if before is not None:
                self._stored(before[1], None)
        if before is not None and self._matters(before[1], None):
            self._changed.set()

    def _newest(self, name: str) -> int:
        """Returns the known version, or 0 if there is none. The answer to a write may come after
        the news that the object is gone.
        """
        item = self._items.get(name)
        return item[0] if item else max(self._listed_at, self._deleted.get(name, 0))

    def _stored(self, old: T | None, new: T | None) -> None:
        """Called with each change, under the lock."""

    def _replaced(self) -> None:
        """Called when a list has replaced all items, under the lock."""

    def _take(self, listed: Event) -> None:
        """Replaces all items, except items that are newer than the list."""
        at = int(listed.object["metadata"]["resourceVersion"])
        listed_items = {name: (version, item) for name, version, item in filter(None, listed.items)}
        with self._lock:
            newer = {
                name: item
                for name, item in self._items.items()
                if item[0] > (listed_items[name][0] if name in listed_items else at)
            } | self._in_doubt(listed_items)
            self._items = {
                name: item
                for name, item in {**listed_items, **newer}.items()
                if item[0] > self._deleted.get(name, 0)
            }
            self._listed_at = at
            self._unreadable = {n: why for n, why in self._unreadable.items() if n in self._items}
            self._replaced()
        self._changed.set()

    def _in_doubt(self, listed_items: Mapping[str, tuple[int, T]]) -> dict[str, tuple[int, T]]:
        """Returns the objects that only this list lacks, and no earlier one. Called under the
        lock.
        """
        if not self._two_lists:
            return {}
        now = self._clock()
        if self._first_list_at is None:
            self._first_list_at = now
        first = now - SECOND_LIST_AFTER_S
        self._confirmed |= self._first_list_at <= first
        lacking = {n: self._doubted.get(n, now) for n in self._items if n not in listed_items}
        self._doubted = {name: at for name, at in lacking.items() if at > first}
        return {name: self._items[name] for name in self._doubted}

    def _parsed(
        self, raw: Mapping[str, Any], *, newest: Callable[[str], int] = lambda name: 0
    ) -> tuple[str, int, T] | None:
        """Returns the parsed object.

        Returns None for an object that is not needed, and for one that is not newer than `newest`:
        if many nodes join, most news is of the controller's own writes. Also returns None for an
        object that can neither be read nor get a stand-in.
        """
        try:
            name, version = key_of(raw), int(raw["metadata"]["resourceVersion"])
            if newest(name) >= version:
                return None
        except UNREADABLE as e:
            log.warning(
                "object ignored: no name or version", path=self.path, error=exception_text(e)
            )
            return None
        try:
            item = self._read(raw)
            self._unreadable.pop(name, None)
        except UNREADABLE as e:
            item = self._stood_in(raw, name, exception_text(e))
        return None if item is None else (name, version, item)

    def _stood_in(self, raw: Mapping[str, Any], name: str, why: str) -> T | None:
        if self._unreadable.get(name) != why:
            log.warning("object cannot be read", path=self.path, object=name, error=why)
        self._unreadable[name] = why
        last = self._items.get(name)
        try:
            return self._stand_in(raw, why, last[1] if last else None)
        except UNREADABLE:
            return last[1] if last else None

    def _failed(self, error: ApiError | Unreachable | ValueError) -> None:
        text = error_text(error)
        if text != self.error:
            log.warning("cannot read the cluster", path=self.path, error=text)
        self.error = text


def exception_text(error: Exception) -> str:
    return plain(f"{type(error).__name__}: {error}")[:_LONGEST_REASON]


def key_of(raw: Mapping[str, Any]) -> str:
    """Returns an object's name, or `namespace/name`. Raises KeyError without one."""
    meta = raw["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])


def error_text(error: ApiError | Unreachable | ValueError) -> str:
    """Returns an error of the API server as text, for logs and /readyz."""
    return f"HTTP {error.status}: {error.message}" if isinstance(error, ApiError) else str(error)
