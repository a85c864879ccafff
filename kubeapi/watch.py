"""List, then watch, with retries."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from slicewright.kubeapi.client import ApiError, JsonObject, Unreachable

_SHORT_S = 1.0
_GONE = 410
_PAGE = "500"
"""Objects per page, as in client-go. Source: k8s.io/client-go, tools/pager (defaultPageSize)."""
_LONGEST_RETRY_AFTER_S = 60.0
_TOO_LARGE = "Too large resource version"
"""Source: k8s.io/apiserver, pkg/storage/errors.go (NewTooLargeResourceVersionError)."""

EventType = Literal["LISTED", "ADDED", "MODIFIED", "DELETED", "BOOKMARK"]


@dataclass(frozen=True)
class Event:
    """A LISTED event has the whole collection in `items`, which replaces all earlier state, and the
    list's `metadata` in `object`. Every other event has a single `object`.
    """

    type: EventType
    object: JsonObject
    items: tuple[Any, ...] = ()
    """The results of `keep`."""


class Reader(Protocol):
    """The methods of a client that list_and_watch uses."""

    def get(self, path: str, **query: str) -> JsonObject: ...

    def stream(self, path: str, *, timeout_s: float, **query: str) -> Iterator[bytes]: ...


def list_and_watch(
    client: Reader,
    path: str,
    *,
    stop: threading.Event,
    window_s: float = 240.0,
    backoff_max_s: float = 30.0,
    on_error: Callable[[ApiError | Unreachable | ValueError], None] = lambda _: None,
    on_open: Callable[[], None] = lambda: None,
    keep: Callable[[JsonObject], Any] = lambda raw: raw,
    **query: str,
) -> Iterator[Event]:
    """Yields events until `stop` is set. Does not raise: it retries, with full jitter, and not
    before the server's Retry-After.

    Lists are read in pages, and only the result of `keep` is stored for each listed object, so at
    most one page of raw objects is in memory. After 410 Gone it lists again. Each watch ends after
    `window_s` seconds, and a BOOKMARK is yielded, so that a caller can act on time. on_error is
    called with every error but 410 Gone. on_open is called when a watch has been accepted, even if
    no event follows.
    """
    state = _WatchState()
    while not stop.is_set():
        minimum_s = 0.0
        try:
            if state.version is None:
                listed = list_all(client, path, keep=keep, **query)
                state.version = listed.object["metadata"]["resourceVersion"]
                yield listed
                del listed
            yield from _watch(client, path, state, stop, window_s, on_open, query)
            if stop.is_set():
                return
            yield Event("BOOKMARK", {})
        except ApiError as e:
            if state.expired(e):
                continue
            if e.status != _GONE:
                on_error(e)
            minimum_s = min(e.retry_after_s or 0.0, _LONGEST_RETRY_AFTER_S)
        except (Unreachable, ValueError) as e:
            state.failures += 1
            on_error(e)
        except (KeyError, TypeError, AttributeError) as e:
            # The API server never sends this: a proxy or a bug. Earlier state may be incomplete.
            state.version = None
            state.failures += 1
            on_error(ValueError(f"unexpected answer: {type(e).__name__}: {e}"))
        if state.failures and stop.wait(max(state.pause_s(backoff_max_s), minimum_s)):
            return


@dataclass
class _WatchState:
    """The position of a watch, and its failures since the last event."""

    version: str | None = None
    """The resourceVersion of the last event. None if everything must be listed."""
    failures: int = 0
    gone: int = 0
    """Number of 410 answers since the last event."""

    def advance(self, version: str) -> None:
        self.version, self.failures, self.gone = version, 0, 0

    def expired(self, error: ApiError) -> bool:
        """Records an error. True if it calls for a new list at once: the first 410 Gone."""
        if error.status == _GONE:
            self.version, self.gone = None, self.gone + 1
            if self.gone == 1:
                return True
        elif _TOO_LARGE in error.message:
            # The API server was restored, or is behind the previous server.
            self.version = None
        self.failures += 1
        return False

    def pause_s(self, longest_s: float) -> float:
        # Jitter, not a secret.
        return random.uniform(0, min(longest_s, 0.2 * 2**self.failures))  # noqa: S311


def _watch(
    client: Reader,
    path: str,
    state: _WatchState,
    stop: threading.Event,
    window_s: float,
    on_open: Callable[[], None],
    query: Mapping[str, str],
) -> Iterator[Event]:
    """Yields the events of one watch, and records its position."""
    watch = {
        **query,
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": state.version or "",
        "timeoutSeconds": str(int(window_s)),
    }
    opened, silent = time.monotonic(), True
    lines = client.stream(path, timeout_s=window_s + 10, **watch)
    on_open()
    for line in lines:
        if stop.is_set():
            return
        if not line.strip():
            continue
        event = json.loads(line)
        if event["type"] == "ERROR":
            raise ApiError(int(event["object"].get("code", 500)), event["object"])
        state.advance(event["object"]["metadata"]["resourceVersion"])
        silent = False
        yield Event(event["type"], event["object"])
    # Avoids a tight loop if a proxy or a stopping server ends empty watches at once.
    ended_early = silent and time.monotonic() - opened < min(_SHORT_S, window_s / 2)
    state.failures = state.failures + 1 if ended_early else 0


def list_all(
    client: Reader,
    path: str,
    *,
    keep: Callable[[JsonObject], Any] = lambda raw: raw,
    **query: str,
) -> Event:
    """The LISTED event of all pages, which share a version. Raises the errors of `Reader.get`."""
    items: list[Any] = []
    page = client.get(path, **query, limit=_PAGE)
    while True:
        items += map(keep, page.get("items") or ())
        metadata: JsonObject = page["metadata"]
        token = metadata.get("continue")
        if not token:
            return Event("LISTED", {"metadata": metadata}, tuple(items))
        page = client.get(path, **{**query, "limit": _PAGE, "continue": token})
